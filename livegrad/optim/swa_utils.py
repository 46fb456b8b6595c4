"""Averages of a model's weights over training: stochastic weight averaging, and exponential."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

from livegrad import dtypes
from livegrad.autograd import no_grad
from livegrad.creation import tensor
from livegrad.nn.module import Module
from livegrad.optim.optimizer import Optimizer
from livegrad.optim.scheduler import LRScheduler, per_group

Average = Callable[[Any, Any, Any], Any]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """For `AveragedModel(avg_fn=)`: an average that forgets exponentially."""
    _check_decay(decay)

    def average(mean: Any, value: Any, count: Any) -> Any:
        return mean * decay + value * (1 - decay)

    return average


def get_swa_avg_fn() -> Average:
    """For `AveragedModel(avg_fn=)`: the mean of all values so far."""

    def average(mean: Any, value: Any, count: Any) -> Any:
        return mean + (value - mean) / (count + 1)

    return average


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """For `AveragedModel(multi_avg_fn=)`: like `get_ema_avg_fn`, for lists of tensors."""
    return _for_many(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """For `AveragedModel(multi_avg_fn=)`: like `get_swa_avg_fn`, for lists of tensors."""
    return _for_many(get_swa_avg_fn())


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1].")


def _for_many(average: Average) -> Callable[..., None]:
    def averages(means: list[Any], values: list[Any], count: Any) -> None:
        for mean, value in zip(means, values, strict=True):
            mean.copy_(average(mean, value, count) if mean.is_floating_point() else value)

    return averages


class AveragedModel(Module):
    """A copy of `model` whose weights are the average of those given to `update_parameters`."""

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: Callable[..., None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        self.register_buffer("n_averaged", tensor(0, dtype=dtypes.int64))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged model gives."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Takes the weights of `model` into the average."""
        with no_grad():
            means, values = [self._averaged(m) for m in (self.module, model)]
            if self.n_averaged == 0:
                for mean, value in zip(means, values, strict=True):
                    mean.copy_(value)
            else:
                update = self.multi_avg_fn or _for_many(self.avg_fn or get_swa_avg_fn())
                update(means, values, self.n_averaged)
            if not self.use_buffers:
                for mine, theirs in zip(self.module.buffers(), model.buffers(), strict=True):
                    mine.copy_(theirs)
            self.n_averaged += 1

    def _averaged(self, model: Module) -> list[Any]:
        buffers = model.buffers() if self.use_buffers else ()
        return [x.detach() for x in chain(model.parameters(), buffers)]


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Computes the running statistics of batch norms anew, from all batches of `loader`."""
    momenta = {m: m.momentum for m in model.modules() if hasattr(m, "reset_running_stats")}
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.reset_running_stats()
        module.momentum = None
    with no_grad():
        for batch in loader:
            model(batch[0] if isinstance(batch, list | tuple) else batch)
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Goes from the current rate to `swa_lr` in `anneal_epochs`, and stays there."""

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = per_group(optimizer, swa_lr, "swa_lr")
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _way(self, step: float) -> float:
        """How much of the way to the last rate has been made at `step`."""
        part = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return part if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * part)) / 2

    def get_lr(self) -> list[float]:
        """See the class; where it started from follows from the rate now."""
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._way(step - 1), self._way(step)
        rates = []
        for group, rate in zip(self.optimizer.param_groups, self._rates, strict=True):
            last = group["swa_lr"]
            start = last if before == 1 else (rate - before * last) / (1 - before)
            rates.append(last * now + start * (1 - now))
        return rates
