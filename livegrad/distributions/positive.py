"""Distributions of positive numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

from livegrad import dtypes
from livegrad.distributions import constraints
from livegrad.distributions.distribution import Distribution
from livegrad.distributions.exp_family import ExponentialFamily
from livegrad.distributions.location_scale import Cauchy, Normal
from livegrad.distributions.utils import broadcast_all, euler_constant, units
from livegrad.ops.making.sampling import standard_gamma
from livegrad.ops.picking.masking import where
from livegrad.ops.special.gamma import digamma, igamma, lgamma
from livegrad.ops.special.special_math import xlogy
from livegrad.tensor import Tensor


class Exponential(ExponentialFamily):
    """The exponential distribution: waiting times of events with this `rate`."""

    arg_constraints: ClassVar[Any] = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return self.rate.new_zeros(self._batch_shape)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.square().reciprocal()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return -units(self._extended_shape(sample_shape), self.rate.dtype).log() / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - self.rate.log()

    def _log_prob(self, value: Tensor) -> Tensor:
        return self.rate.log() - self.rate * value

    def _cdf(self, value: Tensor) -> Tensor:
        return -(-self.rate * value).expm1()

    def _icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate


class Gamma(ExponentialFamily):
    """The gamma distribution with shape `concentration` and `rate`."""

    arg_constraints: ClassVar[Any] = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = tuple(self._extended_shape(sample_shape))
        drawn = standard_gamma(self.concentration.expand(shape)) / self.rate
        # Away from 0, where the log-density may be infinite; the gradient is that of the sample.
        return drawn.clamp(min=dtypes.finfo(drawn.dtype).tiny)

    def entropy(self) -> Tensor:
        c = self.concentration
        return c - self.rate.log() + lgamma(c) + (1.0 - c) * digamma(c)

    def _log_prob(self, value: Tensor) -> Tensor:
        c = self.concentration
        return xlogy(c, self.rate) + xlogy(c - 1, value) - self.rate * value - lgamma(c)

    def _cdf(self, value: Tensor) -> Tensor:
        return igamma(self.concentration, self.rate * value)


class Chi2(Gamma):
    """The chi-squared distribution with `df` degrees of freedom."""

    arg_constraints: ClassVar[Any] = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (df,) = broadcast_all(df)
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2

    def _given_parameters(self) -> dict[str, Any]:
        return {"df": self.df}

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = self._get_checked_instance(Chi2, _instance)
        Chi2.__init__(new, self.df.expand(tuple(batch_shape)), validate_args=False)
        new._validate_args = self._validate_args
        return new


class InverseGamma(Distribution):
    """The distribution of the reciprocals of gamma samples."""

    arg_constraints: ClassVar[Any] = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.positive
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        c = self.concentration
        return where(c > 1, self.rate / (c - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        c = self.concentration
        return where(c > 2, self.rate.square() / ((c - 1).square() * (c - 2)), math.inf)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = tuple(self._extended_shape(sample_shape))
        drawn = standard_gamma(self.concentration.expand(shape)) / self.rate
        return drawn.clamp(min=dtypes.finfo(drawn.dtype).tiny).reciprocal()

    def entropy(self) -> Tensor:
        c = self.concentration
        return c + self.rate.log() + lgamma(c) - (1 + c) * digamma(c)

    def _log_prob(self, value: Tensor) -> Tensor:
        c = self.concentration
        return c * self.rate.log() - (c + 1) * value.log() - self.rate / value - lgamma(c)

    def _cdf(self, value: Tensor) -> Tensor:
        return 1 - igamma(self.concentration, self.rate / value)


class Weibull(Distribution):
    """The Weibull distribution: exponential numbers to a power, times `scale`."""

    arg_constraints: ClassVar[Any] = {
        "scale": constraints.positive,
        "concentration": constraints.positive,
    }
    support = constraints.positive
    has_rsample = True

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def _power(self) -> Tensor:
        return self.concentration.reciprocal()

    @property
    def mean(self) -> Tensor:
        return self.scale * lgamma(1 + self._power).exp()

    @property
    def mode(self) -> Tensor:
        c = self.concentration
        return where(c > 1, self.scale * ((c - 1) / c).clamp(min=0).pow(self._power), 0.0)

    @property
    def variance(self) -> Tensor:
        first, second = lgamma(1 + self._power), lgamma(1 + 2 * self._power)
        return self.scale.square() * (second.exp() - (2 * first).exp())

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._icdf(units(self._extended_shape(sample_shape), self.scale.dtype))

    def entropy(self) -> Tensor:
        return euler_constant * (1 - self._power) + (self.scale * self._power).log() + 1

    def _log_prob(self, value: Tensor) -> Tensor:
        ratio, c = value / self.scale, self.concentration
        return (c / self.scale).log() + (c - 1) * ratio.log() - ratio.pow(c)

    def _cdf(self, value: Tensor) -> Tensor:
        return -(-(value / self.scale).pow(self.concentration)).expm1()

    def _icdf(self, value: Tensor) -> Tensor:
        return self.scale * (-(-value).log1p()).pow(self._power)


class Pareto(Distribution):
    """The Pareto distribution of numbers from `scale` on, with tail exponent `alpha`."""

    arg_constraints: ClassVar[Any] = {
        "alpha": constraints.positive,
        "scale": constraints.positive,
    }
    has_rsample = True

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)
        return self.scale.square() * a / ((a - 1).square() * (a - 2))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = units(self._extended_shape(sample_shape), self.scale.dtype)
        return self.scale * (-u.log() / self.alpha).exp()

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())

    def _log_prob(self, value: Tensor) -> Tensor:
        a = self.alpha
        return a.log() + a * self.scale.log() - (a + 1) * value.log()

    def _cdf(self, value: Tensor) -> Tensor:
        return -(self.alpha * (self.scale / value).log()).expm1()

    def _icdf(self, value: Tensor) -> Tensor:
        return self.scale * (-(-value).log1p() / self.alpha).exp()


class GeneralizedPareto(Distribution):
    """Excesses over `loc`: the tails of other distributions, heavier with `concentration`."""

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(
        self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        c = self.concentration
        top = self.loc - self.scale / where(c < 0, c, -1.0)
        return constraints.interval(self.loc, where(c < 0, top, math.inf))

    def _flat(self) -> tuple[Tensor, Tensor]:
        """Where the tail is exponential, and the concentration elsewhere."""
        flat = self.concentration.abs() < 1e-8
        return flat, where(flat, 1.0, self.concentration)

    @property
    def mean(self) -> Tensor:
        c = self.concentration
        return where(c < 1, self.loc + self.scale / (1 - c), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        c = self.concentration
        return where(c < 0.5, self.scale.square() / ((1 - c).square() * (1 - 2 * c)), math.inf)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._icdf(units(self._extended_shape(sample_shape), self.loc.dtype))

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1

    def _log_survival(self, value: Tensor) -> Tensor:
        flat, c = self._flat()
        z = (value - self.loc) / self.scale
        return where(flat, -z, -(c * z).log1p() / c)

    def _log_prob(self, value: Tensor) -> Tensor:
        flat, c = self._flat()
        tail = self._log_survival(value)
        return where(flat, tail, (1 + c) * tail) - self.scale.log()

    def _cdf(self, value: Tensor) -> Tensor:
        return -self._log_survival(value).expm1()

    def _icdf(self, value: Tensor) -> Tensor:
        flat, c = self._flat()
        log_rest = (-value).log1p()
        return self.loc + self.scale * where(flat, -log_rest, (-c * log_rest).expm1() / c)


class _Half(Distribution):
    """The magnitude of a number with a distribution that is symmetric around 0."""

    arg_constraints: ClassVar[Any] = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _whole: ClassVar[Callable[..., Distribution]]

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        (self.scale,) = broadcast_all(scale)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def base_dist(self) -> Distribution:
        """The distribution on both sides of 0."""
        return self._whole(0.0, self.scale, validate_args=False)

    @property
    def mode(self) -> Tensor:
        return self.scale.new_zeros(self._batch_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape).abs()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)

    def _log_prob(self, value: Tensor) -> Tensor:
        return where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def _cdf(self, value: Tensor) -> Tensor:
        return 2 * self.base_dist.cdf(value) - 1

    def _icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)


class HalfNormal(_Half):
    """The magnitude of a normal number with mean 0."""

    _whole = Normal

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """The magnitude of a Cauchy number with median 0."""

    _whole = Cauchy

    @property
    def mean(self) -> Tensor:
        return self.scale.new_full(self._batch_shape, math.inf)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance


class FisherSnedecor(Distribution):
    """The F-distribution: the ratio of two chi-squared numbers, each divided by its freedom."""

    arg_constraints: ClassVar[Any] = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        ratio = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return where(self.df1 > 2, ratio, math.nan)

    @property
    def variance(self) -> Tensor:
        a, b = self.df1, self.df2
        value = 2 * b.square() * (a + b - 2) / (a * (b - 2).square() * (b - 4))
        return where(b > 4, value, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = tuple(self._extended_shape(sample_shape))
        top = standard_gamma((0.5 * self.df1).expand(shape)) / self.df1
        bottom = standard_gamma((0.5 * self.df2).expand(shape)) / self.df2
        tiny = dtypes.finfo(top.dtype).tiny
        return (top / bottom.clamp(min=tiny)).clamp(min=tiny)

    def _log_prob(self, value: Tensor) -> Tensor:
        a, b = 0.5 * self.df1, 0.5 * self.df2
        ratio = self.df1 / self.df2
        log_beta = lgamma(a) + lgamma(b) - lgamma(a + b)
        density = a * ratio.log() + (a - 1) * value.log() - (a + b) * (ratio * value).log1p()
        return density - log_beta
