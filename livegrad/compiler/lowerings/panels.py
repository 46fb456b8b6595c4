"""A matrix in panels, for products with few rows; see compiler/panels.py.

A work item is a panel. Of a matrix that lies transposed, sixteen rows become the columns of a
panel, sixteen elements at a time, which are turned in registers.

Argument block: 0 work items   1 result   2 matrix   3 depth   4 columns
"""

from __future__ import annotations

from livegrad.compiler.binder import THREAD_WORK, patched
from livegrad.compiler.builder import Builder
from livegrad.compiler.draft import Draft
from livegrad.compiler.emitter import memory_element
from livegrad.compiler.lowerings.base import Kernel
from livegrad.compiler.panels import PANEL, turned_square
from livegrad.compiler.plan import Block, Step
from livegrad.compiler.values import Value, vector
from livegrad.dtypes import DType
from livegrad.graph.node import Node
from livegrad.graph.symbol import most


class Panels(Kernel):
    """attrs (turned,)."""

    label = "panels"

    def bind(self, draft: Draft, node: Node) -> list[Step]:
        """A step of the template below."""
        (matrix,), (turned,) = node.inputs, node.attrs
        depth, width = matrix.meta.shape[:: -1 if turned else 1]
        slots = [node.meta.shape[0], 0, 0, depth, width]
        grain = most(1, THREAD_WORK // most(1, depth * PANEL))
        block = Block(slots, patched(draft.where, node, matrix), grain)
        signature = (generate_panels, turned, node.meta.dtype)
        return [Step("panels", node.meta.shape, [block], signature)]


def generate_panels(b: Builder, turned: bool, dtype: DType) -> None:
    """Writes the kernel; `turned` if the matrix lies transposed."""
    args, begin, end, _ = b.params
    result, matrix = [b.load("ptr", b.gep(args, "i64", slot)) for slot in (1, 2)]
    depth, width = [b.load("i64", b.gep(args, "i64", slot)) for slot in (3, 4)]
    template = _Template(b, memory_element(dtype), matrix, depth, width)
    with b.loop(begin, end) as item:
        out = b.gep(result, template.element, b.mul(item.index, b.mul(depth, PANEL)))
        first = b.mul(item.index, PANEL)
        (template.turn if turned else template.cut)(out, first)


class _Template:
    def __init__(self, b: Builder, element: str, matrix: Value, depth: Value, width: Value) -> None:
        self.b, self.element, self.kind = b, element, vector(element, PANEL)
        self.matrix, self.depth, self.width = matrix, depth, width

    def _load(self, row: Value, stride: Value, column: Value, count: Value) -> Value:
        """Some elements of a row, and zeros."""
        b = self.b
        place = b.gep(self.matrix, self.element, b.add(b.mul(row, stride), column))
        return b.load(self.kind, place, b.lane_mask(count))

    def cut(self, out: Value, first: Value) -> None:
        """The columns from `first` on, row by row."""
        b = self.b
        count = b.sub(self.width, first)
        with b.loop(0, self.depth) as row:
            value = self._load(row.index, self.width, first, count)
            b.store(value, b.gep(out, self.element, b.mul(row.index, PANEL)))

    def turn(self, out: Value, first: Value) -> None:
        """The rows from `first` on, sixteen columns at a time, as columns."""
        b = self.b
        with b.loop(0, self.depth, PANEL) as column:
            left = b.sub(self.depth, column.index)
            rows = []
            for i in range(PANEL):
                row = b.add(first, i)
                there = b.icmp("slt", row, self.width)
                count = b.select(there, left, 0)
                rows.append(self._load(b.select(there, row, 0), self.depth, column.index, count))
            place = b.gep(out, self.element, b.mul(column.index, PANEL))
            for i, value in enumerate(turned_square(b, rows)):
                with b.if_(b.icmp("slt", b.const("i64", i), left)):
                    b.store(value, b.gep(place, self.element, i * PANEL))
