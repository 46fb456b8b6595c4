"""The base of families whose density is exp(<t(x), θ> - F(θ) + k(x))."""

from __future__ import annotations

from typing import Any

from livegrad.autograd import grad
from livegrad.distributions.distribution import Distribution
from livegrad.tensor import Tensor


class ExponentialFamily(Distribution):
    """A family with natural parameters θ; its entropy follows from its log-normaliser F alone.

    A family of one's own defines `_natural_params`, `_log_normalizer` and, the mean of k,
    `_mean_carrier_measure`.
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> float:
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy: F(θ) - <θ, dF/dθ> less the mean of k."""
        params = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*params)
        means = grad(normalizer.sum(), params, create_graph=True)
        result: Tensor = normalizer - self._mean_carrier_measure
        for param, mean in zip(params, means, strict=True):
            result = result - (param * mean).reshape((*self._batch_shape, -1)).sum(-1)
        return result
