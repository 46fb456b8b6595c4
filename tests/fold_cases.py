"""Data and layouts that careless folds get wrong, and exact results to judge them by."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Layout(NamedTuple):
    """How a fold meets its values: of `view(x)`, x of `shape`, over `dims`, in so many steps."""

    shape: tuple[int, ...]
    dims: tuple[int, ...]
    steps: int = 1
    view: Callable[[Any], Any] = lambda x: x


LAYOUTS = {
    "short rows": Layout((7, 11), (1,)),
    "rows": Layout((3, 4099), (1,)),
    "rows in parts": Layout((2, 5 * 16384), (1,), steps=2),
    "long rows": Layout((2, 70_001), (1,)),
    "columns": Layout((5003, 19), (0,)),
    "columns in parts": Layout((5 * 16384, 2), (0,), steps=2),
    "long columns": Layout((60_000, 2), (0,)),
    "leading": Layout((41, 53, 5), (0, 1)),
    "middle": Layout((3, 1009, 4), (1,)),
    "trailing": Layout((4, 33, 35), (1, 2)),
    "apart": Layout((67, 3, 71), (0, 2), steps=2),
    "all": Layout((211, 97), (0, 1)),
    "all in parts": Layout((640, 128), (0, 1), steps=2),
    "transposed": Layout((3, 2053), (0,), view=lambda x: x.T),
    "every other": Layout((2053, 6), (0,), view=lambda x: x[::2, ::3]),
    "permuted": Layout((29, 31, 7), (0, 1), view=lambda x: x.transpose(0, 1)),
}


def long(rng: Any, *shape: int) -> Array:
    return 0.1 + rng.random(shape) * 1e-3


def offset(rng: Any, *shape: int) -> Array:
    return 1000 + rng.random(shape)


def alternating(rng: Any, *shape: int) -> Array:
    signs = np.where(np.indices(shape).sum(0) % 2, 1, -1)
    return signs * (1 + rng.random(shape))


def badly_scaled(rng: Any, *shape: int) -> Array:
    return 10 ** (8 * rng.random(shape) - 4) * rng.choice([-1, 1], shape)


DATA = {f.__name__: f for f in (long, offset, alternating, badly_scaled)}


def groups(x: Array, dims: tuple[int, ...]) -> Array:
    """(results, values folded into each)."""
    last = tuple(range(-len(dims), 0))
    rest = math.prod([size for d, size in enumerate(x.shape) if d not in dims])
    return np.moveaxis(x, dims, last).reshape(rest, -1)


def exact_sums(rows: Array) -> Array:
    """The sum of each row, rounded once to float64."""
    return np.array([math.fsum(row.tolist()) for row in rows.astype(np.float64)])


def exact_means(rows: Array) -> Array:
    """The mean of each row, rounded twice to float64."""
    return exact_sums(rows) / rows.shape[1]


def exact_variances(rows: Array, correction: int = 1) -> Array:
    """The variance of each row, rounded once to float64."""
    return np.array([float(_variance(row.tolist(), correction)) for row in rows])


def _variance(row: list[float], correction: int) -> Fraction:
    # Floats are whole multiples of a power of 2: with that as the unit all of it is integers.
    unit = max([value.as_integer_ratio()[1] for value in row])
    whole = [int(Fraction(value) * unit) for value in row]
    count, total = len(row), sum(whole)
    squares = sum([value * value for value in whole])
    return Fraction(count * squares - total * total, count * (count - correction) * unit * unit)
