"""Registers: values of every dtype converted, and brought from memory and back.

dtype               register (one lane)   in memory
bool                i1                    byte 0 or 1
uint8 … int64       i8 … i64              the same
float16, bfloat16   float                 half, its 16 bits
float32, float64    float, double         the same
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from livegrad import dtypes
from livegrad.compiler.builder import Builder, Operand, Value, bits_of, lanes_of, vector
from livegrad.dtypes import BOOL, DType

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


class Registers:
    """What an emitter of `dtype` does with values as such, whatever is computed with them.

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

    # ---- operands ------------------------------------------------------------------------

    def const(self, number: float) -> Value:
        """`number` in the emitter's dtype: a scalar, spread where it meets a vector."""
        return self._b.const(_REGISTER[self.dtype], number)

    def splat(self, x: Operand) -> Value:
        """`x` as a vector: a scalar in every lane; a vector is itself."""
        value = x if isinstance(x, Value) else self.const(x)
        return value if lanes_of(value.type) else self._b.splat(value)

    def filled(self, dtype: DType, number: float, wide: bool = True) -> Value:
        """`number` in a register of `dtype`: in every lane of a vector if `wide`, else a scalar."""
        element = _REGISTER[dtype]
        return self._b.const(self._b.vector(element) if wide else element, number)

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
        """`x` rounded to a half."""
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
        return self._unpack(dtype, self._b.load_scalar(_MEMORY[dtype], pointer))

    def gather(self, dtype: DType, base: Value, index: Value, mask: Value | None = None) -> Value:
        """`base[index]` for a vector of i64 element indices; lanes outside `mask` give 0."""
        stored = self._b.gather(self._b.vector(_MEMORY[dtype]), base, index, mask)
        return self._unpack(dtype, stored)

    def store(self, dtype: DType, x: Value, pointer: Value, mask: Value | None = None) -> None:
        """A vector to contiguous memory; lanes outside `mask` are left alone."""
        self._b.store(self._pack(dtype, self.splat(x)), pointer, mask)

    def store_scalar(self, dtype: DType, x: Value, pointer: Value) -> None:
        """One element to memory."""
        self._b.store_scalar(self._pack(dtype, x), pointer)

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
