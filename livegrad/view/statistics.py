"""Statistics of values: range, mean, shares of zeros, NaN and inf, a histogram."""

from __future__ import annotations

from typing import Any

import numpy as np

from livegrad.graph.node import Node
from livegrad.runtime.values import array_of, to_compute

# Of larger values, about so many elements are looked at, evenly spread.
MOST_ELEMENTS = 16_384
BINS = 32

Array = np.ndarray[Any, Any]


def sample_of(node: Node) -> Array:
    """Elements of a computed value as float64, not more than some thousands."""
    flat = array_of(node).reshape(-1)
    stride = max(1, -(-flat.size // MOST_ELEMENTS))
    values = to_compute(flat[::stride], node.meta.dtype)
    return np.abs(values) if values.dtype.kind == "c" else values.astype(np.float64)


def statistics_of(node: Node) -> dict[str, Any]:
    """What is told of a computed value."""
    return summary(sample_of(node), node.meta.numel)


def summary(values: Array, count: int) -> dict[str, Any]:
    """What is told of some values, of which there are `count` in all."""
    finite = values[np.isfinite(values)]
    size = max(1, values.size)
    told: dict[str, Any] = {
        "count": count,
        "looked_at": int(values.size),
        "zeros": float(np.count_nonzero(values == 0)) / size,
        "nan": float(np.count_nonzero(np.isnan(values))) / size,
        "inf": float(np.count_nonzero(np.isinf(values))) / size,
    }
    if finite.size:
        low, high = float(finite.min()), float(finite.max())
        with np.errstate(over="ignore"):
            told |= {
                "min": low,
                "max": high,
                "mean": float(finite.mean()),
                "std": float(finite.std()),
                "norm": float(np.sqrt(np.square(finite).sum() * (count / size))),
            }
        told["bins"] = histogram(finite, low, high)
    return told


def histogram(values: Array, low: float, high: float) -> list[int]:
    """How many values are in each of equal parts of a range."""
    if not high > low or not np.isfinite(high - low):
        return [int(values.size)]
    return [int(x) for x in np.histogram(values, BINS, (low, high))[0]]
