"""History: the figures of each epoch of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from livegrad.train.early_stopping import check_mode, is_better
from livegrad.train.plot import Axis, Chart


class History:
    """One dict of figures per epoch; `history["loss"]` is a list over the epochs."""

    def __init__(self) -> None:
        self.epochs: list[dict[str, Any]] = []

    def add(self, figures: Mapping[str, Any]) -> None:
        """Adds the figures of an epoch."""
        self.epochs.append(dict(figures))

    @property
    def names(self) -> list[str]:
        """The names of all figures, in the order they were first seen."""
        return list(dict.fromkeys(name for epoch in self.epochs for name in epoch))

    def __getitem__(self, name: str) -> list[Any]:
        if name not in self.names:
            raise KeyError(f"there is no {name!r}; known are {', '.join(self.names)}")
        return [epoch.get(name) for epoch in self.epochs]

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.epochs)

    def best(self, name: str = "val_loss", mode: str = "min") -> dict[str, Any]:
        """The figures of the epoch in which one of them was best."""
        check_mode("History.best", mode)
        best: dict[str, Any] | None = None
        for epoch, value in zip(self.epochs, self[name], strict=True):
            known = None if best is None else best[name]
            if value is not None and is_better(value, known, mode):
                best = epoch
        if best is None:
            raise ValueError(f"History.best: {name} has no value that is a number")
        return best

    def plot(self, path: Any, *names: str, log: bool = False) -> None:
        """Draws figures over the epochs, `loss` and `val_loss` by default, as SVG."""
        chosen = names or tuple(name for name in ("loss", "val_loss") if name in self)
        lines = {
            name: [(i + 1.0, float(v)) for i, v in enumerate(self[name]) if v is not None]
            for name in chosen
        }
        Chart(", ".join(chosen), Axis("epoch"), Axis("", log=log), lines).save(path)

    def state_dict(self) -> dict[str, Any]:
        """All figures."""
        return {"epochs": [dict(epoch) for epoch in self.epochs]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes back what `state_dict` gave."""
        self.epochs = [dict(epoch) for epoch in state_dict["epochs"]]

    def __repr__(self) -> str:
        last = self.epochs[-1] if self.epochs else {}
        return f"History({len(self)} epochs, last: {last})"
