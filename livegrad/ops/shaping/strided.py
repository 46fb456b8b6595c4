"""Strided views: elements at even distances, in any number of dims, overlapping or not.

Both ops read through an index map and copy nothing. What is written to views whose elements may
overlap is written element by element, in the order PyTorch goes in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.blame import as_index
from livegrad.graph.geometry import (
    dims_in_memory,
    is_its_storage,
    offset_of,
    path_geometry,
    places,
    root_of,
    rounds_of,
    storage_nbytes,
)
from livegrad.graph.handle import (
    Step,
    Writing,
    is_detached,
    new_share,
    node_of,
    path_of,
    share_of,
    shows_conjugates,
    wrap,
)
from livegrad.graph.index import FIRST, Index, added, stepped
from livegrad.graph.layout import is_dense, order_of, span
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.node import Interior, Node, is_in_vain
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.graph.state import LOCAL
from livegrad.graph.views import require_in_vain, view as record_view
from livegrad.graph.writes import check_expanded, check_writable, rebind
from livegrad.ops.bookkeeping.in_place import placed_like
from livegrad.ops.elementwise.arithmetic import add, cast, div, fitted, mul
from livegrad.ops.elementwise.conjugate import conj, conj_view
from livegrad.ops.making.constants import from_array
from livegrad.ops.making.generate import counting, filled, zeros_like
from livegrad.ops.picking.gathering import INDEX_SELECT
from livegrad.ops.picking.index_writing import INDEX_ADD, INDEX_PUT
from livegrad.ops.shaping.joining import padded
from livegrad.ops.shaping.movement import (
    INDEX,
    PERMUTE,
    detach,
    inverse_order,
    normal_dim,
    permute,
    reshape,
    reshape_to,
    sizes_of,
    whole,
)
from livegrad.ops.shaping.reshaping import VIEW_BITS, view
from livegrad.ops.support import batched, samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

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
    return np.asarray(x[places(n.meta.shape, n.attrs[0], n.args[0])])


def _places(shape: Shape, strides: Sizes, offset: int) -> Tensor:
    """The place of each element, as a tensor."""
    at = add(filled((1,) * len(shape), 0, dtypes.int64), offset)
    for d, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        along = tuple([size if i == d else 1 for i in range(len(shape))])
        at = add(at, mul(reshape_to(counting(size), along), stride))
    return at


def _strided_grad(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    at = _places(node_of(g).meta.shape, y._node.attrs[0], y._node.args[0])
    return record(INDEX_ADD, (zeros_like(x), at, g), (0,))


AS_STRIDED: Op = Op(
    "as_strided",
    "movement",
    # Element (i, j, …) is element offset + i * strides[0] + j * strides[1] + … of a vector:
    # attrs (strides,), args (offset,).
    infer=lambda metas, attrs, shape: meta_of(shape, metas[0].dtype),
    ref=_strided_ref,
    view=_strided_view,
    grads=(_strided_grad,),
    layout=lambda metas, attrs, meta: attrs[0],
    offset=lambda before, meta, attrs, args: before + args[0],
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
    """Elements of the storage of `input`, at `storage_offset` and steps of `stride`: a view."""
    shape, strides, offset = _checked("as_strided", input, size, stride, storage_offset)
    own, begin = node_of(input).meta, offset_of(input)
    end = begin + span(own.shape, own.stride())
    if (
        begin <= offset
        and offset + span(shape, strides) <= end
        and is_dense(own.shape, own.stride())
    ):
        return record_view(AS_STRIDED, in_memory(input), (strides,), (offset - begin,), shape)
    memory = in_memory(whole_of(input))
    if node_of(memory).meta.dtype is not own.dtype:
        memory = view(memory, own.dtype)
    if shows_conjugates(path_of(input)):
        memory = conj_view(memory)
    out = record_view(AS_STRIDED, memory, (strides,), (offset,), shape)
    shown, share = input._share, share_of(out)
    if shown is not None:
        share.count_with(shown.apart)
        if shown.made is not None:  # as it was, so is what is shown of its storage
            share.mark_made(shown.made)
        if shown.is_detached():
            share.root = _root_for(input)
            if not LOCAL.state.grad:
                require_in_vain(node_of(out), share)
    if LOCAL.state.grad and not _goes_on(out) and _goes_on(input):
        _give_history(out, input, memory)
    return out


def _goes_on(x: Tensor) -> bool:
    """Whether a gradient of `x` has somewhere to go."""
    to = node_of(x).grad_to
    return to is not None and not is_in_vain(to)


def _give_history(out: Tensor, x: Tensor, memory: Tensor) -> None:
    """Has gradients flow from a view of storage to those of its elements that `x` has as well."""
    meta = node_of(x).meta
    at = places(meta.shape, meta.stride(), offset_of(x)).reshape(-1)
    vector = _put(wrap(node_of(memory)), x, np.arange(len(at)), at)
    if len(np.unique(at)) < len(at):
        _share_gradient(vector, node_of(x), at)
    share = share_of(out)
    _, attrs, args, shape = share.path[-1]
    out._node = record(AS_STRIDED, (vector,), attrs, args, shape)._node
    share.root = _root_for(x)


def _root_for(x: Tensor) -> Tensor:
    """What a view of the storage of `x` that shares its history is a view of."""
    return x if x._share is None or x._share.root is None else x._share.root


def _share_gradient(vector: Tensor, x: Node, at: Array) -> None:
    """Divides the gradient of each place of a vector among the elements of `x` that lie there."""
    counts = np.bincount(at)[at].reshape(x.meta.shape)

    def pull(g: Tensor) -> list[tuple[Node, Tensor]]:
        each = reshape_to(record(INDEX_SELECT, (g, from_array(at)), (0,)), x.meta.shape)
        return [(x, div(each, cast(from_array(counts), node_of(g).meta.dtype)))]

    vector._node.grad_to = Interior((x,), pull)


def whole_of(x: Tensor) -> Tensor:
    """All of the storage of `x` as a tensor that shares it; without history if `x` was detached."""
    if is_its_storage(x):
        return x
    cell, path = root_of(x)
    whole = wrap(cell._node)
    whole._share = new_share(cell, (), cell.version)
    return detach(whole) if is_detached(path) else whole


def in_memory(x: Tensor) -> Tensor:
    """A dense tensor as a view of one dim, in the order its elements have in memory."""
    meta = node_of(x).meta
    order = dims_in_memory(meta)
    return view(x if order is None else permute(x, order), (meta.numel,))


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
    flat = reshape_to(input, (meta.numel,))
    written = _written(flat, src, places(shape, strides, offset), strides)
    return placed_like(reshape_to(written, meta.shape), input)


# ------------------------------------------------------------------------ writes that may overlap


_NOTHING = np.zeros(0, np.int64)


def _written(flat: Tensor, value: Tensor, grid: Array, strides: Sizes) -> Tensor:
    """A vector after `value` was written to the places in `grid`, in the order of `strides`."""
    rounds = rounds_of(grid, [strides, node_of(value).meta.stride()])
    for elements, at in rounds or [(_NOTHING, _NOTHING)]:  # where nothing is written, a history is
        flat = _put(flat, value, elements, at)
    return flat


def _put(flat: Tensor, value: Tensor, elements: Array, at: Array) -> Tensor:
    """A vector after some elements of `value` were written, each to a place of its own."""
    chosen = reshape_to(value, (node_of(value).meta.numel,))
    if len(elements) != node_of(chosen).meta.numel or (np.diff(elements) != 1).any():
        chosen = record(INDEX_SELECT, (chosen, from_array(elements)), (0,))
    return record(INDEX_PUT, (flat, from_array(at), chosen), (0,))


def write_strided(whole: Tensor, path: Sequence[Step], value: Tensor) -> Tensor:
    """The whole after `value` was written to the part that `path` shows, which may overlap."""
    meta, offset = path_geometry(node_of(whole).meta, path)
    flat = _as_vector(whole, meta.dtype)
    grid = places(meta.shape, meta.stride(), offset)
    value = _as_it_lies(value, path, grid)
    return _as_whole(_written(flat, value, grid, meta.stride()), node_of(whole).meta)


def _as_it_lies(value: Tensor, path: Sequence[Step], grid: Array) -> Tensor:
    """What is to be written through a path, to the places in `grid`, as it is to lie in memory."""
    if not shows_conjugates(path):
        return value
    dtype = node_of(value).meta.dtype
    if dtype.is_complex:
        return conj(value)
    signs = np.where(grid % 2 == 1, -1, 1)  # parts of complex numbers: each second is imaginary
    return mul(value, cast(from_array(signs), dtype))


Writing.write_strided = write_strided


def element_by_element(x: Tensor, compute: Callable[[], Tensor]) -> Tensor:
    """Writes what `compute` makes of `x`, whose elements overlap, as PyTorch does it.

    An element is computed from what is in its place by then, perhaps written by another; but all
    of them at once if that is done in another dtype, or with conjugates of what is there.
    """
    meta = node_of(x).meta
    made = compute()
    whole, path = whole_of(x), path_of(x)
    grid = places(meta.shape, meta.stride(), offset_of(x))
    turned = shows_conjugates(path) and (meta.dtype.is_complex or bool((grid % 2).any()))
    at_once = turned or _is_wider(_computed_in(made), meta.dtype)
    rounds = rounds_of(grid, [meta.stride()])
    for number, (elements, at) in enumerate(rounds or [(_NOTHING, _NOTHING)]):
        value = fitted(compute() if number and not at_once else made, meta)
        if not number:
            check_writable(x, node_of(value).grad_to is not None)
        now = wrap(node_of(whole))
        value = _as_it_lies(value, path, grid)
        rebind(
            whole, _as_whole(_put(_as_vector(now, meta.dtype), value, elements, at), now._node.meta)
        )
        if number:  # all of it is one write
            share_of(whole).cell.wrote_silently()
        elif x._share is not None:
            x._share.wrote()
    if x._share is not None:
        x._share.seen = -1  # a view of what was written last, not of what it was computed from
    return x


def _computed_in(made: Tensor) -> DType:
    """The dtype in which a value was computed, before it was cast or compared."""
    node = node_of(made)
    while node.op.name == "cast" and node.inputs:
        node = node.inputs[0]
    computed: DType = node.attrs[0] if node.op.kind == "elementwise" else node.meta.dtype
    return computed


def _is_wider(dtype: DType, own: DType) -> bool:
    return dtype is not own and dtypes.promote_types(dtype, own) is dtype


def write_changed(x: Tensor, value: Tensor) -> Tensor:
    """Writes those elements of `value` that differ from what is there, of which several may lie in
    one place. They are looked at, and written, now."""
    check_expanded(x, node_of(value).grad_to is not None)
    meta = node_of(x).meta
    old, new = [_bytes_of(t._values("a write to elements that overlap")) for t in (x, value)]
    order = np.arange(meta.numel).reshape(meta.shape)
    order = order.transpose(order_of(meta.shape, [meta.stride()])[::-1]).reshape(-1)
    order = order[(old != new).any(1)[order]]
    at = places(meta.shape, meta.stride(), offset_of(x)).reshape(-1)
    last = {at[element]: element for element in order}  # the last one written to a place stays
    changed = np.array([element for element in range(len(at)) if at[element] in last], np.int64)
    seen = np.array([last[at[element]] for element in changed], np.int64)
    flat = reshape_to(wrap(node_of(x)), (meta.numel,))
    return rebind(x, reshape_to(_put(flat, value, seen, changed), meta.shape), expanded=True)


def _bytes_of(array: Array) -> Array:
    """The bytes of each element, by which NaN is what it is."""
    flat = np.ascontiguousarray(array).reshape(-1, 1)
    return flat.view(np.uint8)


def add_to_places(x: Tensor, value: Tensor) -> Tensor:
    """Adds the elements of `value` to the places of those of `x`, of which several may be one."""
    check_expanded(x, node_of(value).grad_to is not None)
    meta = node_of(x).meta
    whole = whole_of(x)
    flat = _as_vector(wrap(node_of(whole)), meta.dtype)
    grid = places(meta.shape, meta.stride(), offset_of(x))
    part = reshape_to(_as_it_lies(value, path_of(x), grid), (meta.numel,))
    added = record(INDEX_ADD, (flat, from_array(grid.reshape(-1)), part), (0,))
    rebind(whole, _as_whole(added, node_of(whole).meta))
    if x._share is not None:
        x._share.wrote()
    return x


def _as_vector(whole: Tensor, dtype: DType) -> Tensor:
    """The elements of a whole storage in the order they have in memory, as those of `dtype`."""
    meta = node_of(whole).meta
    order = dims_in_memory(meta)
    ordered = whole if order is None else record(PERMUTE, (whole,), (order,))
    return _as_bits(reshape_to(ordered, (meta.numel,)), dtype)


def _as_whole(flat: Tensor, meta: Meta) -> Tensor:
    """What `_as_vector` took apart."""
    flat = _as_bits(flat, meta.dtype)
    if node_of(flat).meta.numel > meta.numel:
        flat = record(INDEX, (flat,), ((("slice", 1),),), (0,), (meta.numel,))
    order = dims_in_memory(meta)
    if order is None:
        return reshape_to(flat, meta.shape)
    ordered = reshape_to(flat, tuple([meta.shape[d] for d in order]))
    return record(PERMUTE, (ordered,), (inverse_order(order),))


def _as_bits(flat: Tensor, dtype: DType) -> Tensor:
    """The bytes of a vector as elements of `dtype`: what is written may be of another.

    The last one may have more bytes than there are.
    """
    meta = node_of(flat).meta
    if meta.dtype is dtype:
        return flat
    count = -(-meta.nbytes // dtype.itemsize)
    flat = padded(flat, 0, 0, count * dtype.itemsize // meta.dtype.itemsize)
    return record(VIEW_BITS, (flat,), (meta.dtype, dtype), (), (count,))


def _checked(
    name: str, input: Tensor, size: Any, stride: Any, storage_offset: int | None
) -> tuple[Shape, Sizes, int]:
    """Sizes, strides and offset, if they stay inside `input`."""
    shape, strides = sizes_of(name, (size,)), sizes_of(name, (stride,))
    offset = offset_of(input) if storage_offset is None else as_index(storage_offset)
    if len(shape) != len(strides):
        raise RuntimeError(
            f"{name}: mismatch in length of strides and shape; got {len(strides)} and {len(shape)}"
        )
    if any(x < 0 for x in (*shape, *strides, offset)):
        raise RuntimeError(
            f"{name}: negative sizes, strides or offsets are not supported; got size {shape}, "
            f"stride {strides}, offset {offset}"
        )
    numel = storage_nbytes(input) // node_of(input).meta.dtype.itemsize
    last = offset + sum([(n - 1) * step for n, step in zip(shape, strides, strict=True)])
    if 0 not in shape and last >= numel:
        raise RuntimeError(
            f"{name}: sizes {list(shape)}, strides {list(strides)}, storage offset {offset} "
            f"requiring {last + 1} elements are out of bounds for storage of {numel}"
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


def _unfold_layout(metas: tuple[Meta, ...], attrs: Attrs, meta: Meta) -> Sizes:
    dim, _, step = attrs
    strides = metas[0].stride()
    return (*strides[:dim], strides[dim] * step, *strides[dim + 1 :], strides[dim])


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
    starts = reshape_to(mul(counting(count), step), (count, 1))
    return add(starts, counting(size)), windows


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
    grads=(_unfold_grad,),
    layout=_unfold_layout,
    saves="",
    batch=batched.along,
    samples=s.calls(
        lambda: s.Sample((s.uniform(2, 7),), lambda x: unfold(x, 1, 3, 2)),
        lambda: s.Sample((s.uniform(5, 2),), lambda x: unfold(x, 0, 2, 1)),
        lambda: s.Sample((s.uniform(2, 7),), lambda x: unfold(x, -1, 2, 4)),
        lambda: s.Sample((s.uniform(),), lambda x: unfold(x, 0, 1, 1)),
    ),
)


def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of `size`, every `step` elements along a dim, as a new last dim: a view.

    Args:
        dimension: along which.
        size: of a window.
        step: from one window to the next.

    Example:
        >>> lg.arange(5).unfold(0, 3, 1)
        tensor([[0, 1, 2],
                [1, 2, 3],
                [2, 3, 4]])
    """
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
