"""The Emitter: what an op's `emit` rule writes instructions with, whatever the dtype.

    e = Emitter(builder, dtypes.float32)
    y = e.mul(e.exp(x), 2)             # x: <16 x float>, or one float

A rule says `add` and the dtype decides: fadd, a wrapping add, or `or` for bools. The type is taken
from the value, so one rule serves sixteen elements of a loop and the single value of a row.
A scalar met by a vector is spread over its lanes; constants are scalars until then.

How values are converted, and lie in memory, is in registers.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from livegrad.compiler.builder import Builder, Operand, Value, bits_of, lanes_of
from livegrad.compiler.registers import FLOATS, Registers, memory_element, register_element
from livegrad.dtypes import DType

T = TypeVar("T")


def _is_within(count: Operand, x: Value) -> bool:
    """Whether a shift of `x` is by a known number of its bits."""
    return not isinstance(count, Value) and 0 <= count < bits_of(x.type)


def _given(method: Callable[[Builder, Value], T]) -> Callable[[Emitter, Value], T]:
    """A method of the Builder as one of the Emitter."""

    @wraps(method)
    def call(e: Emitter, x: Value) -> T:
        return method(e._b, x)

    return call


class Emitter(Registers):
    """Dtype-aware instructions on vectors and scalars, written through a Builder."""

    __slots__ = ()

    def of(self, dtype: DType) -> Emitter:
        """An emitter for another dtype on the same builder."""
        return self if dtype is self.dtype else Emitter(self._b, dtype)

    # ---- operands ------------------------------------------------------------------------

    def _pair(self, x: Operand, y: Operand) -> tuple[Value, Value]:
        """Both operands with one type: numbers become constants, scalars vectors if need be."""
        if not isinstance(x, Value):
            x = self._b.const(y.type, x) if isinstance(y, Value) else self.const(x)
        if not isinstance(y, Value):
            y = self._b.const(x.type, y)
        lanes = lanes_of(x.type), lanes_of(y.type)
        if lanes[0] == lanes[1]:
            return x, y
        if lanes[0]:
            return x, self._b.splat(y, lanes[0])
        return self._b.splat(x, lanes[1]), y

    def _signed(self, x: Value) -> bool:
        element = x.element
        return element != "i1" and (self.dtype.signed or element != register_element(self.dtype))

    # ---- arithmetic ----------------------------------------------------------------------

    def add(self, x: Operand, y: Operand) -> Value:
        """Sum; integers wrap, bools are or-ed."""
        return self._arithmetic(x, y, self._b.fadd, self._b.add, self._b.or_)

    def sub(self, x: Operand, y: Operand) -> Value:
        """Difference; integers wrap."""
        return self._arithmetic(x, y, self._b.fsub, self._b.sub, self._b.xor)

    def mul(self, x: Operand, y: Operand) -> Value:
        """Product; integers wrap, bools are and-ed."""
        return self._arithmetic(x, y, self._b.fmul, self._b.mul, self._b.and_)

    def _arithmetic(
        self,
        x: Operand,
        y: Operand,
        floating: Callable[[Value, Value], Value],
        integer: Callable[[Value, Value], Value],
        boolean: Callable[[Value, Value], Value],
    ) -> Value:
        left, right = self._pair(x, y)
        element = left.element
        if element in FLOATS:
            return floating(left, right)
        return boolean(left, right) if element == "i1" else integer(left, right)

    def div(self, x: Operand, y: Operand) -> Value:
        """Quotient of floats; of integers, the quotient toward zero."""
        left, right = self._pair(x, y)
        if left.element in FLOATS:
            return self._b.fdiv(left, right)
        return self.truncdiv(left, right)

    def truncdiv(self, x: Operand, y: Operand) -> Value:
        """Quotient rounded toward zero; an integer divided by 0 gives 0."""
        left, right = self._pair(x, y)
        b = self._b
        if left.element in FLOATS:
            return b.trunc(b.fdiv(left, right))
        zero = b.icmp("eq", right, 0)
        if not self._signed(left):
            return b.select(zero, 0, b.udiv(left, b.select(zero, 1, right)))
        # INT_MIN / -1 traps like a division by 0.
        minus_one = b.icmp("eq", right, -1)
        quotient = b.sdiv(left, b.select(b.or_(zero, minus_one), 1, right))
        return b.select(zero, 0, b.select(minus_one, b.neg(left), quotient))

    def floordiv(self, x: Operand, y: Operand) -> Value:
        """Quotient rounded down; an integer divided by 0 gives 0."""
        left, right = self._pair(x, y)
        if left.element in FLOATS:
            return self._b.floordiv_float(left, right)
        return self._b.floordiv_int(left, right, self._signed(left))

    def remainder(self, x: Operand, y: Operand) -> Value:
        """Python's `%`, with the sign of `y`; an integer modulo 0 gives 0."""
        left, right = self._pair(x, y)
        if left.element in FLOATS:
            return self._b.mod_float(left, right)
        return self._b.mod_int(left, right, self._signed(left))

    def fmod(self, x: Operand, y: Operand) -> Value:
        """C's remainder, with the sign of `x`; an integer modulo 0 gives 0."""
        left, right = self._pair(x, y)
        if left.element in FLOATS:
            return self._b.frem(left, right)
        rest = self._b.sub(left, self._b.mul(self.truncdiv(left, right), right))
        return self._b.select(self._b.icmp("eq", right, 0), 0, rest)

    def neg(self, x: Value) -> Value:
        """`-x`; integers wrap."""
        return self._b.fneg(x) if x.element in FLOATS else self._b.neg(x)

    def abs(self, x: Value) -> Value:
        """Magnitude; the smallest integer stays itself."""
        if x.element in FLOATS:
            return self._b.fabs(x)
        return self._b.abs(x) if self._signed(x) else x

    def max(self, x: Operand, y: Operand) -> Value:
        """The greater; NaN if either is NaN."""
        b = self._b
        integer = b.smax if self._signed(self._pair(x, y)[0]) else b.umax
        return self._arithmetic(x, y, b.maxnum_nan, integer, b.or_)

    def min(self, x: Operand, y: Operand) -> Value:
        """The lesser; NaN if either is NaN."""
        b = self._b
        integer = b.smin if self._signed(self._pair(x, y)[0]) else b.umin
        return self._arithmetic(x, y, b.minnum_nan, integer, b.and_)

    def fma(self, x: Operand, y: Operand, z: Operand) -> Value:
        """`x * y + z` of floats, rounded once."""
        x, y = self._pair(x, y)
        x, z = self._pair(x, z)
        x, y = self._pair(x, y)
        return self._b.fma(x, y, z)

    def pow(self, x: Operand, y: Operand) -> Value:
        """`x**y`; integers wrap, and a negative exponent gives 0 unless `x` is 1 or -1."""
        left, right = self._pair(x, y)
        if left.element in FLOATS:
            return self._b.pow(left, right)
        if left.element == "i1":
            return self._b.or_(left, self._b.not_(right))
        return self._integer_power(left, right)

    def _integer_power(self, x: Value, y: Value) -> Value:
        b = self._b
        one = b.const(x.type, 1)
        negative = b.icmp("slt", y, 0) if self._signed(x) else None
        power = y if negative is None else b.select(negative, 0, y)
        with b.loop(0, self._bit_length(power), 1, [one, x, power]) as loop:
            result, square, rest = loop.carried
            odd = b.icmp("ne", b.and_(rest, 1), 0)
            grown = b.select(odd, b.mul(result, square), result)
            loop.update(grown, b.mul(square, square), b.lshr(rest, 1))
        result = loop.results[0]
        if negative is None:
            return result
        even = b.icmp("eq", b.and_(y, 1), 0)
        sign = b.select(even, 1, b.const(x.type, -1))
        unit = b.select(b.icmp("eq", x, -1), sign, b.select(b.icmp("eq", x, 1), one, 0))
        return b.select(negative, unit, result)

    def _bit_length(self, x: Value) -> Value:
        """An i64: how many bits the widest lane of `x` (not negative) takes."""
        b = self._b
        wide = b.zext(b.reduce_lanes(x, b.or_) if lanes_of(x.type) else x, "i64")
        return b.sub(64, b.intrinsic("ctlz", wide, Value("false", "i1")))

    # ---- comparisons, logic, bits --------------------------------------------------------

    def _compare(self, floating: str, signed: str, unsigned: str, x: Operand, y: Operand) -> Value:
        left, right = self._pair(x, y)
        if left.element in FLOATS:
            return self._b.fcmp(floating, left, right)
        return self._b.icmp(signed if self._signed(left) else unsigned, left, right)

    def lt(self, x: Operand, y: Operand) -> Value:
        """A mask: `x < y`."""
        return self._compare("olt", "slt", "ult", x, y)

    def le(self, x: Operand, y: Operand) -> Value:
        """A mask: `x <= y`."""
        return self._compare("ole", "sle", "ule", x, y)

    def gt(self, x: Operand, y: Operand) -> Value:
        """A mask: `x > y`."""
        return self._compare("ogt", "sgt", "ugt", x, y)

    def ge(self, x: Operand, y: Operand) -> Value:
        """A mask: `x >= y`."""
        return self._compare("oge", "sge", "uge", x, y)

    def eq(self, x: Operand, y: Operand) -> Value:
        """A mask: `x == y`; NaN equals nothing."""
        return self._compare("oeq", "eq", "eq", x, y)

    def ne(self, x: Operand, y: Operand) -> Value:
        """A mask: `x != y`."""
        return self._compare("une", "ne", "ne", x, y)

    def isnan(self, x: Value) -> Value:
        """A mask: whether `x` is NaN; never for integers."""
        return self._b.isnan(x) if x.element in FLOATS else self._b.icmp("ne", x, x)

    def and_(self, x: Operand, y: Operand) -> Value:
        """Bitwise and."""
        return self._b.and_(*self._pair(x, y))

    def or_(self, x: Operand, y: Operand) -> Value:
        """Bitwise or."""
        return self._b.or_(*self._pair(x, y))

    def xor(self, x: Operand, y: Operand) -> Value:
        """Bitwise exclusive or."""
        return self._b.xor(*self._pair(x, y))

    def shl(self, x: Operand, y: Operand) -> Value:
        """Shift left; by a negative number or all bits gives 0."""
        left, right = self._pair(x, y)
        b = self._b
        if _is_within(y, left):
            return b.shl(left, right)
        outside = b.icmp("uge", right, bits_of(left.type))
        return b.select(outside, 0, b.shl(left, b.select(outside, 0, right)))

    def shr(self, x: Operand, y: Operand) -> Value:
        """Shift right, keeping the sign; by a negative number or all bits leaves the sign."""
        left, right = self._pair(x, y)
        b = self._b
        bits = bits_of(left.type)
        if _is_within(y, left):
            return (b.ashr if self._signed(left) else b.lshr)(left, right)
        outside = b.icmp("uge", right, bits)
        if self._signed(left):
            return b.ashr(left, b.select(outside, bits - 1, right))
        return b.select(outside, 0, b.lshr(left, b.select(outside, 0, right)))

    def select(self, mask: Value, x: Operand, y: Operand) -> Value:
        """`x` where the mask is set, else `y`."""
        left, right = self._pair(x, y)
        lanes = lanes_of(mask.type)
        if lanes and not lanes_of(left.type):
            left, right = self._b.splat(left, lanes), self._b.splat(right, lanes)
        elif lanes_of(left.type) and not lanes:
            mask = self._b.splat(mask, lanes_of(left.type))
        return self._b.select(mask, left, right)

    def not_(self, x: Value) -> Value:
        """Bitwise not; of a mask, its opposite."""
        return self._b.not_(x)

    # ---- functions of floats -------------------------------------------------------------

    exp, exp2, expm1 = _given(Builder.exp), _given(Builder.exp2), _given(Builder.expm1)
    log, log2, log10 = _given(Builder.log), _given(Builder.log2), _given(Builder.log10)
    log1p, sqrt, sigmoid = _given(Builder.log1p), _given(Builder.sqrt), _given(Builder.sigmoid)
    sin, cos, tan = _given(Builder.sin), _given(Builder.cos), _given(Builder.tan)
    asin, acos, atan = _given(Builder.asin), _given(Builder.acos), _given(Builder.atan)
    sinh, cosh, tanh = _given(Builder.sinh), _given(Builder.cosh), _given(Builder.tanh)
    asinh, acosh, atanh = _given(Builder.asinh), _given(Builder.acosh), _given(Builder.atanh)
    erf, erfc, erfinv = _given(Builder.erf), _given(Builder.erfc), _given(Builder.erfinv)
    erfcx, ndtr, ndtri = _given(Builder.erfcx), _given(Builder.ndtr), _given(Builder.ndtri)
    log_ndtr, lgamma = _given(Builder.log_ndtr), _given(Builder.lgamma)
    digamma, trigamma = _given(Builder.digamma), _given(Builder.trigamma)
    i0, i0e, i1, i1e = map(_given, (Builder.i0, Builder.i0e, Builder.i1, Builder.i1e))
    frexp = _given(Builder.frexp)

    def signbit(self, x: Value) -> Value:
        """A mask: whether the sign is set, that of -0.0 and NaN too."""
        return self._b.signbit(x) if x.element in FLOATS else self.lt(x, 0)

    def floor(self, x: Value) -> Value:
        """Round down; integers stay."""
        return self._b.floor(x) if x.element in FLOATS else x

    def ceil(self, x: Value) -> Value:
        """Round up; integers stay."""
        return self._b.ceil(x) if x.element in FLOATS else x

    def trunc(self, x: Value) -> Value:
        """Round toward zero; integers stay."""
        return self._b.trunc(x) if x.element in FLOATS else x

    def rint(self, x: Value) -> Value:
        """Round to nearest, ties to even; integers stay."""
        return self._b.rint(x) if x.element in FLOATS else x

    def copysign(self, x: Operand, sign: Value) -> Value:
        """The magnitude of `x` with the sign of `sign`."""
        return self._b.copysign(*self._pair(x, sign))

    def nextafter(self, x: Operand, y: Operand) -> Value:
        """The next float after `x` towards `y`."""
        return self._b.nextafter(*self._pair(x, y))

    def atan2(self, y: Operand, x: Operand) -> Value:
        """The angle of the point (x, y)."""
        return self._b.atan2(*self._pair(y, x))


__all__ = ["Emitter", "memory_element", "register_element"]
