"""The learning-rate range test: how the loss goes while the rate rises from step to step."""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from livegrad.train.batches import Loss, Step, as_loader, endless, split, step_with_closure
from livegrad.train.plot import Axis, Chart
from livegrad.train.restoring import restored
from livegrad.utils.reading import number_of


@dataclass
class LRFinding:
    """What `lr_find` saw: the rates, the loss at each, and the rate it suggests.

    `suggestion` is where the loss falls most steeply, None if it never falls; `minimum` is where
    the smoothed loss is least, which is already too much to train with.
    """

    lrs: list[float]
    losses: list[float]
    smoothed: list[float]
    suggestion: float | None
    minimum: float

    def plot(self, path: Any) -> None:
        """Draws loss over rate: SVG without any library, other formats with matplotlib."""
        marks = {}
        if self.suggestion is not None:
            loss = self.smoothed[self.lrs.index(self.suggestion)]
            marks[f"{self.suggestion:.2g}"] = (self.suggestion, loss)
        chart = Chart(
            "learning-rate range test",
            Axis("learning rate", log=True),
            Axis("loss"),
            {"loss": list(zip(self.lrs, self.smoothed, strict=True))},
            list(zip(self.lrs, np.clip(self.losses, None, max(self.smoothed)), strict=True)),
            marks,
        )
        chart.save(path)

    def __repr__(self) -> str:
        found = "none" if self.suggestion is None else f"{self.suggestion:.3g}"
        return (
            f"LRFinding(suggestion={found}, minimum={self.minimum:.3g}, steps={len(self.lrs)}, "
            f"from {self.lrs[0]:.3g} to {self.lrs[-1]:.3g})"
        )


def lr_find(
    model: Any,
    optimizer: Any,
    data: Any,
    loss: Loss | None = None,
    *,
    start: float = 1e-6,
    end: float = 10.0,
    steps: int = 100,
    step: Step | None = None,
    smoothing: float = 0.9,
    stop_at: float = 4.0,
    batch_size: int = 32,
) -> LRFinding:
    """Trains a few steps while the learning rate rises exponentially from `start` to `end`.

        found = lr_find(model, optimizer, loader, F.cross_entropy)
        found.plot("lr.svg")
        optimizer.param_groups[0]["lr"] = found.suggestion

    Model, optimiser, loader and random numbers are afterwards as they were. `data` is what `fit`
    takes, begun again when it ends; batches are (inputs, targets), or anything if `step(model,
    batch)` computes the loss. Groups keep the ratios of their rates. The test ends early when the
    smoothed loss exceeds `stop_at` times its least value, or is not finite.
    """
    if not 0 < start < end or steps < 2:
        raise ValueError(
            f"lr_find: got start={start}, end={end}, steps={steps}; expected 0 < start < end and "
            "at least 2 steps"
        )
    compute = loss_of(loss, step)
    loader = as_loader(data, batch_size, shuffle=True)
    lrs: list[float] = []
    losses: list[float] = []
    average = _Average(smoothing)
    with restored(model, optimizer, loader), closing(endless(loader)) as batches:
        model.train()
        ratios = _ratios(optimizer)
        for number, batch in zip(range(steps), batches, strict=False):
            rate = start * (end / start) ** (number / (steps - 1))
            for group, ratio in zip(optimizer.param_groups, ratios, strict=True):
                group["lr"] = rate * ratio
            value = _one_step(model, optimizer, compute, batch)
            if not math.isfinite(value):
                break
            lrs.append(rate)
            losses.append(value)
            if average.add(value) > _bound(average.values, stop_at) and number > steps // 10:
                break
    if len(lrs) < 2:
        raise RuntimeError(
            f"lr_find: the loss is not finite at a learning rate of {start}. Choose a smaller "
            "start, or look for the mistake in model or data"
        )
    return LRFinding(lrs, losses, average.values, *_suggest(lrs, losses, average.values))


def loss_of(loss: Loss | None, step: Step | None) -> Step:
    """The function of model and batch that gives the loss."""
    if step is not None:
        return step
    if loss is None:
        raise TypeError("give loss=…, a function of outputs and targets, or step=…")

    def compute(model: Any, batch: Any) -> Any:
        inputs, targets = split(batch)
        return loss(model(*inputs), targets)

    return compute


def _bound(values: list[float], stop_at: float) -> float:
    """`stop_at` times the least value; losses below zero are scaled away from zero too."""
    least = min(values)
    return least + (stop_at - 1) * abs(least)


def _one_step(model: Any, optimizer: Any, compute: Step, batch: Any) -> float:
    if getattr(optimizer, "needs_closure", False):
        values: list[Any] = []  # the first is from before the step

        def computed() -> Any:
            values.append(compute(model, batch))
            return values[-1]

        step_with_closure(optimizer, computed)
        return number_of(values[0])
    optimizer.zero_grad()
    value = compute(model, batch)
    value.backward()
    optimizer.step()
    return number_of(value)


def _ratios(optimizer: Any) -> list[float]:
    """The rate of each group over the greatest of them."""
    rates = [number_of(group["lr"]) for group in optimizer.param_groups]
    most = max(rates)
    return [rate / most if most else 1.0 for rate in rates]


class _Average:
    """An exponential moving average, corrected for its start from nothing."""

    def __init__(self, keep: float) -> None:
        self.keep = keep
        self.total = 0.0
        self.weight = 0.0
        self.values: list[float] = []

    def add(self, value: float) -> float:
        """Takes in a value; returns the average."""
        self.total = self.keep * self.total + (1 - self.keep) * value
        self.weight = self.keep * self.weight + (1 - self.keep)
        self.values.append(self.total / self.weight)
        return self.values[-1]


def _suggest(
    lrs: list[float], losses: list[float], smoothed: list[float]
) -> tuple[float | None, float]:
    """The rate of the steepest fall before the minimum, and that of the minimum.

    The slope at a step is that of a straight line through the losses around it, a fifth of all
    that were seen, so that the noise of single batches does not decide.
    """
    least = int(np.argmin(smoothed))
    half = min(max(len(lrs) // 10, 1), least)
    if half == 0:
        return None, lrs[0]
    around = np.arange(-half, half + 1)
    padded = np.pad(np.array(losses[: least + 1]), half, mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, len(around))
    slopes = windows @ around / (around @ around)
    steepest = int(np.argmin(slopes))
    return (lrs[steepest] if slopes[steepest] < 0 else None), lrs[least]
