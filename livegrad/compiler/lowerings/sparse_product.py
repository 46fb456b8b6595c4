"""Products of a matrix given by its rows' elements and a dense one.

A work item owns some rows of the result. A row is summed element after element in the order in
which they lie, for four times sixteen columns at a time, then sixteen, or one after the other if
there are only few: every sum has one order, and so one result, whatever the number of threads.

Argument block: 0 work items   1 result   2 offsets   3 columns   4 values   5 dense matrix
6 rows   7 elements   8 rows of the dense matrix   9 columns of it   10 rows per item
"""

from __future__ import annotations

from typing import Any

from livegrad.compiler.binder import THREAD_WORK, patched
from livegrad.compiler.builder import Builder
from livegrad.compiler.draft import Draft
from livegrad.compiler.emitter import Emitter, memory_element
from livegrad.compiler.legalise import Legaliser
from livegrad.compiler.lowerings.base import Kernel, Nodes
from livegrad.compiler.plan import Block, Step
from livegrad.compiler.values import Value
from livegrad.dtypes import FLOAT, DType
from livegrad.graph.node import Node
from livegrad.graph.record import record
from livegrad.graph.symbol import most
from livegrad.ops.elementwise.arithmetic import cast

# Vectors of sums that are held at a time, and up to how many columns sums are made one by one.
WIDE = 4
FEW = 3
ITEM_WORK = 4096


class SparseProduct(Kernel):
    """Inputs (offsets, columns, values, dense matrix, more that only gradients read)."""

    def legalise(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        """Half precisions are summed in float32, and rounded once."""
        dtype, op = node.meta.dtype, node.op
        if dtype is dtype.compute:
            return super().legalise(walk, node, inputs[:4])

        def in_float32(offsets: Any, columns: Any, values: Any, dense: Any) -> Any:
            wide = (offsets, columns, cast(values, dtype.compute), cast(dense, dtype.compute))
            return cast(record(op, wide, node.attrs), dtype)

        kept = inputs[:4]
        return walk.once(node, kept, lambda: walk.rewrite(in_float32, *kept, site=node.site))

    def bind(self, draft: Draft, node: Node) -> list[Step]:
        """A step of the template below."""
        signature = (generate_sparse_product, node.meta.dtype)
        block = self._block(draft, node)
        return [Step("sparse", node.meta.shape, [block], signature, may_fault=True)]

    def _block(self, draft: Draft, node: Node) -> Block:
        inputs = node.inputs[:4]
        _, columns, _, dense = [x.meta.shape for x in inputs]
        rows, count = node.meta.shape
        work = most(1, (columns[0] // most(rows, 1) + 1) * count)
        block = most(1, ITEM_WORK // work)
        slots = [-(-rows // block), 0, 0, 0, 0, 0, rows, columns[0], dense[0], count, block]
        grain = most(1, THREAD_WORK // most(1, work * block))
        return Block(slots, patched(draft.where, node, *inputs), grain)


# ------------------------------------------------------------------------------ code generation


def generate_sparse_product(b: Builder, dtype: DType) -> None:
    """Writes the kernel for values of `dtype`."""
    _Template(b, dtype).emit()


class _Template:
    def __init__(self, b: Builder, dtype: DType) -> None:
        self.b = b
        self.e = Emitter(b, dtype)
        self.dtype = dtype
        self.element = memory_element(dtype)

    def _arg(self, slot: int, type: str = "i64") -> Value:
        return self.b.load(type, self.b.gep(self.b.params[0], "i64", slot))

    def emit(self) -> None:
        """The kernel: row after row, some columns at a time."""
        b = self.b
        _, begin, end, self.ctx = b.params
        result, offsets = self._arg(1, "ptr"), self._arg(2, "ptr")
        self.columns, self.values, self.dense = [self._arg(i, "ptr") for i in (3, 4, 5)]
        rows, self.places, self.size, self.count = [self._arg(i) for i in (6, 7, 8, 9)]
        block = self._arg(10)
        few = b.icmp("sle", self.count, FEW)
        with b.loop(begin, end) as item:
            first = b.mul(item.index, block)
            with b.loop(first, b.smin(b.add(first, block), rows)) as row:
                self.first = self._place(offsets, row.index)
                self.last = self._place(offsets, b.add(row.index, 1))
                self.target = b.gep(result, self.element, b.mul(row.index, self.count))
                with b.if_(few), b.loop(0, self.count) as column:
                    self._one(column.index)
                with b.if_(b.not_(few)):
                    self._row()

    def _place(self, offsets: Value, row: Value) -> Value:
        """Where a row begins: within the elements, whatever was given."""
        b = self.b
        place = b.load("i64", b.gep(offsets, "i64", row))
        return b.smax(b.smin(place, self.places), b.const("i64", 0))

    def _row(self) -> None:
        b = self.b
        step = WIDE * b.lanes
        whole = b.mul(b.udiv(self.count, b.const("i64", step)), step)
        with b.loop(0, whole, step) as column:
            self._columns(column.index, WIDE, None)
        with b.loop(whole, self.count, b.lanes) as column:
            mask = b.lane_mask(b.sub(self.count, column.index))
            self._columns(column.index, 1, mask)

    def _columns(self, at: Value, vectors: int, mask: Value | None) -> None:
        """Some columns of the row, held in registers while its elements are walked."""
        b, e = self.b, self.e
        zeros = [e.splat(e.const(0)) for _ in range(vectors)]
        with b.loop(self.first, self.last, 1, zeros) as place:
            value, row = self._element(place.index)
            source = b.gep(self.dense, self.element, b.add(b.mul(row, self.count), at))
            sums = []
            for k, before in enumerate(place.carried):
                x = e.load(self.dtype, b.gep(source, self.element, k * b.lanes), mask)
                sums.append(self._added(before, e.splat(value), x))
            place.update(*sums)
        for k, total in enumerate(place.results):
            to = b.gep(self.target, self.element, b.add(at, k * b.lanes))
            e.store(self.dtype, total, to, mask)

    def _one(self, column: Value) -> None:
        b, e = self.b, self.e
        with b.loop(self.first, self.last, 1, [e.const(0)]) as place:
            value, row = self._element(place.index)
            at = b.add(b.mul(row, self.count), column)
            x = e.load_scalar(self.dtype, b.gep(self.dense, self.element, at))
            place.update(self._added(place.carried[0], value, x))
        e.store_scalar(self.dtype, place.results[0], b.gep(self.target, self.element, column))

    def _element(self, place: Value) -> tuple[Value, Value]:
        """An element's value and the row of the dense matrix that it multiplies."""
        b = self.b
        value = self.e.load_scalar(self.dtype, b.gep(self.values, self.element, place))
        row = b.load("i64", b.gep(self.columns, "i64", place))
        good = b.icmp("ult", row, self.size)
        with b.if_(b.not_(good)):
            b.store(b.const("i64", 1), self.ctx)
            b.store(row, b.gep(self.ctx, "i64", 1))
        return value, b.select(good, row, b.const("i64", 0))

    def _added(self, total: Value, x: Value, y: Value) -> Value:
        e = self.e
        return e.fma(x, y, total) if self.dtype.category == FLOAT else e.add(total, e.mul(x, y))
