"""Learning rates that change while training. Call `scheduler.step()` after `optimizer.step()`.

Most schedulers change the current rate by a ratio, so that several may act on one optimiser. A new
rate is a run-time number of the update: it compiles nothing.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

# All schedulers are found in this module.
from livegrad.optim.cyclic_lr import (
    CyclicLR as CyclicLR,
    OneCycleLR as OneCycleLR,
    ReduceLROnPlateau as ReduceLROnPlateau,
)
from livegrad.optim.optimizer import Optimizer
from livegrad.optim.scheduler import LRScheduler as LRScheduler, per_group, set_rate

_LRScheduler = LRScheduler  # its name before PyTorch 2

Factor = Callable[[int], float]


class _ByFunction(LRScheduler):
    """Schedulers that are given a function of the epoch for each group."""

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Factor | list[Factor], last_epoch: int = -1
    ) -> None:
        self.lr_lambdas = per_group(optimizer, lr_lambda, "lr_lambda")
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Functions cannot be saved: of callable objects, their attributes are."""
        saved = super().state_dict()
        saved["lr_lambdas"] = [
            dict(f.__dict__) if not hasattr(f, "__code__") else None for f in self.lr_lambdas
        ]
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes back what `state_dict` gave."""
        saved = dict(state_dict)
        for function, attributes in zip(self.lr_lambdas, saved.pop("lr_lambdas"), strict=True):
            if attributes is not None:
                function.__dict__.update(attributes)
        self.__dict__.update(saved)


class LambdaLR(_ByFunction):
    """The initial rate times `lr_lambda(epoch)`.

    Args:
        optimizer: whose rates change.
        lr_lambda: takes the epoch, returns a factor.

    Example:
        >>> optimizer = optim.SGD([nn.Parameter(lg.zeros(1))], lr=1.0)
        >>> schedule = optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
        >>> optimizer.step(); schedule.step()
        >>> schedule.get_last_lr()
        [0.5]
    """

    def get_lr(self) -> list[float]:
        """See the class."""
        pairs = zip(self.base_lrs, self.lr_lambdas, strict=True)
        return [base * f(self.last_epoch) for base, f in pairs]


class MultiplicativeLR(_ByFunction):
    """The rate of the epoch before times `lr_lambda(epoch)`."""

    def get_lr(self) -> list[float]:
        """See the class."""
        if self.last_epoch == 0:
            return self._rates
        pairs = zip(self._rates, self.lr_lambdas, strict=True)
        return [rate * f(self.last_epoch) for rate, f in pairs]


class _ByRatio(LRScheduler):
    """Schedulers that multiply all rates by one ratio per epoch."""

    def ratio(self) -> float:
        """The rate of this epoch over that of the one before."""
        raise NotImplementedError

    def total(self) -> float:
        """The rate of this epoch over the initial one."""
        raise NotImplementedError

    def get_lr(self) -> list[float]:
        """The rates before, times the ratio."""
        ratio = self.ratio()
        return [rate * ratio for rate in self._rates]

    def _get_closed_form_lr(self) -> list[float]:
        total = self.total()
        return [base * total for base in self.base_lrs]


class StepLR(_ByRatio):
    """Times `gamma` every `step_size` epochs.

    Args:
        optimizer: whose rates change.
        step_size: epochs from one change to the next.
        gamma: the factor.

    Example:
        >>> optimizer = optim.SGD([nn.Parameter(lg.zeros(1))], lr=1.0)
        >>> schedule = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
        >>> optimizer.step(); schedule.step()
        >>> schedule.get_last_lr()
        [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def ratio(self) -> float:
        """See the class."""
        falls = self.last_epoch != 0 and self.last_epoch % self.step_size == 0
        return self.gamma if falls else 1.0

    def total(self) -> float:
        """See the class."""
        return self.gamma ** (self.last_epoch // self.step_size)


class MultiStepLR(_ByRatio):
    """Times `gamma` at each of the epochs `milestones`."""

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def ratio(self) -> float:
        """See the class."""
        times = self.milestones.get(self.last_epoch, 0)
        return self.gamma**times if times else 1.0

    def total(self) -> float:
        """See the class."""
        return self.gamma ** bisect_right(sorted(self.milestones.elements()), self.last_epoch)


class ConstantLR(_ByRatio):
    """Times `factor` for the first `total_iters` epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 <= factor <= 1.0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def ratio(self) -> float:
        """See the class."""
        if self.last_epoch == 0:
            return self.factor
        return 1.0 / self.factor if self.last_epoch == self.total_iters else 1.0

    def total(self) -> float:
        """See the class."""
        return 1.0 if self.last_epoch >= self.total_iters else self.factor


class LinearLR(_ByRatio):
    """Times a factor that goes evenly from `start_factor` to `end_factor`."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1.0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal "
                "to 1."
            )
        if not 0 <= end_factor <= 1.0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _at(self, epoch: int) -> float:
        part = min(epoch, self.total_iters) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * part

    def ratio(self) -> float:
        """See the class."""
        if self.last_epoch == 0:
            return self.start_factor
        if self.last_epoch > self.total_iters:
            return 1.0
        return self._at(self.last_epoch) / self._at(self.last_epoch - 1)

    def total(self) -> float:
        """See the class."""
        return self._at(self.last_epoch)


class ExponentialLR(_ByRatio):
    """Times `gamma` every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def ratio(self) -> float:
        """See the class."""
        return self.gamma if self.last_epoch else 1.0

    def total(self) -> float:
        """See the class."""
        return self.gamma**self.last_epoch


class PolynomialLR(_ByRatio):
    """Falls to zero in `total_iters` epochs as a power of what is left."""

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def _left(self, epoch: int) -> float:
        return 1.0 - min(epoch, self.total_iters) / self.total_iters

    def ratio(self) -> float:
        """See the class."""
        if self.last_epoch == 0 or self.last_epoch > self.total_iters:
            return 1.0
        ratio: float = (self._left(self.last_epoch) / self._left(self.last_epoch - 1)) ** self.power
        return ratio

    def total(self) -> float:
        """See the class."""
        total: float = self._left(self.last_epoch) ** self.power
        return total


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the initial rate to `eta_min` in `T_max` epochs, and back.

    Args:
        optimizer: whose rates change.
        T_max: epochs to the least rate.
        eta_min: that rate.

    Example:
        >>> optimizer = optim.SGD([nn.Parameter(lg.zeros(1))], lr=1.0)
        >>> schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
        >>> optimizer.step(); schedule.step()
        >>> round(schedule.get_last_lr()[0], 3)
        0.5
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """See the class; relative to the rate before, which another scheduler may have changed."""
        epoch, turn = self.last_epoch, math.pi / self.T_max
        if epoch == 0:
            return self._rates
        if self._step_count == 1 and epoch > 0:
            return self._get_closed_form_lr()
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            rise = (1 - math.cos(turn)) / 2
            return [
                rate + (base - self.eta_min) * rise
                for rate, base in zip(self._rates, self.base_lrs, strict=True)
            ]
        ratio = (1 + math.cos(turn * epoch)) / (1 + math.cos(turn * (epoch - 1)))
        return [ratio * (rate - self.eta_min) + self.eta_min for rate in self._rates]

    def _get_closed_form_lr(self) -> list[float]:
        part = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * part for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines one after another, each `T_mult` times as long as the one before."""

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, int | float):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """See the class."""
        part = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * part for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Goes on by one; `epoch` may be a fraction, for steps within an epoch."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            self.last_epoch += 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            self._go_to(epoch)
            self.last_epoch = math.floor(epoch)
        self._step_count += 1
        self._set(self.get_lr())

    def _go_to(self, epoch: float) -> None:
        self.T_i, self.T_cur = self.T_0, epoch
        if self.T_mult == 1:
            self.T_cur = epoch % self.T_0
            return
        while self.T_cur >= self.T_i:
            self.T_cur -= self.T_i
            self.T_i *= self.T_mult


class SequentialLR(LRScheduler):
    """One scheduler after another, changing at the epochs `milestones`."""

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        if not schedulers:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler to be chained")
        _check_optimizers(self, schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than "
                f"the number of milestone points, but got number of schedulers {len(schedulers)} "
                f"and the number of milestones to be equal to {len(milestones)}"
            )
        self.optimizer = optimizer
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        # The schedulers have each taken their first step, one after another: only the first counts.
        for group in optimizer.param_groups:
            set_rate(group, group["initial_lr"])
        for scheduler in schedulers:
            scheduler.last_epoch -= 1
        schedulers[0]._step_count = 0
        schedulers[0].step()
        self._last_lr = schedulers[0].get_last_lr()

    def step(self, epoch: int | None = None) -> None:
        """Goes on by one epoch."""
        self.last_epoch += 1
        at = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[at]
        if at > 0 and self._milestones[at - 1] == self.last_epoch:
            scheduler.step(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """Its own state, and that of its schedulers."""
        return _state_of_many(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes back what `state_dict` gave."""
        _load_many(self, state_dict)


class ChainedScheduler(LRScheduler):
    """Several schedulers at once, one acting on the result of the other."""

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        if not schedulers:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler to be chained")
        self.optimizer = optimizer or schedulers[0].optimizer
        _check_optimizers(self, schedulers, self.optimizer)
        self._schedulers = list(schedulers)
        self._last_lr = self._rates

    def step(self, epoch: int | None = None) -> None:
        """A step of each."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._rates

    def state_dict(self) -> dict[str, Any]:
        """Its own state, and that of its schedulers."""
        return _state_of_many(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes back what `state_dict` gave."""
        _load_many(self, state_dict)


def _check_optimizers(whole: Any, schedulers: Sequence[LRScheduler], optimizer: Optimizer) -> None:
    for i, scheduler in enumerate(schedulers):
        if scheduler.optimizer is not optimizer:
            raise ValueError(
                f"{type(whole).__name__} expects all schedulers to belong to the same optimizer, "
                f"but got scheduler {type(scheduler).__name__} at index {i} with another one"
            )


def _state_of_many(whole: Any) -> dict[str, Any]:
    saved = {k: v for k, v in whole.__dict__.items() if k not in ("optimizer", "_schedulers")}
    return {**saved, "_schedulers": [scheduler.state_dict() for scheduler in whole._schedulers]}


def _load_many(whole: Any, state_dict: dict[str, Any]) -> None:
    own = {k: v for k, v in state_dict.items() if k != "_schedulers"}
    whole.__dict__.update(own)
    for scheduler, saved in zip(whole._schedulers, state_dict["_schedulers"], strict=True):
        scheduler.load_state_dict(saved)
