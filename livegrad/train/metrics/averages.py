"""Means, sums and extremes of numbers that come one batch at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from livegrad.train.metrics.base import Metric
from livegrad.utils.reading import array_of


class Mean(Metric):
    """The mean of all values, each weighted: `update(loss, len(batch))`.

    A value may be a number or a tensor of any shape; `weight` is broadcast to it.
    """

    counts = ("total", "weight")

    def clear(self) -> None:
        """Forgets all values."""
        self.total = 0.0
        self.weight = 0.0

    def add(self, value: Any, weight: Any = 1.0) -> None:
        """Counts values."""
        if isinstance(weight, int | float) and np.size(value) == 1:
            self.total += float(value) * weight
            self.weight += weight
            return
        values = array_of(value).astype(np.float64)
        weights = np.broadcast_to(array_of(weight).astype(np.float64), values.shape)
        self.total += float((values * weights).sum())
        self.weight += float(weights.sum())

    def result(self) -> float:
        """The mean; nan if there were no values."""
        return self.total / self.weight if self.weight else math.nan


class Sum(Metric):
    """The sum of all values."""

    counts = ("total",)

    def clear(self) -> None:
        """Forgets all values."""
        self.total = 0.0

    def add(self, value: Any) -> None:
        """Counts values."""
        self.total += float(array_of(value).sum(dtype=np.float64))

    def result(self) -> float:
        """The sum."""
        return self.total


class Maximum(Metric):
    """The greatest value; nan if one was nan."""

    counts = ("best",)

    def clear(self) -> None:
        """Forgets all values."""
        self.best = -math.inf

    def add(self, value: Any) -> None:
        """Compares values."""
        values = array_of(value)
        if values.size:
            self.best = float(np.maximum(self.best, values.max()))

    def result(self) -> float:
        """The greatest value."""
        return self.best


class Minimum(Metric):
    """The least value; nan if one was nan."""

    counts = ("best",)

    def clear(self) -> None:
        """Forgets all values."""
        self.best = math.inf

    def add(self, value: Any) -> None:
        """Compares values."""
        values = array_of(value)
        if values.size:
            self.best = float(np.minimum(self.best, values.min()))

    def result(self) -> float:
        """The least value."""
        return self.best


class RunningMean(Metric):
    """The mean of the last `window` values."""

    counts = ("values",)

    def __init__(self, window: int = 100) -> None:
        if window < 1:
            raise ValueError(f"RunningMean: got window={window}; expected at least 1")
        self.window = window
        super().__init__()

    def clear(self) -> None:
        """Forgets all values."""
        self.values: list[float] = []

    def add(self, value: Any) -> None:
        """Takes in values, and lets the oldest go."""
        self.values += array_of(value).astype(np.float64).ravel().tolist()
        del self.values[: -self.window]

    def result(self) -> float:
        """The mean; nan if there were no values."""
        return math.fsum(self.values) / len(self.values) if self.values else math.nan


class ExponentialMean(Metric):
    """A mean that forgets: each value weighs `decay` times as much as the one after it."""

    counts = ("total", "weight")

    def __init__(self, decay: float = 0.98) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"ExponentialMean: got decay={decay}; expected 0 <= decay < 1")
        self.decay = decay
        super().__init__()

    def clear(self) -> None:
        """Forgets all values."""
        self.total = 0.0
        self.weight = 0.0

    def add(self, value: Any) -> None:
        """Takes in values, in order."""
        for x in array_of(value).astype(np.float64).ravel().tolist():
            self.total = self.decay * self.total + x
            self.weight = self.decay * self.weight + 1.0

    def result(self) -> float:
        """The mean; nan if there were no values."""
        return self.total / self.weight if self.weight else math.nan
