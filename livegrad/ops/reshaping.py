"""Reshaping: reshapes with other names, and bytes seen as another dtype."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.blame import as_items
from livegrad.graph.meta import meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import Handle, node_of, record
from livegrad.ops import samples as s
from livegrad.ops.movement import normal_dim, reshape, sizes_of

Tensor = Any
Array = np.ndarray[Any, Any]


def view_as(input: Tensor, other: Tensor) -> Tensor:
    """`input` with the shape of `other`."""
    return reshape(input, node_of(other).meta.shape)


def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """`input` with the shape of `other`."""
    return reshape(input, node_of(other).meta.shape)


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """`input` with the dims from `start_dim` to `end_dim` merged into one."""
    shape = node_of(input).meta.shape
    first = normal_dim("flatten", start_dim, len(shape))
    last = normal_dim("flatten", end_dim, len(shape))
    if not shape:
        return reshape(input, (1,))
    if first > last:
        raise RuntimeError(
            f"flatten: start_dim cannot come after end_dim; got {start_dim} and {end_dim}"
        )
    if first == last:
        return input
    return reshape(input, shape[:first] + (prod(shape[first : last + 1]),) + shape[last + 1 :])


def ravel(input: Tensor) -> Tensor:
    """All elements in row-major order in one dim."""
    return reshape(input, (-1,))


def unflatten(input: Tensor, dim: int, sizes: Any) -> Tensor:
    """`input` with one dim split into several; one size may be -1."""
    shape = node_of(input).meta.shape
    if not shape:
        raise IndexError(f"unflatten: Dimension specified as {dim} but tensor has no dimensions")
    d = normal_dim("unflatten", dim, len(shape))
    parts = sizes_of("unflatten", (sizes,))
    if not parts:
        raise RuntimeError("unflatten: sizes must be non-empty")
    known = prod([size for size in parts if size != -1])
    if parts.count(-1) == 1 and known and shape[d] % known == 0:
        parts = tuple([shape[d] // known if size == -1 else size for size in parts])
    if prod(parts) != shape[d]:
        raise RuntimeError(
            f"unflatten: provided sizes {list(parts)} don't multiply up to the size of dim {d} "
            f"({shape[d]}) in the input tensor"
        )
    return reshape(input, shape[:d] + parts + shape[d + 1 :])


# --------------------------------------------------------------------------- at least so many


def _of_each(name: str, function: Any, tensors: tuple[Any, ...]) -> Any:
    """`function` of one tensor, or a tuple of its values for several, also given as one list."""
    if len(tensors) == 1 and isinstance(tensors[0], Handle):
        return function(tensors[0])
    given = as_items(tensors[0], "Tensor") if len(tensors) == 1 else tensors
    for i, x in enumerate(given):
        if not isinstance(x, Handle):
            raise TypeError(f"{name}(): expected Tensor as element {i}, but got {type(x).__name__}")
    return tuple([function(x) for x in given])


def atleast_1d(*tensors: Any) -> Any:
    """The tensor with at least one dim; for several tensors, a tuple."""
    return _of_each("atleast_1d", _atleast_1d, tensors)


def atleast_2d(*tensors: Any) -> Any:
    """The tensor with at least two dims, new ones first; for several tensors, a tuple."""
    return _of_each("atleast_2d", _atleast_2d, tensors)


def atleast_3d(*tensors: Any) -> Any:
    """The tensor with at least three dims; for several tensors, a tuple."""
    return _of_each("atleast_3d", _atleast_3d, tensors)


def _atleast_1d(x: Tensor) -> Tensor:
    return reshape(x, (1,)) if not node_of(x).meta.ndim else x


def _atleast_2d(x: Tensor) -> Tensor:
    shape = node_of(x).meta.shape
    return x if len(shape) > 1 else reshape(x, (1, *(shape or (1,))))


def _atleast_3d(x: Tensor) -> Tensor:
    shape = node_of(x).meta.shape
    if len(shape) > 2:
        return x
    return reshape(x, (*shape, 1) if len(shape) == 2 else (1, *(shape or (1,)), 1))


# ------------------------------------------------------------------------- bytes as they are


def _stored(x: Array, dtype: DType) -> Array:
    """Values that were made fit for computing, in the bytes of their dtype again."""
    if dtype is dtypes.bfloat16:
        return dtypes.float32_to_bfloat16(x)
    return np.ascontiguousarray(x.astype(dtype.storage))


def _view_bits_ref(n: Any, x: Array) -> Array:
    stored = _stored(x, n.attrs[0]).reshape(-1).view(n.meta.dtype.storage).reshape(n.meta.shape)
    return dtypes.bfloat16_to_float32(stored) if n.meta.dtype is dtypes.bfloat16 else stored


VIEW_BITS = Op(
    "view_bits",
    "host",
    # The same bytes as numbers of another dtype: attrs (old dtype, new dtype).
    infer=lambda metas, attrs, shape: meta_of(shape, attrs[1]),
    ref=_view_bits_ref,
    saves="",
    samples=s.calls(
        lambda: s.Sample((s.integers(3, 4),), lambda x: view_bits(x, dtypes.int32), smooth=False),
        lambda: s.Sample((s.integers(3, 4),), lambda x: view_bits(x, dtypes.float64), smooth=False),
    ),
)


def view_bits(input: Tensor, dtype: DType) -> Tensor:
    """The bytes of `input` read as numbers of `dtype` (a copy); the last dim changes to fit."""
    meta = node_of(input).meta
    if dtype is meta.dtype:
        return input
    old, new = meta.dtype.itemsize, dtype.itemsize
    shape = meta.shape
    if old != new:
        if not shape:
            raise RuntimeError(
                "view: self.dim() cannot be 0 to view a tensor as a dtype of a different size"
            )
        if shape[-1] * old % new:
            raise RuntimeError(
                f"view: self.size(-1) must be divisible by {new // old} to view {meta.dtype.name} "
                f"as {dtype.name}; got {shape[-1]}"
            )
        shape = (*shape[:-1], shape[-1] * old // new)
    return record(VIEW_BITS, (input,), (meta.dtype, dtype), (), shape)
