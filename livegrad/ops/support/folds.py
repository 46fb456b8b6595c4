"""Folds of NumPy arrays, accurate whatever their length: references must be able to judge kernels.

NumPy adds neighbours pairwise, but down a column one after the other: 60,000 float32 then lose four
digits. Here float32 is folded in float64, and float64 is laid out so that NumPy adds pairwise.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Axes = int | tuple[int, ...] | None


def widened(x: Array) -> Array:
    """`x` in double precision if it is of less; integers and bools as they are."""
    return x.astype(np.result_type(x.dtype, np.float64)) if x.dtype.kind in "fc" else x


def total(x: Array, axis: Axes = None, keepdims: bool = False) -> Array:
    """The sum over `axis` (all by default); of floats in double precision, not yet rounded.

    It begins at 0: that of -0 is 0.
    """
    if x.dtype.kind not in "fc":
        return np.asarray(np.sum(x, axis=axis, keepdims=keepdims))
    wide = np.result_type(x.dtype, np.float64)
    if x.dtype != wide:
        return np.asarray(np.sum(x, axis=axis, dtype=wide, keepdims=keepdims, initial=0))
    axes = _axes(axis, x.ndim)
    rest = [d for d in range(x.ndim) if d not in axes]
    length = prod([x.shape[d] for d in axes])
    rows = x.transpose(*rest, *axes).reshape(*[x.shape[d] for d in rest], length)
    # The x86 has a wider float still. Complex numbers do without: their folds run in programs too.
    dtype = np.longdouble if wide == np.float64 else wide
    sums = np.sum(np.ascontiguousarray(rows), axis=-1, dtype=dtype, initial=0).astype(wide)
    kept = [1 if d in axes else x.shape[d] for d in range(x.ndim)]
    return np.asarray(sums).reshape(kept) if keepdims else np.asarray(sums)


def average(x: Array, axis: Axes = None, keepdims: bool = False) -> Array:
    """The mean over `axis` (all by default), in double precision."""
    length = prod([x.shape[d] for d in _axes(axis, x.ndim)])
    return np.asarray(total(x, axis, keepdims) / float(length))


def product(x: Array, axis: Axes = None, keepdims: bool = False) -> Array:
    """The product over `axis` (all by default); of floats in double precision."""
    return np.asarray(np.prod(widened(x), axis=axis, keepdims=keepdims))


def squares_about_mean(x: Array, axis: Axes = None, keepdims: bool = False) -> Array:
    """The sum of `|x - mean| ** 2` over `axis` (all by default), in double precision."""
    axes = _axes(axis, x.ndim)
    length = float(prod([x.shape[d] for d in axes]))
    apart = widened(x) - average(x, axes, True)
    # The mean was rounded: what is left of it lies in all of them.
    left = np.abs(total(apart, axes, keepdims)) ** 2 / length
    return np.asarray(np.maximum(total(np.abs(apart) ** 2, axes, keepdims) - left, 0))


def sum_rows(x: Array) -> Array:
    """The sum of the rows of a matrix, in its dtype: by blocks of sixteen, as kernels add them."""
    height, width = x.shape
    whole = height // 16 * 16
    blocks = np.sum(x[:whole].reshape(-1, 16, width), axis=1)
    return (total(blocks, 0) + total(x[whole:], 0)).astype(x.dtype)


def _axes(axis: Axes, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, tuple) else (axis,)
    return tuple(sorted([d % ndim for d in given]))
