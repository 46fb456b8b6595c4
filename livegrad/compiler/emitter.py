"""The Emitter: what an op's `emit` rule writes instructions with, whatever the dtype.

    e = Emitter(builder, dtypes.float32)
    y = e.mul(e.exp(x), 2)             # x: <16 x float>, or one float

A rule says `add` and the dtype decides: fadd, a wrapping add, or `or` for bools. The type is taken
from the value, so one rule serves sixteen elements of a loop and the single value of a row.
A scalar met by a vector is spread over its lanes; constants are scalars until then.

dtype               register (one lane)   in memory
bool                i1                    byte 0 or 1
uint8 … int64       i8 … i64              the same
float16, bfloat16   float                 half, its 16 bits
float32, float64    float, double         the same
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TypeVar

from livegrad import dtypes
from livegrad.compiler.builder import Builder
from livegrad.compiler.values import Choice, Operand, Value, bits_of, lanes_of, vector
from livegrad.dtypes import BOOL, DType

T = TypeVar("T")
Paired = Callable[[Builder, Value, Value], Value]
_REGISTER = {
    dtypes.bool_: "i1",
    dtypes.uint8: "i8",
    dtypes.uint16: "i16",
    dtypes.uint32: "i32",
    dtypes.uint64: "i64",
    dtypes.int8: "i8",
    dtypes.int16: "i16",
    dtypes.int32: "i32",
    dtypes.int64: "i64",
    dtypes.float16: "float",
    dtypes.bfloat16: "float",
    dtypes.float32: "float",
    dtypes.float64: "double",
}
_MEMORY = {**_REGISTER, dtypes.bool_: "i8", dtypes.float16: "half", dtypes.bfloat16: "i16"}
FLOATS = ("float", "double")


def register_element(dtype: DType) -> str:
    """LLVM type of one value of `dtype` in a register."""
    return _REGISTER[dtype]


def memory_element(dtype: DType) -> str:
    """LLVM type of one value of `dtype` in memory, for address arithmetic."""
    return _MEMORY[dtype]


def _is_within(count: Operand, x: Value) -> bool:
    """Whether a shift of `x` is by a known number of its bits."""
    return not isinstance(count, Value) and 0 <= count < bits_of(x.type)


def _given(method: Callable[[Builder, Value], T]) -> Callable[[Emitter, Value], T]:
    """A method of the Builder as one of the Emitter."""

    @wraps(method)
    def call(e: Emitter, x: Value) -> T:
        return method(e._b, x)

    return call


def _of_floats(method: Callable[[Builder, Value], Value]) -> Callable[[Emitter, Value], Value]:
    """A method of the Builder on floats; integers stay."""
    return lambda e, x: method(e._b, x) if x.element in FLOATS else x


def _of_two(method: Paired) -> Callable[[Emitter, Operand, Operand], Value]:
    """A method of the Builder on two operands, made to have one type."""
    return lambda e, x, y: method(e._b, *e._pair(x, y))


def _arithmetic(
    floating: Paired, boolean: Paired, signed: Paired, unsigned: Paired | None = None
) -> Callable[[Emitter, Operand, Operand], Value]:
    """Methods of the Builder as one of the Emitter: that of the operands' kind is called."""

    def call(e: Emitter, x: Operand, y: Operand) -> Value:
        left, right = e._pair(x, y)
        if left.element in FLOATS:
            return floating(e._b, left, right)
        if left.element == "i1":
            return boolean(e._b, left, right)
        return (signed if unsigned is None or e._signed(left) else unsigned)(e._b, left, right)

    return call


def _comparison(
    floating: str, signed: str, unsigned: str
) -> Callable[[Emitter, Operand, Operand], Value]:
    """A comparison, by LLVM's predicates for each kind of operands: a mask."""

    def call(e: Emitter, x: Operand, y: Operand) -> Value:
        left, right = e._pair(x, y)
        if left.element in FLOATS:
            return e._b.fcmp(floating, left, right)
        return e._b.icmp(signed if e._signed(left) else unsigned, left, right)

    return call


class Emitter:
    """Dtype-aware instructions on vectors and scalars, written through a Builder.

    Args:
        builder: where the instructions go.
        dtype: what constants are made of, and whether bytes are signed.
    """

    __slots__ = ("_b", "dtype", "on_fault")

    def __init__(self, builder: Builder, dtype: DType) -> None:
        self._b = builder
        # Kernels that can report a fault put the function for it here: on_fault(bad, values).
        self.on_fault: Callable[..., None] | None = None
        self.dtype = dtype

    def of(self, dtype: DType) -> Emitter:
        """An emitter for another dtype on the same builder."""
        return self if dtype is self.dtype else Emitter(self._b, dtype)

    # ---- operands ------------------------------------------------------------------------

    def const(self, number: float) -> Value:
        """`number` in the emitter's dtype: a scalar, spread where it meets a vector."""
        return self._b.const(_REGISTER[self.dtype], number)

    def splat(self, x: Operand) -> Value:
        """`x` as a vector: a scalar in every lane; a vector is itself."""
        value = x if isinstance(x, Value) else self.const(x)
        return value if lanes_of(value.type) else self._b.splat(value)

    def filled(self, dtype: DType, number: float, lanes: int | None = None) -> Value:
        """`number` in every lane of a register of `dtype`; a scalar if `lanes` is 0."""
        element = _REGISTER[dtype]
        lanes = self._b.lanes if lanes is None else lanes
        return self._b.const(vector(element, lanes) if lanes else element, number)

    def pick(self, x: Value, lanes: Sequence[int]) -> Value:
        """The vector of the given lanes of `x`; a scalar if it is but one."""
        return self._b.extract(x, *lanes) if len(lanes) == 1 else self._b.shuffle(x, lanes)

    def truth(self, x: Value) -> Value:
        """A mask: whether `x` is not 0."""
        if x.element == "i1":
            return x
        return self._b.fcmp("une", x, 0) if x.element in FLOATS else self._b.icmp("ne", x, 0)

    # ---- conversions ---------------------------------------------------------------------

    def convert(self, x: Value, source: DType, target: DType) -> Value:
        """`x`, a register of `source`, as a register of `target`, by C's rules.

        Floats are truncated to integers, integers wrap to fewer bits, not 0 is True, and what
        becomes float16 or bfloat16 is rounded to it, in a float register.
        """
        if source is target:
            return x
        if target is dtypes.bool_:
            return self.truth(x)
        element = _REGISTER[target]
        if target.is_floating_point:
            return self._to_float(x, source, target, element)
        if source.is_floating_point:
            return (self._b.fptosi if target.signed else self._b.fptoui)(x, element)
        if bits_of(element) <= bits_of(x.type):
            return self._b.trunc_int(x, element)
        return (self._b.sext if source.signed else self._b.zext)(x, element)

    def _to_float(self, x: Value, source: DType, target: DType, element: str) -> Value:
        b = self._b
        if not source.is_floating_point:
            return self.round_to((b.sitofp if source.signed else b.uitofp)(x, element), target)
        if target is not target.compute:
            return self.round_to(x, target)
        return b.fpext(x, element) if element == "double" else b.fptrunc(x, element)

    def round_to(self, x: Value, dtype: DType) -> Value:
        """`x` rounded to the precision of `dtype`; changes only float16 and bfloat16."""
        if dtype is dtypes.float16:
            return self._b.fpext(self._half(x), "float")
        if dtype is dtypes.bfloat16:
            return self._b.bf16_to_float(self._b.float_to_bf16(x))
        return x

    def _half(self, x: Value) -> Value:
        """`x` rounded to a half; of what was chosen, each by itself: a half is then left as it is.

        Else a signalling NaN would become a quiet one on the way.
        """
        if isinstance(x, Choice):
            return self._b.select(x.mask, self._half(x.left), self._half(x.right))
        if lanes_of(x.type):
            return self._b.fptrunc(x, "half")
        # As a lane: LLVM pushes a scalar rounding inside a copysign in double, and then wants the
        # sign as a half too, for which the process has no function (__truncdfhf2).
        lane = self._b.insert(self._b.poison(vector(x.type, 4)), x, 0)
        return self._b.extract(self._b.fptrunc(lane, "half"), 0)

    # ---- memory --------------------------------------------------------------------------

    def load(self, dtype: DType, pointer: Value, mask: Value | None = None) -> Value:
        """A vector of `dtype` from contiguous memory; lanes outside `mask` give 0."""
        return self._unpack(dtype, self._b.load(self._b.vector(_MEMORY[dtype]), pointer, mask))

    def load_scalar(self, dtype: DType, pointer: Value) -> Value:
        """One element of `dtype`."""
        return self._unpack(dtype, self._b.load(_MEMORY[dtype], pointer))

    def gather(self, dtype: DType, base: Value, index: Value, mask: Value | None = None) -> Value:
        """`base[index]` for a vector of i64 element indices; lanes outside `mask` give 0."""
        stored = self._b.gather(self._b.vector(_MEMORY[dtype]), base, index, mask)
        return self._unpack(dtype, stored)

    def store(self, dtype: DType, x: Value, pointer: Value, mask: Value | None = None) -> None:
        """A vector to contiguous memory; lanes outside `mask` are left alone."""
        self._b.store(self._pack(dtype, self.splat(x)), pointer, mask)

    def store_scalar(self, dtype: DType, x: Value, pointer: Value) -> None:
        """One element to memory."""
        self._b.store(self._pack(dtype, x), pointer)

    def scatter(
        self, dtype: DType, x: Value, base: Value, index: Value, mask: Value | None = None
    ) -> None:
        """`base[index] = x` for a vector of i64 element indices."""
        self._b.scatter(self._pack(dtype, self.splat(x)), base, index, mask)

    def _unpack(self, dtype: DType, stored: Value) -> Value:
        """The register for what was in memory."""
        if dtype.category == BOOL:
            return self._b.icmp("ne", stored, 0)
        if dtype is dtypes.float16:
            return self._b.fpext(stored, "float")
        return self._b.bf16_to_float(stored) if dtype is dtypes.bfloat16 else stored

    def _pack(self, dtype: DType, x: Value) -> Value:
        """What goes to memory for a register."""
        if dtype.category == BOOL:
            return self._b.zext(x, "i8")
        if dtype is dtypes.float16:
            return self._half(x)
        return self._b.float_to_bf16(x) if dtype is dtypes.bfloat16 else x

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

    # Integers wrap.
    add = _arithmetic(Builder.fadd, Builder.or_, Builder.add)
    sub = _arithmetic(Builder.fsub, Builder.xor, Builder.sub)
    mul = _arithmetic(Builder.fmul, Builder.and_, Builder.mul)
    # NaN if either is NaN.
    max = _arithmetic(Builder.maxnum_nan, Builder.or_, Builder.smax, Builder.umax)
    min = _arithmetic(Builder.minnum_nan, Builder.and_, Builder.smin, Builder.umin)

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

    lt, le = _comparison("olt", "slt", "ult"), _comparison("ole", "sle", "ule")
    gt, ge = _comparison("ogt", "sgt", "ugt"), _comparison("oge", "sge", "uge")
    eq, ne = _comparison("oeq", "eq", "eq"), _comparison("une", "ne", "ne")
    and_, or_, xor = _of_two(Builder.and_), _of_two(Builder.or_), _of_two(Builder.xor)
    not_ = _given(Builder.not_)

    def isnan(self, x: Value) -> Value:
        """A mask: whether `x` is NaN; never for integers."""
        return self._b.isnan(x) if x.element in FLOATS else self._b.icmp("ne", x, x)

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
        return Choice(self._b.select(mask, left, right), mask, left, right)

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
    copysign, nextafter = _of_two(Builder.copysign), _of_two(Builder.nextafter)
    atan2 = _of_two(Builder.atan2)  # the angle of the point (y, x)
    floor, ceil = _of_floats(Builder.floor), _of_floats(Builder.ceil)
    trunc, rint = _of_floats(Builder.trunc), _of_floats(Builder.rint)

    def signbit(self, x: Value) -> Value:
        """A mask: whether the sign is set, that of -0.0 and NaN too."""
        return self._b.signbit(x) if x.element in FLOATS else self.lt(x, 0)
