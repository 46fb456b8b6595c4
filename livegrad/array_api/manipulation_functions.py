"""Shapes, order, parts."""

from __future__ import annotations

from typing import Any, NamedTuple

import livegrad as lg
from livegrad.array_api.dtype_functions import promote
from livegrad.array_api.elementwise_functions import ANY, pair
from livegrad.array_api.statistical_functions import sum as total
from livegrad.dtypes import DType

Array = Any
Axis = int | tuple[int, ...]


def _promoted(arrays: Any) -> list[Array]:
    arrays = list(arrays)
    dtype: DType = arrays[0].dtype
    for x in arrays[1:]:
        dtype = promote(dtype, x.dtype)
    return [x.to(dtype) for x in arrays]


def concat(arrays: Any, /, *, axis: int | None = 0) -> Array:
    """Arrays one after another; flattened before if `axis` is None."""
    parts = _promoted(arrays)
    if axis is None:
        return lg.cat([x.reshape(-1) for x in parts])
    return lg.cat(parts, axis)


def stack(arrays: Any, /, *, axis: int = 0) -> Array:
    """Arrays side by side along a new axis."""
    return lg.stack(_promoted(arrays), axis)


def unstack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The parts along an axis."""
    return tuple(lg.unbind(x, axis))


def expand_dims(x: Array, /, axis: int = 0) -> Array:
    """With a new axis of size 1."""
    if not -x.ndim - 1 <= axis <= x.ndim:
        raise IndexError(f"expand_dims: axis {axis} is out of range for {x.ndim} dims")
    return lg.unsqueeze(x, axis)


def squeeze(x: Array, /, axis: Axis) -> Array:
    """Without the given axes, which must have size 1."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    for a in axes:
        if x.shape[a] != 1:
            raise ValueError(f"squeeze: axis {a} has size {x.shape[a]}; expected 1")
    return lg.squeeze(x, axes)


def flip(x: Array, /, *, axis: Axis | None = None) -> Array:
    """In the opposite order along axes, by default all."""
    if axis is None:
        axis = tuple(range(x.ndim))
    return lg.flip(x, (axis,) if isinstance(axis, int) else axis)


def moveaxis(x: Array, source: Axis, destination: Axis, /) -> Array:
    """With axes moved to other places."""
    return lg.movedim(x, source, destination)


def permute_dims(x: Array, /, axes: tuple[int, ...]) -> Array:
    """With the axes in another order."""
    return lg.permute(x, axes)


def repeat(x: Array, repeats: Any, /, *, axis: int | None = None) -> Array:
    """Each element several times."""
    if isinstance(repeats, lg.Tensor):
        repeats = repeats.to(lg.int64)
    return lg.repeat_interleave(x, repeats, axis)


def tile(x: Array, repetitions: tuple[int, ...], /) -> Array:
    """The whole array several times."""
    return lg.tile(x, tuple(repetitions))


def reshape(x: Array, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Array:
    """The same elements in another shape."""
    made = lg.reshape(x, shape)
    return made.clone() if copy else made


def roll(x: Array, /, shift: Axis, *, axis: Axis | None = None) -> Array:
    """Elements moved along axes; what leaves at one end comes in at the other."""
    return lg.roll(x, shift, axis)


def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Array:
    """The elements at `indices` along an axis; negative ones count from the end."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError("take: axis is required for an array of more than one dim")
        axis = 0
    if not -x.ndim <= axis < x.ndim:
        raise IndexError(f"take: axis {axis} is out of bounds for an array of {x.ndim} dims")
    return x[(slice(None),) * (axis % x.ndim) + (indices.to(lg.int64),)]


def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Array:
    """For each place the element that an index there names along an axis."""
    return lg.take_along_dim(x, indices.to(lg.int64), axis)


# ------------------------------------------------------------------------- searching, sorting


def argmax(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """Where the largest element is."""
    return lg.argmax(x, axis, keepdims)


def argmin(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """Where the smallest element is."""
    return lg.argmin(x, axis, keepdims)


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Array:
    """Which elements of x1 are in x2."""
    return lg.isin(x1, x2, invert=invert)


def count_nonzero(x: Array, /, *, axis: Axis | None = None, keepdims: bool = False) -> Array:
    """How many elements are not zero."""
    return total((x != 0).to(lg.int64), axis=axis, keepdims=keepdims)


def nonzero(x: Array, /) -> tuple[Array, ...]:
    """Where elements are not zero: one array of indices per axis."""
    if x.ndim == 0:
        raise ValueError("nonzero: an array without dims is not allowed")
    return tuple(lg.nonzero(x, as_tuple=True))


def searchsorted(
    x1: Array, x2: Array, /, *, side: str = "left", sorter: Array | None = None
) -> Array:
    """Where elements of x2 would have to be put into the sorted x1."""
    if sorter is not None:
        x1 = lg.index_select(x1, 0, sorter)
    dtype = promote(x1.dtype, x2.dtype)
    return lg.searchsorted(x1.to(dtype), x2.to(dtype).contiguous(), right=side == "right")


def where(condition: Array, x1: Any = None, x2: Any = None, /) -> Any:
    """x1 where the condition holds, else x2; alone, the places where it holds."""
    if x1 is None and x2 is None:  # not in the standard, but scikit-learn's curves use it
        return nonzero(condition)
    return lg.where(condition, *pair("where", x1, x2, ANY))


def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """Elements in order along an axis."""
    return lg.sort(x, axis, descending).values


def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The indices that put elements in order along an axis."""
    return lg.argsort(x, axis, descending, stable=True)


# --------------------------------------------------------------------------------------- sets


class UniqueAll(NamedTuple):
    """Distinct values, where each is first, which each element is, how often each is there."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """Distinct values, and how often each is there."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """Distinct values, and which of them each element is."""

    values: Array
    inverse_indices: Array


def _unique(x: Array) -> UniqueAll:
    import numpy as np

    # NaN is distinct from NaN, here and in the standard.
    found = np.unique(
        np.asarray(x.detach()), return_index=True, return_inverse=True, return_counts=True,
        equal_nan=False,
    )  # fmt: skip
    values, indices, inverse, counts = [lg.tensor(part) for part in found]
    return UniqueAll(values, indices, inverse.reshape(x.shape), counts)


def unique_all(x: Array, /) -> UniqueAll:
    """Everything about distinct values."""
    return _unique(x)


def unique_counts(x: Array, /) -> UniqueCounts:
    """Distinct values, and how often each is there."""
    found = _unique(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Array, /) -> UniqueInverse:
    """Distinct values, and which of them each element is."""
    found = _unique(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Array, /) -> Array:
    """Distinct values."""
    return _unique(x).values
