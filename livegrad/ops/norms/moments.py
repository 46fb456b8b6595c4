"""Mean and variance of what norms fold, with the folded dims kept as size 1.

A mean is rounded, and far from 0 that is much compared with how the values vary. So where variances
are statistics in themselves (those of a batch, and `var`), the deviations from the mean are summed
too, which would come to 0, and what they come to is taken out of the squares: no digit is lost
however far the values are from 0. That costs one addition per value, beside the squares;
`mean(x²) - mean²` would lose everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from livegrad import dtypes
from livegrad.graph.handle import node_of
from livegrad.graph.symbol import real
from livegrad.ops.elementwise.arithmetic import add, cast, div, mul, sub, where
from livegrad.ops.elementwise.comparison import lt
from livegrad.ops.reductions import reduce as rd

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Dims = tuple[int, ...]


def mean_over(x: Tensor, dims: Dims) -> Tensor:
    """Mean over `dims`, which are kept; 0 of nothing."""
    return div(rd.sum(x, dims, True), real(max(rd.count(x, dims), 1)))


def moments(x: Tensor, dims: Dims) -> tuple[Tensor, Tensor]:
    """Mean and variance over `dims`."""
    if dims and dims[0] == 0:
        dtype = node_of(x).meta.dtype
        mean, variance = _batch_moments(x, dims)
        return cast(mean, dtype), cast(variance, dtype)
    mean = mean_over(x, dims)
    apart = sub(x, mean)
    return mean, mean_over(mul(apart, apart), dims)


def _batch_moments(x: Tensor, dims: Dims) -> tuple[Tensor, Tensor]:
    """Mean and variance in float64.

    A batch is folded in two levels: first the places of each example, whose row is read once, then
    the examples. The variance is then the mean of the rows' variances and of the squared distances
    of the rows' means.
    """
    if dims[0] == 0 and len(dims) > 1:
        means, variances = _batch_moments(x, dims[1:])
        mean = mean_over(means, (0,))
        apart = sub(means, mean)
        return mean, mean_over(add(variances, mul(apart, apart)), (0,))
    mean = mean_over(x, dims)
    left, squares = about(x, mean, dims)
    share = _share(x, dims)
    return add(cast(mean, dtypes.float64), mul(left, share)), mul(squares, share)


def about(x: Tensor, mean: Tensor, dims: Dims) -> tuple[Tensor, Tensor]:
    """What is left when a rounded mean is taken from real values, and their squares about the true.

    Both are sums over `dims`, in float64.
    """
    apart = sub(x, mean)
    left = rd.wide_sum(apart, dims)
    squares = rd.wide_squares(apart, dims)
    rest = sub(squares, mul(mul(left, left), _share(x, dims)))
    return left, where(lt(rest, 0), 0, rest)


def _share(x: Tensor, dims: Dims) -> float:
    """What each value counts in a mean: multiplying by it takes less time than a division."""
    return real(1 / max(rd.count(x, dims), 1))
