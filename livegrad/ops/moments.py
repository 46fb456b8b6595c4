"""Mean and variance of what norms fold, with the folded dims kept as size 1.

A mean is rounded, and with values far from 0 that is much compared with how they vary. So the
deviations from it are summed too (they would be 0), and what they come to is taken out of the
squares: the variance loses no digits however far the values are from 0. That costs one addition
per value, beside the squares, where `mean(x²) - mean²` would lose everything.
"""

from __future__ import annotations

from typing import Any

from livegrad.graph.symbol import real
from livegrad.ops import reduce as rd
from livegrad.ops.comparison import clamp_min
from livegrad.ops.elementwise import add, div, mul, sub

Tensor = Any
Dims = tuple[int, ...]


def mean_over(x: Tensor, dims: Dims) -> Tensor:
    """Mean over `dims`, which are kept; 0 of nothing."""
    return div(rd.sum(x, dims, True), real(max(rd.count(x, dims), 1)))


def moments(x: Tensor, dims: Dims) -> tuple[Tensor, Tensor]:
    """Mean and variance over `dims`.

    A batch is folded in two levels: first the places of each example, whose row is read once, then
    the examples. The variance is then the mean of the rows' variances and of the squared distances
    of the rows' means.
    """
    mean, _, variance = _moments(x, dims)
    return mean, variance


def _moments(x: Tensor, dims: Dims) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, what rounding took from it, and variance."""
    if dims and dims[0] == 0 and len(dims) > 1:
        means, lost, variances = _moments(x, dims[1:])
        mean = mean_over(means, (0,))
        apart = add(sub(means, mean), lost)
        squares = mean_over(add(variances, mul(apart, apart)), (0,))
        dims = (0,)
    else:
        mean = mean_over(x, dims)
        apart = sub(x, mean)
        squares = mean_over(mul(apart, apart), dims)
    left = mean_over(apart, dims)
    return mean, left, clamp_min(sub(squares, mul(left, left)), 0)
