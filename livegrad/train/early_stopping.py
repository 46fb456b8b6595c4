"""EarlyStopping: when a value has stopped improving."""

from __future__ import annotations

import math
from typing import Any

from livegrad.autograd import no_grad
from livegrad.utils.reading import number_of

MODES = ("min", "max")


def is_better(value: float, best: float | None, mode: str, min_delta: float = 0.0) -> bool:
    """Whether `value` beats `best` by more than `min_delta`; nan beats nothing."""
    if math.isnan(value):
        return False
    if best is None or math.isnan(best):
        return True
    return value < best - min_delta if mode == "min" else value > best + min_delta


def check_mode(name: str, mode: str) -> None:
    """ValueError unless `mode` is "min" or "max"."""
    if mode not in MODES:
        raise ValueError(f"{name}: got mode={mode!r}; expected 'min' or 'max'")


class EarlyStopping:
    """Says when to stop: after `patience` values in a row without improvement.

        stopping = EarlyStopping(patience=5)
        for epoch in range(100):
            ...
            if stopping(validation_loss):
                break

    `mode` says whether less or more is better; an improvement is one by more than `min_delta`.
    A value that is nan stops at once, unless `stop_on_nan` is False. With `model`, a copy of its
    state at the best value is kept, for `restore()`. `monitor` names the value in `fit`.
    """

    def __init__(
        self,
        patience: int = 5,
        *,
        mode: str = "min",
        min_delta: float = 0.0,
        stop_on_nan: bool = True,
        model: Any = None,
        monitor: str | None = None,
    ) -> None:
        check_mode("EarlyStopping", mode)
        if patience < 1 or min_delta < 0:
            raise ValueError(
                f"EarlyStopping: got patience={patience}, min_delta={min_delta}; expected "
                "patience >= 1 and min_delta >= 0"
            )
        self.patience = patience
        self.mode = mode
        self.min_delta = min_delta
        self.stop_on_nan = stop_on_nan
        self.model = model
        self.monitor = monitor
        self.best: float | None = None
        self.best_step = -1
        self.steps = 0
        self.stopped = False
        self._best_state: dict[str, Any] | None = None

    @property
    def waited(self) -> int:
        """Values since the best one."""
        return self.steps - 1 - self.best_step

    def __call__(self, value: Any) -> bool:
        """Takes in the next value; returns whether to stop."""
        number = number_of(value)
        if is_better(number, self.best, self.mode, self.min_delta):
            self.best, self.best_step = number, self.steps
            if self.model is not None:
                self._best_state = _copy_of_state(self.model)
        self.steps += 1
        hopeless = self.stop_on_nan and math.isnan(number)
        self.stopped = hopeless or self.waited >= self.patience
        return self.stopped

    update = __call__

    def restore(self) -> None:
        """Puts the model back to its state at the best value."""
        if self.model is None:
            raise RuntimeError("EarlyStopping.restore: give model=… when making it")
        if self._best_state is None:
            raise RuntimeError("EarlyStopping.restore: there has been no value yet")
        self.model.load_state_dict(self._best_state)

    def state_dict(self) -> dict[str, Any]:
        """Where it is, with the best state of the model if it keeps one."""
        state: dict[str, Any] = {
            "best": self.best,
            "best_step": self.best_step,
            "steps": self.steps,
            "stopped": self.stopped,
        }
        if self.model is not None:
            state["best_state"] = self._best_state
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes back what `state_dict` gave."""
        self.best = state_dict["best"]
        self.best_step = state_dict["best_step"]
        self.steps = state_dict["steps"]
        self.stopped = state_dict["stopped"]
        self._best_state = state_dict.get("best_state")

    def __repr__(self) -> str:
        return (
            f"EarlyStopping(patience={self.patience}, mode={self.mode!r}, best={self.best}, "
            f"waited={self.waited})"
        )


def _copy_of_state(model: Any) -> dict[str, Any]:
    with no_grad():
        return {
            name: value.detach().clone() if hasattr(value, "detach") else value
            for name, value in model.state_dict().items()
        }
