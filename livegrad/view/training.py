"""How training goes: weights and gradients per layer, updates against weights, dead units.

They are looked at in steps for which there is time.
"""

from __future__ import annotations

from collections import deque
from typing import Any
from weakref import WeakSet

import numpy as np

from livegrad.graph.node import Node
from livegrad.runtime.values import array_of
from livegrad.view.budget import Budget
from livegrad.view.calls import NAMES
from livegrad.view.statistics import sample_of, summary

MOST_LOOKS = 400


class Training:
    """Looks at parameters before and after a step of an optimiser."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.is_on = False  # whether an optimiser has taken a step
        # (step, {name: {weight, gradient, ratio}}), the latest last.
        self.looks: deque[tuple[int, dict[str, dict[str, Any]]]] = deque(maxlen=MOST_LOOKS)
        self.rates: deque[tuple[int, float]] = deque(maxlen=20_000)
        self.optimizers: WeakSet[Any] = WeakSet()
        self._before: list[tuple[Any, str, Any]] = []
        self._number = 0

    def before_step(self, optimizer: Any, number: int) -> None:
        """Notes what the weights are, if there is time."""
        self.is_on = True
        self.optimizers.add(optimizer)
        self._number = number
        self._before = []
        if not self._budget.allows():
            return
        with self._budget.spending():
            for place, group in enumerate(optimizer.param_groups):
                for at, tensor in enumerate(group["params"]):
                    node: Node = tensor._node
                    if node.buffer is not None and node.meta.numel:
                        name = NAMES.name_of(tensor) or f"parameter {place}.{at}"
                        self._before.append((tensor, name, sample_of(node)))

    def after_step(self, optimizer: Any) -> None:
        """Compares with what they were."""
        self._note_rate(optimizer)
        if not self._before:
            return
        before, self._before = self._before, []
        with self._budget.spending():
            look = {name: _look(tensor, old) for tensor, name, old in before}
        self.looks.append((self._number, look))

    def _note_rate(self, optimizer: Any) -> None:
        rate = optimizer.param_groups[0].get("lr") if optimizer.param_groups else None
        if isinstance(rate, float) and (not self.rates or self.rates[-1][1] != rate):
            self.rates.append((self._number, rate))


def _look(tensor: Any, old: Any) -> dict[str, Any]:
    node: Node = tensor._node
    found: dict[str, Any] = {"weight": summary(old, node.meta.numel)}
    found["weight"]["shape"] = list(node.meta.shape)
    if node.buffer is not None:
        change, spread = sample_of(node) - old, float(np.sqrt(np.mean(np.square(old))))
        moved = float(np.sqrt(np.mean(np.square(change))))
        found["ratio"] = moved / spread if spread else None
    gradient = tensor._grad
    if gradient is not None and not gradient.is_sparse and gradient._node.buffer is not None:
        found["gradient"] = summary(sample_of(gradient._node), node.meta.numel)
        found["dead"] = _dead_units(gradient._node)
    return found


def _dead_units(gradient: Node) -> float | None:
    """The share of rows of a weight whose gradient is zero throughout: units that learn nothing."""
    shape = gradient.meta.shape
    if len(shape) < 2 or gradient.meta.numel > 1 << 20:
        return None
    rows = array_of(gradient).reshape(shape[0], -1)
    return float(1 - np.count_nonzero(rows.any(axis=1)) / max(1, shape[0]))
