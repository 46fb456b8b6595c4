"""Where a tensor lies in its storage, as PyTorch would have it; worked out when somebody asks.

storage   0 1 2 3 4 5 6 7 8 9 10 11         the cell of a tensor of shape (3, 4)
x[1:, ::2]        4   6   8   10            strides (4, 2), offset 4
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from livegrad.graph.handle import Cell, Step, node_of, share_of, shares_with
from livegrad.graph.infer import infer_meta
from livegrad.graph.layout import Shape, Strides, memory_order, order_of, repeats
from livegrad.graph.meta import Meta

Array = np.ndarray[Any, Any]


def path_geometry(meta: Meta, path: Sequence[Step], offset: int = 0) -> tuple[Meta, int]:
    """The meta of what `path` shows of a value of `meta`, and where it begins."""
    for op, attrs, args, shape in path:
        if op.offset is not None:
            offset = op.offset(offset, meta, attrs, args)
        meta = infer_meta(op, meta, attrs, shape)
    return meta, offset


def offset_of(x: Any) -> int:
    """The place of the first element of `x` in its storage, counted in elements."""
    if x._share is None:
        return 0
    cell, path = root_of(x)
    return path_geometry(cell._node.meta, path)[1]


def lies_where(x: Any, other: Any) -> bool:
    """Whether every element of `x` lies where that of `other` does, which has been shared then."""
    if not shares_with(x, other):
        return False
    return node_of(x).meta is node_of(other).meta and offset_of(x) == offset_of(other)


def root_of(x: Any) -> tuple[Cell, tuple[Step, ...]]:
    """The cell that holds all of the storage of `x`, and the path from there."""
    origin: tuple[Cell, tuple[Step, ...]] = x._share.origin()
    return origin


def writes_to(x: Any) -> int:
    """How often the memory that `x` shows a part of has been written, as `x` counts it."""
    return int(x._writes if x._share is None else x._share.writes())


def count_write(x: Any) -> None:
    """Notes a write that was not recorded as one."""
    if x._share is None:
        x._writes += 1
    else:
        x._share.count(1)


def storage_nbytes(x: Any) -> int:
    """How large the storage of `x` is."""
    return x._node.meta.nbytes if is_its_storage(x) else root_of(x)[0]._node.meta.nbytes


def is_its_storage(x: Any) -> bool:
    """Whether `x` shares no storage, and is all of its own; if not, it has a share."""
    meta = x._node.meta
    if x._share is None and meta.strides is not None and repeats(meta.shape, meta.strides):
        share_of(x)
    return x._share is None


def dims_in_memory(meta: Meta) -> tuple[int, ...] | None:
    """The order of dims in which the elements of a whole storage lie; None if as they are."""
    if meta.strides is None:
        return None
    order = memory_order(meta.shape, meta.strides)
    return None if order == tuple(range(meta.ndim)) else order


def places(shape: Shape, strides: Strides, offset: int) -> Array:
    """The place of each element, as an array of `shape`."""
    grid = np.full(shape, offset, np.int64)
    for d, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        along = [1] * len(shape)
        along[d] = size
        grid += (np.arange(size) * stride).reshape(along)
    return grid


def rounds_of(grid: Array, operands: Sequence[Strides]) -> list[tuple[Array, Array]]:
    """Elements in the order PyTorch visits them, in rounds within which no place comes twice.

    `grid` has the places; the strides of the tensor and of what is written tell the order. Each
    round is (elements by their row-major number, their places); the last visit of a place is in
    the last round it appears in.
    """
    order = order_of(grid.shape, operands)[::-1]
    where = grid.transpose(order).reshape(-1)
    numbers = np.arange(grid.size).reshape(grid.shape).transpose(order).reshape(-1)
    by_place = np.argsort(where, kind="stable")
    sorted_places = where[by_place]
    starts = np.flatnonzero(np.r_[True, sorted_places[1:] != sorted_places[:-1]])
    lengths = np.diff(np.r_[starts, len(where)])
    rank = np.arange(len(where)) - np.repeat(starts, lengths)
    return [
        (numbers[by_place[rank == r]], sorted_places[rank == r])
        for r in range(int(lengths.max(initial=0)))
    ]
