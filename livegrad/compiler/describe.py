"""Pass 4, describe: a group of nodes becomes the description of a kernel.

A description has two halves. Its `signature` is all that code generation sees: instructions,
dtypes, how each stream of memory is walked; no sizes, strides or numbers. The other half lists, in
the same order, which values those streams and numbers are, for the binder to fill in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from livegrad.compiler.access import axis_strides, own_index, placed
from livegrad.compiler.fuse import (
    GATHERS,
    Fuser,
    Group,
)
from livegrad.dtypes import DType, float64, int64
from livegrad.graph.index import Index
from livegrad.graph.meta import Shape
from livegrad.graph.node import Node
from livegrad.graph.symbol import SymbolicFloat


class Stream(NamedTuple):
    """Memory that a kernel walks. `step` along the inner loop: 0 stays, 1 next element, 2 strides.

    A "position" stream has no memory: it counts the elements of its node in row-major order.
    """

    dtype: DType
    step: int
    kind: str = "memory"


class Instr(NamedTuple):
    """One value of the kernel.

    what       payload                                    operands
    load       stream                                     -
    position   stream                                     -
    number     (slot, "f" or "i")                         -
    op         (op name, compute dtype)                   values
    generate   op name                                    position, numbers
    gather     (stream, slot of dim stride and size)      position
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


class Store(NamedTuple):
    """A value written to a stream; `full` if it is written anew along the folded loop."""

    value: int
    stream: int
    full: bool
    tail: bool = False


@dataclass
class Description:
    """A kernel: its signature, and the values to bind to it."""

    kind: str
    shape: Shape
    dims: tuple[int, ...]
    streams: list[Stream] = field(default_factory=list)
    instrs: list[Instr] = field(default_factory=list)
    outputs: list[Store] = field(default_factory=list)
    # What is bound: node and index per stream, numbers per slot, (node, dim) per gather.
    places: list[tuple[Node, Index]] = field(default_factory=list)
    numbers: list[Any] = field(default_factory=list)
    gathers: list[tuple[Node, int, Node]] = field(default_factory=list)
    # Everything computed, members and inlined values alike.
    nodes: list[Node] = field(default_factory=list)
    # Those that may refuse a value, by the number of their instruction.
    suspects: dict[int, Node] = field(default_factory=dict)

    @property
    def signature(self) -> tuple[Any, ...]:
        """Everything code generation depends on; equal signatures share a kernel."""
        return (
            self.kind,
            bool(self.dims),
            tuple(self.streams),
            tuple(self.instrs),
            tuple(self.outputs),
        )


class Describer:
    """Writes the description of one group."""

    def __init__(self, group: Group, fuser: Fuser, stored: dict[Node, tuple[Node, Index] | None]):
        self.group = group
        self.fuser = fuser
        self.stored = stored
        self.out = Description(group.kind, group.shape, group.dims)
        self.inner = _inner_axes(group)
        self.values: dict[tuple[Node, Index, bool], int] = {}
        self.in_tail = False
        self.number_slots: dict[Any, int] = {}

    def run(self) -> Description:
        """The description: every stored member, and what it needs."""
        for node in self.group.members:
            index = self.group.index[node]
            self.in_tail = node in self.group.tail
            value = self.value(node, index)
            if node in self.stored:
                target, region = self.stored[node] or (node, own_index(node.meta.shape))
                place = placed(region, index)
                step = self._step(place, target.meta.shape, store=True)
                stream = self._stream(target, place, Stream(target.meta.dtype, step))
                tail = node in self.group.tail
                self.out.outputs.append(Store(value, stream, self._varies(place), tail))
        return self.out

    # ------------------------------------------------------------------------------ values

    def value(self, node: Node, index: Index) -> int:
        """The number of the instruction that gives `node` at `index`."""
        key = (node, index, self.in_tail)
        number = self.values.get(key)
        if number is None:
            number = self.values[key] = self._make(node, index)
        return number

    def _make(self, node: Node, index: Index) -> int:
        here = self.fuser.owner.get(node) is self.group and self.group.index[node] == index
        inlined = node.op.kind != "movement" and not here and self.fuser.is_inlined(node)
        if not here and not inlined:
            return self._load(node, index)
        kind = node.op.kind
        self.out.nodes.append(node)
        if kind == "reduce":
            return self._reduce(node, index)
        if kind == "generate":
            return self._generate(node, index)
        gathers = node.op.lower in GATHERS
        number = (self._gather if gathers else self._elementwise)(node, index)
        if gathers or may_refuse(node):
            self.out.suspects[number] = node
        return number

    def _add(
        self,
        what: str,
        payload: Any,
        operands: tuple[int, ...],
        dtype: DType,
        full: bool,
        fixed: bool | None = None,
    ) -> int:
        if fixed is None:
            fixed = all(self.out.instrs[i].fixed for i in operands if i >= 0)
        fixed = fixed and not self.in_tail
        self.out.instrs.append(Instr(what, payload, operands, dtype, full, self.in_tail, fixed))
        return len(self.out.instrs) - 1

    def _load(self, node: Node, index: Index) -> int:
        step = self._step(index, node.meta.shape)
        dtype = node.meta.dtype
        stream = self._stream(node, index, Stream(dtype, step))
        fixed = all(at.axis < 0 for at in index)
        return self._add("load", stream, (), dtype, self._varies(index), fixed)

    def _elementwise(self, node: Node, index: Index) -> int:
        compute, pattern = node.attrs[:2]
        reads = iter(self.fuser.direct_reads(node, index))
        numbers = iter(node.args)
        operands = []
        for letter in pattern:
            if letter == "t":
                read = next(reads)
                operands.append(self.value(read.node, read.index))
            else:
                operands.append(self._number(next(numbers)))
        full = any(self.out.instrs[i].full for i in operands)
        return self._add("op", (node.op.name, compute), tuple(operands), node.meta.dtype, full)

    def _generate(self, node: Node, index: Index) -> int:
        numbers = [self._number(a) for a in node.args]
        if node.op.name == "full":
            return self._add("generate", node.op.name, (-1, *numbers), node.meta.dtype, False)
        full = self._varies(index)
        step = self._step(index, node.meta.shape)
        stream = self._stream(node, index, Stream(node.meta.dtype, step, "position"))
        position = self._add("position", stream, (), int64, full, fixed=False)
        return self._add("generate", node.op.name, (position, *numbers), node.meta.dtype, full)

    def _gather(self, node: Node, index: Index) -> int:
        source, position = self.fuser.direct_reads(node, index)
        where = self.value(position.node, position.index)
        step = self._step(source.index, source.node.meta.shape)
        dtype = node.meta.dtype
        stream = self._stream(source.node, source.index, Stream(dtype, step))
        slot = len(self.out.gathers)
        self.out.gathers.append((node.inputs[0], node.attrs[0], node))
        full = self.out.instrs[where].full or self._varies(source.index)
        return self._add("gather", (stream, slot), (where,), dtype, full, fixed=False)

    def _reduce(self, node: Node, index: Index) -> int:
        (read,) = self.fuser.direct_reads(node, index)
        if self.in_tail:
            stream = self._stream(read.node, read.index, Stream(read.node.meta.dtype, 1))
            return self._add("fold", (node.op.combine, stream), (), node.meta.dtype, False)
        value = self.value(read.node, read.index)
        return self._add("reduce", node.op.combine, (value,), node.meta.dtype, False, fixed=False)

    def _number(self, number: Any) -> int:
        kind = "f" if isinstance(number, float) else "i"
        slotted = hasattr(number, "slot")
        key = (type(number), number.slot if slotted else number, slotted, self.in_tail)
        slot = None if type(number) is SymbolicFloat else self.number_slots.get(key)
        if slot is None:
            slot = self.number_slots[key] = len(self.out.numbers)
            self.out.numbers.append(number)
        return self._add("number", (slot, kind), (), float64 if kind == "f" else int64, False)

    # ----------------------------------------------------------------------------- streams

    def _stream(self, node: Node, index: Index, stream: Stream) -> int:
        self.out.streams.append(stream)
        self.out.places.append((node, index))
        return len(self.out.streams) - 1

    def _varies(self, index: Index) -> bool:
        """Whether a value read at `index` changes along the loop that is folded or vectorised."""
        group = self.group
        axes = group.dims if group.kind == "columns" else self.inner
        return any(axis in axes for at in index for axis, _ in at.terms)

    def _step(self, index: Index, shape: Shape, store: bool = False) -> int:
        """How the inner loop walks a buffer of `shape` at `index`: 0 stays, 1 unit, 2 strides."""
        if not self.inner:
            return 0
        strides = axis_strides(index, shape, len(self.group.shape))
        if not any(axis in self.inner for at in index for axis, _ in at.terms):
            return 0
        return 1 if strides[self.inner[-1]] == 1 else 2


def may_refuse(node: Node) -> bool:
    """Whether an elementwise node may find a value that it does not take."""
    lower = node.op.lower
    # Floats may be divided by 0.
    return lower == "check" or (lower == "divide" and not node.attrs[0].is_floating_point)


def _inner_axes(group: Group) -> tuple[int, ...]:
    """The loop axes that are walked sixteen at a time."""
    if group.kind == "rows" and group.dims:
        return group.dims
    last = [d for d, size in enumerate(group.shape) if size != 1]
    return (last[-1],) if last else ()


def describe(
    group: Group, fuser: Fuser, stored: dict[Node, tuple[Node, Index] | None]
) -> Description:
    """The description of a rows or columns group."""
    return Describer(group, fuser, stored).run()
