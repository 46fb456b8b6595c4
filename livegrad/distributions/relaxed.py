"""Continuous relaxations of Bernoulli and one-hot distributions, with gradients through samples.

Maddison, Mnih and Teh, "The concrete distribution" (2017); Jang, Gu and Poole, "Categorical
reparameterization with Gumbel-softmax" (2017).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from livegrad.distributions import constraints
from livegrad.distributions.categories import Weights
from livegrad.distributions.composed import TransformedDistribution
from livegrad.distributions.counts import Odds
from livegrad.distributions.number_transforms import ExpTransform, SigmoidTransform
from livegrad.distributions.utils import broadcast_all, clamp_probs, units
from livegrad.ops.layers.smooth_activation import softplus
from livegrad.tensor import Tensor


class LogitRelaxedBernoulli(Odds):
    """The log-odds of a relaxed Bernoulli number."""

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature: Tensor | float = temperature
        (given,) = self._set_odds(probs, logits)
        super().__init__(given.shape, validate_args=validate_args)

    _kept = ("temperature",)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(tuple(shape)))
        u = clamp_probs(units(shape, probs.dtype))
        noise = u.log() - (-u).log1p()
        return (noise + probs.log() - (-probs).log1p()) / self.temperature

    def _log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, value)
        difference = logits - value * self.temperature
        scale = _log(self.temperature)
        return scale + difference - 2 * softplus(difference)


def _log(temperature: Tensor | float) -> Tensor | float:
    return math.log(temperature) if isinstance(temperature, int | float) else temperature.log()


class RelaxedBernoulli(TransformedDistribution):
    """Numbers in (0, 1) that gather at 0 and 1 as `temperature` falls to 0."""

    base_dist: LogitRelaxedBernoulli

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.unit_interval

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """How far samples are from 0 and 1."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The log-odds of a 1."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probability of a 1."""
        return self.base_dist.probs


class ExpRelaxedCategorical(Weights):
    """The logarithms of a relaxed one-hot vector."""

    support = constraints.real_vector
    has_rsample = True
    _kept = ("temperature",)

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature: Tensor | float = temperature
        shape = self._set_weights(probs, logits).shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = clamp_probs(units(self._extended_shape(sample_shape), self.logits.dtype))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, True)

    def _log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_all(self.logits, value)
        k = self._num_events
        scale = math.lgamma(k) + (k - 1) * _log(self.temperature)
        score = logits - value * self.temperature
        return (score - score.logsumexp(-1, True)).sum(-1) + scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """Shares that gather at the corners of the simplex as `temperature` falls to 0."""

    base_dist: ExpRelaxedCategorical

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    support = constraints.simplex

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """How far samples are from the corners."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Log-probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities."""
        return self.base_dist.probs
