"""Distributions of numbers between bounds, and of shares."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from livegrad.distributions import constraints
from livegrad.distributions.distribution import Distribution
from livegrad.distributions.exp_family import ExponentialFamily
from livegrad.distributions.utils import (
    broadcast_all,
    clamp_probs,
    euler_constant,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
    units,
)
from livegrad.ops.layers.smooth_activation import softplus
from livegrad.ops.making.random import uniform
from livegrad.ops.making.sampling import dirichlet
from livegrad.ops.picking.masking import where
from livegrad.ops.shaping.joining import stack
from livegrad.ops.special.gamma import digamma, lgamma
from livegrad.ops.special.special_math import xlog1py, xlogy
from livegrad.tensor import Tensor


class Uniform(Distribution):
    """Equally likely numbers in [low, high)."""

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @property
    def arg_constraints(self) -> Any:
        """The bounds limit each other."""
        return {
            "low": constraints.less_than(self.high),
            "high": constraints.greater_than(self.low),
        }

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return math.nan * self.high

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).square() / 12

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = tuple(self._extended_shape(sample_shape))
        return self.low + uniform(shape, self.low.dtype) * (self.high - self.low)

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()

    def _log_prob(self, value: Tensor) -> Tensor:
        inside = (self.low <= value) & (self.high > value)
        return where(inside, 0.0, -math.inf) - (self.high - self.low).log()

    def _cdf(self, value: Tensor) -> Tensor:
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def _icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low


class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution of shares that add up to 1 along the last dim."""

    arg_constraints: ClassVar[Any] = {
        "concentration": constraints.independent(constraints.positive, 1)
    }
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration: Tensor = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        excess = (self.concentration - 1).clamp(min=0.0)
        mode = excess / excess.sum(-1, True)
        # Without any excess the density is greatest in the corner of the greatest parameter.
        corner = (self.concentration == self.concentration.amax(-1, True)).to(mode.dtype)
        flat = (self.concentration < 1).all(-1, True)
        return where(flat, corner / corner.sum(-1, True), mode)

    @property
    def variance(self) -> Tensor:
        c, total = self.concentration, self.concentration.sum(-1, True)
        return c * (total - c) / (total.square() * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return dirichlet(self.concentration.expand(tuple(self._extended_shape(sample_shape))))

    def entropy(self) -> Tensor:
        c, k = self.concentration, self.concentration.shape[-1]
        total = c.sum(-1)
        spread = (k - total) * digamma(total) + ((c - 1) * digamma(c)).sum(-1)
        return lgamma(c).sum(-1) - lgamma(total) - spread

    def _log_prob(self, value: Tensor) -> Tensor:
        c = self.concentration
        return xlogy(c - 1, value).sum(-1) + lgamma(c.sum(-1)) - lgamma(c).sum(-1)


class Beta(ExponentialFamily):
    """The beta distribution of a share: `concentration1` for it, `concentration0` for the rest."""

    arg_constraints: ClassVar[Any] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    def _pair(self) -> Dirichlet:
        both = stack([self.concentration1, self.concentration0], -1)
        return Dirichlet(both, validate_args=False)

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._pair().mode[..., 0]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.square() * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._pair().rsample(sample_shape).select(-1, 0)

    def entropy(self) -> Tensor:
        return self._pair().entropy()

    def _log_prob(self, value: Tensor) -> Tensor:
        a, b = self.concentration1, self.concentration0
        density = xlogy(a - 1, value) + xlog1py(b - 1, -value)
        return density + lgamma(a + b) - lgamma(a) - lgamma(b)


class Kumaraswamy(Distribution):
    """Kumaraswamy's distribution of a share, like the beta distribution with a simple inverse."""

    arg_constraints: ClassVar[Any] = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    def _moment(self, n: int) -> Tensor:
        a, b = 1 + n / self.concentration1, self.concentration0
        return (b.log() + lgamma(a) + lgamma(b) - lgamma(a + b)).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        value = ((a - 1) / (a * b - 1)).clamp(min=0).pow(a.reciprocal())
        defined = (a >= 1) & (b >= 1) & ((a != 1) | (b != 1))
        return where(defined, value, math.nan)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self.mean.square()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = units(self._extended_shape(sample_shape), self.concentration1.dtype)
        return clamp_probs(self._icdf(u))

    def entropy(self) -> Tensor:
        a, b = self.concentration1.reciprocal(), self.concentration0.reciprocal()
        harmonic = digamma(self.concentration0 + 1) + euler_constant
        return (1 - b) + (1 - a) * harmonic + a.log() + b.log()

    def _log_prob(self, value: Tensor) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return (a * b).log() + (a - 1) * value.log() + (b - 1) * (-value.pow(a)).log1p()

    def _cdf(self, value: Tensor) -> Tensor:
        inner = (-value.pow(self.concentration1)).log1p()
        return -(self.concentration0 * inner).expm1()

    def _icdf(self, value: Tensor) -> Tensor:
        inner = -((-value).log1p() / self.concentration0).expm1()
        return inner.pow(self.concentration1.reciprocal())


class ContinuousBernoulli(ExponentialFamily):
    """Shares with a density proportional to `probs**x * (1 - probs)**(1 - x)`."""

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        if probs is not None:
            (given,) = broadcast_all(probs)
            self.probs = clamp_probs(given)
        else:
            (given,) = broadcast_all(logits)
            self.logits = given
        self._lims = lims
        super().__init__(given.shape, validate_args=validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        """The parameter as a probability; not the mean."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    @lazy_property
    def logits(self) -> Tensor:
        """The parameter as log-odds."""
        return probs_to_logits(self.probs, is_binary=True)

    def _steep(self) -> tuple[Tensor, Tensor]:
        """Where `probs` is away from 1/2, and `probs` there, for formulas that fail at 1/2."""
        away = (self.probs <= self._lims[0]) | (self.probs > self._lims[1])
        return away, where(away, self.probs, self._lims[0])

    def _log_norm(self) -> Tensor:
        away, p = self._steep()
        slope = ((-p).log1p() - p.log()).abs().log()
        exact = slope - (1 - 2 * p).abs().log()
        x = (self.probs - 0.5).square()
        return where(away, exact, math.log(2) + (4 / 3 + 104 / 45 * x) * x)

    @property
    def mean(self) -> Tensor:
        away, p = self._steep()
        exact = p / (2 * p - 1) + 1 / ((-p).log1p() - p.log())
        x = self.probs - 0.5
        return where(away, exact, 0.5 + (1 / 3 + 16 / 45 * x.square()) * x)

    @property
    def variance(self) -> Tensor:
        away, p = self._steep()
        exact = p * (p - 1) / (1 - 2 * p).square() + 1 / ((-p).log1p() - p.log()).square()
        x = (self.probs - 0.5).square()
        return where(away, exact, 1 / 12 - (1 / 15 - 128 / 945 * x) * x)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._icdf(units(self._extended_shape(sample_shape), self.probs.dtype))

    def entropy(self) -> Tensor:
        low = (-self.probs).log1p()
        return self.mean * (low - self.probs.log()) - self._log_norm() - low

    def _log_prob(self, value: Tensor) -> Tensor:
        # log(probs) * x + log(1 - probs) * (1 - x), from the log-odds
        return self.logits * value - softplus(self.logits) + self._log_norm()

    def _cdf(self, value: Tensor) -> Tensor:
        away, p = self._steep()
        grown = p.pow(value) * (1 - p).pow(1 - value) + p - 1
        inside = where(away, grown / (2 * p - 1), value)
        return where(value <= 0, 0.0, where(value >= 1, 1.0, inside))

    def _icdf(self, value: Tensor) -> Tensor:
        away, p = self._steep()
        top = (-p + value * (2 * p - 1)).log1p() - (-p).log1p()
        return where(away, top / (p.log() - (-p).log1p()), value)
