"""What the code of a fused kernel depends on: its streams, instructions and stores."""

from __future__ import annotations

from typing import Any, NamedTuple

from livegrad.dtypes import DType

EVERY_OTHER, BACKWARDS, ACROSS = 3, 4, 5


class Stream(NamedTuple):
    """Memory that a kernel walks. `step` along the inner loop: 0 stays, 1 next element, 2 strides,
    `EVERY_OTHER` strides by two, `BACKWARDS` to the element before (of what is read), `ACROSS`
    strides, where neighbours are results of the next row (of what is written after a product).

    A "position" stream has no memory: it counts the elements of its node in row-major order. An
    "operand" of a product is walked by what multiplies.
    """

    dtype: DType
    step: int
    kind: str = "memory"

    def __str__(self) -> str:
        return f"{self.kind} of {self.dtype.name}, step {self.step}"


class Instr(NamedTuple):
    """One value of the kernel.

    what       payload                                    operands
    load       stream                                     -
    position   stream                                     -
    number     (slot, "f" or "i")                         -
    op         (op name, compute dtype)                   values
    generate   op name                                    position, numbers
    gather     (stream, slot of dim stride and size)      position
    product    (number, streams of left and right)        -
    reduce     combine                                    value
    fold       (combine, stream of the rows' values)      -             (tail only)
    """

    what: str
    payload: Any
    operands: tuple[int, ...]
    dtype: DType
    full: bool  # whether it changes along the folded loop
    tail: bool = False  # computed once, after all rows
    fixed: bool = False  # the same throughout the kernel

    def __str__(self) -> str:
        flags = [name for name in ("full", "tail", "fixed") if getattr(self, name)]
        payload = self.payload if isinstance(self.payload, tuple) else (self.payload,)
        told = " ".join([str(getattr(x, "name", x)) for x in payload])
        operands = ", ".join([f"%{i}" for i in self.operands])
        return " ".join([self.what, told, f"({operands})", self.dtype.name, *flags])


class Store(NamedTuple):
    """A value written to a stream; `full` if it is written anew along the folded loop."""

    value: int
    stream: int
    full: bool
    tail: bool = False

    def __str__(self) -> str:
        flags = [name for name in ("full", "tail") if getattr(self, name)]
        return " ".join(["store", f"%{self.value}", "to", str(self.stream), *flags])
