"""Reducers: how reduction kernels fold values, one record per `combine` of a reduce op.

A kernel keeps accumulators, one register each (argmax keeps two: value and index). Sums are made in
short blocks, so that roundings do not pile up: a block in the dtype that is computed in, and what
the blocks come to in twice its precision. Other folds are one long block.

    totals = r.start(e)                             before the first value
    accs   = r.open(e, totals)                      before each block
    accs   = r.step(e, accs, value, index, mask)    for each sixteen values, one per lane
    totals = r.close(e, totals, accs)               after each block
    totals = r.fold_lanes(e, totals)                sixteen lanes to one, always in the same order
    y      = r.result(e, totals)                    a register of r.output(dtype)

`e` is the emitter of the reduced value's dtype. Results are rounded once, half precisions too;
integers are summed and multiplied in int64.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import ClassVar

import numpy as np

from livegrad import dtypes
from livegrad.compiler.builder import LANES, Value, lanes_of, vector
from livegrad.compiler.emitter import Emitter, register_element
from livegrad.dtypes import BOOL, FLOAT, DType

Accs = list[Value]
_NO_INDEX = (1 << 63) - 1


class Reducer:
    """A fold with one accumulator; subclasses say of which dtype, from where, and by what."""

    __slots__ = ()

    def output(self, dtype: DType) -> DType:
        """Dtype of the result's register for values of `dtype`."""
        return self.accumulators(dtype)[0]

    def accumulators(self, dtype: DType) -> tuple[DType, ...]:
        """Dtypes of the accumulators of a block, for values of `dtype`."""
        raise NotImplementedError

    def starts(self, dtype: DType) -> tuple[float, ...]:
        """What each accumulator starts from: merging it changes nothing."""
        raise NotImplementedError

    def totals(self, dtype: DType) -> tuple[DType, ...]:
        """Dtypes of what blocks come to, for values of `dtype`."""
        return self.accumulators(dtype)

    def in_blocks(self, dtype: DType) -> bool:
        """Whether a fold of values of `dtype` has to be made in blocks."""
        return False

    def merge(self, e: Emitter, a: Accs, b: Accs) -> Accs:
        """The accumulators (or totals) of what `a` saw followed by what `b` saw."""
        raise NotImplementedError

    def enter(self, e: Emitter, value: Value, index: Value | None) -> Accs:
        """The accumulators of one value."""
        return [e.convert(value, e.dtype, self.accumulators(e.dtype)[0])]

    def start(self, e: Emitter) -> Accs:
        """Totals that have seen nothing."""
        return _constants(e, self.totals(e.dtype), self.starts(e.dtype))

    def open(self, e: Emitter, totals: Accs) -> Accs:
        """The accumulators of the next block; a fold that needs none goes on with its totals."""
        return totals

    def close(self, e: Emitter, totals: Accs, accs: Accs) -> Accs:
        """The totals after a block."""
        return accs

    def step(
        self, e: Emitter, accs: Accs, value: Value, index: Value | None, mask: Value | None = None
    ) -> Accs:
        """Accumulators after one more value per lane; lanes outside `mask` see nothing."""
        entered = [e.splat(x) for x in self.enter(e, value, index)]
        merged = self.merge(e, accs, entered)
        if mask is None:
            return merged
        return [e.select(mask, new, old) for new, old in zip(merged, accs, strict=True)]

    def fold_lanes(self, e: Emitter, totals: Accs) -> Accs:
        """Scalars: the lanes merged by halves, in the same order on every host."""
        width = lanes_of(totals[0].type)
        while width > 2:
            width //= 2
            low, high = range(width), range(width, 2 * width)
            lower = [e.b.shuffle(x, low) for x in totals]
            totals = self.merge(e, lower, [e.b.shuffle(x, high) for x in totals])
        first = [e.b.extract(x, 0) for x in totals]
        return self.merge(e, first, [e.b.extract(x, 1) for x in totals])

    def result(self, e: Emitter, totals: Accs) -> Value:
        """The folded value, rounded to the dtype of the result."""
        return e.round_to(totals[0], e.dtype) if e.dtype.category == FLOAT else totals[0]


def _constants(e: Emitter, kinds: tuple[DType, ...], numbers: tuple[float, ...]) -> Accs:
    return [
        e.b.const(vector(register_element(dtype), LANES), number)
        for dtype, number in zip(kinds, numbers, strict=True)
    ]


class _Sum(Reducer):
    """Sum: of integers in int64, of floats in blocks.

    A block of float32 is added to a float64, one of float64 to an unevaluated pair of them, whose
    second number is what rounding took from the first. `part`: the sum is one of several that are
    summed in turn, and stays a float64.
    """

    __slots__ = ("_part",)

    def __init__(self, part: bool = False) -> None:
        self._part = part

    def output(self, dtype: DType) -> DType:
        return _output(dtype, self._part)

    def accumulators(self, dtype: DType) -> tuple[DType, ...]:
        return (_output(dtype),)

    def totals(self, dtype: DType) -> tuple[DType, ...]:
        if dtype.category != FLOAT:
            return (dtypes.int64,)
        return (dtypes.float64,) * (2 if dtype is dtypes.float64 else 1)

    def starts(self, dtype: DType) -> tuple[float, ...]:
        return (0,) * len(self.totals(dtype))

    def in_blocks(self, dtype: DType) -> bool:
        return dtype.category == FLOAT

    def open(self, e: Emitter, totals: Accs) -> Accs:
        if not self.in_blocks(e.dtype):
            return totals
        return _constants(e, self.accumulators(e.dtype), (0,))

    def close(self, e: Emitter, totals: Accs, accs: Accs) -> Accs:
        if not self.in_blocks(e.dtype):
            return accs
        return self.merge(e, totals, [e.convert(accs[0], e.dtype.compute, dtypes.float64)])

    def merge(self, e: Emitter, a: Accs, b: Accs) -> Accs:
        total = e.add(a[0], b[0])
        if len(a) == 1:
            return [total]
        lost = [lost_in(e, a[0], b[0], total), *b[1:]]
        return [total, reduce(e.add, lost, a[1])]

    def result(self, e: Emitter, totals: Accs) -> Value:
        total = with_lost(e, totals) if e.dtype is dtypes.float64 else totals[0]
        return total if self._part else _rounded(e, total)


def _output(dtype: DType, part: bool = False) -> DType:
    """The dtype that sums and products of `dtype` (or `part`s of them) have in a register."""
    if dtype.category != FLOAT:
        return dtypes.int64
    return dtypes.float64 if part else dtype.compute


def _rounded(e: Emitter, total: Value) -> Value:
    """What float64 (or int64) came to, in the dtype of the values."""
    if e.dtype.category != FLOAT:
        return total
    return e.round_to(e.convert(total, dtypes.float64, e.dtype.compute), e.dtype)


def lost_in(e: Emitter, a: Value, b: Value, total: Value) -> Value:
    """`a + b - total` exactly, `total` being `a + b` rounded (Knuth's TwoSum)."""
    second = e.sub(total, a)
    return e.add(e.sub(a, e.sub(total, second)), e.sub(b, second))


def with_lost(e: Emitter, pair: Accs) -> Value:
    """A sum and what rounding took from it, added; an infinite sum lost what is not a number."""
    total, lost = pair
    return e.select(e.isnan(lost), total, e.add(total, lost))


class _Product(Reducer):
    """Product, in int64 for integers and float64 for floats.

    No order of multiplying is better than another: each factor costs one rounding. `part` is as
    in `_Sum`.
    """

    __slots__ = ("_part",)

    def __init__(self, part: bool = False) -> None:
        self._part = part

    def output(self, dtype: DType) -> DType:
        return _output(dtype, self._part)

    def accumulators(self, dtype: DType) -> tuple[DType, ...]:
        return (_output(dtype, part=True),)

    def starts(self, dtype: DType) -> tuple[float, ...]:
        return (1,)

    def merge(self, e: Emitter, a: Accs, b: Accs) -> Accs:
        return [e.mul(a[0], b[0])]

    def result(self, e: Emitter, totals: Accs) -> Value:
        return totals[0] if self._part else _rounded(e, totals[0])


class _Extreme(Reducer):
    """Largest or smallest value; NaN if there is one."""

    __slots__ = ("_largest",)

    def __init__(self, largest: bool) -> None:
        self._largest = largest

    def accumulators(self, dtype: DType) -> tuple[DType, ...]:
        return (dtype.compute,)

    def starts(self, dtype: DType) -> tuple[float, ...]:
        return (_worst(dtype, self._largest),)

    def merge(self, e: Emitter, a: Accs, b: Accs) -> Accs:
        return [(e.max if self._largest else e.min)(a[0], b[0])]


class _Logical(Reducer):
    """Whether any, or all, of the values are not 0."""

    __slots__ = ("_all",)

    def __init__(self, all: bool) -> None:
        self._all = all

    def accumulators(self, dtype: DType) -> tuple[DType, ...]:
        return (dtypes.bool_,)

    def starts(self, dtype: DType) -> tuple[float, ...]:
        return (int(self._all),)

    def merge(self, e: Emitter, a: Accs, b: Accs) -> Accs:
        return [(e.and_ if self._all else e.or_)(a[0], b[0])]

    def result(self, e: Emitter, totals: Accs) -> Value:
        return totals[0]


class _Position(Reducer):
    """Index of the largest or smallest value: the first NaN if there is one, ties to the lowest."""

    __slots__ = ("_largest",)

    index_dtype: ClassVar[DType] = dtypes.int64

    def __init__(self, largest: bool) -> None:
        self._largest = largest

    def output(self, dtype: DType) -> DType:
        return self.index_dtype

    def accumulators(self, dtype: DType) -> tuple[DType, ...]:
        return (dtype.compute, self.index_dtype)

    def starts(self, dtype: DType) -> tuple[float, ...]:
        # An index above all others: the first value wins the tie even if it is the worst there is.
        return (_worst(dtype, self._largest), _NO_INDEX)

    def enter(self, e: Emitter, value: Value, index: Value | None) -> Accs:
        assert index is not None, "argmax and argmin need the index of each value"
        return [value, index]

    def merge(self, e: Emitter, a: Accs, b: Accs) -> Accs:
        better = (e.gt if self._largest else e.lt)(b[0], a[0])
        same = e.eq(b[0], a[0])
        if e.dtype.category == FLOAT:
            nan_a, nan_b = e.isnan(a[0]), e.isnan(b[0])
            better = e.or_(better, e.and_(nan_b, e.not_(nan_a)))
            same = e.or_(same, e.and_(nan_a, nan_b))
        first = e.and_(same, e.of(self.index_dtype).lt(b[1], a[1]))
        take = e.or_(better, first)
        return [e.select(take, b[0], a[0]), e.select(take, b[1], a[1])]

    def result(self, e: Emitter, totals: Accs) -> Value:
        return totals[1]


def _worst(dtype: DType, largest: bool) -> float:
    """The value that loses to all others when the largest (or smallest) is looked for."""
    if dtype.category == FLOAT:
        return -math.inf if largest else math.inf
    if dtype.category == BOOL:
        return 0 if largest else 1
    limits = np.iinfo(dtype.storage)
    return int(limits.min if largest else limits.max)


REDUCERS: dict[str, Reducer] = {
    "sum": _Sum(),
    "prod": _Product(),
    "part_sum": _Sum(part=True),
    "part_prod": _Product(part=True),
    "max": _Extreme(True),
    "min": _Extreme(False),
    "any": _Logical(False),
    "all": _Logical(True),
    "argmax": _Position(True),
    "argmin": _Position(False),
}
