"""Pure instructions of LLVM IR, written as text: the base of the Builder.

    Instructions (this file)   constants, arithmetic, comparisons, conversions, lanes
      └─ ControlFlow           blocks, loops, branches
           └─ VectorMath       exp, log, tanh, … as polynomials
                └─ SpecialMath lgamma, erfinv, i0, … as polynomials
                     └─ Builder  memory, the finished module

Every data value in a kernel is a vector of the machine's `lanes`, sixteen for every CPU: LLVM
splits it as needed, so the same program gives the same bits on AVX-512, AVX2, SSE and NEON. No
instruction carries a fast-math flag, so a fused kernel equals the unfused ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from livegrad.compiler.values import (
    Operand,
    Value,
    bits_of,
    element_of,
    float_text,
    int_text,
    lanes_of,
    mangled,
    vector,
    with_element,
)

_PURE_CALL = "nounwind willreturn memory(none)"


def _binary(opcode: str) -> Callable[[Instructions, Operand, Operand], Value]:
    """A method: an instruction with two operands of one type, which is also the result's."""

    def write(self: Instructions, x: Operand, y: Operand) -> Value:
        x, y = self._pair(x, y)
        return self._pure(x.type, f"{opcode} {x.type} {x.name}, {y.name}")

    return write


def _unary(name: str) -> Callable[[Instructions, Value], Value]:
    """A method: an intrinsic of one value."""
    return lambda self, x: self.intrinsic(name, x)


def _paired(name: str) -> Callable[[Instructions, Operand, Operand], Value]:
    """A method: an intrinsic of two operands of one type."""
    return lambda self, x, y: self.intrinsic(name, *self._pair(x, y))


def _extreme(better: str) -> Callable[[Instructions, Operand, Operand], Value]:
    """A method: one of two floats, by a comparison; NaN if either is NaN, `x` if they are equal."""

    def write(self: Instructions, x: Operand, y: Operand) -> Value:
        x, y = self._pair(x, y)
        # One maxps, which gives x when either is NaN, then a blend for a NaN in y.
        return self.select(self.isnan(y), y, self.select(self.fcmp(better, y, x), y, x))

    return write


def _conversion(opcode: str) -> Callable[[Instructions, Value, str], Value]:
    """A method: a value with another element; the same value if it has that element already."""

    def write(self: Instructions, x: Value, element: str) -> Value:
        type = with_element(x.type, element)
        if type == x.type:
            return x
        return self._pure(type, f"{opcode} {x.type} {x.name} to {type}")

    return write


class Instructions:
    """Pure instructions on values. Equal instructions in reach of each other are written once."""

    __slots__ = ("_count", "_declared", "_known", "_lines", "lanes")

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self._lines: list[str] = []
        self._known: dict[str, Value] = {}
        self._declared: dict[str, str] = {}
        self._count = 0

    # ---- writing -------------------------------------------------------------------------

    def _define(self, type: str, text: str) -> Value:
        """Write `text` as an instruction and name its result."""
        name = f"%v{self._count}"
        self._count += 1
        self._lines.append(f"  {name} = {text}")
        return Value(name, type)

    def _pure(self, type: str, text: str) -> Value:
        """Like `_define`, but an instruction already written in a dominating place is reused."""
        value = self._known.get(text)
        if value is None:
            value = self._known[text] = self._define(type, text)
        return value

    def _pair(self, x: Operand, y: Operand) -> tuple[Value, Value]:
        if not isinstance(x, Value):
            assert isinstance(y, Value), "one operand must be a Value"
            x = self.const(y.type, x)
        elif not isinstance(y, Value):
            y = self.const(x.type, y)
        assert x.type == y.type, f"operands differ in type: {x} and {y}"
        return x, y

    def intrinsic(self, name: str, *args: Operand) -> Value:
        """Call the pure intrinsic `llvm.<name>` overloaded on, and returning, the first type.

        Numbers take the type of the first Value. (The IR parser declares intrinsics itself.)
        """
        type = next(arg.type for arg in args if isinstance(arg, Value))
        values = [arg if isinstance(arg, Value) else self.const(type, arg) for arg in args]
        operands = ", ".join([f"{value.type} {value.name}" for value in values])
        return self._pure(type, f"call {type} @llvm.{name}.{mangled(type)}({operands})")

    def call(self, type: str, name: str, args: Sequence[Value], pure: bool = False) -> Value:
        """Call the external function `name`; `pure` ones may be shared and removed."""
        types = ", ".join([arg.type for arg in args])
        operands = ", ".join([f"{arg.type} {arg.name}" for arg in args])
        attributes = _PURE_CALL if pure else "nounwind"
        self._declared[name] = f"declare {type} @{name}({types}) {attributes}"
        text = f"call {type} @{name}({operands})"
        if type == "void":
            self._lines.append(f"  {text}")
            return Value("void", type)
        return self._pure(type, text) if pure else self._define(type, text)

    def call_at(self, function: Value, args: Sequence[Value]) -> None:
        """Call the function at an address, for what it does."""
        operands = ", ".join([f"{arg.type} {arg.name}" for arg in args])
        self._lines.append(f"  call void {function.name}({operands})")

    # ---- constants -----------------------------------------------------------------------

    def const(self, type: str, number: float) -> Value:
        """The exact constant `number`, rounded to nearest for floats and wrapped for ints."""
        element = element_of(type)
        if element in ("float", "double", "half"):
            text = float_text(element, number)
        else:
            text = int_text(element, int(number))
        return Value(f"splat ({element} {text})" if type[0] == "<" else text, type)

    def vector(self, element: str) -> str:
        """The type of a vector of `element` as the machine has them."""
        return vector(element, self.lanes)

    def splat(self, x: Value, lanes: int | None = None) -> Value:
        """The vector with the scalar `x` in every lane."""
        lanes = lanes or self.lanes
        type = vector(x.type, lanes)
        if x.name[0] != "%":
            return Value(f"splat ({x.type} {x.name})", type)
        one = self._pure(type, f"insertelement {type} poison, {x.type} {x.name}, i64 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        return self._pure(type, f"shufflevector {type} {one.name}, {type} poison, {zeros}")

    def iota(self, element: str = "i64") -> Value:
        """The vector of the integers 0, 1, 2, …"""
        numbers = ", ".join([f"{element} {lane}" for lane in range(self.lanes)])
        return Value(f"<{numbers}>", self.vector(element))

    # ---- floats --------------------------------------------------------------------------

    fadd, fsub, fmul, fdiv = map(_binary, ("fadd", "fsub", "fmul", "fdiv"))
    frem = _binary("frem")  # C's `fmod`: the sign of the result is that of `x`
    fabs, sqrt, floor, ceil = map(_unary, ("fabs", "sqrt", "floor", "ceil"))
    trunc = _unary("trunc")  # toward zero, staying a float
    # To the nearest, ties to even; llvm.roundeven falls back to a libm function that macOS lacks.
    rint = _unary("rint")
    copysign = _paired("copysign")  # the magnitude of `x` with the sign of `y`

    def fneg(self, x: Value) -> Value:
        return self._pure(x.type, f"fneg {x.type} {x.name}")

    def fma(self, x: Operand, y: Operand, z: Operand) -> Value:
        """`x * y + z` rounded once (a slow libm call where the host has no FMA)."""
        return self.intrinsic("fma", x, y, z)

    def fcmp(self, predicate: str, x: Operand, y: Operand) -> Value:
        """A mask; `predicate` is LLVM's: oeq, ogt, oge, olt, ole, one, ord, uno, une, …"""
        x, y = self._pair(x, y)
        type = with_element(x.type, "i1")
        return self._pure(type, f"fcmp {predicate} {x.type} {x.name}, {y.name}")

    def isnan(self, x: Value) -> Value:
        return self.fcmp("uno", x, x)

    # The greater or the lesser of the two, or NaN if either is NaN, as `numpy.maximum`.
    maxnum_nan, minnum_nan = _extreme("ogt"), _extreme("olt")

    def mod_float(self, x: Operand, y: Operand) -> Value:
        """PyTorch's `%`: the remainder has the sign of `y`, but a zero that of `x`."""
        x, y = self._pair(x, y)
        rest = self.frem(x, y)
        return self.select(self._other_sign(rest, y), self.fadd(rest, y), rest)

    def floordiv_float(self, x: Operand, y: Operand) -> Value:
        """Python's `//` on floats; a zero divisor gives `x / y`."""
        x, y = self._pair(x, y)
        # floor(x / y) alone is off by one where the quotient rounds up to an integer.
        rest = self.frem(x, y)
        exact = self.fdiv(self.fsub(x, rest), y)
        exact = self.select(self._other_sign(rest, y), self.fsub(exact, 1.0), exact)
        low = self.floor(exact)
        up = self.fcmp("ogt", self.fsub(exact, low), 0.5)
        near = self.select(up, self.fadd(low, 1.0), low)
        quotient = self.fdiv(x, y)
        near = self.select(self.fcmp("oeq", exact, 0.0), self.copysign(0.0, quotient), near)
        return self.select(self.fcmp("oeq", y, 0.0), quotient, near)

    def _other_sign(self, rest: Value, y: Value) -> Value:
        differ = self.xor(self.fcmp("olt", rest, 0.0), self.fcmp("olt", y, 0.0))
        return self.and_(differ, self.fcmp("one", rest, 0.0))

    # ---- integers ------------------------------------------------------------------------

    add, sub, mul = map(_binary, ("add", "sub", "mul"))
    # Toward zero; they trap on 0, and the signed ones on INT_MIN / -1: see `floordiv_int` for data.
    sdiv, udiv, urem = map(_binary, ("sdiv", "udiv", "urem"))
    and_, or_, xor = map(_binary, ("and", "or", "xor"))
    shl, ashr, lshr = map(_binary, ("shl", "ashr", "lshr"))  # poison unless 0 <= y < bits
    smin, smax, umin, umax = map(_paired, ("smin", "smax", "umin", "umax"))

    def neg(self, x: Value) -> Value:
        return self.sub(0, x)

    def not_(self, x: Value) -> Value:
        return self.xor(x, -1)

    def icmp(self, predicate: str, x: Operand, y: Operand) -> Value:
        """A mask; `predicate` is LLVM's: eq, ne, slt, sle, sgt, sge, ult, ule, ugt, uge."""
        x, y = self._pair(x, y)
        type = with_element(x.type, "i1")
        return self._pure(type, f"icmp {predicate} {x.type} {x.name}, {y.name}")

    def abs(self, x: Value) -> Value:
        """Integer magnitude; the smallest integer stays itself."""
        return self.intrinsic("abs", x, Value("false", "i1"))

    def floordiv_int(self, x: Operand, y: Operand, signed: bool = True) -> Value:
        """Python's `//` on integers; dividing by zero gives 0, nothing traps."""
        x, y = self._pair(x, y)
        zero = self.icmp("eq", y, 0)
        if not signed:
            return self.select(zero, 0, self.udiv(x, self.select(zero, 1, y)))
        _, quotient, _, adjust = self._signed_division(x, y)
        floored = self.sub(quotient, self.zext(adjust, x.element))
        floored = self.select(self.icmp("eq", y, -1), self.neg(x), floored)
        return self.select(zero, 0, floored)

    def mod_int(self, x: Operand, y: Operand, signed: bool = True) -> Value:
        """Python's `%` on integers; dividing by zero gives 0, nothing traps."""
        x, y = self._pair(x, y)
        if not signed:
            return self.urem(x, self.select(self.icmp("eq", y, 0), 1, y))
        divisor, _, rest, adjust = self._signed_division(x, y)
        return self.add(rest, self.select(adjust, divisor, 0))

    def _signed_division(self, x: Value, y: Value) -> tuple[Value, Value, Value, Value]:
        """Guarded divisor, truncated quotient, remainder, and where flooring differs."""
        # 0 traps, and so does INT_MIN / -1: both divide by 1 instead and are patched after.
        unsafe = self.icmp("ult", self.add(y, 1), 2)
        divisor = self.select(unsafe, 1, y)
        quotient = self.sdiv(x, divisor)
        rest = self.sub(x, self.mul(quotient, divisor))
        other_sign = self.icmp("slt", self.xor(rest, divisor), 0)
        return divisor, quotient, rest, self.and_(other_sign, self.icmp("ne", rest, 0))

    # ---- choices and lanes ---------------------------------------------------------------

    def select(self, mask: Value, x: Operand, y: Operand) -> Value:
        """`x` where the mask is set, else `y`, lane by lane."""
        x, y = self._pair(x, y)
        operands = f"{mask.type} {mask.name}, {x.type} {x.name}, {y.type} {y.name}"
        return self._pure(x.type, f"select {operands}")

    def extract(self, x: Value, lane: int | Value) -> Value:
        """One lane of a vector as a scalar."""
        index = lane.name if isinstance(lane, Value) else lane
        return self._pure(x.element, f"extractelement {x.type} {x.name}, i64 {index}")

    def insert(self, x: Value, scalar: Value, lane: int | Value) -> Value:
        """`x` with one lane replaced."""
        index = lane.name if isinstance(lane, Value) else lane
        operands = f"{x.type} {x.name}, {scalar.type} {scalar.name}, i64 {index}"
        return self._pure(x.type, f"insertelement {operands}")

    def poison(self, type: str) -> Value:
        """A value nobody may look at, to be filled by `insert`."""
        return Value("poison", type)

    def shuffle(self, x: Value, lanes: Sequence[int], other: Value | None = None) -> Value:
        """The vector of the given lanes of `x` (and then of `other`)."""
        picks = ", ".join([f"i32 {lane}" for lane in lanes])
        second = "poison" if other is None else other.name
        operands = f"{x.type} {x.name}, {x.type} {second}, <{len(lanes)} x i32> <{picks}>"
        return self._pure(vector(x.element, len(lanes)), f"shufflevector {operands}")

    def reduce_lanes(self, x: Value, combine: Callable[[Value, Value], Value]) -> Value:
        """Fold the lanes to a scalar, halving: always in the same order, on every host."""
        width = lanes_of(x.type)
        while width > 2:
            width //= 2
            low = self.shuffle(x, range(width))
            x = combine(low, self.shuffle(x, range(width, 2 * width)))
        return combine(self.extract(x, 0), self.extract(x, 1))

    def lane_mask(self, count: Value) -> Value:
        """The mask of the first `count` (i64, not negative) lanes, for the tail of a loop."""
        # Compared as i32, in half as many registers as the i64 would take.
        within = self.trunc_int(self.smin(count, self.lanes), "i32")
        return self.icmp("slt", self.iota("i32"), self.splat(within))

    # ---- conversions ---------------------------------------------------------------------

    bitcast = _conversion("bitcast")  # the same bits as another element of equal width
    fpext = _conversion("fpext")

    def same_bits(self, x: Value, type: str) -> Value:
        """The bits of `x` as a type of as many bits, perhaps with another number of lanes."""
        return self._pure(type, f"bitcast {x.type} {x.name} to {type}")

    sitofp, uitofp = _conversion("sitofp"), _conversion("uitofp")
    sext, zext = _conversion("sext"), _conversion("zext")
    trunc_int = _conversion("trunc")  # keeps the low bits
    _round = _conversion("fptrunc")

    def fptrunc(self, x: Value, element: str) -> Value:
        """Narrow a float, rounding to nearest even (once, also from double to half)."""
        if element == "half" and x.element == "double":
            # Hosts convert only float to half; an odd intermediate makes two roundings one.
            x = self._float_to_odd(x)
        return self._round(x, element)

    def fptosi(self, x: Value, element: str) -> Value:
        """C's cast to a signed integer; out of range saturates at 32 bits, NaN gives 0."""
        # int8 and int16 wrap out of int32, as NumPy's and PyTorch's C casts do.
        wide = "i32" if bits_of(element) < 32 else element
        return self.trunc_int(self._saturate("fptosi", x, wide), element)

    def fptoui(self, x: Value, element: str) -> Value:
        """C's cast to an unsigned integer; negatives wrap as on x86-64, NaN gives 0."""
        if element != "i64":
            return self.trunc_int(self.fptosi(x, "i64" if element == "i32" else "i32"), element)
        unsigned = self._saturate("fptoui", x, "i64")
        return self.select(self.fcmp("olt", x, 0.0), self.fptosi(x, "i64"), unsigned)

    def _saturate(self, opcode: str, x: Value, element: str) -> Value:
        """`llvm.fptosi.sat`, in instructions that x86 has for vectors: LLVM goes lane by lane."""
        signed, bits = opcode == "fptosi", bits_of(element)
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if signed else (0, 2**bits)
        type = with_element(x.type, element)
        below, above = self.fcmp("olt", x, float(low)), self.fcmp("oge", x, float(high))
        outside = self.or_(self.or_(below, above), self.isnan(x))
        inside = self.select(outside, 0.0, x)
        found = self._pure(type, f"{opcode} {x.type} {inside.name} to {type}")
        found = self.select(above, self.const(type, high - 1), found)
        return self.select(below, self.const(type, low), found)

    def bf16_to_float(self, bits: Value) -> Value:
        """The float whose upper half is these i16 bits; exact."""
        return self.bitcast(self.shl(self.zext(bits, "i32"), 16), "float")

    def float_to_bf16(self, x: Value) -> Value:
        """The i16 bits of `x` (float or double) as bfloat16, nearest even; NaN keeps its own."""
        if x.element == "double":
            x = self._float_to_odd(x)
        bits = self.bitcast(x, "i32")
        upper = self.lshr(bits, 16)
        rounded = self.lshr(self.add(self.add(bits, 0x7FFF), self.and_(upper, 1)), 16)
        # What is moved stays what it is, bit by bit; without any of these NaN were infinite.
        bare = self.icmp("eq", self.and_(upper, 0x7F), 0)
        own = self.select(bare, self.or_(upper, 0x40), upper)
        return self.trunc_int(self.select(self.isnan(x), own, rounded), "i16")

    def _float_to_odd(self, x: Value) -> Value:
        """Double to float, inexact results to the neighbour with an odd last bit."""
        near = self.fptrunc(x, "float")
        back = self.fpext(near, "double")
        bits = self.bitcast(near, "i32")
        even = self.icmp("eq", self.and_(bits, 1), 0)
        too_big = self.fcmp("ogt", self.fabs(back), self.fabs(x))
        moved = self.add(bits, self.select(too_big, self.const(bits.type, -1), 1))
        fix = self.and_(self.fcmp("one", back, x), even)
        return self.bitcast(self.select(fix, moved, bits), "float")
