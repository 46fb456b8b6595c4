"""Pass 6, describe: a group of nodes becomes the description of a kernel.

A description has two halves. Its `signature` is all that code generation sees: instructions,
dtypes, how each stream of memory is walked; no sizes, strides or numbers. The other half lists, in
the same order, which values those streams and numbers are, for the binder to fill in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from livegrad.compiler.access import axis_strides, own_index, placed
from livegrad.compiler.columns import generate_columns
from livegrad.compiler.draft import Draft
from livegrad.compiler.fuse import Fuser
from livegrad.compiler.groups import Group
from livegrad.compiler.rows import generate_rows
from livegrad.compiler.signature import ACROSS, BACKWARDS, EVERY_OTHER, Instr, Store, Stream
from livegrad.dtypes import DType, float64, int64
from livegrad.graph.index import Index
from livegrad.graph.meta import Shape
from livegrad.graph.node import Node
from livegrad.graph.symbol import SymbolicFloat


class Windows(NamedTuple):
    """Windows that a product is of, as rows or as columns: see compiler/windows.py."""

    by_rows: bool
    channels: int
    dims: list[tuple[int, ...]]  # size, count, taps, stride, dilation, before
    alone: bool = False  # whether each row has a channel of its own: compiler/channel_lanes.py


class Factors(NamedTuple):
    """A product: its terms, streams of its operands, and windows if one of these is seen so.

    The operands' places are in terms of the loops, of terms, which are counted after them, and of
    the dims of what has windows: images, channels, others.
    """

    terms: int
    left: int
    right: int
    dtype: DType
    windows: Windows | None = None
    quads: str = ""  # the operand whose bytes have no sign, if terms are four bytes each


@dataclass
class Description:
    """A kernel: its signature, and the values to bind to it."""

    kind: str
    shape: Shape
    dims: tuple[int, ...]
    inner: tuple[int, ...]  # axes of the loop that is walked sixteen at a time
    rows: tuple[int, ...] = ()  # those of a product's rows
    streams: list[Stream] = field(default_factory=list)
    instrs: list[Instr] = field(default_factory=list)
    outputs: list[Store] = field(default_factory=list)
    # What is bound: node and index per stream, numbers per slot, (node, dim) per gather.
    places: list[tuple[Node, Index]] = field(default_factory=list)
    numbers: list[Any] = field(default_factory=list)
    gathers: list[tuple[Node, int]] = field(default_factory=list)
    products: list[Factors] = field(default_factory=list)
    # Everything computed, members and inlined values alike.
    nodes: list[Node] = field(default_factory=list)
    # Those that may refuse a value, by the number of their instruction.
    suspects: dict[int, Node] = field(default_factory=dict)

    @property
    def signature(self) -> tuple[Any, ...]:
        """Everything code generation depends on; equal signatures share a kernel."""
        return (
            generate_rows if self.kind == "rows" else generate_columns,
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
        self.inner = _inner_axes(group)
        self.out = Description(group.kind, group.shape, group.dims, self.inner, group.rows)
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
                step = self.step(place, target.meta.shape, store=True)
                stream = self.stream(target, place, Stream(target.meta.dtype, step))
                tail = node in self.group.tail
                self.out.outputs.append(Store(value, stream, self.varies(place), tail))
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
        self.out.nodes.append(node)
        number = node.op.lower.describe(self, node, index)
        if node.op.may_refuse(node):
            self.out.suspects[number] = node
        return number

    def any_full(self, operands: Sequence[int]) -> bool:
        """Whether one of these instructions changes along the folded loop."""
        return any([self.out.instrs[i].full for i in operands])

    def add(
        self,
        what: str,
        payload: Any,
        operands: tuple[int, ...],
        dtype: DType,
        full: bool,
        fixed: bool | None = None,
    ) -> int:
        """Appends an instruction and gives its number."""
        if fixed is None:
            fixed = all(self.out.instrs[i].fixed for i in operands if i >= 0)
        fixed = fixed and not self.in_tail
        self.out.instrs.append(Instr(what, payload, operands, dtype, full, self.in_tail, fixed))
        return len(self.out.instrs) - 1

    def _load(self, node: Node, index: Index) -> int:
        step = self.step(index, node.meta.shape)
        dtype = node.meta.dtype
        stream = self.stream(node, index, Stream(dtype, step))
        fixed = all(at.axis < 0 for at in index)
        return self.add("load", stream, (), dtype, self.varies(index), fixed)

    def number(self, number: Any) -> int:
        """The instruction that gives a number, which may be one of run time."""
        kind = "f" if isinstance(number, float) else "i"
        slotted = hasattr(number, "slot")
        key = (type(number), number.slot if slotted else number, slotted, self.in_tail)
        slot = None if type(number) is SymbolicFloat else self.number_slots.get(key)
        if slot is None:
            slot = self.number_slots[key] = len(self.out.numbers)
            self.out.numbers.append(number)
        return self.add("number", (slot, kind), (), float64 if kind == "f" else int64, False)

    # ----------------------------------------------------------------------------- streams

    def stream(self, node: Node, index: Index, stream: Stream) -> int:
        """Appends a stream over `node` at `index` and gives its number."""
        self.out.streams.append(stream)
        self.out.places.append((node, index))
        return len(self.out.streams) - 1

    def gathered(self, source: Node, dim: int) -> int:
        """The slot of the size and the stride of a dim that is read where an index says."""
        self.out.gathers.append((source, dim))
        return len(self.out.gathers) - 1

    def multiplied(self, factors: Factors) -> int:
        """The number of a product."""
        self.out.products.append(factors)
        return len(self.out.products) - 1

    def varies(self, index: Index) -> bool:
        """Whether a value read at `index` changes along the loop that is folded or vectorised."""
        group = self.group
        axes = group.dims if group.kind == "columns" else self.inner
        return any(axis in axes for at in index for axis, _ in at.terms)

    def step(self, index: Index, shape: Shape, store: bool = False) -> int:
        """How the inner loop walks a buffer of `shape` at `index`: see `Stream`."""
        if not self.inner:
            return 0
        strides = axis_strides(index, shape, len(self.group.shape))
        if not any(axis in self.inner for at in index for axis, _ in at.terms):
            return 0
        axis = self.inner[-1]
        if strides[axis] == 1:
            return 1
        if strides[axis] == -1 and not store:
            return BACKWARDS
        if store and self.group.products:
            rows = [d for d in self.group.rows if self.group.shape[d] != 1]
            if rows and strides[rows[-1]] == 1:
                return ACROSS
        # A slice says so; a stride that only happens to be 2, as a size is, has no code of its own.
        return EVERY_OTHER if index[-1].terms == ((axis, 2),) and strides[axis] == 2 else 2


def _inner_axes(group: Group) -> tuple[int, ...]:
    """The loop axes that are walked sixteen at a time."""
    if group.kind == "rows" and group.dims:
        return group.dims
    if group.products:
        return tuple([d for d in group.columns if group.shape[d] != 1])
    last = [d for d, size in enumerate(group.shape) if size != 1]
    return (last[-1],) if last else ()


def describe_groups(draft: Draft) -> None:
    """Fills in the descriptions."""
    draft.descriptions = [
        None if group.kind == "kernel" else Describer(group, draft.fuser, draft.stored).run()
        for group in draft.groups
    ]
