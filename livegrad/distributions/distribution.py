"""The base of all distributions."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

from livegrad.autograd.modes import no_grad
from livegrad.distributions import constraints
from livegrad.distributions.utils import as_size, lazy_property
from livegrad.graph.meta import Size
from livegrad.ops.support.reading import is_tensor
from livegrad.tensor import Tensor


class Distribution:
    """A probability distribution, or many of one family: one for each element of `batch_shape`.

        sample_shape + batch_shape + event_shape     the shape of samples
        sample_shape + batch_shape                   the shape of log_prob(samples)

    A family says what its parameters are in `arg_constraints` and where its samples lie in
    `support`, and defines `rsample` (or `sample`) and `_log_prob`, and `_cdf`, `_icdf` where they
    exist. Parameters and values are checked unless `validate_args` is False; checking reads them,
    and so computes what is pending.
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    arg_constraints: ClassVar[Any] = {}
    # Attributes that `expand` takes over as they are, besides those that are no tensors.
    _kept: tuple[str, ...] = ()
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions check their arguments unless told otherwise."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: got {value!r}; expected a bool")
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Any = (),
        event_shape: Any = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = as_size(batch_shape)
        self._event_shape = as_size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    # ------------------------------------------------------------------------------ parameters

    def _given_parameters(self) -> dict[str, Any]:
        """The parameters that were given, as opposed to those computed from them."""
        return {name: self.__dict__[name] for name in self.arg_constraints if name in self.__dict__}

    def _check_parameters(self) -> None:
        masks = {}
        for name, value in self._given_parameters().items():
            constraint = self.arg_constraints[name]
            if is_tensor(value) and not constraints.is_dependent(constraint):
                masks[name] = constraint.check(value).all()
        if not masks:
            return
        valid = None
        for mask in masks.values():
            valid = mask if valid is None else valid & mask
        if bool(valid):  # one reading for all
            return
        name = next(name for name, mask in masks.items() if not bool(mask))
        value = getattr(self, name)
        raise ValueError(
            f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of "
            f"distribution {self!r} to satisfy the constraint {self.arg_constraints[name]!r}, but "
            f"found invalid values:\n{value}"
        )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution with its parameters expanded to another batch shape."""
        shape = as_size(batch_shape)
        new = object.__new__(type(self)) if _instance is None else _instance
        for name, value in self.__dict__.items():
            if name in self._kept or not is_tensor(value):
                new.__dict__[name] = value
        for name, value in self._given_parameters().items():
            if is_tensor(value):
                dims = self.arg_constraints[name].event_dim
                event = tuple(value.shape[value.ndim - dims :])
                new.__dict__[name] = value.expand((*shape, *event))
        new._batch_shape = shape
        return new

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """What `expand` of a family of one's own fills: `_instance`, or a new distribution."""
        if _instance is None and type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ "
                "method must also define a custom .expand() method."
            )
        return object.__new__(type(self)) if _instance is None else _instance

    @property
    def batch_shape(self) -> Size:
        """The shape over which parameters vary."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of a single sample of a single distribution."""
        return self._event_shape

    @property
    def support(self) -> Any:
        """The constraint that samples satisfy."""
        raise NotImplementedError

    # ---------------------------------------------------------------------------------- moments

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """A value of greatest probability."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def entropy(self) -> Tensor:
        """The entropy in nats, of shape `batch_shape`."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """The exponential of the entropy."""
        return self.entropy().exp()

    # ---------------------------------------------------------------------------------- samples

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Samples of shape `sample_shape + batch_shape + event_shape`, without a gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Samples through which gradients flow to the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """`n` samples."""
        warnings.warn("sample_n will be deprecated. Use .sample((n,)) instead", UserWarning, 2)
        return self.sample((n,))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution along a new first dim."""
        raise NotImplementedError

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return as_size((*sample_shape, *self._batch_shape, *self._event_shape))

    # ---------------------------------------------------------------------------- probabilities

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, of `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return self._log_prob(value)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of a sample not above `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return self._cdf(value)

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`: the quantile of each probability."""
        return self._icdf(value)

    def _log_prob(self, value: Tensor) -> Tensor:
        raise NotImplementedError

    def _cdf(self, value: Tensor) -> Tensor:
        raise NotImplementedError

    def _icdf(self, value: Tensor) -> Tensor:
        raise NotImplementedError

    def _validate_sample(self, value: Tensor) -> None:
        if not is_tensor(value):
            raise ValueError(
                f"The value argument to log_prob must be a Tensor; got {type(value).__name__}"
            )
        self._validate_shape(tuple(value.shape))
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation.",
                UserWarning,
                3,
            )
            return
        if not bool(support.check(value).all()):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape "
                f"{tuple(value.shape)}) to be within the support "
                f"({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _validate_shape(self, shape: tuple[int, ...]) -> None:
        event = tuple(self._event_shape)
        if shape[max(len(shape) - len(event), 0) :] != event:
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{list(shape)} vs {list(event)}."
            )
        wanted = (*self._batch_shape, *event)
        for have, want in zip(reversed(shape), reversed(wanted), strict=False):
            if have not in (1, want) and want != 1:
                raise ValueError(
                    "Value is not broadcastable with batch_shape+event_shape: "
                    f"{list(shape)} vs {list(wanted)}."
                )

    def __repr__(self) -> str:
        shown = []
        for name, value in self._given_parameters().items():
            small = is_tensor(value) and value.numel() == 1
            shown.append(f"{name}: {value if small else _describe(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _describe(value: Any) -> str:
    return str(value.size()) if is_tensor(value) else str(value)


__all__ = ["Distribution", "lazy_property"]
