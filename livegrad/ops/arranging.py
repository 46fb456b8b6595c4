"""Arranging: diagonals, sliding windows, repeated elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from livegrad.graph.record import node_of, record
from livegrad.ops.elementwise import add, clone, mul
from livegrad.ops.gathering import INDEX_SELECT
from livegrad.ops.generate import counting, filled
from livegrad.ops.movement import EXPAND, _reshape_to, movedim, normal_dim
from livegrad.ops.slicing import _with_diagonal, diagonal as diagonal_of

Tensor = Any


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Square matrices, in two dims, with the last dim of `input` on a diagonal."""
    meta = node_of(input).meta
    ndim = meta.ndim + 1
    first, second = normal_dim("diag_embed", dim1, ndim), normal_dim("diag_embed", dim2, ndim)
    if first == second:
        raise RuntimeError(f"diag_embed: diagonal dimensions cannot be identical {dim1}, {dim2}")
    size = meta.shape[-1] + abs(offset)
    rest = iter(meta.shape[:-1])
    shape = tuple([size if d in (first, second) else next(rest) for d in range(ndim)])
    start = (max(-offset, 0), max(offset, 0))
    return _with_diagonal(filled(shape, 0, meta.dtype), input, (first, second), start)


def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A matrix with a vector on its diagonal, or the diagonal of a matrix."""
    ndim = node_of(input).meta.ndim
    if ndim == 1:
        return diag_embed(input, diagonal)
    if ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {ndim}D")
    return clone(diagonal_of(input, diagonal))


def trace(input: Tensor) -> Tensor:
    """Sum of the diagonal of a matrix."""
    from livegrad.ops.reduce import sum

    if node_of(input).meta.ndim != 2:
        raise RuntimeError(
            f"trace: expected a matrix, but got tensor with dim {node_of(input).meta.ndim}"
        )
    return sum(diagonal_of(input))


def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of `size`, every `step` elements along a dim, as a new last dim (a copy)."""
    meta = node_of(input).meta
    d = normal_dim("unfold", dimension, meta.ndim)
    if size > meta.shape[d]:
        raise RuntimeError(
            f"unfold: maximum size for tensor at dimension {d} is {meta.shape[d]} but size is "
            f"{size}"
        )
    count = (meta.shape[d] - size) // step + 1
    starts = _reshape_to(counting(count), (count, 1))
    windows = record(INDEX_SELECT, (input, add(mul(starts, step), counting(size))), (d,))
    return movedim(windows, d + 1, -1)


def repeat_interleave(
    input: Tensor, repeats: Any, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Every element (or slice along `dim`) repeated in place."""
    if dim is None:
        input, dim = _reshape_to(input, (node_of(input).meta.numel,)), 0
    shape = node_of(input).meta.shape
    d = normal_dim("repeat_interleave", dim, len(shape))
    if isinstance(repeats, int):
        wide = shape[: d + 1] + (repeats,) + shape[d + 1 :]
        spaced = _reshape_to(input, shape[: d + 1] + (1,) + shape[d + 1 :])
        final = shape[:d] + (shape[d] * repeats,) + shape[d + 1 :]
        return _reshape_to(record(EXPAND, (spaced,), (), (), wide), final)
    from livegrad.creation import as_tensor

    times = repeats._values("repeat_interleave()")
    index = np.repeat(np.arange(shape[d]), times)
    return record(INDEX_SELECT, (input, as_tensor(index)), (d,))
