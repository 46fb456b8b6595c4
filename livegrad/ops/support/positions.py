"""Positions: flat indices taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from livegrad import dtypes
from livegrad.graph.handle import node_of
from livegrad.ops.elementwise.division import floor_divide, remainder

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Indices into a flattened tensor of `shape` as one tensor of indices per dim."""
    dtype = node_of(indices).meta.dtype
    if dtype.category != dtypes.INT:
        raise TypeError(f"unravel_index: expected 'indices' to be integer dtype, but got {dtype}")
    sizes = [shape] if isinstance(shape, int) else shape
    if not isinstance(sizes, Sequence):
        raise TypeError(
            "unravel_index: expected 'shape' to be int or sequence of ints, but got "
            f"{type(shape).__name__}"
        )
    for size in sizes:
        if not isinstance(size, int):
            raise TypeError(
                "unravel_index: expected 'shape' sequence to only contain ints, but got "
                f"{type(size).__name__}"
            )
    if any(size < 0 for size in sizes):
        raise ValueError(f"unravel_index: 'shape' cannot have negative values, but got {shape}")
    places = []
    step = 1
    for size in reversed(sizes):
        places.append(remainder(floor_divide(indices, step), size))
        step *= size
    return tuple(places[::-1])
