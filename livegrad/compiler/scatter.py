"""Scatter kernels: a copy of a base with values added at given indices, in the order they come.

Seen from the indexed dim a tensor is (outer, dim, inner). A work item owns some inner columns of
one outer entry, so no two threads ever add to the same element and the result never depends on
their number.

Argument block: 0 work items   1 result   2 base   3 indices   4 values   5 size of the dim
6 number of indices   7 inner size   8 columns per item   9 items per outer entry
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from livegrad.compiler.bind import SET_INPUT, Block, Where
from livegrad.compiler.builder import LANES, Builder, Value
from livegrad.compiler.emitter import Emitter, memory_element
from livegrad.compiler.templates import PARAMS
from livegrad.dtypes import DType
from livegrad.graph.node import Node

Signature = tuple[str, str, DType, DType]

COLUMNS = 256
SCATTERS = ("index_add", "scatter_add")


def is_native(node: Node) -> bool:
    """Whether the template covers this scatter: all dims but the indexed one agree."""
    base, index, _ = node.inputs
    if node.op.lower == "index_add":
        return True
    dim = node.attrs[0]
    others = [d for d in range(base.meta.ndim) if d != dim]
    return index.meta.ndim > 0 and all(base.meta.shape[d] == index.meta.shape[d] for d in others)


def signature_of(node: Node) -> Signature:
    """What the code depends on."""
    return ("scatter", node.op.lower or "", node.meta.dtype, node.inputs[1].meta.dtype)


def bind_scatter(node: Node, where: Callable[[Node], Where]) -> Block:
    """The argument block of a scatter."""
    base, index, source = node.inputs
    dim = node.attrs[0]
    shape = base.meta.shape
    outer, size, inner = prod(shape[:dim]), shape[dim], prod(shape[dim + 1 :])
    count = index.meta.numel if node.op.lower == "index_add" else index.meta.shape[dim]
    block = max(1, min(inner, COLUMNS))
    blocks = -(-inner // block)
    slots = [outer * blocks, 0, 0, 0, 0, size, count, inner, block, max(blocks, 1)]
    patches = []
    for slot, x in enumerate((node, base, index, source), 1):
        place = where(x)
        patches.append((SET_INPUT, slot, place.slot, place.offset))
    return Block(slots, patches)


def generate_scatter(signature: Signature, name: str) -> str:
    """The IR of the kernel with this signature."""
    _, lower, dtype, index_dtype = signature
    return _Scatter(name, dtype, index_dtype).emit(elementwise=lower == "scatter_add")


class _Scatter:
    def __init__(self, name: str, dtype: DType, index_dtype: DType) -> None:
        self.b = Builder(name, list(PARAMS))
        self.e = Emitter(self.b, dtype)
        self.dtype, self.index_dtype = dtype, index_dtype
        self.element = memory_element(dtype)

    def _arg(self, slot: int, type: str = "i64") -> Value:
        return self.b.load_scalar(type, self.b.gep(self.b.params[0], "i64", slot))

    def emit(self, elementwise: bool) -> str:
        """The kernel: copy the base's columns, then add value after value."""
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
            self._copy(target, b.gep(base, self.element, whole))
            part = b.mul(outer, b.mul(self.count, self.inner))
            source = b.gep(values, self.element, part)
            if elementwise:
                self._add_elements(target, source, b.gep(indices, self._index_element(), part))
            else:
                self._add_rows(target, source, indices)
        return b.ir()

    def _index_element(self) -> str:
        return memory_element(self.index_dtype)

    def _copy(self, target: Value, base: Value) -> None:
        b = self.b
        with b.loop(0, self.size) as row:
            start = b.mul(row.index, self.inner)
            to, source = b.gep(target, self.element, start), b.gep(base, self.element, start)
            with b.loop(self.low, self.high, LANES) as column:
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
        raw = self.e.load_scalar(self.index_dtype, b.gep(indices, self._index_element(), at))
        index = b.sext(raw, "i64")
        good = b.icmp("ult", index, self.size)
        with b.if_(b.not_(good)):
            b.store_scalar(b.const("i64", 1), self.ctx)
            b.store_scalar(index, b.gep(self.ctx, "i64", 1))
        return b.select(good, index, b.const("i64", 0))

    def _add(self, to: Value, source: Value, at: Value, mask: Value) -> None:
        old = self._load(to, at, mask)
        total = self.e.add(old, self._load(source, at, mask))
        self._store(to, at, self.e.round_to(total, self.dtype), mask)

    def _add_rows(self, target: Value, source: Value, indices: Value) -> None:
        """One index per row of values."""
        b = self.b
        with b.if_(b.icmp("ne", self.size, 0)), b.loop(0, self.count) as row:
            index = self._index(indices, row.index)
            to = b.gep(target, self.element, b.mul(index, self.inner))
            values = b.gep(source, self.element, b.mul(row.index, self.inner))
            with b.loop(self.low, self.high, LANES) as column:
                self._add(to, values, column.index, b.lane_mask(b.sub(self.high, column.index)))

    def _add_elements(self, target: Value, source: Value, indices: Value) -> None:
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
            old = e.load_scalar(self.dtype, place)
            value = e.load_scalar(self.dtype, b.gep(source, self.element, at))
            e.store_scalar(self.dtype, e.round_to(e.add(old, value), self.dtype), place)
