"""Scatter kernels: a copy of a base with values folded in at given indices, in the order they come.

Seen from the indexed dim a tensor is (outer, dim, inner). A work item owns some inner columns of
one outer entry, so no two threads ever write to the same element and the result never depends on
their number. How a value meets what is there (`fold`) is one of add, put (the last one stays),
prod, amax and amin.

Argument block: 0 work items   1 result   2 base   3 indices   4 values   5 size of the dim
6 number of indices   7 inner size   8 columns per item   9 items per outer entry
"""

from __future__ import annotations

from math import prod
from typing import Any

from livegrad.compiler.access import storage
from livegrad.compiler.binder import THREAD_WORK, patched
from livegrad.compiler.builder import Builder
from livegrad.compiler.draft import Draft
from livegrad.compiler.emitter import Emitter, memory_element
from livegrad.compiler.legalise import Legaliser
from livegrad.compiler.lowerings.base import Kernel, Nodes
from livegrad.compiler.plan import Block, Step
from livegrad.compiler.values import Value
from livegrad.dtypes import DType
from livegrad.graph.node import Node
from livegrad.graph.record import record
from livegrad.graph.symbol import least, most
from livegrad.ops.elementwise.arithmetic import cast

COLUMNS = 256


class Scatter(Kernel):
    """Inputs (base, index, source), attrs (dim,), or (dim, fold) if the op does not say which.

    `per_value`: there is one index per value, not one per row of values.
    """

    def __init__(self, per_value: bool, fold: str | None = None) -> None:
        self.per_value = per_value
        self.fold = fold

    def _fold(self, node: Node) -> str:
        return self.fold or node.attrs[1]

    def legalise(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        """Half precisions are added and multiplied in float32, and rounded once."""
        dtype, op = node.meta.dtype, node.op
        if dtype is dtype.compute or self._fold(node) in ("put", "amax", "amin"):
            return super().legalise(walk, node, inputs)

        def in_float32(base: Any, index: Any, source: Any) -> Any:
            wide = [cast(base, dtype.compute), index, cast(source, dtype.compute)]
            return cast(record(op, wide, node.attrs), dtype)

        return walk.once(node, inputs, lambda: walk.rewrite(in_float32, *inputs, site=node.site))

    def _is_native(self, node: Node) -> bool:
        """Whether the template covers this scatter: all dims but the indexed one agree."""
        base, index, _ = [x.meta.shape for x in node.inputs]
        if not self.per_value:
            return len(base) > 0
        dim = node.attrs[0]
        others = [d for d in range(len(base)) if d != dim]
        return len(index) > 0 and all(base[d] == index[d] for d in others)

    def bind(self, draft: Draft, node: Node) -> list[Step]:
        """A step of the template below, if it covers this."""
        if not self._is_native(node):
            return super().bind(draft, node)
        dtype, index_dtype = node.meta.dtype, node.inputs[1].meta.dtype
        signature = (generate_scatter, self.per_value, self._fold(node), dtype, index_dtype)
        block = self._block(draft, node)
        # All items of one outer entry look at the same indices, and so does a single item.
        whole = not self.per_value or block.slots[0] == 1
        return [
            Step(
                "scatter",
                node.meta.shape,
                [block],
                signature,
                may_fault=True,
                all_or_nothing=whole,
            )
        ]

    def overwritten(self, node: Node) -> Node | None:
        """The base, unless what is folded in lies there too."""
        base, *others = node.inputs
        apart = all([storage(x) is not storage(base) for x in others])
        return base if apart and self._is_native(node) else None

    def store_in(self, node: Node, base: Node) -> Nodes:
        """The kernel copies nothing if the result is where the base is."""
        node.inputs = (base, *node.inputs[1:])
        return ()

    def _block(self, draft: Draft, node: Node) -> Block:
        base, index, _ = node.inputs
        dim = node.attrs[0]
        shape = base.meta.shape
        outer, size, inner = prod(shape[:dim]), shape[dim], prod(shape[dim + 1 :])
        count = index.meta.shape[dim] if self.per_value else index.meta.numel
        block = most(1, least(inner, COLUMNS))
        blocks = -(-inner // block)
        slots = [outer * blocks, 0, 0, 0, 0, size, count, inner, block, most(blocks, 1)]
        grain = most(1, THREAD_WORK // most(1, (size + 2 * count) * block))
        return Block(slots, patched(draft.where, node, *node.inputs), grain)


# ------------------------------------------------------------------------------ code generation


def generate_scatter(
    b: Builder, per_value: bool, fold: str, dtype: DType, index_dtype: DType
) -> None:
    """Writes a scatter: `per_value` if there is one index per value, not per row of values."""
    _Template(b, fold, dtype, index_dtype).emit(per_value)


class _Template:
    def __init__(self, b: Builder, fold: str, dtype: DType, index_dtype: DType) -> None:
        self.b = b
        self.fold = fold
        self.e = Emitter(self.b, dtype)
        self.dtype, self.index_dtype = dtype, index_dtype
        self.element, self.index_element = memory_element(dtype), memory_element(index_dtype)

    def _arg(self, slot: int, type: str = "i64") -> Value:
        return self.b.load(type, self.b.gep(self.b.params[0], "i64", slot))

    def emit(self, per_value: bool) -> None:
        """The kernel: copy the base's columns, then fold in value after value."""
        b = self.b
        _, begin, end, self.ctx = b.params
        self.size, self.count, self.inner = self._arg(5), self._arg(6), self._arg(7)
        result, base, values = self._arg(1, "ptr"), self._arg(2, "ptr"), self._arg(4, "ptr")
        indices = self._arg(3, "ptr")
        block, blocks = self._arg(8), self._arg(9)
        with b.loop(begin, end) as item:
            outer, at = b.udiv(item.index, blocks), b.urem(item.index, blocks)
            self.low = b.mul(at, block)
            self.high = b.smin(b.add(self.low, block), self.inner)
            whole = b.mul(outer, b.mul(self.size, self.inner))
            target = b.gep(result, self.element, whole)
            part = b.mul(outer, b.mul(self.count, self.inner))
            mine = b.gep(indices, self.index_element, part) if per_value else indices
            in_place = b.icmp("eq", result, base)
            with b.if_(in_place):  # nothing is changed before all indices are known to be good
                self._look_at_all(mine, per_value)
            with b.if_(b.not_(in_place)):
                self._copy(target, b.gep(base, self.element, whole))
            with b.if_(b.and_(b.icmp("eq", self.size, 0), b.icmp("ne", self.count, 0))):
                self._index(indices, b.const("i64", 0))  # no index is in range of an empty dim
            source = b.gep(values, self.element, part)
            refused = b.icmp("ne", b.load("i64", self.ctx), 0)
            with b.if_(b.not_(b.and_(in_place, refused))):
                if per_value:
                    self._fold_elements(target, source, mine)
                else:
                    self._fold_rows(target, source, mine)

    def _look_at_all(self, indices: Value, per_value: bool) -> None:
        """Reports a fault if one of the indices is out of range."""
        b = self.b
        count = b.mul(self.count, self.inner) if per_value else self.count
        with b.loop(0, count) as each:
            self._index(indices, each.index)

    def _copy(self, target: Value, base: Value) -> None:
        b = self.b
        with b.loop(0, self.size) as row:
            start = b.mul(row.index, self.inner)
            to, source = b.gep(target, self.element, start), b.gep(base, self.element, start)
            with b.loop(self.low, self.high, b.lanes) as column:
                mask = b.lane_mask(b.sub(self.high, column.index))
                value = self._load(source, column.index, mask)
                self._store(to, column.index, value, mask)

    def _load(self, base: Value, at: Value, mask: Value) -> Value:
        return self.e.load(self.dtype, self.b.gep(base, self.element, at), mask)

    def _store(self, base: Value, at: Value, value: Value, mask: Value) -> None:
        self.e.store(self.dtype, value, self.b.gep(base, self.element, at), mask)

    def _index(self, indices: Value, at: Value) -> Value:
        """An index as i64, 0 with a fault reported if it is out of range."""
        b = self.b
        raw = self.e.load_scalar(self.index_dtype, b.gep(indices, self.index_element, at))
        index = (b.sext if self.index_dtype.signed else b.zext)(raw, "i64")
        good = b.icmp("ult", index, self.size)
        with b.if_(b.not_(good)):
            b.store(b.const("i64", 1), self.ctx)
            b.store(index, b.gep(self.ctx, "i64", 1))
        return b.select(good, index, b.const("i64", 0))

    def _folded(self, old: Value, new: Value) -> Value:
        e = self.e
        folds = {"add": e.add, "prod": e.mul, "amax": e.max, "amin": e.min}
        return e.round_to(folds[self.fold](old, new), self.dtype)

    def _fold_rows(self, target: Value, source: Value, indices: Value) -> None:
        """One index per row of values."""
        b = self.b
        with b.if_(b.icmp("ne", self.size, 0)), b.loop(0, self.count) as row:
            index = self._index(indices, row.index)
            to = b.gep(target, self.element, b.mul(index, self.inner))
            values = b.gep(source, self.element, b.mul(row.index, self.inner))
            with b.loop(self.low, self.high, b.lanes) as column:
                at = column.index
                mask = b.lane_mask(b.sub(self.high, at))
                new = self._load(values, at, mask)
                if self.fold != "put":
                    new = self._folded(self._load(to, at, mask), new)
                self._store(to, at, new, mask)

    def _fold_elements(self, target: Value, source: Value, indices: Value) -> None:
        """One index per value."""
        b, e = self.b, self.e
        with (
            b.if_(b.icmp("ne", self.size, 0)),
            b.loop(0, self.count) as row,
            b.loop(self.low, self.high) as column,
        ):
            at = b.add(b.mul(row.index, self.inner), column.index)
            index = self._index(indices, at)
            place = b.gep(target, self.element, b.add(b.mul(index, self.inner), column.index))
            new = e.load_scalar(self.dtype, b.gep(source, self.element, at))
            if self.fold != "put":
                new = self._folded(e.load_scalar(self.dtype, place), new)
            e.store_scalar(self.dtype, new, place)
