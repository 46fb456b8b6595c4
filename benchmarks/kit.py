"""What examples use of `livegrad.train` and torch has not: as much as their steps need.

`progress` and `evaluate` are these under livegrad as well: the first measures the loop that it is
in and ends it soon, the second does nothing.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

LEAST_STEPS, MOST_STEPS, MOST_SECONDS = 10, 1000, 0.7  # of one loop
ALTOGETHER = 5.0  # seconds of a program, after which no loop has more than LEAST_STEPS
times: dict[str, list[float]] = {}  # CPU seconds of each step, by the loop's name


def counted() -> int:
    """What a step's time is divided by: how much it had to do, where steps differ."""
    return 1


class Bar:
    """A loop that is measured: each step ends when its loss is read."""

    def __init__(self, items: Iterable[Any], name: str = "", total: int | None = None) -> None:
        self.items, self.name = items, re.sub(r",? *(epoch )?\d+(/\d+)?$", "", name) or "training"
        self.values: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self.items)  # type: ignore[arg-type]

    def set(self, **values: Any) -> None:
        """What a bar would show."""
        self.values = values

    def write(self, text: str) -> None:
        """What a bar would print above itself."""

    def __iter__(self) -> Iterator[Any]:
        found = times.setdefault(self.name, [])
        start = began = time.process_time()
        work = counted()
        if began > ALTOGETHER and len(found) >= 4 * LEAST_STEPS:
            return
        for i, item in enumerate(self.items):
            yield item
            for value in self.values.values():
                if hasattr(value, "item"):
                    value.item()
            now, done = time.process_time(), counted()
            found.append((now - start) / max(done - work, 1))
            late = now - began > MOST_SECONDS or now > ALTOGETHER
            if i + 1 >= (LEAST_STEPS if late else MOST_STEPS):
                return
            start, work = time.process_time(), done


def progress(items: Iterable[Any], name: str = "", total: int | None = None, **_: Any) -> Bar:
    """The loop over `items`."""
    return Bar(items, name, total)


def evaluate(model: Any, loader: Any, loss: Any, metrics: dict[str, Any]) -> dict[str, float]:
    """Nothing: what is measured are steps."""
    return dict.fromkeys(metrics, 0.0)


# ------------------------------------------------------------------------ for torch alone


def seed_everything(seed: int) -> None:
    """Of all random numbers."""
    import torch

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)


class Accuracy:
    """Not needed to measure steps."""


def summary(*_: Any, **__: Any) -> str:
    """Not needed to measure steps."""
    return ""


class LengthBucketSampler:
    """Batches of sentences of similar length, in random order."""

    def __init__(self, lengths: Any, batch_size: int, **_: Any) -> None:
        self.lengths, self.batch_size = np.array(lengths), batch_size

    def __len__(self) -> int:
        return -(-len(self.lengths) // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        rng = np.random.default_rng(0)
        order = np.lexsort((rng.random(len(self.lengths)), self.lengths))
        batches = [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]
        for i in rng.permutation(len(batches)):
            yield batches[i].tolist()
