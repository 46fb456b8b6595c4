"""Reshaping: views of another shape, reshapes with other names, bytes seen as another dtype."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.blame import as_items
from livegrad.graph.geometry import offset_of
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.layout import Strides
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.graph.state import LOCAL
from livegrad.graph.views import remember_view, view as record_view, view_found
from livegrad.ops.bookkeeping.in_place import contiguous
from livegrad.ops.shaping.movement import (
    RESHAPE,
    are_ints,
    is_viewable,
    normal_dim,
    regrouping,
    reshape,
    resolved_shape,
    sizes_of,
    unsqueeze,
)
from livegrad.ops.support import samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]


def view(input: Tensor, *shape: Any, size: Any = None, dtype: Any = None) -> Tensor:
    """A view of `input` with another shape, or of its bytes as another dtype.

    Args:
        shape, size: the sizes, as numbers or as one tuple; one may be -1. Or a dtype.

    Example:
        >>> x = lg.arange(4)
        >>> x.view(2, 2)[0].zero_()
        tensor([0, 0])
        >>> x
        tensor([0, 0, 2, 3])
    """
    named = size is dtype is None and are_ints(shape)
    found = view_found(RESHAPE, shape, input) if named else None
    if found is not None:
        return found
    if dtype is not None or (len(shape) == 1 and isinstance(shape[0], DType)):
        return view_bits(input, shape[0] if dtype is None else dtype)
    meta = node_of(input).meta
    wanted = resolved_shape(meta, sizes_of("view", shape, size))
    if not is_viewable(meta, wanted):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one "
            "dimension spans across two contiguous subspaces). Use .reshape(...) instead."
        )
    out = record_view(RESHAPE, input, (regrouping(meta.shape, wanted),), (), wanted)
    return remember_view(RESHAPE, shape, input, out) if named else out


def view_as(input: Tensor, other: Tensor) -> Tensor:
    """A view of `input` with the shape of `other`.

    Example:
        >>> lg.arange(4).view_as(lg.zeros(2, 2))
        tensor([[0, 1],
                [2, 3]])
    """
    return view(input, node_of(other).meta.shape)


def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """`input` with the shape of `other`."""
    return reshape(input, node_of(other).meta.shape)


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """`input` with the dims from `start_dim` to `end_dim` merged into one.

    Args:
        input: a tensor.
        start_dim: the first that is merged.
        end_dim: the last one.

    Example:
        >>> lg.flatten(lg.ones(8, 3, 4), start_dim=1).shape
        livegrad.Size([8, 12])
    """
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
    return view(contiguous(input), (-1,))


def unflatten(input: Tensor, dim: int, sizes: Any) -> Tensor:
    """`input` with one dim split into several; one size may be -1."""
    shape = node_of(input).meta.shape
    d = normal_dim("unflatten", dim, len(shape))
    if not shape:
        raise RuntimeError(f"unflatten: Dimension specified as {dim} but tensor has no dimensions")
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
    ndim = node_of(x).meta.ndim
    return x if ndim > 1 else unsqueeze(_atleast_1d(x), 0)


def _atleast_3d(x: Tensor) -> Tensor:
    ndim = node_of(x).meta.ndim
    return x if ndim > 2 else unsqueeze(_atleast_2d(x), -1)


# ------------------------------------------------------------------------- bytes as they are


def _stored(x: Array, dtype: DType) -> Array:
    """Values that were made fit for computing, in the bytes of their dtype again."""
    if dtype is dtypes.bfloat16:
        return dtypes.float32_to_bfloat16(x)
    return np.ascontiguousarray(x.astype(dtype.storage))


def _view_bits_ref(n: Any, x: Array) -> Array:
    stored = _stored(x, n.attrs[0]).reshape(-1).view(n.meta.dtype.storage).reshape(n.meta.shape)
    return dtypes.bfloat16_to_float32(stored) if n.meta.dtype is dtypes.bfloat16 else stored


def _bits_layout(metas: tuple[Meta, ...], attrs: tuple[Any, ...], meta: Meta) -> Strides | None:
    old, new = [dtype.itemsize for dtype in attrs]
    strides = metas[0].stride()
    if old == new:
        return strides
    return (*[step * old // new for step in strides[:-1]], 1)


VIEW_BITS: Op = Op(
    "view_bits",
    "host",
    # The same bytes as numbers of another dtype: attrs (old dtype, new dtype).
    infer=lambda metas, attrs, shape: meta_of(shape, attrs[1]),
    ref=_view_bits_ref,
    write=lambda part, value, attrs, args: record(
        VIEW_BITS, (value,), attrs[::-1], (), node_of(part).meta.shape
    ),
    layout=_bits_layout,
    offset=lambda before, meta, attrs, args: before * attrs[0].itemsize // attrs[1].itemsize,
    saves="",
    samples=s.calls(
        lambda: s.Sample((s.integers(3, 4),), lambda x: view_bits(x, dtypes.int32), smooth=False),
        lambda: s.Sample((s.integers(3, 4),), lambda x: view_bits(x, dtypes.float64), smooth=False),
    ),
)


def view_bits(input: Tensor, dtype: DType) -> Tensor:
    """The bytes of `input` as numbers of `dtype`: a view; the last dim changes to fit.

    As in PyTorch, it is one of inference mode if it is made there, whatever `input` is.
    """
    meta = node_of(input).meta
    dtype = dtypes.as_dtype(dtype)
    old, new = meta.dtype.itemsize, dtype.itemsize
    shape = meta.shape
    if old != new:
        shape = _refitted(input, old, new)
    out = record_view(VIEW_BITS, input, (meta.dtype, dtype), (), shape)
    out._node.spent = LOCAL.state.inference
    return out


def _refitted(x: Tensor, old: int, new: int) -> Shape:
    """The shape of a view with elements of `new` bytes, if there can be one."""
    meta = node_of(x).meta
    if not meta.ndim:
        raise RuntimeError("self.dim() cannot be 0 to view a tensor as a dtype of a different size")
    strides = meta.stride()
    if strides[-1] != 1:
        raise RuntimeError(
            "self.stride(-1) must be 1 to view a tensor as a dtype of a different size; got "
            f"{strides[-1]}"
        )
    if old < new:
        ratio = new // old
        if meta.shape[-1] % ratio:
            raise RuntimeError(
                f"self.size(-1) must be divisible by {ratio} to view as a dtype of {new} bytes; "
                f"got {meta.shape[-1]}"
            )
        if offset_of(x) % ratio or any([step % ratio for step in strides[:-1]]):
            raise RuntimeError(
                f"self.storage_offset() and strides must be divisible by {ratio} to view as a "
                f"dtype of {new} bytes; got {offset_of(x)} and {strides}"
            )
    return (*meta.shape[:-1], meta.shape[-1] * old // new)
