"""Reducers: how reduction kernels fold values, one record per `combine` of a reduce op.

A kernel keeps accumulators, one register each (argmax keeps two: value and index):

    accs = r.identity(e)                          vectors; r.identity(e, 0) gives scalars
    accs = r.step(e, accs, value, index, mask)    for each sixteen elements of a row
    accs = r.fold_lanes(e, accs)                  sixteen lanes to one, always in the same order
    accs = r.merge(e, accs, others)               partial results, in order
    y    = r.result(e, accs)                      a register of r.output(dtype)

`e` is the emitter of the reduced value's dtype. Sums of half precisions are kept in float32 and
rounded once, sums and products of integers in int64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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
        """Dtypes of the accumulators for values of `dtype`."""
        raise NotImplementedError

    def starts(self, dtype: DType) -> tuple[float, ...]:
        """What each accumulator starts from: merging it changes nothing."""
        raise NotImplementedError

    def merge(self, e: Emitter, a: Accs, b: Accs) -> Accs:
        """The accumulators of what `a` saw followed by what `b` saw."""
        raise NotImplementedError

    def enter(self, e: Emitter, value: Value, index: Value | None) -> Accs:
        """The accumulators of one value."""
        return [e.convert(value, e.dtype, self.accumulators(e.dtype)[0])]

    def identity(self, e: Emitter, lanes: int = LANES) -> Accs:
        """Accumulators that have seen nothing; scalars if `lanes` is 0."""
        values = []
        kinds = self.accumulators(e.dtype)
        for dtype, number in zip(kinds, self.starts(e.dtype), strict=True):
            element = register_element(dtype)
            values.append(e.b.const(vector(element, lanes) if lanes else element, number))
        return values

    def step(
        self, e: Emitter, accs: Accs, value: Value, index: Value | None, mask: Value | None = None
    ) -> Accs:
        """Accumulators after one more value per lane; lanes outside `mask` see nothing."""
        entered = self.enter(e, value, index)
        if lanes_of(accs[0].type):
            entered = [e.splat(x) for x in entered]
        merged = self.merge(e, accs, entered)
        if mask is None:
            return merged
        return [e.select(mask, new, old) for new, old in zip(merged, accs, strict=True)]

    def fold_lanes(self, e: Emitter, accs: Accs) -> Accs:
        """Scalars: the lanes merged by halves, in the same order on every host."""
        width = lanes_of(accs[0].type)
        while width > 2:
            width //= 2
            low, high = range(width), range(width, 2 * width)
            lower = [e.b.shuffle(x, low) for x in accs]
            accs = self.merge(e, lower, [e.b.shuffle(x, high) for x in accs])
        if width < 2:
            return accs
        first = [e.b.extract(x, 0) for x in accs]
        return self.merge(e, first, [e.b.extract(x, 1) for x in accs])

    def result(self, e: Emitter, accs: Accs) -> Value:
        """The folded value, rounded to the dtype of the result."""
        return e.round_to(accs[0], e.dtype) if e.dtype.category == FLOAT else accs[0]


class _Sum(Reducer):
    """Sum or product, in int64 for integers and float32 for half precisions."""

    __slots__ = ("_combine", "_start")

    def __init__(self, start: int, combine: Callable[[Emitter, Value, Value], Value]) -> None:
        self._start = start
        self._combine = combine

    def accumulators(self, dtype: DType) -> tuple[DType, ...]:
        return (dtype.compute if dtype.category == FLOAT else dtypes.int64,)

    def starts(self, dtype: DType) -> tuple[float, ...]:
        return (self._start,)

    def merge(self, e: Emitter, a: Accs, b: Accs) -> Accs:
        return [self._combine(e, a[0], b[0])]


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

    def result(self, e: Emitter, accs: Accs) -> Value:
        return accs[0]


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

    def result(self, e: Emitter, accs: Accs) -> Value:
        return accs[1]


def _worst(dtype: DType, largest: bool) -> float:
    """The value that loses to all others when the largest (or smallest) is looked for."""
    if dtype.category == FLOAT:
        return -math.inf if largest else math.inf
    if dtype.category == BOOL:
        return 0 if largest else 1
    limits = np.iinfo(dtype.storage)
    return int(limits.min if largest else limits.max)


REDUCERS: dict[str, Reducer] = {
    "sum": _Sum(0, lambda e, a, b: e.add(a, b)),
    "prod": _Sum(1, lambda e, a, b: e.mul(a, b)),
    "max": _Extreme(True),
    "min": _Extreme(False),
    "any": _Logical(False),
    "all": _Logical(True),
    "argmax": _Position(True),
    "argmin": _Position(False),
}
