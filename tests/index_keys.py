"""Random keys for `x[key]`, as hypothesis draws them: parts are ints, slices, arrays, lists, …"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

SHAPES = st.lists(st.sampled_from([0, 1, 2, 3, 4]), max_size=4).map(tuple)


def slices(size: int) -> st.SearchStrategy[slice]:
    """Slices with positive steps, reaching past both ends."""
    bound = st.none() | st.integers(-size - 2, size + 2)
    return st.builds(slice, bound, bound, st.none() | st.integers(1, 3))


@st.composite
def index_arrays(draw: Any, size: int, together: tuple[int, ...]) -> np.ndarray:
    """Indices along a dim of `size`, of a shape that broadcasts to `together`."""
    rank = draw(st.integers(0, len(together)))
    shape = [draw(st.sampled_from([1, n])) for n in together[len(together) - rank :]]
    kind = draw(st.sampled_from([np.int64, np.int32]))
    count = int(np.prod(shape, dtype=int))
    inside = st.integers(-max(size, 1), max(size - 1, 0))  # of an empty dim, nothing is
    numbers = draw(st.lists(inside, min_size=count, max_size=count))
    return np.array(numbers, kind).reshape(shape)


def masks(shape: tuple[int, ...]) -> st.SearchStrategy[np.ndarray]:
    """Bools of a shape."""
    count = int(np.prod(shape, dtype=int))
    bits = st.lists(st.booleans(), min_size=count, max_size=count)
    return bits.map(lambda values: np.array(values, bool).reshape(shape))


@st.composite
def keys(draw: Any, shape: tuple[int, ...], ints_beside_arrays: bool) -> tuple[Any, ...]:
    """A key for a tensor of `shape`; arrays stand for index tensors.

    NumPy counts ints among the arrays if there are any, PyTorch does not: `ints_beside_arrays`
    allows both, and arrays of no dims, in one key.
    """
    together = draw(st.sampled_from([(2,), (3,), (2, 3), (1,), (0,)]))
    parts: list[Any] = []
    taken, dots = 0, False
    arrays = draw(st.booleans())
    while taken < len(shape) or draw(st.integers(0, 3)) == 0:
        kinds = ["none"]
        if not dots:
            kinds.append("dots")
        if taken < len(shape):
            kinds += ["slice", "slice"]
            if arrays and (shape[taken] or together == (0,)):
                kinds += ["array", "array", "list"]
            if arrays:
                kinds.append("mask")
            if shape[taken] and (ints_beside_arrays or not arrays):
                kinds += ["int", "int"]
        kind = draw(st.sampled_from(kinds))
        size = shape[taken] if taken < len(shape) else 0
        if kind == "none":
            parts.append(None)
        elif kind == "dots":
            parts.append(Ellipsis)
            dots = True
            taken = draw(st.integers(taken, len(shape)))
        elif kind == "slice":
            parts.append(draw(slices(size)))
            taken += 1
        elif kind == "int":
            parts.append(draw(st.integers(-size, size - 1)))
            taken += 1
        elif kind == "mask":
            last = draw(st.integers(taken + 1, min(taken + 2, len(shape))))
            parts.append(draw(masks(shape[taken:last])))
            taken = last
        else:
            found = draw(index_arrays(size, together))
            if not found.ndim and not ints_beside_arrays:
                found = found.reshape(1)
            flat = kind == "list" and found.ndim == 1
            parts.append(found.tolist() if flat else found)
            taken += 1
        if len(parts) > 6 or draw(st.integers(0, 5)) == 0:
            break
    return tuple(parts)


@st.composite
def cases(draw: Any, ints_beside_arrays: bool = False) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """A shape and a key for it, which may turn out wrong."""
    shape = draw(SHAPES)
    return shape, draw(keys(shape, ints_beside_arrays))
