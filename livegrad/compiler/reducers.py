"""Reducers: how reduction kernels fold values, one record per `combine` of a reduce op.

A kernel keeps accumulators, one register each (argmax keeps two: value and index):

    accs = r.start(e)                             before the first value
    accs = r.step(e, accs, value, index, mask)    for each sixteen values, one per lane
    accs = r.fold_lanes(e, accs)                  sixteen lanes to one, always in the same order
    y    = r.result(e, accs)                      a register of r.output(dtype)

`e` is the emitter of the reduced value's dtype. Sums of floats are made in short blocks, so that
roundings do not pile up; `r.of_blocks` is what folds those (folding.py says how). Results are
rounded once, half precisions too; integers are summed and multiplied in int64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce
from typing import ClassVar

import numpy as np

from livegrad import dtypes
from livegrad.compiler.emitter import Emitter
from livegrad.compiler.values import Value, lanes_of
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
        """Dtypes of the accumulators for values of `dtype`."""
        raise NotImplementedError

    def starts(self, dtype: DType) -> tuple[float, ...]:
        """What each accumulator starts from: merging it changes nothing."""
        raise NotImplementedError

    def of_blocks(self, dtype: DType) -> Reducer | None:
        """What folds the blocks of a long fold, if it has to be made in blocks."""
        return None

    def ends_wide(self, dtype: DType) -> bool:
        """Whether the last lanes of a single block are merged as those of several are."""
        return False

    def merge(self, e: Emitter, a: Accs, b: Accs) -> Accs:
        """The accumulators of what `a` saw followed by what `b` saw."""
        raise NotImplementedError

    def enter(self, e: Emitter, value: Value, index: Value | None) -> Accs:
        """The accumulators of one value."""
        return [e.convert(value, e.dtype, self.accumulators(e.dtype)[0])]

    def start(self, e: Emitter, lanes: int | None = None) -> Accs:
        """Accumulators that have seen nothing."""
        pairs = zip(self.accumulators(e.dtype), self.starts(e.dtype), strict=True)
        return [e.filled(dtype, number, lanes) for dtype, number in pairs]

    def step(
        self, e: Emitter, accs: Accs, value: Value, index: Value | None, mask: Value | None = None
    ) -> Accs:
        """Accumulators after one more value per lane; lanes outside `mask` see nothing."""
        if mask is not None:
            # Not the accumulators after it: those may be wider, and several fold the same value.
            nothing = e.filled(e.dtype, self.starts(e.dtype)[0])
            value = e.select(mask, value, nothing)
        return self.take(e, accs, [e.splat(x) for x in self.enter(e, value, index)])

    def take(self, e: Emitter, accs: Accs, entered: Accs) -> Accs:
        """Accumulators after one more value per lane, which was entered."""
        return self.merge(e, accs, entered)

    def fold_lanes(self, e: Emitter, accs: Accs, left: int = 1) -> Accs:
        """The lanes merged by halves until so many are left, in the same order on every host.

        In one of the steps even lanes meet odd ones, before sums grow large where signs alternate:
        that of the last four, which costs nothing, or the first if these are to be left.
        """
        width = lanes_of(accs[0].type)
        crossed = 2 if left <= 2 else width // 2
        while width > left:
            width //= 2
            low = range(width)
            high = [width + (lane ^ 1 if width == crossed else lane) for lane in low]
            lower = [e.pick(x, low) for x in accs]
            accs = self.merge(e, lower, [e.pick(x, high) for x in accs])
        return accs

    def result(self, e: Emitter, accs: Accs) -> Value:
        """The folded value, rounded to the dtype of the result."""
        kept = self.accumulators(e.dtype)[0]
        return e.round_to(accs[0], e.dtype) if kept.category == FLOAT else accs[0]


class _Number(Reducer):
    """Sum or product, in int64 for integers; if `wide`, of floats as a float64, not rounded."""

    __slots__ = ("_wide",)

    def __init__(self, wide: bool = False) -> None:
        self._wide = wide

    def output(self, dtype: DType) -> DType:
        if dtype.category != FLOAT:
            return dtypes.int64
        return dtypes.float64 if self._wide else dtype.compute

    def result(self, e: Emitter, accs: Accs) -> Value:
        (kept,) = self.accumulators(e.dtype)
        return self.rounded(e, accs[0], kept)

    def rounded(self, e: Emitter, value: Value, source: DType) -> Value:
        """A register of `source` as one of the result."""
        value = e.convert(value, source, self.output(e.dtype))
        return value if self._wide or e.dtype.category != FLOAT else e.round_to(value, e.dtype)


class _Sum(_Number):
    """Sum, in float32 or float64 within a block."""

    __slots__ = ()

    def accumulators(self, dtype: DType) -> tuple[DType, ...]:
        return (dtype.compute if dtype.category == FLOAT else dtypes.int64,)

    def starts(self, dtype: DType) -> tuple[float, ...]:
        return (0,)

    def of_blocks(self, dtype: DType) -> Reducer | None:
        return _Blocks(self, dtype is dtypes.float64) if dtype.category == FLOAT else None

    def ends_wide(self, dtype: DType) -> bool:
        # The result is converted anyway: before the last lanes are merged, that costs no more.
        return self._wide and dtype.category == FLOAT and dtype is not dtypes.float64

    def merge(self, e: Emitter, a: Accs, b: Accs) -> Accs:
        return [e.add(a[0], b[0])]


class _Squares(_Sum):
    """Sum of squares, each added with a single rounding."""

    __slots__ = ()

    def take(self, e: Emitter, accs: Accs, entered: Accs) -> Accs:
        (x,) = entered
        return [e.fma(x, x, accs[0])]


class _Blocks(Reducer):
    """What the blocks of a sum come to, in twice the precision of a block.

    Blocks of float32 are added to a float64, those of float64 to a `pair` of them that stays
    unevaluated: its second number is what rounding took from the first.
    """

    __slots__ = ("_pair", "_sum")

    def __init__(self, of: _Sum, pair: bool) -> None:
        self._sum = of
        self._pair = pair

    def enter(self, e: Emitter, value: Value, index: Value | None) -> Accs:
        return [e.convert(value, e.dtype.compute, dtypes.float64)]

    def accumulators(self, dtype: DType) -> tuple[DType, ...]:
        return (dtypes.float64,) * (2 if self._pair else 1)

    def starts(self, dtype: DType) -> tuple[float, ...]:
        return (0,) * (2 if self._pair else 1)

    def merge(self, e: Emitter, a: Accs, b: Accs) -> Accs:
        total = e.add(a[0], b[0])
        if not self._pair:
            return [total]
        return [total, reduce(e.add, b[1:], e.add(a[1], lost_in(e, a[0], b[0], total)))]

    def result(self, e: Emitter, accs: Accs) -> Value:
        total = with_lost(e, accs) if self._pair else accs[0]
        return self._sum.rounded(e, total, dtypes.float64)


def lost_in(e: Emitter, a: Value, b: Value, total: Value) -> Value:
    """`a + b - total` exactly, `total` being `a + b` rounded (Knuth's TwoSum)."""
    second = e.sub(total, a)
    return e.add(e.sub(a, e.sub(total, second)), e.sub(b, second))


def with_lost(e: Emitter, pair: Accs) -> Value:
    """A sum and what rounding took from it, added; an infinite sum lost what is not a number."""
    total, lost = pair
    return e.select(e.isnan(lost), total, e.add(total, lost))


class _Product(_Number):
    """Product, in float64 for floats.

    No order of multiplying is better than another: each factor costs one rounding.
    """

    __slots__ = ()

    def accumulators(self, dtype: DType) -> tuple[DType, ...]:
        return (dtypes.float64 if dtype.category == FLOAT else dtypes.int64,)

    def starts(self, dtype: DType) -> tuple[float, ...]:
        return (1,)

    def merge(self, e: Emitter, a: Accs, b: Accs) -> Accs:
        return [e.mul(a[0], b[0])]


class _Chosen(Reducer):
    """One of the values, of the dtype it is computed in or as a truth value, by a method of `e`."""

    __slots__ = ("_as_bool", "_choose", "_start")

    def __init__(
        self,
        choose: Callable[[Emitter, Value, Value], Value],
        start: Callable[[DType], float],
        as_bool: bool = False,
    ) -> None:
        self._choose = choose
        self._start = start
        self._as_bool = as_bool

    def accumulators(self, dtype: DType) -> tuple[DType, ...]:
        return (dtypes.bool_ if self._as_bool else dtype.compute,)

    def starts(self, dtype: DType) -> tuple[float, ...]:
        return (self._start(dtype),)

    def merge(self, e: Emitter, a: Accs, b: Accs) -> Accs:
        return [self._choose(e, a[0], b[0])]


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
        return (losing_value(dtype, self._largest), _NO_INDEX)

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

    def result(self, e: Emitter, accs: Accs) -> Value:
        return accs[1]


def losing_value(dtype: DType, largest: bool) -> float:
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
    "wide_sum": _Sum(wide=True),
    "wide_squares": _Squares(wide=True),
    "wide_prod": _Product(wide=True),
    "max": _Chosen(Emitter.max, partial(losing_value, largest=True)),  # NaN if there is one
    "min": _Chosen(Emitter.min, partial(losing_value, largest=False)),
    "any": _Chosen(Emitter.or_, lambda dtype: 0, as_bool=True),  # not 0 is true
    "all": _Chosen(Emitter.and_, lambda dtype: 1, as_bool=True),
    "argmax": _Position(True),
    "argmin": _Position(False),
}
