"""Errors of predicted numbers, and how well they correlate with the true ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from livegrad.train.metrics.base import Metric
from livegrad.utils.reading import Array, array_of, shape_of


class _OfPairs(Metric):
    """Metrics of predictions and targets of one shape."""

    def check(self, predictions: Any, targets: Any) -> None:
        """Raises if the shapes differ: broadcasting here is nearly always a mistake."""
        got = shape_of(predictions), shape_of(targets)
        if got[0] != got[1]:
            raise ValueError(
                f"{type(self).__name__}: got predictions {got[0]} and targets {got[1]}; "
                "expected one shape"
            )

    def add(self, predictions: Any, targets: Any) -> None:
        """Counts a batch."""
        p = array_of(predictions).astype(np.float64).ravel()
        self.add_pairs(p, array_of(targets).astype(np.float64).ravel())

    def add_pairs(self, p: Array, t: Array) -> None:
        """Counts predictions and targets, both vectors of float64."""
        raise NotImplementedError


class _MeanError(_OfPairs):
    """The mean over all elements of an error."""

    counts = ("total", "count")

    def clear(self) -> None:
        """Forgets all batches."""
        self.total = 0.0
        self.count = 0

    def add_pairs(self, p: Array, t: Array) -> None:
        """Adds up the errors."""
        self.total += float(self.error(p, t).sum())
        self.count += p.size

    def error(self, p: Array, t: Array) -> Array:
        """The error of each element."""
        raise NotImplementedError

    def result(self) -> float:
        """The mean error; nan if there were no elements."""
        return self.total / self.count if self.count else math.nan


class MeanSquaredError(_MeanError):
    """The mean of (prediction - target)²."""

    def error(self, p: Array, t: Array) -> Array:
        """See the class."""
        return (p - t) ** 2


class RootMeanSquaredError(MeanSquaredError):
    """The square root of the mean of (prediction - target)²."""

    def result(self) -> float:
        """See the class."""
        return math.sqrt(super().result())


class MeanAbsoluteError(_MeanError):
    """The mean of |prediction - target|."""

    def error(self, p: Array, t: Array) -> Array:
        """See the class."""
        errors: Array = np.abs(p - t)
        return errors


class MeanAbsolutePercentageError(_MeanError):
    """The mean of |prediction - target| / |target|, where targets below `eps` count as `eps`."""

    def __init__(self, eps: float = 1e-8) -> None:
        self.eps = eps
        super().__init__()

    def error(self, p: Array, t: Array) -> Array:
        """See the class."""
        errors: Array = np.abs(p - t) / np.maximum(np.abs(t), self.eps)
        return errors


class _Moments(_OfPairs):
    """Means and centred second moments, merged batch by batch without cancellation."""

    counts = ("count", "means", "moments", "squared")

    def clear(self) -> None:
        """Forgets all batches."""
        self.count = 0
        self.means = np.zeros(2)
        self.moments = np.zeros(3)  # of predictions, of targets, of both
        self.squared = 0.0

    def add_pairs(self, p: Array, t: Array) -> None:
        """Merges the moments of a batch with those so far."""
        if not p.size:
            return
        means = np.array([p.mean(), t.mean()])
        dp, dt = p - means[0], t - means[1]
        total = self.count + p.size
        apart = means - self.means
        shift = self.count * p.size / total
        products = np.array([apart[0] * apart[0], apart[1] * apart[1], apart[0] * apart[1]])
        self.moments = self.moments + [dp @ dp, dt @ dt, dp @ dt] + shift * products
        self.means = self.means + apart * (p.size / total)
        self.squared += float(((p - t) ** 2).sum())
        self.count = total


class R2Score(_Moments):
    """1 - (sum of squared errors) / (sum of squared deviations of the targets from their mean)."""

    def result(self) -> float:
        """See the class; nan if the targets do not vary."""
        spread = float(self.moments[1])
        return 1.0 - self.squared / spread if spread else math.nan


class PearsonCorrelation(_Moments):
    """The correlation coefficient of predictions and targets."""

    def result(self) -> float:
        """See the class; nan if one of the two does not vary."""
        of_p, of_t, of_both = self.moments.tolist()
        spread = math.sqrt(of_p) * math.sqrt(of_t)
        return of_both / spread if spread else math.nan
