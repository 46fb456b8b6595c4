"""Arranging: diagonals, blocks, repeated elements, and elements put together in all ways."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations as choices, combinations_with_replacement
from math import comb, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.blame import as_index
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.infer import not_implemented
from livegrad.graph.record import record
from livegrad.graph.views import is_of_inference, row_major
from livegrad.graph.writes import check_writable
from livegrad.ops.elementwise.arithmetic import cast, clone
from livegrad.ops.making.constants import from_array
from livegrad.ops.making.generate import counting, filled
from livegrad.ops.picking.gathering import INDEX_SELECT
from livegrad.ops.picking.indexing import setitem, write_chosen
from livegrad.ops.reductions.reduce import sum as summed
from livegrad.ops.shaping.diagonals import diagonal as diagonal_of, on_diagonal
from livegrad.ops.shaping.joining import cat, check_tensors, padded, stack
from livegrad.ops.shaping.movement import (
    EXPAND,
    alias,
    expand,
    normal_dim,
    reshape,
    reshape_to,
    whole,
)
from livegrad.ops.support.autocast import in_float32
from livegrad.ops.support.out import exact, numpy_names
from livegrad.settings import contiguous_format

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


# ---------------------------------------------------------------------------------- diagonals


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Square matrices, in two dims, with the last dim of `input` on a diagonal."""
    meta = node_of(input).meta
    ndim = meta.ndim + 1
    first, second = normal_dim("diag_embed", dim1, ndim), normal_dim("diag_embed", dim2, ndim)
    if first == second:
        raise RuntimeError(f"diag_embed: diagonal dimensions cannot be identical {dim1}, {dim2}")
    offset = whole("diag_embed", "offset", offset)
    size = meta.shape[-1] + abs(offset)
    rest = iter(meta.shape[:-1])
    shape = tuple([size if d in (first, second) else next(rest) for d in range(ndim)])
    start = (max(-offset, 0), max(offset, 0))
    return on_diagonal(input, (first, second), start, shape)


@exact
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A matrix with a vector on its diagonal, or the diagonal of a matrix.

    Args:
        input: a vector or a matrix.
        diagonal: how far above the main one.

    Example:
        >>> lg.diag(lg.tensor([1, 2]))
        tensor([[1, 0],
                [0, 2]])
        >>> lg.diag(lg.tensor([[1, 2], [3, 4]]))
        tensor([1, 4])
    """
    ndim = node_of(input).meta.ndim
    if ndim == 1:
        return diag_embed(input, diagonal)
    if ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {ndim}D")
    return clone(diagonal_of(input, diagonal), memory_format=contiguous_format)


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with all elements of `input` on its diagonal."""
    return diag_embed(reshape_to(input, (node_of(input).meta.numel,)), offset)


def fill_diagonal_(input: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Writes one number to the main diagonal of all dims; `wrap` starts anew in tall matrices."""
    shape = node_of(input).meta.shape
    if len(shape) < 2:
        raise RuntimeError("fill_diagonal_: dimensions must larger than 1")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise RuntimeError(
            f"fill_diagonal_: all dimensions of input must be of equal length; got {list(shape)}"
        )
    if is_of_inference(node_of(input)):
        check_writable(alias(input), expanded=True)  # PyTorch writes to a view
    steps = sum([prod(shape[d + 1 :]) for d in range(len(shape))])
    end = None if wrap or shape[0] <= shape[1] else shape[1] ** 2
    flat = clone(reshape(input, (node_of(input).meta.numel,)))
    setitem(flat, slice(0, end, steps), fill_value)
    write_chosen(input, reshape(flat, shape))
    return input


@in_float32
def trace(input: Tensor) -> Tensor:
    """Sum of the diagonal of a matrix.

    Example:
        >>> lg.trace(lg.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor(5.)
    """
    if node_of(input).meta.dtype is dtypes.bool_:
        raise not_implemented("trace", dtypes.bool_)
    if node_of(input).meta.ndim != 2:
        raise RuntimeError(
            f"trace: expected a matrix, but got tensor with dim {node_of(input).meta.ndim}"
        )
    diagonal = diagonal_of(input)
    if node_of(input).meta.dtype is not dtypes.float32:
        return summed(diagonal)
    return cast(summed(cast(diagonal, dtypes.float64)), dtypes.float32)  # as PyTorch


def block_diag(*tensors: Tensor) -> Tensor:
    """A matrix with the given ones (or rows, or numbers) along its diagonal, zeros elsewhere."""
    given = list(tensors)
    check_tensors("block_diag", given)
    if not given:
        return filled((1, 0), 0, dtypes.get_default_dtype())
    for i, x in enumerate(given):
        if node_of(x).meta.ndim > 2:
            raise RuntimeError(
                f"block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has "
                f"{node_of(x).meta.ndim} dimensions"
            )
    metas = [node_of(x).meta for x in given]
    dtype = dtypes.result_dtype(tuple([(m.dtype, 2 if m.ndim else 1) for m in metas]))
    given = [cast(x, dtype) for x in given]
    shapes = [(1, 1, *m.shape)[-2:] for m in metas]
    width = sum([columns for _, columns in shapes])
    rows, left = [], 0
    for x, shape in zip(given, shapes, strict=True):
        rows.append(padded(reshape_to(x, shape), 1, left, width))
        left += shape[1]
    return cat(rows, 0)


# ------------------------------------------------------------------------ in all combinations


def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinate grids: tensor i varies along dim i of every result ("xy": 0 and 1 swapped).

    Args:
        tensors: vectors or numbers.
        indexing: "ij", or "xy" as plots have it.

    Example:
        >>> rows, columns = lg.meshgrid(lg.arange(2), lg.arange(3), indexing="ij")
        >>> columns
        tensor([[0, 1, 2],
                [0, 1, 2]])
    """
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], Sequence) else tensors
    given = list(given)
    check_tensors("meshgrid", given)
    if not given:
        raise RuntimeError("meshgrid: expects a non-empty TensorList")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f"meshgrid: indexing must be one of 'xy' or 'ij'; got {indexing!r}")
    metas = [node_of(x).meta for x in given]
    if any(m.dtype is not metas[0].dtype or m.ndim > 1 for m in metas):
        raise RuntimeError(
            f"meshgrid: expects all tensors to have the same dtype and 0 or 1 dims; got {metas}"
        )
    swap = indexing == "xy" and len(given) > 1
    order = [given[1], given[0], *given[2:]] if swap else given
    shape = tuple([node_of(x).meta.numel for x in order])
    grids = []
    for i, x in enumerate(order):
        along = [size if d == i else 1 for d, size in enumerate(shape)]
        grids.append(expand(reshape(x, along), shape))
    return tuple([grids[1], grids[0], *grids[2:]] if swap else grids)


def cartesian_prod(*tensors: Any) -> Tensor:
    """All combinations of one element of each vector, one per row; of one vector, itself."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], Sequence) else tensors
    vectors: list[Tensor] = list(given)
    check_tensors("cartesian_prod", vectors)
    for x in vectors:
        if node_of(x).meta.ndim != 1:
            raise RuntimeError(
                f"cartesian_prod: Expect a 1D vector, but got shape {list(node_of(x).meta.shape)}"
            )
    if len(vectors) == 1:
        return vectors[0]
    count = prod([node_of(x).meta.numel for x in vectors])
    return stack([reshape_to(grid, (count,)) for grid in meshgrid(*vectors)], 1)


# They are listed one by one before they become a tensor.
_MOST_CHOICES = 1 << 28


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All ways of choosing `r` elements of a vector, one per row, in order."""
    meta = node_of(input).meta
    if meta.ndim != 1:
        raise RuntimeError(f"combinations: Expect a 1D vector, but got shape {list(meta.shape)}")
    r = as_index(r)
    if r < 0:
        raise RuntimeError(f"combinations: Expect a non-negative number, but got {r}")
    if r == 0:
        return filled((0,), 0, meta.dtype)
    choose = combinations_with_replacement if with_replacement else choices
    ways = comb(meta.numel + r - 1, r) if with_replacement else comb(meta.numel, r)
    if ways * r > _MOST_CHOICES:
        raise RuntimeError(f"combinations: can't allocate memory for {ways} rows of {r}")
    rows = np.array(list(choose(range(meta.numel), r)), np.int64).reshape(-1, r)
    return record(INDEX_SELECT, (input, from_array(rows)), (0,))


# ------------------------------------------------------------------------------------- repeats


@numpy_names
def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Every element (or slice along `dim`) repeated in place; alone, n times each index i of n.

    Args:
        input: a tensor.
        repeats: how often: one number, or one for each element.
        dim: None: of the flattened tensor.

    Example:
        >>> lg.repeat_interleave(lg.tensor([1, 2]), lg.tensor([3, 1]))
        tensor([1, 1, 1, 2])
    """
    if repeats is None:
        _check_repeats(input)
        if not node_of(input).meta.ndim:
            raise RuntimeError("repeat_interleave: only accepts a 1D vector as repeats")
        return _repeated(_counting_like(input), input, 0, output_size)
    if dim is None:
        input, dim = reshape_to(input, (node_of(input).meta.numel,)), 0
    shape = node_of(input).meta.shape
    d = normal_dim("repeat_interleave", dim, len(shape))
    if not shape:
        input, shape = reshape_to(input, (1,)), (1,)
    if isinstance(repeats, Handle):
        _check_repeats(repeats)
        return _repeated(input, repeats, d, output_size)
    repeats = as_index(repeats)
    if repeats < 0:
        raise RuntimeError(f"repeat_interleave: repeats must be non-negative; got {repeats}")
    wide = shape[: d + 1] + (repeats,) + shape[d + 1 :]
    spaced = reshape_to(input, shape[: d + 1] + (1,) + shape[d + 1 :])
    final = shape[:d] + (shape[d] * repeats,) + shape[d + 1 :]
    return row_major(reshape_to(record(EXPAND, (spaced,), (), (), wide), final))


def _check_repeats(repeats: Tensor) -> None:
    meta = node_of(repeats).meta
    if meta.dtype not in (dtypes.int64, dtypes.int32):
        raise not_implemented("repeat_interleave_cpu", meta.dtype)
    if meta.ndim > 1:
        raise RuntimeError(
            f"repeat_interleave: repeats must be 0-dim or 1-dim tensor; got shape {meta.shape}"
        )


def _counting_like(x: Tensor) -> Tensor:
    meta = node_of(x).meta
    return cast(counting(meta.numel), meta.dtype)


def _repeated(x: Tensor, repeats: Tensor, dim: int, output_size: int | None) -> Tensor:
    """Slices repeated as often as a tensor says, which is read."""
    size = node_of(x).meta.shape[dim]
    times = np.atleast_1d(repeats._values("repeat_interleave()"))
    if times.size not in (1, size):
        raise RuntimeError(
            "repeat_interleave: repeats must have the same size as input along dim; got "
            f"{times.size} repeats and size {size}"
        )
    if times.size and times.min() < 0:
        raise RuntimeError("repeat_interleave: repeats can not be negative")
    index = np.repeat(np.arange(size), times)
    if output_size not in (None, index.size):
        raise RuntimeError(
            f"repeat_interleave: got output_size {output_size}; expected {index.size}"
        )
    return record(INDEX_SELECT, (x, from_array(index)), (dim,))
