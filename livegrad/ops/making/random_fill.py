"""Filling tensors in place with random numbers of a distribution: `x.normal_()` and its like."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from livegrad import dtypes
from livegrad.device import META
from livegrad.dtypes import DType
from livegrad.graph.blame import check_number
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.infer import not_implemented
from livegrad.graph.record import unary
from livegrad.graph.writes import rebind
from livegrad.ops.elementwise.arithmetic import add, cast, div, mul, neg, sub
from livegrad.ops.elementwise.comparison import clamp_min, lt
from livegrad.ops.elementwise.pointwise_math import ceil, exp, log, tan
from livegrad.ops.making.random import RAND, draw, float_dtype, gaussian, integers, uniform
from livegrad.ops.picking.checking import CHECK_PROBABILITY
from livegrad.ops.shaping.movement import whole
from livegrad.random import Generator

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

    Fill = Callable[..., Tensor]


def _unless_dataless(fill: Fill) -> Fill:
    """A filling function that draws nothing for a tensor without data."""

    @wraps(fill)
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return self if node_of(self).meta.device is META else fill(self, *args, **kwargs)

    return method


def _wide(dtype: DType) -> DType:
    """What the numbers are computed in: float64 for integers, which must come out exactly."""
    return dtype.compute if dtype.is_floating_point else dtypes.float64


@_unless_dataless
def uniform_(
    self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Takes uniform numbers in [from, to).

    Args:
        from_, to: the least value, and what all are below.
        generator: what draws; livegrad's default one if None.

    Example:
        >>> x = lg.empty(3).uniform_(-1, 1)
        >>> bool((x.abs() <= 1).all())
        True
    """
    check_number(from_, to)
    if from_ > to:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={from_} > to={to}"
        )
    meta = node_of(self).meta
    unit = uniform(meta.shape, float_dtype("uniform_", meta.dtype, True), generator)
    low = complex(from_, from_) if meta.dtype.is_complex else from_
    return rebind(self, add(mul(unit, to - from_), low))


@_unless_dataless
def normal_(
    self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Takes normal numbers.

    Args:
        mean, std: of the distribution.
        generator: what draws; livegrad's default one if None.

    Example:
        >>> lg.empty(2, 3).normal_(0, 0.02).shape
        livegrad.Size([2, 3])
    """
    check_number(mean, std)
    if std < 0:
        raise RuntimeError(f"normal_ expects std >= 0.0, but found std {std}")
    meta = node_of(self).meta
    bell = gaussian(meta.shape, float_dtype("normal_", meta.dtype, True), generator)
    return rebind(self, add(mul(bell, std), mean))


@_unless_dataless
def log_normal_(
    self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
) -> Tensor:
    """Takes numbers whose logarithms are normal with this mean and standard deviation."""
    check_number(mean, std)
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    meta = node_of(self).meta
    dtype = float_dtype("log_normal_", meta.dtype)
    bell = gaussian(meta.shape, dtype.compute, generator)
    return rebind(self, cast(exp(add(mul(bell, std), mean)), dtype))


@_unless_dataless
def cauchy_(
    self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None
) -> Tensor:
    """Takes numbers of the Cauchy distribution."""
    check_number(median, sigma)
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    meta = node_of(self).meta
    if not meta.dtype.is_floating_point:
        raise RuntimeError(
            "Cauchy distribution is a continuous probability distribution. dtype must be a "
            f"floating point but you specified {meta.dtype.name}"
        )
    unit = draw(RAND, meta.shape, meta.dtype.compute, generator)
    angle = mul(sub(unit, 0.5), math.pi)
    return rebind(self, cast(add(mul(tan(angle), sigma), median), meta.dtype))


@_unless_dataless
def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Takes numbers of the exponential distribution."""
    check_number(lambd)
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    meta = node_of(self).meta
    if not meta.dtype.is_floating_point:
        raise RuntimeError(
            "Exponential distribution is a continuous probability distribution. dtype must be a "
            f"floating point but you specified {meta.dtype.name}"
        )
    unit = draw(RAND, meta.shape, meta.dtype.compute, generator)
    return rebind(self, cast(div(neg(log(sub(1, unit))), lambd), meta.dtype))


@_unless_dataless
def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Takes how many trials it takes to succeed, each with probability `p`: 1, 2, …"""
    check_number(p)
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    meta = node_of(self).meta
    if meta.dtype.is_complex or meta.dtype is dtypes.bool_:
        raise not_implemented("geometric_", meta.dtype)
    unit = draw(RAND, meta.shape, _wide(meta.dtype), generator)
    trials = ceil(div(log(sub(1, unit)), math.log1p(-p)))
    return rebind(self, cast(clamp_min(trials, 1), meta.dtype))


@_unless_dataless
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Takes 1 with probability `p` (a number or a tensor), else 0."""
    if not isinstance(p, Handle):
        check_number(p)
    if not isinstance(p, Handle) and not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_: expects p to be in [0, 1], but got p={p}")
    meta = node_of(self).meta
    unit = draw(RAND, meta.shape, dtypes.float32, generator)
    if isinstance(p, Handle):
        p = unary(CHECK_PROBABILITY, p)
    return rebind(self, cast(lt(unit, p), meta.dtype))


# Integers up to here are exact in a floating dtype.
_EXACT = {dtypes.float16: 11, dtypes.bfloat16: 8, dtypes.float32: 24, dtypes.float64: 53}


@_unless_dataless
def random_(
    self: Tensor,
    from_: int | None = None,
    to: int | None = None,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Takes integers in [from, to); without `to`, random_(to) or the whole range of the dtype."""
    meta = node_of(self).meta
    if meta.dtype.is_complex:
        raise not_implemented("random_", meta.dtype)
    if to is None and from_ is not None:
        from_, to = 0, from_
    elif to is None:
        from_ = 0
        bits = _EXACT.get(meta.dtype, meta.dtype.bits - int(meta.dtype.signed))
        to = (1 << bits) + int(meta.dtype in _EXACT)
        to = min(to, (1 << 63) - 1)
    from_, to = whole("random_", "from", from_), whole("random_", "to", to)
    if from_ >= to:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={from_} >= to={to}"
        )
    return rebind(self, integers(from_, to, meta.shape, meta.dtype, generator))
