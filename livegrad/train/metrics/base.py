"""Metric: what all metrics have in common, and Metrics, several of them under names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np

from livegrad.utils.reading import Array, is_pending, kept, settled


class Metric:
    """A figure about many batches.

        metric.update(predictions, targets)      with each batch: tensors or arrays
        metric.compute()                         the figure about all batches since the reset
        metric.reset()

    A subclass names what it counts in `counts`, and defines `clear` (sets these to nothing),
    `add(*arrays)` and `result()`; `check(*batch)`, if defined, sees shapes at the user's line.

    `update` does not read tensors that are still to be computed, so it may stand between the
    forward and the backward pass; they are read at the next `update` or `compute`.
    """

    counts: tuple[str, ...] = ()
    _waiting: tuple[Any, ...] | None = None

    def __init__(self) -> None:
        self.reset()

    # ---- for subclasses --------------------------------------------------------------------

    def clear(self) -> None:
        """Sets the counts to nothing."""
        raise NotImplementedError(f"{type(self).__name__} does not define clear")

    def check(self, *batch: Any) -> None:
        """Raises if a batch has the wrong shapes; reads no values."""

    def add(self, *batch: Any) -> None:
        """Counts a batch, whose tensors have become arrays."""
        raise NotImplementedError(f"{type(self).__name__} does not define add")

    def result(self) -> Any:
        """The figure, from the counts."""
        raise NotImplementedError(f"{type(self).__name__} does not define result")

    # ---- for users -------------------------------------------------------------------------

    def update(self, *batch: Any) -> None:
        """Takes in a batch."""
        self._settle()
        self.check(*batch)
        if any(is_pending(x) for x in batch):
            self._waiting = tuple(kept(x) for x in batch)
        else:
            self.add(*[settled(x) for x in batch])

    def _settle(self) -> None:
        """Counts the batch that waits, if there is one."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self.add(*[settled(x) for x in waiting])

    def reset(self) -> None:
        """Forgets all batches."""
        self._waiting = None
        self.clear()

    def compute(self) -> Any:
        """The figure about all batches since the reset."""
        self._settle()
        return self.result()

    def __call__(self, *batch: Any) -> Any:
        """Takes in a batch, and gives the figure about this batch alone."""
        alone = copy(self)
        alone.reset()
        batch = tuple(settled(kept(x)) for x in batch)
        alone.update(*batch)
        self.update(*batch)
        return alone.compute()

    # ---- saving ----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The counts."""
        self._settle()
        return {name: _copied(getattr(self, name)) for name in self.counts}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes back what `state_dict` gave."""
        if set(state_dict) != set(self.counts):
            raise ValueError(
                f"{type(self).__name__}.load_state_dict: got {sorted(state_dict)}; expected "
                f"{sorted(self.counts)}"
            )
        self._waiting = None
        for name in self.counts:
            setattr(self, name, _copied(state_dict[name]))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.compute()})"


def _copied(value: Any) -> Any:
    if isinstance(value, list):
        return [_copied(x) for x in value]
    return np.array(value) if isinstance(value, np.ndarray) else value


class Metrics(Metric):
    """Several metrics of the same batches, by name.

        metrics = Metrics(accuracy=Accuracy(), top5=Accuracy(k=5))
        metrics.update(logits, targets)
        metrics.compute()                        {"accuracy": 0.91, "top5": 0.99}

    Takes a dict, a list (named after their classes), or keywords.
    """

    def __init__(
        self, metrics: Mapping[str, Metric] | Sequence[Metric] | None = None, **named: Metric
    ) -> None:
        self.metrics: dict[str, Metric] = {}
        if isinstance(metrics, Mapping):
            found = list(metrics.items())
        else:
            found = [(_name_of(m), m) for m in metrics or ()]
        for name, metric in [*found, *named.items()]:
            if not isinstance(metric, Metric):
                raise TypeError(f"Metrics: {name} is a {type(metric).__name__}; expected a Metric")
            if name in self.metrics:
                raise ValueError(f"Metrics: two metrics are called {name!r}; name them by keyword")
            self.metrics[name] = metric

    def clear(self) -> None:
        """Has each of them forget all batches."""
        for metric in self.metrics.values():
            metric.reset()

    def __call__(self, *batch: Any) -> dict[str, Any]:
        """Takes in a batch, and gives the figures about this batch alone."""
        self._settle()
        self.check(*batch)
        batch = tuple(settled(kept(x)) for x in batch)
        return {name: metric(*batch) for name, metric in self.metrics.items()}

    def check(self, *batch: Any) -> None:
        """Raises if a batch has the wrong shapes for one of them."""
        for metric in self.metrics.values():
            metric.check(*batch)

    def add(self, *batch: Any) -> None:
        """Has each of them count a batch."""
        for metric in self.metrics.values():
            metric.update(*batch)

    def result(self) -> dict[str, Any]:
        """The figures by name."""
        return {name: metric.compute() for name, metric in self.metrics.items()}

    def state_dict(self) -> dict[str, Any]:
        """The counts of each."""
        self._settle()
        return {name: metric.state_dict() for name, metric in self.metrics.items()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes back what `state_dict` gave."""
        if set(state_dict) != set(self.metrics):
            raise ValueError(
                f"Metrics.load_state_dict: got {sorted(state_dict)}; expected "
                f"{sorted(self.metrics)}"
            )
        self._waiting = None
        for name, metric in self.metrics.items():
            metric.load_state_dict(state_dict[name])

    def __getitem__(self, name: str) -> Metric:
        return self.metrics[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.metrics)

    def __len__(self) -> int:
        return len(self.metrics)


def _name_of(metric: Any) -> str:
    """`MeanSquaredError` as `mean_squared_error`."""
    name = type(metric).__name__
    words = "".join(
        f"_{c}" if c.isupper() and i and not name[i - 1].isupper() else c
        for i, c in enumerate(name)
    )
    return words.lower()


def ratio(above: Any, below: Any) -> Any:
    """above / below as float64, 0 where nothing is below."""
    above, below = np.asarray(above, np.float64), np.asarray(below, np.float64)
    return np.divide(above, below, out=np.zeros_like(above * below), where=below != 0)


def grown(counts: Array, size: int) -> Array:
    """Counts with zeros behind, so that there are at least `size`."""
    missing = size - len(counts)
    return np.concatenate([counts, np.zeros(missing, counts.dtype)]) if missing > 0 else counts
