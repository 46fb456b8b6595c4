"""Scan kernels: every value along a dim folded with all values before it.

Seen from the scanned dim a tensor is (outer, dim, inner). A work item owns some inner columns of
one outer entry and walks down the dim, carrying what it has folded: sixteen columns at a time, or
one element after the other if there is only one column. No sum is ever cut, so the result does not
depend on the number of threads, and both ways give the same bits. Backwards, the walk starts at the
last row and takes steps of minus one.

Argument block: 0 work items   1 result   2 values   3 factors   4 size of the dim   5 inner size
6 columns per item   7 items per outer entry   8 first row   9 rows per step (1 or -1)
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from livegrad import dtypes
from livegrad.compiler.binder import THREAD_WORK, patched
from livegrad.compiler.builder import Builder
from livegrad.compiler.draft import Draft
from livegrad.compiler.emitter import Emitter, memory_element
from livegrad.compiler.lowerings.base import Kernel
from livegrad.compiler.plan import Block, Step
from livegrad.compiler.reducers import losing_value, lost_in, with_lost
from livegrad.compiler.values import Value
from livegrad.dtypes import FLOAT, DType
from livegrad.graph.node import Node
from livegrad.graph.symbol import least, most

Accs = list[Value]

COLUMNS = 64


def accumulator(dtype: DType) -> DType:
    """What a scan that gives `dtype` is carried in: rounded for each result, never in between."""
    return dtypes.float64 if dtype.category == FLOAT else dtypes.int64


# ------------------------------------------------------------------------------ what is folded


def _log_add_exp(e: Emitter, acc: Value, x: Value) -> Value:
    low, high = e.min(acc, x), e.max(acc, x)
    together = e.add(high, e.log1p(e.exp(e.sub(low, high))))
    # inf - inf has no difference to speak of: the sum of two equal infinities is either.
    infinite = e.and_(e.eq(low, high), e.eq(e.abs(high), float("inf")))
    return e.select(infinite, high, together)


# Each takes (emitter of the carried dtype, carried value, next values) and gives the carried value.
FOLDS: dict[str, tuple[float, Callable[..., Value]]] = {
    "cumsum": (0, Emitter.add),
    "cumprod": (1, Emitter.mul),
    "logcumsumexp": (-float("inf"), _log_add_exp),
    "recurrence": (0, lambda e, acc, x, factor: e.add(x, e.mul(factor, acc))),
}
EXTREMES = {"cummax": True, "cummin": False}


class Scan(Kernel):
    """attrs (dim, backwards, …): a `kind` of fold, each of whose steps costs about `weight`."""

    def __init__(self, kind: str, weight: int = 2) -> None:
        self.kind = kind
        self.weight = weight

    def bind(self, draft: Draft, node: Node) -> list[Step]:
        """A step of the template below."""
        shape, dim = node.meta.shape or (1,), node.attrs[0]
        outer, size, inner = prod(shape[:dim]), shape[dim], prod(shape[dim + 1 :])
        operands = tuple([x.meta.dtype for x in node.inputs])
        signature = (generate_scan, self.kind, operands, node.meta.dtype, inner == 1)
        columns = most(1, least(inner, COLUMNS))
        blocks = -(-inner // columns)
        first, step = (size - 1, -1) if node.attrs[1] else (0, 1)
        slots = [outer * blocks, 0, 0, 0, size, inner, columns, most(blocks, 1), first, step]
        grain = most(1, THREAD_WORK // most(1, size * columns * self.weight))
        block = Block(slots, patched(draft.where, node, *node.inputs), grain)
        return [Step("scan", node.meta.shape, [block], signature)]


# ------------------------------------------------------------------------------ code generation


def generate_scan(
    b: Builder, kind: str, operands: tuple[DType, ...], result: DType, single: bool
) -> None:
    """Writes a scan; `single` if there is one column only."""
    _Template(b, kind, operands, result).emit(single)


class _Template:
    def __init__(self, b: Builder, kind: str, operands: tuple[DType, ...], result: DType) -> None:
        self.b = b
        self.kind, self.operands, self.result = kind, operands, result
        self.extreme = EXTREMES.get(kind)
        self.carried = operands[0].compute if kind in EXTREMES else accumulator(result)
        # Sums of float64 are carried with what rounding took from them.
        self.paired = kind == "cumsum" and result is dtypes.float64
        self.e = Emitter(self.b, self.carried)

    def _arg(self, slot: int, type: str = "i64") -> Value:
        return self.b.load(type, self.b.gep(self.b.params[0], "i64", slot))

    def emit(self, single: bool) -> None:
        """The kernel: for each item its columns, from the first row to the last."""
        b = self.b
        _, begin, end, _ = b.params
        self.size, self.inner = self._arg(4), self._arg(5)
        columns, blocks = self._arg(6), self._arg(7)
        self.first, self.step = self._arg(8), self._arg(9)
        bases = [self._arg(slot, "ptr") for slot in range(1, 2 + len(self.operands))]
        with b.loop(begin, end) as item:
            outer, at = b.udiv(item.index, blocks), b.urem(item.index, blocks)
            whole = b.mul(outer, b.mul(self.size, self.inner))
            kinds = (self.result, *self.operands)
            places = [
                b.gep(base, memory_element(dtype), whole)
                for base, dtype in zip(bases, kinds, strict=True)
            ]
            if single:
                self._walk(places, b.const("i64", 0), None)
            else:
                low = b.mul(at, columns)
                high = b.smin(b.add(low, columns), self.inner)
                with b.loop(low, high, b.lanes) as column:
                    mask = b.lane_mask(b.sub(high, column.index))
                    self._walk(places, column.index, mask)

    def _walk(self, places: list[Value], column: Value, mask: Value | None) -> None:
        """Down the rows: carry, store, go on."""
        b = self.b
        with b.loop(0, self.size, 1, self._starts(lanes=0 if mask is None else None)) as row:
            number = b.add(self.first, b.mul(row.index, self.step))
            at = b.add(b.mul(number, self.inner), column)
            values = [
                self._load(dtype, place, at, mask)
                for dtype, place in zip(self.operands, places[1:], strict=True)
            ]
            accs = self._fold(list(row.carried), values, row.index)
            self._store(self._outcome(accs), places[0], at, mask)
            row.update(accs)

    def _starts(self, lanes: int | None) -> Accs:
        if self.extreme is None:
            start = self.e.filled(self.carried, FOLDS[self.kind][0], lanes)
            return [start] * (2 if self.paired else 1)
        worst = losing_value(self.operands[0], self.extreme)
        return [
            self.e.filled(self.carried, worst, lanes),
            self.e.filled(dtypes.int64, 0, lanes),
        ]

    def _fold(self, accs: Accs, values: list[Value], index: Value) -> Accs:
        e = self.e
        if self.extreme is None:
            total = FOLDS[self.kind][1](e, accs[0], *values)
            lost = [e.add(accs[1], lost_in(e, accs[0], values[0], total))] if self.paired else []
            return [total, *lost]
        (x,) = values
        # The latest of equals wins, and NaN over everything, as in PyTorch.
        take = (e.ge if self.extreme else e.le)(x, accs[0])
        if self.carried.category == FLOAT:
            take = e.or_(e.isnan(x), e.and_(e.not_(e.isnan(accs[0])), take))
        return [e.select(take, x, accs[0]), e.of(dtypes.int64).select(take, index, accs[1])]

    def _outcome(self, accs: Accs) -> Value:
        if self.extreme is not None:
            return accs[1]
        total = with_lost(self.e, accs) if self.paired else accs[0]
        narrow = self.e.convert(total, self.carried, self.result.compute)
        return self.e.round_to(narrow, self.result)

    def _load(self, dtype: DType, place: Value, at: Value, mask: Value | None) -> Value:
        pointer = self.b.gep(place, memory_element(dtype), at)
        e = self.e.of(dtype)
        x = e.load_scalar(dtype, pointer) if mask is None else e.load(dtype, pointer, mask)
        return e.convert(x, dtype.compute, self.carried)

    def _store(self, value: Value, place: Value, at: Value, mask: Value | None) -> None:
        pointer = self.b.gep(place, memory_element(self.result), at)
        e = self.e.of(self.result)
        if mask is None:
            e.store_scalar(self.result, value, pointer)
        else:
            e.store(self.result, value, pointer, mask)
