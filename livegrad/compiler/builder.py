"""The IR Builder: memory and the finished module, on top of control flow and arithmetic.

b = Builder("scale", [("ptr", "x"), ("ptr", "out"), ("i64", "n")], machine)
x, out, n = b.params
with b.loop(0, n, b.lanes) as loop:
    mask = b.lane_mask(b.sub(n, loop.index))
    value = b.load(b.vector("float"), b.gep(x, "float", loop.index), mask)
    b.store(b.fmul(b.exp(value), 2.0), b.gep(out, "float", loop.index), mask)
text = b.ir()
"""

from __future__ import annotations

from collections.abc import Sequence

from livegrad.compiler.specialmath import SpecialMath
from livegrad.compiler.values import (
    Machine,
    Operand,
    Value,
    bytes_of,
    element_of,
    mangled,
    with_element,
)


class Builder(SpecialMath):
    """Writes one function as LLVM IR text; a method writes an instruction and gives its value.

    Args:
        name: the function's symbol.
        params: (LLVM type, name) of each parameter.
        machine: what it is written for.

    Invariants: constants are operands and never instructions; a value is visible in the block
    that defines it and in blocks opened inside it; code is only ever appended.
    """

    __slots__ = ("_attributes", "_name", "_signature", "byte_dots", "params", "vectors")

    def __init__(self, name: str, params: Sequence[tuple[str, str]], machine: Machine) -> None:
        super().__init__(machine.lanes)
        self._attributes = machine.attributes
        self.vectors = machine.vectors
        self.byte_dots = machine.byte_dots
        self.params = [Value(f"%{param}", type) for type, param in params]
        self._signature = ", ".join([f"{p.type} {p.name}" for p in self.params])
        self._name = name

    # ---- memory --------------------------------------------------------------------------

    def gep(self, pointer: Value, element: str, index: Operand) -> Value:
        """The address of element `index` (i64, or a vector of them) of an array at `pointer`."""
        if not isinstance(index, Value):
            index = self.const("i64", index)
        if index.name == "0":
            return pointer
        type = with_element(index.type, "ptr")
        place = f"ptr {pointer.name}, {index.type} {index.name}"
        return self._pure(type, f"getelementptr {element}, {place}")

    def load(self, type: str, pointer: Value, mask: Value | None = None) -> Value:
        """A vector from contiguous memory; lanes outside `mask` are not read and give 0."""
        align = bytes_of(type)
        if mask is None:
            return self._define(type, f"load {type}, ptr {pointer.name}, align {align}")
        name = f"llvm.masked.load.{mangled(type)}.p0"
        where = f"ptr align {align} {pointer.name}, {mask.type} {mask.name}"
        return self._define(type, f"call {type} @{name}({where}, {type} zeroinitializer)")

    def store(self, value: Value, pointer: Value, mask: Value | None = None) -> None:
        """Write a vector to contiguous memory; lanes outside `mask` are left alone."""
        type = value.type
        align = bytes_of(type)
        if mask is None:
            text = f"store {type} {value.name}, ptr {pointer.name}, align {align}"
        else:
            where = f"ptr align {align} {pointer.name}, {mask.type} {mask.name}"
            name = f"llvm.masked.store.{mangled(type)}.p0"
            text = f"call void @{name}({type} {value.name}, {where})"
        self._lines.append(f"  {text}")

    def prefetch(self, pointer: Value, write: bool = False, far: bool = False) -> None:
        """Ask for the memory at `pointer`, which may lie outside of any buffer, to be near soon: in
        the nearest cache, or in the second if it is to be written, or `far` from being used."""
        where = f"ptr {pointer.name}, i32 {int(write)}, i32 {2 if write or far else 3}, i32 1"
        self._lines.append(f"  call void @llvm.prefetch.p0({where})")

    def gather(self, type: str, base: Value, index: Value, mask: Value | None = None) -> Value:
        """`base[index]` for a vector of i64 element indices; lanes outside `mask` give 0."""
        places = self.gep(base, element_of(type), index)
        mask = mask or self._all_lanes(type)
        where = f"{places.type} align {bytes_of(type)} {places.name}, {mask.type} {mask.name}"
        name = f"llvm.masked.gather.{mangled(type)}.{mangled(places.type)}"
        return self._define(type, f"call {type} @{name}({where}, {type} zeroinitializer)")

    def scatter(self, value: Value, base: Value, index: Value, mask: Value | None = None) -> None:
        """`base[index] = value`; where indices repeat the highest lane wins."""
        type = value.type
        places = self.gep(base, element_of(type), index)
        mask = mask or self._all_lanes(type)
        where = f"{places.type} align {bytes_of(type)} {places.name}, {mask.type} {mask.name}"
        name = f"llvm.masked.scatter.{mangled(type)}.{mangled(places.type)}"
        self._lines.append(f"  call void @{name}({type} {value.name}, {where})")

    def _all_lanes(self, type: str) -> Value:
        return self.const(with_element(type, "i1"), 1)

    # ---- the module ----------------------------------------------------------------------

    def ir(self) -> str:
        """The text of the module."""
        return "\n".join(
            [
                *self._declared.values(),
                f"define void @{self._name}({self._signature}) #0 {{",
                "entry:",
                *self._lines,
                "  ret void",
                "}",
                f"attributes #0 = {{ {self._attributes} }}",
                "",
            ]
        )
