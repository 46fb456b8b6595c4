"""Distributions of numbers moved by `loc` and stretched by `scale`."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from livegrad.distributions import constraints
from livegrad.distributions.distribution import Distribution
from livegrad.distributions.exp_family import ExponentialFamily
from livegrad.distributions.utils import bells, broadcast_all, euler_constant, units
from livegrad.ops.making.random import uniform
from livegrad.ops.making.sampling import standard_gamma
from livegrad.ops.picking.masking import where
from livegrad.ops.special.error_functions import ndtr, ndtri
from livegrad.ops.special.gamma import digamma, lgamma
from livegrad.tensor import Tensor


class LocationScale(Distribution):
    """A distribution of `loc + scale * x`, where `x` has a fixed distribution.

    A family gives, for that fixed one: samples, the log-density and, where they exist in closed
    form, the cumulative distribution and its inverse.
    """

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mode(self) -> Tensor:
        return self.loc

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.loc + self.scale * self._standard_sample(shape)

    def _log_prob(self, value: Tensor) -> Tensor:
        return self._standard_log_prob((value - self.loc) / self.scale) - self.scale.log()

    def _cdf(self, value: Tensor) -> Tensor:
        return self._standard_cdf((value - self.loc) / self.scale)

    def _icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * self._standard_icdf(value)

    def _standard_sample(self, shape: Any) -> Tensor:
        return self._standard_icdf(units(shape, self.loc.dtype))

    def _standard_log_prob(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _standard_cdf(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _standard_icdf(self, p: Tensor) -> Tensor:
        raise NotImplementedError


class Normal(LocationScale, ExponentialFamily):
    """The normal distribution with mean `loc` and standard deviation `scale`."""

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale.square()

    def entropy(self) -> Tensor:
        return self.scale.log() + (0.5 + 0.5 * math.log(2 * math.pi))

    def _standard_sample(self, shape: Any) -> Tensor:
        return bells(shape, self.loc.dtype)

    def _standard_log_prob(self, x: Tensor) -> Tensor:
        return -0.5 * x * x - 0.5 * math.log(2 * math.pi)

    def _standard_cdf(self, x: Tensor) -> Tensor:
        return ndtr(x)

    def _standard_icdf(self, p: Tensor) -> Tensor:
        return ndtri(p)


class Laplace(LocationScale):
    """The Laplace distribution: exponential on both sides of `loc`."""

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.square()

    @property
    def stddev(self) -> Tensor:
        return math.sqrt(2) * self.scale

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + math.log(2))

    def _standard_log_prob(self, x: Tensor) -> Tensor:
        return -x.abs() - math.log(2)

    def _standard_cdf(self, x: Tensor) -> Tensor:
        return 0.5 - 0.5 * x.sign() * (-x.abs()).expm1()

    def _standard_icdf(self, p: Tensor) -> Tensor:
        middle = p - 0.5
        return -middle.sign() * (-2 * middle.abs()).log1p()


class Cauchy(LocationScale):
    """The Cauchy distribution, which has no mean and no variance."""

    @property
    def mean(self) -> Tensor:
        return self.loc.new_full(self._batch_shape, math.nan)

    @property
    def variance(self) -> Tensor:
        return self.loc.new_full(self._batch_shape, math.inf)

    def entropy(self) -> Tensor:
        return self.scale.log() + math.log(4 * math.pi)

    def _standard_sample(self, shape: Any) -> Tensor:
        return ((uniform(tuple(shape), self.loc.dtype) - 0.5) * math.pi).tan()

    def _standard_log_prob(self, x: Tensor) -> Tensor:
        return -x.square().log1p() - math.log(math.pi)

    def _standard_cdf(self, x: Tensor) -> Tensor:
        return x.atan() / math.pi + 0.5

    def _standard_icdf(self, p: Tensor) -> Tensor:
        return ((p - 0.5) * math.pi).tan()


class Gumbel(LocationScale):
    """The Gumbel distribution: that of the greatest of many."""

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def variance(self) -> Tensor:
        return (math.pi**2 / 6) * self.scale.square()

    @property
    def stddev(self) -> Tensor:
        return (math.pi / math.sqrt(6)) * self.scale

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)

    def _standard_log_prob(self, x: Tensor) -> Tensor:
        return -x - (-x).exp()

    def _standard_cdf(self, x: Tensor) -> Tensor:
        return (-(-x).exp()).exp()

    def _standard_icdf(self, p: Tensor) -> Tensor:
        return -(-p.log()).log()


class StudentT(LocationScale):
    """Student's t-distribution with `df` degrees of freedom."""

    arg_constraints: ClassVar[Any] = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        self.df, loc, scale = broadcast_all(df, loc, scale)
        super().__init__(loc, scale, validate_args)

    @property
    def mean(self) -> Tensor:
        return where(self.df > 1, self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        df = self.df
        finite = self.scale.square() * df / where(df > 2, df - 2, 1.0)
        return where(df > 2, finite, where(df > 1, self.loc.new_full((), math.inf), math.nan))

    def entropy(self) -> Tensor:
        half, more = 0.5 * self.df, 0.5 * (self.df + 1)
        log_beta = lgamma(half) + math.log(math.sqrt(math.pi)) - lgamma(more)
        spread = more * (digamma(more) - digamma(half))
        return self.scale.log() + spread + 0.5 * self.df.log() + log_beta

    def _standard_sample(self, shape: Any) -> Tensor:
        half = 0.5 * self.df.expand(tuple(shape))
        chi2 = 2 * standard_gamma(half)
        return bells(shape, self.loc.dtype) * (chi2 / self.df).rsqrt()

    def _standard_log_prob(self, x: Tensor) -> Tensor:
        half, more = 0.5 * self.df, 0.5 * (self.df + 1)
        norm = 0.5 * (self.df * math.pi).log() + lgamma(half) - lgamma(more)
        return -more * (x.square() / self.df).log1p() - norm
