"""Philox4x32-10: random words as a function of a seed (the key) and a counter, and nothing else.

Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011). NumPy and emitted code do the
same integer arithmetic, so uniform numbers are the same bit for bit, compiled or not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.ops.making.generate import positions_of

Array = np.ndarray[Any, Any]

_M0, _M1 = 0xD2511F53, 0xCD9E8D57
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_MASK = 0xFFFFFFFF
_ROUNDS = 10
_FEW = 8


# ------------------------------------------------------------------------------------- Philox


Words = tuple[Array, Array, Array, Array]


def philox(seed: int, counter: Array) -> Words:
    """Four 32-bit words (in uint64) for every 64-bit counter."""
    if 0 < counter.size <= _FEW:
        return _philox_of_few(seed, counter)
    key0, key1 = seed & _MASK, (seed >> 32) & _MASK
    mask = np.uint64(_MASK)
    c0, c1 = counter.astype(np.uint64) & mask, counter.astype(np.uint64) >> np.uint64(32)
    c2 = c3 = np.zeros_like(c0)
    for _ in range(_ROUNDS):
        p0, p1 = c0 * np.uint64(_M0), c2 * np.uint64(_M1)
        c0, c1 = (p1 >> np.uint64(32)) ^ c1 ^ np.uint64(key0), p1 & mask
        c2, c3 = (p0 >> np.uint64(32)) ^ c3 ^ np.uint64(key1), p0 & mask
        key0, key1 = (key0 + _W0) & _MASK, (key1 + _W1) & _MASK
    return c0, c1, c2, c3


def _philox_of_few(seed: int, counter: Array) -> Words:
    """The same with Python's integers: of a few numbers, NumPy would spend its time on calls."""
    words = [_philox_of_one(seed, int(c)) for c in counter.flat]
    c0, c1, c2, c3 = np.array(words, np.uint64).T.reshape(4, *counter.shape)
    return c0, c1, c2, c3


def _philox_of_one(seed: int, counter: int) -> tuple[int, int, int, int]:
    key0, key1 = seed & _MASK, (seed >> 32) & _MASK
    c0, c1, c2, c3 = counter & _MASK, (counter >> 32) & _MASK, 0, 0
    for _ in range(_ROUNDS):
        p0, p1 = c0 * _M0, c2 * _M1
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ key0, p1 & _MASK, (p0 >> 32) ^ c3 ^ key1, p0 & _MASK
        key0, key1 = (key0 + _W0) & _MASK, (key1 + _W1) & _MASK
    return c0, c1, c2, c3


def emit_philox(e: Any, position: Any, seed: Any, offset: Any) -> tuple[Any, Any, Any, Any]:
    """The same in registers: 32-bit words in 64-bit lanes, whose product does not overflow."""
    w = e.of(dtypes.uint64)
    counter = w.add(position, offset)
    key0, key1 = w.and_(seed, _MASK), w.shr(seed, 32)
    c0, c1 = w.and_(counter, _MASK), w.shr(counter, 32)
    c2 = c3 = w.const(0)
    for _ in range(_ROUNDS):
        p0, p1 = w.mul(c0, _M0), w.mul(c2, _M1)
        c0, c1 = w.xor(w.xor(w.shr(p1, 32), c1), key0), w.and_(p1, _MASK)
        c2, c3 = w.xor(w.xor(w.shr(p0, 32), c3), key1), w.and_(p0, _MASK)
        key0, key1 = w.and_(w.add(key0, _W0), _MASK), w.and_(w.add(key1, _W1), _MASK)
    return c0, c1, c2, c3


def words_of(n: Any) -> tuple[Array, Array, Array, Array]:
    """The words of every element of a draw; args end with (seed, offset)."""
    seed, offset = n.args[-2:]
    return philox(seed, positions_of(n) + offset)


def is_double(dtype: DType) -> bool:
    return dtype is dtypes.float64


def unit32(word: Array) -> Array:
    """float32 in [0, 1) from 24 bits of a word."""
    return (word >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)


def unit64(high: Array, low: Array) -> Array:
    """float64 in [0, 1) from 53 bits of two words."""
    bits = (high >> np.uint64(5)).astype(np.float64) * 2.0**26
    return (bits + (low >> np.uint64(6)).astype(np.float64)) * 2.0**-53


def _high_bits(e: Any, word: Any, dropped: int, dtype: DType) -> Any:
    """The bits of a word above those dropped, as a float: through int32, which is quick."""
    bits = e.of(dtypes.uint64).shr(word, dropped)
    return e.convert(e.convert(bits, dtypes.int64, dtypes.int32), dtypes.int32, dtype)


def emit_unit32(e: Any, word: Any) -> Any:
    return e.mul(_high_bits(e, word, 8, dtypes.float32), 2.0**-24)


def emit_unit64(e: Any, high: Any, low: Any) -> Any:
    bits = e.mul(_high_bits(e, high, 5, dtypes.float64), 2.0**26)
    return e.mul(e.add(bits, _high_bits(e, low, 6, dtypes.float64)), 2.0**-53)
