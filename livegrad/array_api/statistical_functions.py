"""Folding axes: sums, extremes, averages, and questions about all elements."""

from __future__ import annotations

import math
from typing import Any

import livegrad as lg
from livegrad.dtypes import BOOL, INT, DType

Array = Any
Axis = int | tuple[int, ...] | None


def _axes(x: Array, axis: Axis) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(x.ndim))
    return (axis,) if isinstance(axis, int) else tuple(axis)


def _from_last(x: Array, axis: Axis) -> list[int]:
    axes = [a % x.ndim for a in _axes(x, axis)]
    axes.sort(reverse=True)
    return axes


def _sum_dtype(x: Array, dtype: DType | None) -> DType:
    """Integers are added in the widest of their kind."""
    if dtype is not None:
        return dtype
    if x.dtype.category == INT and not x.dtype.signed:
        return getattr(lg, "uint64", lg.int64)
    return lg.int64 if x.dtype.category in (INT, BOOL) else x.dtype


def sum(
    x: Array, /, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool = False
) -> Array:
    """The sum of elements."""
    wide = x.to(_sum_dtype(x, dtype))
    return lg.sum(wide, _axes(x, axis), keepdims).to(wide.dtype) if _axes(x, axis) else wide.clone()


def prod(
    x: Array, /, *, axis: Axis = None, dtype: DType | None = None, keepdims: bool = False
) -> Array:
    """The product of elements."""
    made = x.to(_sum_dtype(x, dtype))
    for along in _from_last(x, axis):
        made = made.prod(along, keepdims)
    return made.to(_sum_dtype(x, dtype))


def max(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The largest element."""
    return lg.amax(x, _axes(x, axis), keepdims) if _axes(x, axis) else x.clone()


def min(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The smallest element."""
    return lg.amin(x, _axes(x, axis), keepdims) if _axes(x, axis) else x.clone()


def mean(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """The average."""
    return lg.mean(x, _axes(x, axis), keepdims) if _axes(x, axis) else x.clone()


def var(
    x: Array, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Array:
    """The variance: the mean of squared distances from the mean."""
    axes = _axes(x, axis)
    count = math.prod([x.shape[a] for a in axes])
    center = x - mean(x, axis=axes, keepdims=True)
    total = sum(center * center, axis=axes, keepdims=keepdims)
    left = count - correction
    return total / (left if left > 0 else 0.0)


def std(
    x: Array, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Array:
    """The root of the variance."""
    return lg.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def all(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Whether all elements are true."""
    axes = _axes(x, axis)
    return lg.all(x.to(lg.bool), axes, keepdims) if axes else x.to(lg.bool, copy=True)


def any(x: Array, /, *, axis: Axis = None, keepdims: bool = False) -> Array:
    """Whether some element is true."""
    axes = _axes(x, axis)
    return lg.any(x.to(lg.bool), axes, keepdims) if axes else x.to(lg.bool, copy=True)


def _only_axis(name: str, x: Array, axis: int | None) -> int:
    if axis is None and x.ndim != 1:
        raise ValueError(f"{name}: axis is required unless there is exactly one dim")
    return 0 if axis is None else axis


def cumulative_sum(
    x: Array,
    /,
    *,
    axis: int | None = None,
    dtype: DType | None = None,
    include_initial: bool = False,
) -> Array:
    """Sums of all elements so far along an axis."""
    return _cumulative("cumulative_sum", lg.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Array,
    /,
    *,
    axis: int | None = None,
    dtype: DType | None = None,
    include_initial: bool = False,
) -> Array:
    """Products of all elements so far along an axis."""
    return _cumulative("cumulative_prod", lg.cumprod, 1, x, axis, dtype, include_initial)


def _cumulative(
    name: str,
    scan: Any,
    first: int,
    x: Array,
    axis: int | None,
    dtype: DType | None,
    include_initial: bool,
) -> Array:
    along = _only_axis(name, x, axis)
    wide = x.to(_sum_dtype(x, dtype))
    made = scan(wide, along)
    if not include_initial:
        return made.to(wide.dtype)
    shape = list(x.shape)
    shape[along] = 1
    return lg.cat([lg.full(shape, first, dtype=wide.dtype), made.to(wide.dtype)], along)


def diff(
    x: Array,
    /,
    n: int = 1,
    axis: int = -1,
    *,
    prepend: Array | None = None,
    append: Array | None = None,
) -> Array:
    """Differences of neighbours along an axis, `n` times over."""
    return lg.diff(x, n, axis, prepend=prepend, append=append)


__all__ = [
    "all", "any", "cumulative_prod", "cumulative_sum", "diff", "max", "mean", "min", "prod",
    "std", "sum", "var",
]  # fmt: skip
