"""Which transform leads from all numbers to where a constraint allows values.

`biject_to(constraint)` is one to one; `transform_to(constraint)` may not be, but is better behaved
for optimisation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from livegrad.distributions import constraints, transforms
from livegrad.distributions.constraints import Constraint


class ConstraintRegistry:
    """Makers of transforms by the class of constraints."""

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Any]] = {}

    def register(self, constraint: Any, factory: Callable[[Any], Any] | None = None) -> Any:
        """Registers a maker for a class of constraints, or for that of a constraint."""
        if factory is None:
            return lambda function: self.register(constraint, function)
        kind = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, Constraint):
            raise TypeError(
                "Expected constraint to be either a Constraint subclass or instance, but got "
                f"{constraint!r}"
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        """The transform onto what `constraint` allows."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(
                f"Cannot transform {type(constraint).__name__} constraints"
            ) from None
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _both(constraint: Any, factory: Callable[[Any], Any]) -> None:
    biject_to.register(constraint, factory)
    transform_to.register(constraint, factory)


def _above(constraint: Any) -> Any:
    parts = [transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)]
    return transforms.ComposeTransform(parts)


def _below(constraint: Any) -> Any:
    parts = [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)]
    return transforms.ComposeTransform(parts)


def _between(constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    sigmoid = transforms.SigmoidTransform()
    if isinstance(low, int | float) and low == 0 and isinstance(high, int | float) and high == 1:
        return sigmoid
    return transforms.ComposeTransform([sigmoid, transforms.AffineTransform(low, high - low)])


def _positive(constraint: Any) -> Any:
    bound = constraint.lower_bound
    return transforms.ExpTransform() if _is_zero(bound) else _above(constraint)


def _is_zero(bound: Any) -> bool:
    return isinstance(bound, int | float) and bound == 0


_both(constraints.real, lambda c: transforms.identity_transform)
_both(constraints.positive, _positive)
_both(constraints.nonnegative, _positive)
_both(constraints.less_than, _below)
_both(constraints.interval, _between)
_both(constraints.half_open_interval, _between)
_both(constraints.corr_cholesky, lambda c: transforms.CorrCholeskyTransform())
biject_to.register(constraints.simplex, lambda c: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda c: transforms.SoftmaxTransform())
# From all matrices, of which only the lower triangle counts.
transform_to.register(constraints.lower_cholesky, lambda c: transforms.LowerCholeskyTransform())
for _definite in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_definite, lambda c: transforms.PositiveDefiniteTransform())


def _register_composed(registry: ConstraintRegistry) -> None:
    def independent(constraint: Any) -> Any:
        base = registry(constraint.base_constraint)
        return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)

    def cat(constraint: Any) -> Any:
        parts = [registry(c) for c in constraint.cseq]
        return transforms.CatTransform(parts, constraint.dim, constraint.lengths)

    def stack(constraint: Any) -> Any:
        return transforms.StackTransform([registry(c) for c in constraint.cseq], constraint.dim)

    registry.register(constraints.independent, independent)
    registry.register(constraints.cat, cat)
    registry.register(constraints.stack, stack)


_register_composed(biject_to)
_register_composed(transform_to)
