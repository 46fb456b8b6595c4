"""Constraints: where values may lie, under the names of `torch.distributions.constraints`.

`constraint.check(value)` says for each event whether it is valid. A constraint on vectors or
matrices takes the last `event_dim` dims of a value as one event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from livegrad.dtypes import finfo
from livegrad.ops.linalg.cholesky import cholesky_ex
from livegrad.ops.linalg.spectral import eigvalsh
from livegrad.ops.shaping.joining import cat as concatenate, stack as stacked
from livegrad.tensor import Tensor
from livegrad.typing import Operand


class Constraint:
    """A region of valid values.

    Attributes:
        is_discrete: whether the region consists of separate points.
        event_dim: how many of the last dims make up one event.
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Tensor) -> Tensor:
        """A bool per event of `value`: whether it is valid."""
        raise NotImplementedError

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value}" for name, value in vars(self).items())
        return f"{type(self).__name__.removeprefix('_')}({shown})"


# ------------------------------------------------------------------------------ depending on others


class _Dependent(Constraint):
    """A constraint that depends on other values: a placeholder that cannot be checked."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented):
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    @property
    def is_discrete(self) -> Any:
        """Known only if it was said when the placeholder was made."""
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return self._is_discrete

    @property
    def event_dim(self) -> Any:
        """Known only if it was said when the placeholder was made."""
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return self._event_dim

    def __call__(
        self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> _Dependent:
        """The same placeholder with more said about it."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("Cannot determine validity of dependent constraint")

    def __repr__(self) -> str:
        return "Dependent()"


class _DependentProperty(property, _Dependent):
    """A property that gives a constraint, and on the class is a placeholder for one."""

    def __init__(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        property.__init__(self, fn)
        self._is_discrete = is_discrete
        self._event_dim = event_dim

    def __call__(self, fn: Callable[..., Any]) -> Any:  # type: ignore[override]
        """Decorates `fn`, when the placeholder was made with arguments."""
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint is a placeholder."""
    return isinstance(constraint, _Dependent)


# --------------------------------------------------------------------------------------- of numbers


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _Real(Constraint):
    def check(self, value: Tensor) -> Tensor:
        return value == value  # not NaN


class _Bounds(Constraint):
    """Between bounds, numbers or tensors; `_contains` says which of them are included."""

    def __init__(self, lower_bound: Any = None, upper_bound: Any = None) -> None:
        if lower_bound is not None:
            self.lower_bound: Operand = lower_bound
        if upper_bound is not None:
            self.upper_bound: Operand = upper_bound


class _GreaterThan(_Bounds):
    def check(self, value: Tensor) -> Tensor:
        return value > self.lower_bound


class _GreaterThanEq(_Bounds):
    def check(self, value: Tensor) -> Tensor:
        return value >= self.lower_bound


class _LessThan(_Bounds):
    def __init__(self, upper_bound: Any) -> None:
        super().__init__(None, upper_bound)

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class _Interval(_Bounds):
    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class _HalfOpenInterval(_Bounds):
    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value < self.upper_bound)


class _IntegerInterval(_Interval):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        within = super().check(value)
        return (value % 1 == 0) & within if value.is_floating_point() else within


class _IntegerGreaterThan(_GreaterThanEq):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        above = super().check(value)
        return (value % 1 == 0) & above if value.is_floating_point() else above


# -------------------------------------------------------------------------- of vectors and matrices


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Counts that add up to `upper_bound`."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound: Operand = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        is_square = value.shape[-1] == value.shape[-2]
        return value.new_full(value.shape[:-2], is_square, dtype=bool)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    def check(self, value: Tensor) -> Tensor:
        tolerance = 10 * value.shape[-1] * _eps(value)
        lengths = (value * value).sum(-1)
        return super().check(value) & ((lengths - 1).abs() < tolerance).all(-1)


def _eps(value: Tensor) -> float:
    return finfo(value.dtype).eps


class _Symmetric(_Square):
    def check(self, value: Tensor) -> Tensor:
        if value.shape[-1] != value.shape[-2]:
            return super().check(value)
        difference = (value - value.transpose(-2, -1)).abs()
        close = difference <= 1e-6 + 1e-5 * value.abs()
        return close.flatten(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        return symmetric & (eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (cholesky_ex(value)[1] == 0)


# -------------------------------------------------------------------------------- made of others


class _IndependentConstraint(Constraint):
    """A constraint with some of the batch dims counted into the event."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> Any:
        """That of the base."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> Any:
        """That of the base, and the dims counted in."""
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        result = self.base_constraint.check(value)
        if result.ndim < self.reinterpreted_batch_ndims:
            raise ValueError(
                f"Expected value.dim() >= {self.event_dim}; got a value of {value.ndim} dims"
            )
        for _ in range(self.reinterpreted_batch_ndims):
            result = result.all(-1)
        return result

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """That of a mixture's components, for a value without the dim of the components."""

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> Any:
        """That of the components."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> Any:
        """That of the components."""
        return self.base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        place = -1 - self.event_dim
        if value.ndim < self.event_dim:
            raise ValueError(
                f"Expected value.dim() >= {self.event_dim}; got a value of {value.ndim} dims"
            )
        return self.base_constraint.check(value.unsqueeze(place)).all(-1)


class _Joined(Constraint):
    """Constraints on parts of a value along `dim`."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq = list(cseq)
        self.dim = dim

    @property
    def is_discrete(self) -> Any:
        """Whether any part is."""
        return any(c.is_discrete for c in self.cseq)


class _Cat(_Joined):
    def __init__(
        self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)

    @property
    def event_dim(self) -> Any:
        """The most of any part."""
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        parts = value.split(self.lengths, self.dim)
        return concatenate([c.check(v) for c, v in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(_Joined):
    @property
    def event_dim(self) -> Any:
        """The most of any part, and the dim they are stacked along if it is an event's."""
        most: int = max(c.event_dim for c in self.cseq)
        return most + 1 if self.dim + most < 0 else most

    def check(self, value: Tensor) -> Tensor:
        parts = value.unbind(self.dim)
        return stacked([c.check(v) for c, v in zip(self.cseq, parts, strict=True)], self.dim)


# The public names: constraints without parameters are objects, others are made by calling.
dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
