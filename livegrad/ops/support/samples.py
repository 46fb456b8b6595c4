"""Test inputs that op records carry, so that a new op is tested by existing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
SampleRule = Callable[[], Iterator["Sample"]]


@dataclass
class Sample:
    """One call of an op: `call(*tensors)` on tensors made of `inputs`.

    `call` is None for elementwise ops, which are applied to the inputs as they are. Inputs are
    float64, complex128 or integer arrays; the tests cast floats to each floating dtype.
    """

    inputs: tuple[Any, ...]
    call: Callable[..., Any] | None = None
    # False: only the value is tested (steps, ties, or a non-smooth point among the inputs).
    smooth: bool = True


def uniform(*shape: int, low: float = -1.0, high: float = 1.0, seed: int = 0) -> Array:
    """Reproducible float64 values in [low, high)."""
    rng = np.random.default_rng([seed, *shape])
    return rng.uniform(low, high, shape)


def complexes(*shape: int, low: float = -1.0, high: float = 1.0, seed: int = 0) -> Array:
    """Reproducible complex128 values with both parts in [low, high)."""
    parts = uniform(2, *shape, low=low, high=high, seed=seed)
    return np.asarray(parts[0] + 1j * parts[1])


def integers(*shape: int, low: int = 0, high: int = 10, seed: int = 0) -> Array:
    """Reproducible int64 values in [low, high)."""
    rng = np.random.default_rng([seed, *shape])
    return rng.integers(low, high, shape)


_SHAPES: tuple[tuple[int, ...], ...] = ((), (5,), (3, 37), (2, 1, 4), (0,), (2, 0, 3))


def unary(low: float = -3.0, high: float = 3.0, smooth: bool = True) -> SampleRule:
    """Samples of an elementwise op of one tensor with values in [low, high)."""

    def rule() -> Iterator[Sample]:
        for shape in _SHAPES:
            yield Sample((uniform(*shape, low=low, high=high),), smooth=smooth)

    return rule


def binary(
    low: float = -3.0,
    high: float = 3.0,
    low2: float | None = None,
    high2: float | None = None,
    smooth: bool = True,
) -> SampleRule:
    """Samples of an elementwise op of two tensors, with broadcasting and numbers on the right."""
    lower = low if low2 is None else low2
    upper = high if high2 is None else high2
    pairs = [((5,), (5,)), ((3, 37), (37,)), ((2, 1, 4), (3, 1)), ((), (4,)), ((0,), (1,))]

    def rule() -> Iterator[Sample]:
        for a, b in pairs:
            x, y = uniform(*a, low=low, high=high), uniform(*b, low=lower, high=upper, seed=1)
            yield Sample((x, y), smooth=smooth)
        yield Sample((uniform(7, low=low, high=high), (lower + upper) / 2 + 0.25), smooth=smooth)

    return rule


def calls(*makers: Callable[[], Sample]) -> SampleRule:
    """Samples listed one by one; each is made afresh when asked for."""

    def rule() -> Iterator[Sample]:
        for make in makers:
            yield make()

    return rule
