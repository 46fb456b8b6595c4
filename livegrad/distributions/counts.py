"""Distributions of counts: 0, 1, 2, …"""

from __future__ import annotations

from typing import Any, ClassVar

from livegrad import dtypes
from livegrad.autograd.modes import no_grad
from livegrad.distributions import constraints
from livegrad.distributions.distribution import Distribution
from livegrad.distributions.exp_family import ExponentialFamily
from livegrad.distributions.utils import (
    broadcast_all,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
    units,
)
from livegrad.ops.layers.smooth_activation import logsigmoid, softplus
from livegrad.ops.losses.likelihood_loss import binary_cross_entropy_with_logits
from livegrad.ops.making.generate import steps
from livegrad.ops.making.sampling import binomial, poisson, standard_gamma
from livegrad.ops.picking.masking import where
from livegrad.ops.special.gamma import lgamma
from livegrad.ops.special.special_math import xlog1py, xlogy
from livegrad.tensor import Tensor


class Odds(Distribution):
    """A distribution with a probability of success, given as `probs` or as log-odds, `logits`."""

    def _set_odds(self, probs: Any, logits: Any, *others: Any) -> Any:
        """Stores the one of both that is given, broadcast with `others`; gives all of them."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        given, *rest = broadcast_all(logits if probs is None else probs, *others)
        self.__dict__["probs" if logits is None else "logits"] = given
        return given, *rest

    @lazy_property
    def logits(self) -> Tensor:
        """The log-odds of success."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """The probability of success."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter that was given."""
        return self._given().shape

    def _given(self) -> Tensor:
        given: Tensor = self.__dict__["probs" if "probs" in self.__dict__ else "logits"]
        return given


class Bernoulli(Odds, ExponentialFamily):
    """1 with probability `probs`, else 0."""

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.boolean
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        (given,) = self._set_odds(probs, logits)
        super().__init__(given.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        likely = (self.probs >= 0.5).to(self.probs.dtype)
        return where(self.probs == 0.5, float("nan"), likely)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return self.probs.expand(tuple(self._extended_shape(sample_shape))).bernoulli()

    def entropy(self) -> Tensor:
        return _cross_entropy(self.logits, self.probs)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return _counting(self, 2, expand)

    def _log_prob(self, value: Tensor) -> Tensor:
        return -_cross_entropy(self.logits, value)


def _cross_entropy(logits: Tensor, value: Tensor) -> Tensor:
    logits, value = broadcast_all(logits, value)
    return binary_cross_entropy_with_logits(logits, value, reduction="none")


def _counting(distribution: Any, count: int, expand: bool) -> Tensor:
    """0, 1, … along a new first dim, for every distribution of the batch if `expand`."""
    given = distribution._given()
    batch = tuple(distribution.batch_shape)
    values = steps(count, 0.0, 1.0, given.dtype).reshape((count, *[1] * len(batch)))
    return values.expand((count, *batch)) if expand else values


class Geometric(Odds):
    """How often one fails before the first success."""

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        (given,) = self._set_odds(probs, logits)
        super().__init__(given.shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not bool((given > 0).all()):
            raise ValueError(
                f"Expected parameter probs of distribution {self!r} to be positive but found "
                f"invalid values:\n{given}"
            )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return self.probs.new_zeros(self._batch_shape)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            u = units(self._extended_shape(sample_shape), self.probs.dtype)
            return (u.log() / (-self.probs).log1p()).floor()

    def entropy(self) -> Tensor:
        return _cross_entropy(self.logits, self.probs) / self.probs

    def _log_prob(self, value: Tensor) -> Tensor:
        value, probs = broadcast_all(value, self.probs)
        return xlog1py(value, -probs) + probs.log()


class Poisson(ExponentialFamily):
    """How many events with this `rate` happen in a unit of time."""

    arg_constraints: ClassVar[Any] = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return poisson(self.rate.expand(tuple(self._extended_shape(sample_shape))))

    def _log_prob(self, value: Tensor) -> Tensor:
        rate, value = broadcast_all(self.rate, value)
        return xlogy(value, rate) - rate - lgamma(value + 1)


class Binomial(Odds):
    """How many of `total_count` trials succeed."""

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self,
        total_count: Any = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        given, count = self._set_odds(probs, logits, total_count)
        self.total_count: Tensor = count.to(given.dtype)
        super().__init__(given.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = tuple(self._extended_shape(sample_shape))
        with no_grad():
            return binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def entropy(self) -> Tensor:
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count = int(self.total_count.max().item())
        if int(self.total_count.min().item()) != count:
            raise NotImplementedError(
                "Inhomogeneous total count not supported by `enumerate_support`."
            )
        return _counting(self, count + 1, expand)

    def _log_prob(self, value: Tensor) -> Tensor:
        n = self.total_count
        ways = lgamma(n + 1) - lgamma(value + 1) - lgamma(n - value + 1)
        return ways + value * self.logits - n * softplus(self.logits, threshold=700.0)


class NegativeBinomial(Odds):
    """How many trials succeed before `total_count` have failed."""

    arg_constraints: ClassVar[Any] = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self,
        total_count: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        given, count = self._set_odds(probs, logits, total_count)
        self.total_count: Tensor = count.to(given.dtype)
        super().__init__(given.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = tuple(self._extended_shape(sample_shape))
        with no_grad():
            drawn = standard_gamma(self.total_count.expand(shape)) * self.logits.exp()
            return poisson(drawn.clamp(min=dtypes.finfo(drawn.dtype).tiny))

    def _log_prob(self, value: Tensor) -> Tensor:
        n = self.total_count
        chances = n * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        ways = lgamma(n + value) - lgamma(1.0 + value) - lgamma(n)
        # Without failures to wait for, the only value is 0.
        return chances + where(n + value == 0.0, 0.0, ways)
