"""Slicing: views of parts (narrow, select, split), and dims in reverse."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.blame import as_index, as_items
from livegrad.graph.handle import Handle, node_of, share_of
from livegrad.graph.index import Index, stepped
from livegrad.graph.layout import Strides
from livegrad.graph.meta import Meta, Shape
from livegrad.graph.op import Op, as_first
from livegrad.graph.record import record
from livegrad.graph.state import LOCAL
from livegrad.graph.views import (
    remember_view,
    remember_views,
    row_major,
    view as record_view,
    view_again,
    view_found,
    views_found,
)
from livegrad.native.hot import hot
from livegrad.ops.elementwise.arithmetic import clone
from livegrad.ops.shaping.movement import (
    INDEX,
    Items,
    normal_dim,
    sizes_of,
    transposed,
    whole,
)
from livegrad.ops.support import samples as s
from livegrad.ops.support.out import numpy_names

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Attrs = tuple[Any, ...]
Metas = tuple[Meta, ...]
# More views than this at once would fill the memory.
_MOST_PARTS = 1 << 20


@numpy_names
def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """The `length` elements from `start` on along `dim`: a view.

    Args:
        input: a tensor.
        dim: along which.
        start: the first index; below 0, counted from the end.
        length: how many.

    Example:
        >>> lg.narrow(lg.arange(5), 0, 1, 3)
        tensor([1, 2, 3])
    """
    shape = node_of(input).meta.shape
    if not shape:
        raise RuntimeError("narrow: cannot be applied to a 0-dim tensor")
    if isinstance(start, Handle):
        kind = node_of(start).meta
        if kind.ndim or kind.dtype.category != dtypes.INT:
            raise RuntimeError("narrow: start must be an 0-dim integral Tensor")
    length = as_index(length)
    if length < 0:
        raise RuntimeError(f"narrow: length must be non-negative; got {length}")
    d = normal_dim("narrow", dim, len(shape))
    begin = as_index(start)
    if not -shape[d] <= begin <= shape[d]:
        raise IndexError(
            f"narrow: start out of range (expected to be in range of [{-shape[d]}, {shape[d]}], "
            f"but got {begin})"
        )
    begin += shape[d] if begin < 0 else 0
    if begin + length > shape[d]:
        raise RuntimeError(
            f"narrow: start ({start}) + length ({length}) exceeds dimension size ({shape[d]})"
        )
    (part,) = _runs(input, shape, d, [(begin, length)])
    return part


def slice_along(
    input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """Every `step`-th element from `start` to `end` along `dim`: a view (`aten.slice`)."""
    shape = node_of(input).meta.shape
    if not shape:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    d = normal_dim("slice", dim, len(shape))
    start, end = [None if x is None else as_index(x) for x in (start, end)]
    step = as_index(step)
    if step <= 0:
        raise RuntimeError(f"slice: step must be positive; got {step}")
    first, stop, _ = slice(start, end, step).indices(shape[d])
    length = max(-(-(stop - first) // step), 0)
    items = items_at(len(shape), d, ("slice", step))
    return record_view(INDEX, input, (items,), (first,), shape[:d] + (length,) + shape[d + 1 :])


def _runs(x: Tensor, shape: Shape, dim: int, runs: Iterable[tuple[int, int]]) -> list[Tensor]:
    """Views of runs along one dim, given by start and length, checked already."""
    attrs = (items_at(len(shape), dim, ("slice", 1)),)
    return _record_runs(x, attrs, shape[:dim], shape[dim + 1 :], runs)


@hot
def _record_runs(
    x: Tensor, attrs: Attrs, before: Shape, after: Shape, runs: Iterable[tuple[int, int]]
) -> list[Tensor]:
    parts: list[Tensor] = []
    previous = -1
    for start, length in runs:
        if length == previous:
            parts.append(view_again(x, parts[-1], (start,)))
        else:
            parts.append(record_view(INDEX, x, attrs, (start,), before + (length,) + after))
        previous = length
    return parts


@lru_cache(maxsize=1024)
def items_at(ndim: int, dim: int, item: tuple[Any, ...]) -> Items:
    """Items that keep every dim but one."""
    return tuple([item if d == dim else ("all",) for d in range(ndim)])


@numpy_names
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The slice of `input` at `index` along `dim`, without that dim: a view.

    Example:
        >>> lg.select(lg.arange(6).view(2, 3), 1, 2)
        tensor([2, 5])
    """
    shape = node_of(input).meta.shape
    if not shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d = normal_dim("select", dim, len(shape))
    at = as_index(index)
    if not -shape[d] <= at < shape[d]:
        raise IndexError(
            f"select(): index {at} out of range for tensor of size {list(shape)} at dimension {d}"
        )
    args = (at % shape[d],)
    found = view_found(INDEX, d, input, args)
    if found is not None:
        return found
    items = items_at(len(shape), d, ("int",))
    out = record_view(INDEX, input, (items,), args, shape[:d] + shape[d + 1 :])
    return remember_view(INDEX, d, input, out)


def _several(parts: list[Tensor], name: str) -> tuple[Tensor, ...]:
    """Views that one function returns together: where gradients flow, none may be written."""
    if LOCAL.state.grad:
        _mark_made(parts, _numbered(name, len(parts)))
    return tuple(parts)


@hot
def _mark_made(parts: list[Tensor], how: list[str]) -> None:
    for i in range(len(parts)):
        share_of(parts[i]).mark_made(how[i])


@lru_cache(maxsize=1024)
def _numbered(name: str, count: int) -> list[str]:
    return [f"{i} of {name}" for i in range(count)]


@numpy_names
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """All slices along `dim`, each a view without that dim.

    Args:
        dim: along which.

    Example:
        >>> lg.tensor([[1, 2], [3, 4]]).unbind()
        (tensor([1, 2]), tensor([3, 4]))
    """
    found = views_found("unbind", 0, dim, input)
    if found is not None:
        return found
    shape = node_of(input).meta.shape
    if not shape:
        raise IndexError(f"unbind: Dimension specified as {dim} but tensor has no dimensions")
    d = normal_dim("unbind", dim, len(shape))
    size = int(shape[d])
    first = [select(input, d, 0)] if size else []
    parts = _several(_record_more(input, first, size), "UnbindBackward0")
    return remember_views("unbind", 0, dim, input, parts)


@hot
def _record_more(x: Tensor, parts: list[Tensor], size: int) -> list[Tensor]:
    """All slices of `x` along a dim, of which there is the first, if any."""
    for i in range(1, size):
        parts.append(view_again(x, parts[-1], (i,)))
    return parts


# -------------------------------------------------------------------------------------- split


def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of runs along `dim`: of one size (the last may be smaller), or of the sizes listed.

    Args:
        tensor: what is split.
        split_size_or_sections: one size, or a list of sizes.
        dim: along which.

    Example:
        >>> lg.split(lg.arange(5), 2)
        (tensor([0, 1]), tensor([2, 3]), tensor([4]))
        >>> lg.split(lg.arange(5), [1, 4])
        (tensor([0]), tensor([1, 2, 3, 4]))
    """
    found = views_found("split", split_size_or_sections, dim, tensor)
    if found is not None:
        return found
    shape = node_of(tensor).meta.shape
    if not shape:
        raise RuntimeError("split: expects at least a 1-dimensional tensor")
    d = normal_dim("split", dim, len(shape))
    if hasattr(split_size_or_sections, "__index__"):
        split_size_or_sections = whole("split", "split_size", split_size_or_sections)
    if not isinstance(split_size_or_sections, int):
        return split_with_sizes(tensor, split_size_or_sections, d)
    step = split_size_or_sections
    if step < 0 or (step == 0 and shape[d]):
        raise RuntimeError(f"split: expected split_size to be positive; got {step}")
    return remember_views("split", step, dim, tensor, _split_evenly(tensor, shape, d, step))


def _split_evenly(x: Tensor, shape: Shape, dim: int, step: int) -> tuple[Tensor, ...]:
    """Views of runs of `step`; the last may be smaller."""
    return _several(_runs(x, shape, dim, _even_runs(int(shape[dim]), step)), "SplitBackward0")


@lru_cache(maxsize=1024)
def _even_runs(size: int, step: int) -> list[tuple[int, int]]:
    runs = [(start, step) for start in range(0, size - step, step)]
    last = len(runs) * step
    return [*runs, (last, size - last)]


def split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive runs along `dim`, of the sizes listed."""
    shape = node_of(input).meta.shape
    if not shape:
        raise RuntimeError("split_with_sizes: expects at least a 1-dimensional tensor")
    d = normal_dim("split_with_sizes", dim, len(shape))
    sizes = sizes_of("split_with_sizes", (split_sizes,))
    if sum(sizes) != shape[d] or any(size < 0 for size in sizes):
        raise RuntimeError(
            f"split_with_sizes: expects split_sizes to sum exactly to {shape[d]} (input tensor's "
            f"size at dimension {d}), but got split_sizes={list(sizes)}"
        )
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    runs = zip(starts, sizes, strict=True)
    return _several(_runs(input, shape, d, runs), "SplitWithSizesBackward0")


def _check_count(name: str, parts: int) -> None:
    if parts > _MOST_PARTS:
        raise RuntimeError(f"{name}: can't allocate memory for {parts} tensors")


@numpy_names
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of at most `chunks` consecutive runs of equal size along `dim`.

    Args:
        input: what is split.
        chunks: how many at most.
        dim: along which.

    Example:
        >>> lg.chunk(lg.arange(5), 2)
        (tensor([0, 1, 2]), tensor([3, 4]))
    """
    found = views_found("chunk", chunks, dim, input)
    if found is not None:
        return found
    shape = node_of(input).meta.shape
    if not shape:
        raise RuntimeError("chunk: expects at least a 1-dimensional tensor")
    asked, chunks = chunks, whole("chunk", "chunks", chunks)
    if chunks <= 0:
        raise RuntimeError(f"chunk: expects `chunks` to be greater than 0, got: {chunks}")
    d = normal_dim("chunk", dim, len(shape))
    step = -(-shape[d] // chunks)
    if step == 0:
        _check_count("chunk", chunks)
        return split_with_sizes(input, [0] * chunks, d)
    return remember_views("chunk", asked, dim, input, _split_evenly(input, shape, d, step))


def tensor_split(
    input: Tensor, indices_or_sections: Any = None, dim: int = 0, **given: Any
) -> tuple[Tensor, ...]:
    """Views of runs along `dim`: so many of nearly equal size, or cut at the indices listed."""
    for name in ("sections", "indices", "tensor_indices_or_sections"):
        indices_or_sections = given.pop(name, indices_or_sections)
    if given or indices_or_sections is None:
        raise TypeError(
            f"tensor_split(): expected sections or indices, and dim; got {sorted(given)}"
        )
    shape = node_of(input).meta.shape
    if not shape:
        raise RuntimeError(
            "tensor_split: expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    d = normal_dim("tensor_split", dim, len(shape))
    size = shape[d]
    where = _numbers("tensor_split", indices_or_sections)
    if isinstance(where, int):
        if where <= 0:
            raise RuntimeError(f"tensor_split: number of sections must be > 0; got {where}")
        _check_count("tensor_split", where)
        small, larger = divmod(size, where)
        cuts = [i * small + min(i, larger) for i in range(1, where)]
    else:
        cuts = [min(max(i + size if i < 0 else i, 0), size) for i in where]
    bounds = [0, *cuts, size]
    return tuple(_runs(input, shape, d, [(a, max(b - a, 0)) for a, b in pairwise(bounds)]))


def _numbers(name: str, given: Any) -> Any:
    """An int, or a list of ints, from numbers or an integer tensor, which is read."""
    if not isinstance(given, Handle):
        if hasattr(given, "__index__"):
            return as_index(given)
        return [as_index(x) for x in as_items(given)]
    meta = node_of(given).meta
    if meta.dtype is not dtypes.int64 or meta.ndim > 1:
        raise RuntimeError(f"{name}: expected an int64 tensor of zero or one dimension; got {meta}")
    return given._values(f"{name}()").tolist()


def _split_along(
    name: str, input: Tensor, indices_or_sections: Any, least: int, dim: int
) -> tuple[Tensor, ...]:
    """`tensor_split` along a dim, where a number of sections must divide the size."""
    shape = node_of(input).meta.shape
    if len(shape) < least:
        raise RuntimeError(
            f"{name}: requires a tensor with at least {least} dimension, but got a tensor with "
            f"{len(shape)} dimensions"
        )
    if isinstance(indices_or_sections, int):
        sections = indices_or_sections
        if sections <= 0 or shape[dim] % sections:
            raise RuntimeError(
                f"{name}: attempted to split along dimension {dim}, but the size of the dimension "
                f"{shape[dim]} is not divisible by the split_size {sections}"
            )
    return tensor_split(input, indices_or_sections, dim)


def _listed(first: Any, more: tuple[int, ...]) -> Any:
    """Indices that were given one after the other, as a list."""
    return [first, *more] if more else first


def hsplit(input: Tensor, indices_or_sections: Any, *more: int) -> tuple[Tensor, ...]:
    """Views of groups of columns (of elements, if there is one dim)."""
    dim = 0 if node_of(input).meta.ndim == 1 else 1
    return _split_along("hsplit", input, _listed(indices_or_sections, more), 1, dim)


def vsplit(input: Tensor, indices_or_sections: Any, *more: int) -> tuple[Tensor, ...]:
    """Views of groups of rows."""
    return _split_along("vsplit", input, _listed(indices_or_sections, more), 2, 0)


def dsplit(input: Tensor, indices_or_sections: Any, *more: int) -> tuple[Tensor, ...]:
    """Views of runs along dim 2."""
    return _split_along("dsplit", input, _listed(indices_or_sections, more), 3, 2)


def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Like `chunk`, but parts with a history may be written to: see `_apart`."""
    return _apart(chunk(input, chunks, dim))


def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Like `split` into runs of one size, but parts with a history may be written to."""
    return _apart(split(input, split_size, dim))


def unsafe_split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Like `split_with_sizes`, but parts with a history may be written to."""
    return _apart(split_with_sizes(input, split_sizes, dim))


def _apart(parts: Any) -> tuple[Tensor, ...]:
    """Parts that share memory with the whole; copies where a write would have to be differentiated.

    PyTorch's share it then, too, and gradients do not know of the writes.
    """
    return tuple([clone(x) if x.requires_grad else x for x in parts])


# -------------------------------------------------------------------------------------- flip


def _flip_view(n: Any, index: Index) -> Index:
    last = dict(zip(n.attrs[0], n.args, strict=True))
    return tuple([stepped(at, -1, last[d]) if d in last else at for d, at in enumerate(index)])


def _flip_layout(metas: Metas, attrs: Attrs, meta: Meta) -> Strides | None:
    if len(attrs) > 1:  # flip() copies; only slices with negative steps are views
        return as_first(metas, attrs, meta)
    strides = metas[0].stride()
    return tuple([-step if d in attrs[0] else step for d, step in enumerate(strides)])


def _flip_offset(before: int, meta: Meta, attrs: Attrs, args: tuple[int, ...]) -> int:
    strides = meta.stride()
    return before + sum([int(strides[d]) * n for d, n in zip(attrs[0], args, strict=True)])


FLIP: Op = Op(
    "flip",
    "movement",
    # Dims in reverse order: attrs (dims,), args: the last index of each of them.
    infer=lambda metas, attrs, shape: metas[0],
    ref=lambda n, x: np.flip(x, n.attrs[0]),
    view=_flip_view,
    write=lambda part, value, attrs, args: record(FLIP, (value,), attrs, args),
    grads=(lambda g, y, x: record(FLIP, (g,), y._node.attrs, y._node.args),),
    layout=_flip_layout,
    offset=_flip_offset,
    saves="",
    batch=lambda n, size, xs, batched: record(
        FLIP, xs, (tuple([d + 1 for d in n.attrs[0]]), *n.attrs[1:]), n.args
    ),
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 4),), lambda x: flip(x, (0, 1))),
        lambda: s.Sample((s.uniform(2, 3, 4),), lambda x: flip(x, (-1,))),
        lambda: s.Sample((s.uniform(5),), lambda x: flip(x, 0)),
        lambda: s.Sample((s.uniform(0, 3),), lambda x: flip(x, 0)),
    ),
)


def flip(input: Tensor, *order: Any, dims: Any = None) -> Tensor:
    """`input` with the elements along `dims` in reverse order (a copy).

    Args:
        input: a tensor.
        dims: along which.

    Example:
        >>> lg.flip(lg.tensor([1, 2, 3]), [0])
        tensor([3, 2, 1])
    """
    shape = node_of(input).meta.shape
    given = tuple([normal_dim("flip", d, len(shape)) for d in sizes_of("flip", order, dims)])
    if len(set(given)) != len(given):
        raise RuntimeError(f"flip: dim appears multiple times in the list of dims {given}")
    # A dim of size 0 or 1 reads the same either way.
    turned = tuple(sorted([d for d in given if shape and shape[d] > 1]))
    return record(FLIP, (input,), (turned, "copy"), tuple([shape[d] - 1 for d in turned]))


def fliplr(input: Tensor) -> Tensor:
    """`input` with its columns in reverse order."""
    if node_of(input).meta.ndim < 2:
        raise RuntimeError("fliplr: Input must be >= 2-d.")
    return flip(input, 1)


def flipud(input: Tensor) -> Tensor:
    """`input` with its rows in reverse order."""
    if node_of(input).meta.ndim < 1:
        raise RuntimeError("flipud: Input must be >= 1-d.")
    return flip(input, 0)


def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """`input` turned by `k` quarter turns in the plane of two dims."""
    ndim = node_of(input).meta.ndim
    k, dims = as_index(k), tuple([as_index(d) for d in as_items(dims)])
    if len(dims) != 2:
        raise RuntimeError(f"rot90: expected total rotation dims == 2, but got dims = {len(dims)}")
    if ndim < 2:
        raise RuntimeError(f"rot90: expected total dims >= 2, but got total dims = {ndim}")
    first, second = dims
    if first == second or abs(first - second) == ndim:
        raise RuntimeError(
            f"rot90: expected rotation dims to be different, but got dim0 = {first} and dim1 = "
            f"{second}"
        )
    for d in dims:
        if not -ndim <= d < ndim:
            raise RuntimeError(f"rot90: Rotation dim{d} out of range, dim{d} = {d}")
    turns = k % 4
    if turns == 2:
        return flip(input, (first, second))
    if turns == 0:
        return row_major(flip(input, ()))
    return transposed(flip(input, second if turns == 1 else first), first, second)
