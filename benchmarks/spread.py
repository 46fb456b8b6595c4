"""Medians and their spread, from rounds in which every framework took its turn."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Spread:
    """The median, and the quartiles around it."""

    median: float
    low: float
    high: float

    def format(self, form: str = "{:.0f}") -> str:
        middle, low, high = (form.format(x) for x in (self.median, self.low, self.high))
        return f"{middle} [{low}–{high}]"


def spread(values: Sequence[float]) -> Spread:
    low, median, high = np.percentile(values, [25, 50, 75])
    return Spread(float(median), float(low), float(high))


def paired_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Spread:
    """The ratio round by round: noise that slows a whole round cancels."""
    return spread([a / b for a, b in zip(numerators, denominators, strict=True)])
