"""Distributions made of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from livegrad.autograd.modes import no_grad
from livegrad.distributions import constraints
from livegrad.distributions.categories import Categorical
from livegrad.distributions.distribution import Distribution
from livegrad.distributions.location_scale import Normal
from livegrad.distributions.number_transforms import ExpTransform
from livegrad.distributions.transform import ComposeTransform, Transform
from livegrad.distributions.utils import as_size, sum_rightmost
from livegrad.distributions.vector_transforms import StickBreakingTransform
from livegrad.ops.support.reading import is_tensor
from livegrad.tensor import Tensor


class Independent(Distribution):
    """A distribution with the last batch dims counted into the event."""

    arg_constraints: ClassVar[Any] = {}

    def __init__(
        self,
        base_distribution: Distribution,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        batch = tuple(base_distribution.batch_shape)
        if not 0 <= reinterpreted_batch_ndims <= len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(batch)}"
            )
        cut = len(batch) - reinterpreted_batch_ndims
        self.base_dist: Distribution = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        event = (*batch[cut:], *base_distribution.event_shape)
        super().__init__(batch[:cut], event, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        inner = self._event_shape[: self.reinterpreted_batch_ndims]
        base = self.base_dist.expand((*batch_shape, *inner))
        new = self._get_checked_instance(Independent, _instance)
        Independent.__init__(new, base, self.reinterpreted_batch_ndims, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def has_rsample(self) -> Any:
        """That of the base."""
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> Any:
        """That of the base, if nothing was counted in."""
        return not self.reinterpreted_batch_ndims and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        dims = self.reinterpreted_batch_ndims
        base = self.base_dist.support
        return constraints.independent(base, dims) if dims else base

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError(
                "Enumeration over cartesian product is not implemented; use "
                "reinterpreted_batch_ndims=0"
            )
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamily(Distribution):
    """A mixture: the last batch dim of `component_distribution` are the components."""

    arg_constraints: ClassVar[Any] = {}

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an instance of "
                "livegrad.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution need to be an instance of "
                "livegrad.distributions.Distribution"
            )
        weights, batch = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        for a, b in zip(reversed(weights), reversed(batch), strict=False):
            if a != 1 and b != 1 and a != b:
                raise ValueError(
                    "`mixture_distribution.batch_shape` is not compatible with "
                    f"`component_distribution.batch_shape`: {list(weights)} vs {list(batch)}"
                )
        count = mixture_distribution._num_events
        if count != component_distribution.batch_shape[-1]:
            raise ValueError(
                "`mixture_distribution component` does not equal "
                "`component_distribution.batch_shape[-1]`: "
                f"{count} vs {component_distribution.batch_shape[-1]}"
            )
        self._mixture_distribution: Categorical = mixture_distribution
        self._component_distribution: Distribution = component_distribution
        super().__init__(batch, component_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        count = self._mixture_distribution._num_events
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        MixtureSameFamily.__init__(
            new,
            self._mixture_distribution.expand(batch_shape),
            self._component_distribution.expand((*batch_shape, count)),
            validate_args=False,
        )
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Any:
        """The distribution over components."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The components."""
        return self._component_distribution

    def _weights(self) -> Tensor:
        """The probabilities of the components, beside their moments."""
        probs = self._mixture_distribution.probs
        return probs.reshape((*probs.shape, *[1] * len(self._event_shape)))

    def _mixed(self, values: Tensor) -> Tensor:
        return (self._weights() * values).sum(-1 - len(self._event_shape))

    @property
    def mean(self) -> Tensor:
        return self._mixed(self._component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        # Within the components, and between them.
        means = self._component_distribution.mean
        centre = self.mean.unsqueeze(-1 - len(self._event_shape))
        return self._mixed(self._component_distribution.variance + (means - centre).square())

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            dims = len(self._event_shape)
            chosen = self._mixture_distribution.expand(self._batch_shape).sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            places = chosen.reshape((*chosen.shape, *[1] * (dims + 1)))
            along = chosen.ndim
            shape = list(drawn.shape)
            shape[along] = 1
            return drawn.gather(along, places.expand(tuple(shape))).squeeze(along)

    def _log_prob(self, value: Tensor) -> Tensor:
        padded = value.unsqueeze(-1 - len(self._event_shape))
        each = self._component_distribution.log_prob(padded)
        return (each + self._mixture_distribution.logits).logsumexp(-1)

    def cdf(self, value: Tensor) -> Tensor:
        padded = value.unsqueeze(-1 - len(self._event_shape))
        each = self._component_distribution.cdf(padded)
        return (each * self._mixture_distribution.probs).sum(-1)

    def __repr__(self) -> str:
        mixture, component = self._mixture_distribution, self._component_distribution
        return f"MixtureSameFamily(\n  {mixture!r},\n  {component!r})"


class TransformedDistribution(Distribution):
    """The distribution of `transforms` applied, one after the other, to samples of another."""

    arg_constraints: ClassVar[Any] = {}

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif isinstance(transforms, Sequence):
            if not all(isinstance(t, Transform) for t in transforms):
                raise ValueError("transforms must be a Transform or a list of Transforms")
            self.transforms = list(transforms)
        else:
            raise ValueError(
                f"transforms must be a Transform or list, but was {type(transforms).__name__}"
            )
        whole = ComposeTransform(self.transforms)
        base: Any = base_distribution
        shape = (*base.batch_shape, *base.event_shape)
        if len(shape) < whole.domain.event_dim:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {whole.domain.event_dim}"
                f", but got {list(shape)}."
            )
        # Parameters of transforms may make the batch larger.
        forward = tuple(whole.forward_shape(shape))
        wanted = tuple(whole.inverse_shape(forward))
        if wanted != shape:
            base = base.expand(wanted[: len(wanted) - len(base.event_shape)])
        extra = whole.domain.event_dim - len(base.event_shape)
        if extra > 0:
            base = Independent(base, extra)
        self.base_dist: Distribution = base
        spare = max(len(base.event_shape) - whole.domain.event_dim, 0)
        cut = len(forward) - whole.codomain.event_dim - spare
        super().__init__(forward[:cut], forward[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = object.__new__(type(self)) if _instance is None else _instance
        new.__dict__.update({k: v for k, v in self.__dict__.items() if not is_tensor(v)})
        shape = ComposeTransform(self.transforms).inverse_shape((*batch_shape, *self._event_shape))
        new.base_dist = self.base_dist.expand(
            tuple(shape)[: len(shape) - len(self.base_dist.event_shape)]
        )
        new._batch_shape = as_size(batch_shape)
        return new

    @property
    def has_rsample(self) -> Any:
        """That of the base."""
        return self.base_dist.has_rsample

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        extra = len(self._event_shape) - support.event_dim
        return constraints.independent(support, extra) if extra > 0 else support

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            x = self.base_dist.sample(sample_shape)
            return self._forward(x)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    def _forward(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def _log_prob(self, value: Tensor) -> Tensor:
        dims = len(self._event_shape)
        total: Tensor | float = 0.0
        y = value
        for t in reversed(self.transforms):
            x = t.inv(y)
            dims += t.domain.event_dim - t.codomain.event_dim
            stretch = t.log_abs_det_jacobian(x, y)
            total = total - sum_rightmost(stretch, dims - t.domain.event_dim)
            y = x
        base = self.base_dist.log_prob(y)
        return total + sum_rightmost(base, dims - len(self.base_dist.event_shape))

    def _rising(self) -> Any:
        """1 where the transforms rise together, -1 where they fall."""
        sign: Any = 1
        for t in self.transforms:
            sign = sign * t.sign
        return sign

    def _flipped(self, probability: Tensor) -> Tensor:
        """A probability counted from the other end where the transforms fall."""
        sign = self._rising()
        if isinstance(sign, int | float):
            return probability if sign == 1 else 1 - probability
        counted: Tensor = sign * (probability - 0.5) + 0.5
        return counted

    def _cdf(self, value: Tensor) -> Tensor:
        for t in reversed(self.transforms):
            value = t.inv(value)
        if self.base_dist._validate_args:
            self.base_dist._validate_sample(value)
        return self._flipped(self.base_dist.cdf(value))

    def _icdf(self, value: Tensor) -> Tensor:
        return self._forward(self.base_dist.icdf(self._flipped(value)))

    def __repr__(self) -> str:
        parameters = super().__repr__()
        if self._given_parameters():
            return parameters
        return f"{type(self).__name__}({self.base_dist!r}, {self.transforms!r})"


class _OfNormal(TransformedDistribution):
    """A transformed normal distribution with the parameters of the normal one."""

    arg_constraints: ClassVar[Any] = {"loc": constraints.real, "scale": constraints.positive}

    def _normal(self) -> Any:
        base = self.base_dist
        return base.base_dist if isinstance(base, Independent) else base

    @property
    def loc(self) -> Tensor:
        """The mean of the normal distribution."""
        loc: Tensor = self._normal().loc
        return loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the normal distribution."""
        scale: Tensor = self._normal().scale
        return scale

    def _given_parameters(self) -> dict[str, Any]:
        return {"loc": self.loc, "scale": self.scale} if "base_dist" in self.__dict__ else {}


class LogNormal(_OfNormal):
    """Numbers whose logarithms are normal with mean `loc` and standard deviation `scale`."""

    support = constraints.positive

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        square = self.scale.square()
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class LogisticNormal(_OfNormal):
    """Shares that come of normal vectors by breaking a stick."""

    support = constraints.simplex

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base: Any = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)
