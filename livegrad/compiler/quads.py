"""Products of bytes: a term of a sum is four of them, in an int32, times four others.

    x   a3 a2 a1 a0   without a sign, 0 to 255      total + a0 b0 + a1 b1 + a2 b2 + a3 b3
    y   b3 b2 b1 b0   with one, -128 to 127

All that multiplies matrices and windows (compiler/products.py) sees but integers of 32 bits, of
which a product with another is this sum. It is exact, and so the same on every host: with
AVX-512 VNNI one instruction, with AVX-VNNI one for each half of the lanes, elsewhere products of 16
bits, which x86 adds in pairs.
"""

from __future__ import annotations

from livegrad.compiler.builder import Builder
from livegrad.compiler.values import Value, lanes_of, vector

# By the bytes that they take.
_VNNI = {64: "llvm.x86.avx512.vpdpbusd.512", 32: "llvm.x86.avx512.vpdpbusd.256"}


def plus_dots(b: Builder, total: Value, x: Value, y: Value) -> Value:
    """`total` and, lane by lane, the sum of four products; bytes of `x` are without a sign."""
    lanes = lanes_of(total.type)
    if b.byte_dots and lanes * 4 >= b.byte_dots:
        return _by_instruction(b, total, x, y)
    low, high = b.and_(x, 0x00FF00FF), b.and_(b.lshr(x, 8), 0x00FF00FF)
    halves = [b.same_bits(value, vector("i16", lanes * 2)) for value in (low, high, y)]
    even, odd = b.ashr(b.shl(halves[2], 8), 8), b.ashr(halves[2], 8)
    total = b.add(_pairs(b, halves[0], even), total)
    return b.add(_pairs(b, halves[1], odd), total)


def _by_instruction(b: Builder, total: Value, x: Value, y: Value) -> Value:
    lanes = lanes_of(total.type)
    if lanes * 4 > b.byte_dots:
        halves = [
            [b.shuffle(value, range(start, start + lanes // 2)) for value in (total, x, y)]
            for start in (0, lanes // 2)
        ]
        first, second = [_by_instruction(b, *half) for half in halves]
        return b.shuffle(first, range(lanes), second)
    bytes_ = [b.same_bits(value, vector("i8", lanes * 4)) for value in (x, y)]
    return b.call(total.type, _VNNI[lanes * 4], [total, *bytes_], pure=True)


def _pairs(b: Builder, x: Value, y: Value) -> Value:
    """Sums of two neighbouring products of 16 bits each. (LLVM knows this form as one
    instruction of x86.)"""
    lanes = lanes_of(x.type)
    first, second = [
        [b.sext(b.shuffle(value, range(start, lanes, 2)), "i32") for value in (x, y)]
        for start in (0, 1)
    ]
    return b.add(b.mul(*first), b.mul(*second))
