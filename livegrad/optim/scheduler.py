"""What all schedulers of learning rates share: see `lr_scheduler.py` for those there are."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from livegrad.optim.optimizer import Optimizer
from livegrad.optim.options import number
from livegrad.tensor import Tensor


def set_rate(group: dict[str, Any], rate: float) -> None:
    """Gives a parameter group another learning rate; one that is a tensor is written to."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


class LRScheduler:
    """Base class: `get_lr` gives the rate of each parameter group for `last_epoch`."""

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", number(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming "
                    "scheduler with last_epoch >= 0. Load the optimizer's state first"
                )
        self.base_lrs = [number(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        self._steps_before = optimizer.steps_taken
        self.step()

    @property
    def _rates(self) -> list[float]:
        return [number(group["lr"]) for group in self.optimizer.param_groups]

    def get_lr(self) -> list[float]:
        """The rates for `last_epoch`, given those of the epoch before."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr")

    def get_last_lr(self) -> list[float]:
        """The rates that were set last."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Goes on to the next epoch, or to `epoch`, and sets the rates."""
        if self._step_count == 1 and self.optimizer.steps_taken == self._steps_before:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`: the first value "
                "of the learning rate schedule is skipped. Call `optimizer.step()` first",
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is None:
            self.last_epoch += 1
            self._set(self.get_lr())
        else:
            self.last_epoch = epoch
            closed: Callable[[], list[float]] = getattr(self, "_get_closed_form_lr", self.get_lr)
            self._set(closed())

    def _set(self, rates: list[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_rate(group, rate)
        self._last_lr = self._rates

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser."""
        left_out = ("optimizer", "_steps_before")
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes back what `state_dict` gave."""
        self.__dict__.update(state_dict)


def per_group(optimizer: Optimizer, given: Any, name: str) -> list[Any]:
    """One value for each group: a list as it is, or a single value repeated."""
    groups = len(optimizer.param_groups)
    if not isinstance(given, list | tuple):
        return [given] * groups
    if len(given) != groups:
        raise ValueError(f"Expected {groups} values for {name}, but got {len(given)}")
    return list(given)
