"""Distributions of angles."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from livegrad.autograd.modes import no_grad
from livegrad.distributions import constraints
from livegrad.distributions.distribution import Distribution
from livegrad.distributions.utils import broadcast_all
from livegrad.ops.making.sampling import von_mises
from livegrad.ops.special.bessel import i0e, i1e
from livegrad.tensor import Tensor


class VonMises(Distribution):
    """Angles around `loc`: a normal distribution on the circle, narrower with `concentration`."""

    arg_constraints: ClassVar[Any] = {
        "loc": constraints.real,
        "concentration": constraints.positive,
    }
    support = constraints.real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return 1 - i1e(self.concentration) / i0e(self.concentration)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = tuple(self._extended_shape(sample_shape))
        with no_grad():
            turn = von_mises(self.concentration.expand(shape))
            return (turn + self.loc + math.pi) % (2 * math.pi) - math.pi

    def _log_prob(self, value: Tensor) -> Tensor:
        c = self.concentration
        # The exponential is kept small by taking its largest value, at loc, out of it.
        height = c * ((value - self.loc).cos() - 1)
        return height - math.log(2 * math.pi) - i0e(c).log()
