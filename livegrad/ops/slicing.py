"""Slicing: views of parts (narrow, select, split), and dims in reverse or along a diagonal."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from operator import index as as_index
from typing import Any

import numpy as np

from livegrad.graph.index import Index, stepped
from livegrad.graph.meta import Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import node_of, record, view as record_view
from livegrad.ops import samples as s
from livegrad.ops.generate import counting, zeros_like
from livegrad.ops.movement import (
    INDEX,
    PERMUTE,
    Items,
    _inverse,
    _reshape_to,
    normal_dim,
    sizes_of,
    transpose,
)

Tensor = Any
Attrs = tuple[Any, ...]


def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """The `length` elements from `start` on along `dim`: a view."""
    shape = node_of(input).meta.shape
    if not shape:
        raise RuntimeError("narrow: cannot be applied to a 0-dim tensor")
    d = normal_dim("narrow", dim, len(shape))
    begin = as_index(start)
    if begin < 0:
        begin += shape[d]
    if length < 0 or begin < 0 or begin + length > shape[d]:
        raise (RuntimeError if 0 <= begin <= shape[d] else IndexError)(
            f"narrow: start ({start}) + length ({length}) exceeds dimension size ({shape[d]})"
        )
    return _part(input, shape, d, begin, length)


def _part(x: Tensor, shape: Shape, dim: int, start: int, length: int) -> Tensor:
    """A view of a run along one dim, checked already."""
    items = _items_at(len(shape), dim, ("slice", 1))
    return record_view(INDEX, x, (items,), (start,), shape[:dim] + (length,) + shape[dim + 1 :])


@lru_cache(maxsize=1024)
def _items_at(ndim: int, dim: int, item: tuple[Any, ...]) -> Items:
    """Items that keep every dim but one."""
    return tuple([item if d == dim else ("all",) for d in range(ndim)])


def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The slice of `input` at `index` along `dim`, without that dim: a view."""
    shape = node_of(input).meta.shape
    if not shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d = normal_dim("select", dim, len(shape))
    at = as_index(index)
    if not -shape[d] <= at < shape[d]:
        raise IndexError(
            f"select(): index {at} out of range for tensor of size {list(shape)} at dimension {d}"
        )
    items = _items_at(len(shape), d, ("int",))
    return record_view(INDEX, input, (items,), (at % shape[d],), shape[:d] + shape[d + 1 :])


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """All slices along `dim`, each a view without that dim."""
    shape = node_of(input).meta.shape
    if not shape:
        raise RuntimeError("unbind: dimension specified as 0 but tensor has no dimensions")
    d = normal_dim("unbind", dim, len(shape))
    return tuple([select(input, d, i) for i in range(shape[d])])


# -------------------------------------------------------------------------------------- split


def split(input: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of runs along `dim`: of one size (the last may be smaller), or of the sizes listed."""
    shape = node_of(input).meta.shape
    d = normal_dim("split", dim, len(shape))
    if not isinstance(split_size_or_sections, int):
        return split_with_sizes(input, split_size_or_sections, d)
    step = split_size_or_sections
    if step < 0 or (step == 0 and shape[d]):
        raise RuntimeError(f"split: expected split_size to be positive; got {step}")
    starts = range(0, shape[d], step) if shape[d] else (0,)
    return tuple([_part(input, shape, d, i, min(step, shape[d] - i)) for i in starts])


def split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive runs along `dim`, of the sizes listed."""
    shape = node_of(input).meta.shape
    d = normal_dim("split_with_sizes", dim, len(shape))
    sizes = tuple(split_sizes)
    if sum(sizes) != shape[d] or any(size < 0 for size in sizes):
        raise RuntimeError(
            f"split_with_sizes: expects split_sizes to sum exactly to {shape[d]} (input tensor's "
            f"size at dimension {d}), but got split_sizes={list(sizes)}"
        )
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return tuple([_part(input, shape, d, i, n) for i, n in zip(starts, sizes, strict=True)])


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of at most `chunks` consecutive runs of equal size along `dim`."""
    shape = node_of(input).meta.shape
    d = normal_dim("chunk", dim, len(shape))
    if chunks <= 0:
        raise RuntimeError(f"chunk: expects `chunks` to be greater than 0, got: {chunks}")
    step = -(-shape[d] // chunks)
    if step == 0:
        return tuple([_part(input, shape, d, 0, 0) for _ in range(chunks)])
    return split(input, step, d)


def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of runs along `dim`: so many of nearly equal size, or cut at the indices listed."""
    shape = node_of(input).meta.shape
    d = normal_dim("tensor_split", dim, len(shape))
    size = shape[d]
    if isinstance(indices_or_sections, int):
        sections = indices_or_sections
        if sections <= 0:
            raise RuntimeError(f"tensor_split: number of sections must be > 0; got {sections}")
        small, larger = divmod(size, sections)
        cuts = [i * small + min(i, larger) for i in range(1, sections)]
    else:
        cuts = [min(max(i + size if i < 0 else i, 0), size) for i in indices_or_sections]
    bounds = [0, *cuts, size]
    return tuple([_part(input, shape, d, a, max(b - a, 0)) for a, b in pairwise(bounds)])


# --------------------------------------------------------------------------- flip, diagonal


def _flip_view(n: Any, index: Index) -> Index:
    last = dict(zip(n.attrs[0], n.args, strict=True))
    return tuple([stepped(at, -1, last[d]) if d in last else at for d, at in enumerate(index)])


FLIP: Op = Op(
    "flip",
    "movement",
    # Dims in reverse order: attrs (dims,), args: the last index of each of them.
    infer=lambda metas, attrs, shape: metas[0],
    ref=lambda n, x: np.flip(x, n.attrs[0]),
    view=_flip_view,
    grads=(lambda g, y, x: record(FLIP, (g,), y._node.attrs, y._node.args),),
    saves="",
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 4),), lambda x: flip(x, (0, 1))),
        lambda: s.Sample((s.uniform(2, 3, 4),), lambda x: flip(x, (-1,))),
        lambda: s.Sample((s.uniform(5),), lambda x: flip(x, 0)),
        lambda: s.Sample((s.uniform(0, 3),), lambda x: flip(x, 0)),
    ),
)


def flip(input: Tensor, *order: Any, dims: Any = None) -> Tensor:
    """`input` with the elements along `dims` in reverse order (a copy)."""
    shape = node_of(input).meta.shape
    given = tuple([normal_dim("flip", d, len(shape)) for d in sizes_of("flip", order, dims)])
    if len(set(given)) != len(given):
        raise RuntimeError(f"flip: dim appears multiple times in the list of dims {given}")
    # A dim of size 0 or 1 reads the same either way.
    turned = tuple(sorted([d for d in given if shape and shape[d] > 1]))
    return record(FLIP, (input,), (turned,), tuple([shape[d] - 1 for d in turned]))


def fliplr(input: Tensor) -> Tensor:
    """`input` with its columns in reverse order."""
    return flip(input, 1)


def flipud(input: Tensor) -> Tensor:
    """`input` with its rows in reverse order."""
    return flip(input, 0)


def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """`input` turned by `k` quarter turns in the plane of two dims."""
    first, second = dims
    turns = k % 4
    if turns == 2:
        return flip(input, (first, second))
    if turns == 0:
        return flip(input, ())
    return transpose(flip(input, second if turns == 1 else first), first, second)


def _diagonal_view(n: Any, index: Index) -> Index:
    (dim1, dim2), (start1, start2) = n.attrs, n.args
    result = list(index[:-1])
    along = index[-1]
    first, second = sorted(((dim1, start1), (dim2, start2)))
    result.insert(first[0], stepped(along, 1, first[1]))
    result.insert(second[0], stepped(along, 1, second[1]))
    return tuple(result)


def _diagonal_ref(n: Any, x: Any) -> Any:
    return np.diagonal(x, n.args[1] - n.args[0], *n.attrs)[..., : n.meta.shape[-1]]


def _with_diagonal(base: Tensor, value: Tensor, attrs: Attrs, args: tuple[int, ...]) -> Tensor:
    """`base` with the diagonal that DIAGONAL would read replaced by `value`."""
    from livegrad.ops.comparison import eq
    from livegrad.ops.elementwise import add, where
    from livegrad.ops.joining import padded

    dim1, dim2 = attrs
    rows, columns = base.shape[dim1], base.shape[dim2]
    shape = [1] * len(base.shape)
    row = _reshape_to(counting(rows), _one_at(shape, dim1, rows))
    column = _reshape_to(counting(columns), _one_at(shape, dim2, columns))
    on_it = eq(add(row, args[1] - args[0]), column)
    # Spread the values along the rows they belong to: (..., rows) -> a dim of size 1 at dim2.
    spread = padded(value, value.ndim - 1, args[0], rows)
    order = [d for d in range(len(shape)) if d not in (dim1, dim2)] + [dim1]
    spread = record(PERMUTE, (spread,), (_inverse(_ranked(order)),))
    wide = tuple([1 if d == dim2 else size for d, size in enumerate(base.shape)])
    return where(on_it, _reshape_to(spread, wide), base)


def _one_at(ones: list[int], dim: int, size: int) -> Shape:
    return tuple([size if d == dim else 1 for d in range(len(ones))])


def _ranked(order: list[int]) -> tuple[int, ...]:
    """Dims numbered without gaps, in the same order."""
    return tuple([sorted(order).index(d) for d in order])


DIAGONAL = Op(
    "diagonal",
    "movement",
    # The elements (i + args[0], i + args[1]) of two dims, as a last dim: attrs (dim1, dim2).
    infer=lambda metas, attrs, shape: meta_of(shape, metas[0].dtype),
    ref=_diagonal_ref,
    view=_diagonal_view,
    write=_with_diagonal,
    grads=(lambda g, y, x: _with_diagonal(zeros_like(x), g, y._node.attrs, y._node.args),),
    saves="",
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 4),), lambda x: diagonal(x)),
        lambda: s.Sample((s.uniform(4, 3),), lambda x: diagonal(x, 1)),
        lambda: s.Sample((s.uniform(2, 3, 4),), lambda x: diagonal(x, -1, 2, 0)),
        lambda: s.Sample((s.uniform(3, 3),), lambda x: diagonal(x, 5)),
    ),
)


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of two dims, `offset` above the main one, as a last dim: a view."""
    shape = node_of(input).meta.shape
    first = normal_dim("diagonal", dim1, len(shape))
    second = normal_dim("diagonal", dim2, len(shape))
    if first == second:
        raise RuntimeError(
            f"diagonal: diagonal dimensions cannot be identical {dim1}, {dim2}; expected two dims"
        )
    start = (max(-offset, 0), max(offset, 0))
    length = max(min(shape[first] - start[0], shape[second] - start[1]), 0)
    rest = [size for d, size in enumerate(shape) if d not in (first, second)]
    if not length:
        start = (0, 0)
    return record_view(DIAGONAL, input, (first, second), start, (*rest, length))
