"""Distributions over a finite number of categories."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from livegrad import dtypes
from livegrad.autograd.modes import no_grad
from livegrad.distributions import constraints
from livegrad.distributions.counts import Binomial
from livegrad.distributions.distribution import Distribution
from livegrad.distributions.utils import (
    broadcast_all,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from livegrad.ops.making.generate import counting
from livegrad.ops.making.sampling import multinomial
from livegrad.ops.picking.masking import where
from livegrad.ops.shaping.movement import broadcast_tensors
from livegrad.ops.special.gamma import lgamma
from livegrad.tensor import Tensor


class Weights(Distribution):
    """A distribution over categories along the last dim, given as `probs` or as `logits`.

    Probabilities are divided by their sum, and logits become log-probabilities.
    """

    arg_constraints: ClassVar[Any] = {
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }

    def _set_weights(self, probs: Any, logits: Any) -> Tensor:
        """Stores the one of both that is given, normalised."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        given: Tensor = logits if probs is None else probs
        name = "logits" if probs is None else "probs"
        if given.ndim < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is None:
            self.__dict__["logits"] = logits - logits.logsumexp(-1, True)
        else:
            self.__dict__["probs"] = probs / probs.sum(-1, True)
        return given

    @lazy_property
    def logits(self) -> Tensor:
        """Log-probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities."""
        return logits_to_probs(self.logits)

    def _given(self) -> Tensor:
        given: Tensor = self.__dict__["probs" if "probs" in self.__dict__ else "logits"]
        return given

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter that was given."""
        return self._given().shape

    @property
    def _num_events(self) -> int:
        return int(self._given().shape[-1])

    def _indices(self, sample_shape: Any) -> Tensor:
        """Numbers of drawn categories, of shape `sample_shape + batch_shape`."""
        batch = tuple(self.param_shape[:-1])
        count = math.prod(sample_shape)
        rows = self.probs.reshape((-1, self._num_events))
        if count == 0 or rows.shape[0] == 0:
            return rows.new_zeros((*sample_shape, *batch), dtype=dtypes.int64)
        drawn = multinomial(rows, count, True).transpose(0, 1)
        return drawn.reshape((*sample_shape, *batch))

    def _as_vectors(self, indices: Tensor) -> Tensor:
        """One-hot vectors of categories."""
        hits = indices.unsqueeze(-1) == counting(self._num_events)
        return hits.to(self._given().dtype)

    def _entropy(self) -> Tensor:
        low = dtypes.finfo(self.logits.dtype).min
        return -(self.logits.clamp(min=low) * self.probs).sum(-1)


class Categorical(Weights):
    """Numbers of categories: `i` with probability `probs[..., i]`.

    Args:
        probs: probabilities (…, categories), or weights: they are made to add up to 1.
        logits: their logarithms, instead; any constant may be added.
        validate_args: whether wrong values are an error; as usual (`set_default_validate_args`)
            if None.

    Example:
        >>> from livegrad.distributions import Categorical
        >>> policy = Categorical(probs=lg.tensor([0.25, 0.75]))
        >>> policy.log_prob(lg.tensor(1))
        tensor(-0.2877)
        >>> policy.sample((3,)).shape
        livegrad.Size([3])
    """

    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        given = self._set_weights(probs, logits)
        super().__init__(given.shape[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        return self._given().new_full(self._batch_shape, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return self._given().new_full(self._batch_shape, math.nan)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return self._indices(tuple(sample_shape))

    def entropy(self) -> Tensor:
        return self._entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        batch = tuple(self._batch_shape)
        values = counting(self._num_events).reshape((-1, *[1] * len(batch)))
        return values.expand((-1, *batch)) if expand else values

    def _log_prob(self, value: Tensor) -> Tensor:
        place, logits = value.to(dtypes.int64).unsqueeze(-1), self.logits
        if value.shape != self._batch_shape:
            place, logits = broadcast_tensors(place, logits)
            place = place[..., :1]
        return logits.gather(-1, place).squeeze(-1)


class OneHotCategorical(Weights):
    """Categories as vectors with a single 1."""

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        shape = self._set_weights(probs, logits).shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return self._as_vectors(self.probs.argmax(-1))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return self._as_vectors(self._indices(tuple(sample_shape)))

    def entropy(self) -> Tensor:
        return self._entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n, batch = self._num_events, tuple(self._batch_shape)
        values = self._as_vectors(counting(n)).reshape((n, *[1] * len(batch), n))
        return values.expand((n, *batch, n)) if expand else values

    def _log_prob(self, value: Tensor) -> Tensor:
        value, logits = broadcast_tensors(value, self.logits)
        chosen = value.argmax(-1, True)
        return logits.gather(-1, chosen).squeeze(-1)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot samples that pass gradients on to the probabilities as if they were these."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(Weights):
    """How often each category was drawn in `total_count` draws."""

    def __init__(
        self,
        total_count: int = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        shape = self._set_weights(probs, logits).shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            drawn = self._indices((self.total_count, *sample_shape))
            return self._as_vectors(drawn).sum(0)

    def entropy(self) -> Tensor:
        n = self.total_count
        # The number of hits of one category is binomial.
        marginal = Binomial(n, probs=self.probs, validate_args=False)
        values = marginal.enumerate_support(False)[1:]
        weights = marginal.log_prob(values).exp()
        ways = (weights * lgamma(values + 1)).sum((0, -1))
        return n * self._entropy() - math.lgamma(n + 1) + ways

    def _log_prob(self, value: Tensor) -> Tensor:
        value, logits = broadcast_all(value, self.logits)
        ways = lgamma(value.sum(-1) + 1) - lgamma(value + 1).sum(-1)
        impossible = (value == 0) & (logits == -math.inf)
        return ways + (where(impossible, 0.0, logits) * value).sum(-1)
