"""Strided views: elements at even distances, in any number of dims, overlapping or not.

Both ops read through an index map and copy nothing. No value has strides of its own: `as_strided`
speaks of the elements of its input in row-major order, as if that were the memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.blame import as_index
from livegrad.graph.index import FIRST, Index, added, stepped
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import node_of, record, view as record_view
from livegrad.ops import samples as s
from livegrad.ops.elementwise import add, mul
from livegrad.ops.generate import counting, filled, zeros_like
from livegrad.ops.index_writing import INDEX_ADD, INDEX_PUT
from livegrad.ops.movement import PERMUTE, _reshape_to, normal_dim, reshape, sizes_of, whole

Tensor = Any
Array = np.ndarray[Any, Any]
Attrs = tuple[Any, ...]
Sizes = tuple[int, ...]


# --------------------------------------------------------------------------------- as_strided


def _strided_view(n: Any, index: Index) -> Index:
    (strides,), (offset,) = n.attrs, n.args
    at = stepped(FIRST, 1, offset)
    for along, stride in zip(index, strides, strict=True):
        at = added(at, stepped(along, stride, 0))
    return (at,)


def _strided_ref(n: Any, x: Array) -> Array:
    return np.asarray(x[_grid(n.meta.shape, n.attrs[0]) + n.args[0]])


def _grid(shape: Shape, strides: Sizes) -> Array:
    """Places of the elements, relative to the first."""
    grid = np.zeros(shape, np.int64)
    for d, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        along = [1] * len(shape)
        along[d] = size
        grid += (np.arange(size) * stride).reshape(along)
    return grid


def _places(shape: Shape, strides: Sizes, offset: int) -> Tensor:
    """The same as a tensor."""
    at = add(filled((1,) * len(shape), 0, dtypes.int64), offset)
    for d, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        along = tuple([size if i == d else 1 for i in range(len(shape))])
        at = add(at, mul(_reshape_to(counting(size), along), stride))
    return at


def _strided_write(part: Tensor, value: Tensor, attrs: Attrs, args: Attrs) -> Tensor:
    places = _places(node_of(value).meta.shape, attrs[0], args[0])
    return record(INDEX_PUT, (part, places, value), (0,))


def _strided_grad(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    places = _places(node_of(g).meta.shape, y._node.attrs[0], y._node.args[0])
    return record(INDEX_ADD, (zeros_like(x), places, g), (0,))


AS_STRIDED: Op = Op(
    "as_strided",
    "movement",
    # Element (i, j, …) is element offset + i * strides[0] + j * strides[1] + … of a vector:
    # attrs (strides,), args (offset,).
    infer=lambda metas, attrs, shape: meta_of(shape, metas[0].dtype),
    ref=_strided_ref,
    view=_strided_view,
    write=_strided_write,
    grads=(_strided_grad,),
    saves="",
    samples=s.calls(
        lambda: s.Sample((s.uniform(4, 3),), lambda x: as_strided(x, (2, 2), (1, 2), 3)),
        lambda: s.Sample((s.uniform(9),), lambda x: as_strided(x, (3, 4), (2, 1))),
        lambda: s.Sample((s.uniform(5),), lambda x: as_strided(x, (2, 3), (0, 1), 1)),
        lambda: s.Sample((s.uniform(2, 2),), lambda x: as_strided(x, (), (), 2)),
        lambda: s.Sample((s.uniform(4),), lambda x: as_strided(x, (0, 3), (9, 9))),
    ),
)


def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """Elements of `input`, seen as a vector, at `storage_offset` and steps of `stride`: a view."""
    shape, strides, offset = _checked("as_strided", input, size, stride, storage_offset)
    flat = reshape(input, (node_of(input).meta.numel,))
    return record_view(AS_STRIDED, flat, (strides,), (offset,), shape)


def as_strided_scatter(
    input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None = None
) -> Tensor:
    """A copy of `input` with `src` where `as_strided` would look."""
    name = "as_strided_scatter"
    shape, strides, offset = _checked(name, input, size, stride, storage_offset)
    meta, given = node_of(input).meta, node_of(src).meta
    if given.shape != shape:
        raise RuntimeError(
            f"{name}: expected src to have a size equal to the slice of self; got src "
            f"{list(given.shape)}, slice {list(shape)}"
        )
    flat = _reshape_to(input, (meta.numel,))
    return _reshape_to(_strided_write(flat, src, (strides,), (offset,)), meta.shape)


def _checked(
    name: str, input: Tensor, size: Any, stride: Any, storage_offset: int | None
) -> tuple[Shape, Sizes, int]:
    """Sizes, strides and offset, if they stay inside `input`."""
    shape, strides = sizes_of(name, (size,)), sizes_of(name, (stride,))
    offset = 0 if storage_offset is None else as_index(storage_offset)
    if len(shape) != len(strides):
        raise RuntimeError(
            f"{name}: mismatch in length of strides and shape; got {len(strides)} and {len(shape)}"
        )
    if any(x < 0 for x in (*shape, *strides, offset)):
        raise RuntimeError(
            f"{name}: negative sizes, strides or offsets are not supported; got size {shape}, "
            f"stride {strides}, offset {offset}"
        )
    numel = node_of(input).meta.numel
    last = offset + sum([(n - 1) * step for n, step in zip(shape, strides, strict=True)])
    if 0 not in shape and last >= numel:
        raise RuntimeError(
            f"{name}: sizes {list(shape)}, strides {list(strides)}, storage offset {offset} "
            f"requiring {last + 1} elements are out of bounds for a tensor of {numel}"
        )
    return shape, strides, offset


# ------------------------------------------------------------------------------------- unfold


def _unfold_infer(metas: tuple[Meta, ...], attrs: Attrs, shape: Any) -> Meta:
    (x,) = metas
    dim, size, step = attrs
    count = (x.shape[dim] - size) // step + 1
    return meta_of((*x.shape[:dim], count, *x.shape[dim + 1 :], size), x.dtype)


def _unfold_view(n: Any, index: Index) -> Index:
    dim, _, step = n.attrs
    *rest, place = index
    rest[dim] = added(stepped(rest[dim], step, 0), place)
    return tuple(rest)


def _unfold_ref(n: Any, x: Array) -> Array:
    dim, size, step = n.attrs
    count = n.meta.shape[dim]
    windows = np.take(x, np.arange(count)[:, None] * step + np.arange(size), dim)
    return np.moveaxis(windows, dim + 1, -1)


def _window_places(x: Tensor, attrs: Attrs, value: Tensor) -> tuple[Tensor, Tensor]:
    """Where windows lie along their dim, and the windows with their last dim beside it."""
    dim, size, step = attrs
    count = node_of(value).meta.shape[dim]
    order = list(range(node_of(x).meta.ndim))
    order.insert(dim + 1, len(order))
    windows = record(PERMUTE, (value,), (tuple(order),))
    starts = _reshape_to(mul(counting(count), step), (count, 1))
    return add(starts, counting(size)), windows


def _unfold_write(part: Tensor, value: Tensor, attrs: Attrs, args: Attrs) -> Tensor:
    return record(INDEX_PUT, (part, *_window_places(part, attrs, value)), attrs[:1])


def _unfold_grad(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    attrs = y._node.attrs
    return record(INDEX_ADD, (zeros_like(x), *_window_places(x, attrs, g)), attrs[:1])


UNFOLD: Op = Op(
    "unfold",
    "movement",
    # Element (…, i, …, k) is element i * step + k along a dim: attrs (dim, size, step).
    infer=_unfold_infer,
    ref=_unfold_ref,
    view=_unfold_view,
    write=_unfold_write,
    grads=(_unfold_grad,),
    saves="",
    samples=s.calls(
        lambda: s.Sample((s.uniform(2, 7),), lambda x: unfold(x, 1, 3, 2)),
        lambda: s.Sample((s.uniform(5, 2),), lambda x: unfold(x, 0, 2, 1)),
        lambda: s.Sample((s.uniform(2, 7),), lambda x: unfold(x, -1, 2, 4)),
        lambda: s.Sample((s.uniform(),), lambda x: unfold(x, 0, 1, 1)),
    ),
)


def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of `size`, every `step` elements along a dim, as a new last dim: a view."""
    meta = node_of(input).meta
    d = normal_dim("unfold", dimension, meta.ndim)
    length = meta.shape[d] if meta.ndim else 1
    size, step = whole("unfold", "size", size), whole("unfold", "step", step)
    if step <= 0:
        raise RuntimeError(f"unfold: step is {step} but must be > 0")
    if size < 0:
        raise RuntimeError(f"unfold: size is {size} but must be >= 0")
    if size > length:
        raise RuntimeError(
            f"unfold: maximum size for tensor at dimension {d} is {length} but size is {size}"
        )
    if meta.ndim:
        return record_view(UNFOLD, input, (d, size, step))
    return reshape(input, (1,)) if size else as_strided(input, (0,), (1,))
