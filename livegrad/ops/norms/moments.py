"""Mean and variance of what norms fold, with the folded dims kept as size 1.

A mean is rounded, and far from 0 that is much compared with how the values vary. So where variances
are statistics in themselves (those of a batch, and `var`), the deviations from the mean are summed
too, which would come to 0, and what they come to is taken out of the squares: no digit is lost
however far the values are from 0. That costs one addition per value, beside the squares;
`mean(x²) - mean²` would lose everything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from livegrad import dtypes
from livegrad.graph.handle import node_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.graph.symbol import real
from livegrad.ops.elementwise.arithmetic import abs, add, cast, div, mul, sub, where
from livegrad.ops.elementwise.comparison import gt, lt
from livegrad.ops.reductions import reduce as rd
from livegrad.ops.support import samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Dims = tuple[int, ...]


def mean_over(x: Tensor, dims: Dims) -> Tensor:
    """Mean over `dims`, which are kept; 0 of nothing."""
    return div(rd.sum(x, dims, True), real(max(rd.count(x, dims), 1)))


def moments(x: Tensor, dims: Dims) -> tuple[Tensor, Tensor]:
    """Mean and variance over `dims`.

    They are nodes of their own: a norm, its gradients and its running statistics ask for the same
    ones, and a plan expands equal nodes once.
    """
    return record(MOMENT, (x,), (dims, 0)), record(MOMENT, (x,), (dims, 1))


def _expand(n: Any, x: Tensor) -> Tensor:
    dims, which = n.attrs
    if dims and dims[0] == 0:
        return cast(_batch_moments(x, dims)[which], n.meta.dtype)
    mean = mean_over(x, dims)
    if which == 0:
        return mean
    apart = sub(x, mean)
    return mean_over(mul(apart, apart), dims)


def _sample(which: int, *dims: int) -> Callable[[], s.Sample]:
    # Gradients are those of the norms, which have rules of their own.
    return lambda: s.Sample(
        (s.uniform(2, 4, 3),), lambda x: record(MOMENT, (x,), (dims, which)), smooth=False
    )


# attrs (dims, 0 for the mean or 1 for the variance)
MOMENT = Op(
    "moment",
    "composite",
    infer=lambda metas, attrs, shape: rd.reduced_meta(metas[0], attrs[0], True),
    expand=_expand,
    samples=s.calls(*[_sample(which, *dims) for which in (0, 1) for dims in ((0, 2), (1,))]),
)


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
    near, left, squares = about_mean(x, dims)
    share = _share(x, dims)
    return add(cast(near, dtypes.float64), mul(left, share)), mul(squares, share)


def squares_about_mean(x: Tensor, dims: Dims) -> Tensor:
    """The squares about the mean of real values, summed over `dims` in float64.

    Squares of float32 would be infinite beyond 1e19, and 0 below 1e-22: such values are brought
    nearer to 1. By a power of two, so that nothing is rounded, and nothing changes for others.
    """
    if node_of(x).meta.dtype is not dtypes.float32 or not rd.count(x, dims):
        return about_mean(x, dims)[-1]
    most = rd.amax(abs(x), dims, True)
    large, small = gt(most, 2.0**60), lt(most, 2.0**-50)
    scale = where(large, 2.0**-68, where(small, 2.0**100, 1.0))
    back = cast(where(large, 2.0**68, where(small, 2.0**-100, 1.0)), dtypes.float64)
    return mul(about_mean(x, dims, scale)[-1], mul(back, back))


def about_mean(x: Tensor, dims: Dims, scale: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """About where real values lie, what they come to from there, and their squares about the mean.

    The last two are sums over `dims`, in float64, of deviations times `scale`. The first need not
    be the mean: what it differs is taken out.
    """
    near = mul(rd.sum(x, dims, True), _share(x, dims))
    apart = sub(x, near) if scale is None else mul(sub(x, near), scale)
    left = rd.wide_sum(apart, dims)
    squares = rd.wide_squares(apart, dims)
    rest = sub(squares, mul(mul(left, left), _share(x, dims)))
    # Where all values are equal nothing is left but what rounding may leave of it.
    return near, left, where(lt(rest, mul(squares, _ROUNDING)), 0, rest)


# Of what is subtracted in double precision. No values of a lower one lie as close together, seen
# from where their rounded mean is, unless they are equal.
_ROUNDING = 2.0**-50


def _share(x: Tensor, dims: Dims) -> float:
    """What each value counts in a mean: multiplying by it takes less time than a division."""
    return real(1 / max(rd.count(x, dims), 1))
