"""Optimisers that go by the sign of gradients: Rprop and Lion."""

from __future__ import annotations

from typing import Any

from livegrad.ops.elementwise.arithmetic import add, mul, sign, sub, where
from livegrad.ops.elementwise.comparison import clamp, gt, lt
from livegrad.optim.optimizer import Group
from livegrad.optim.options import (
    betas_of,
    check_betas,
    check_range,
    check_rate,
    number,
)
from livegrad.optim.ruled import (
    Flags,
    Ruled,
    State,
    adjusted,
    common_flags,
    decay_of,
    running_mean,
)

Betas = tuple[Any, Any]


class Rprop(Ruled):
    """A step size per element, which grows while the gradient keeps its sign and else shrinks."""

    op_name = "rprop"

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rate(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    @staticmethod
    def rule(flags: Flags, args: Any, p: Any, g: Any, *state: Any) -> tuple[Any, ...]:
        """Where the sign has changed, the gradient counts as zero."""
        shrink, grow, smallest, largest = args
        before, size = state
        g = adjusted(flags, g, p, 0.0)
        agreement = mul(g, before)
        turned = lt(agreement, 0.0)
        size = where(turned, mul(size, shrink), where(gt(agreement, 0.0), mul(size, grow), size))
        size = clamp(size, smallest, largest)
        g = where(turned, 0.0, g)
        return sub(p, mul(sign(g), size)), g, size

    def streams(self, group: Group) -> dict[str, float]:
        """The last gradient, and the step sizes."""
        return {"prev": 0.0, "step_size": number(group["lr"])}

    def arguments(self, group: Group, state: State) -> tuple[Flags, tuple[float, ...], State]:
        """See `rule`."""
        args = tuple([number(x) for x in (*group["etas"], *group["step_sizes"])])
        return common_flags(group), args, {"step": state["step"] + 1}


class Lion(Ruled):
    """Steps of one size along the sign of a mean of gradients (Chen et al., 2023)."""

    op_name = "lion"

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-4,
        betas: Betas = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None:
        check_rate(lr)
        check_range("weight_decay value", weight_decay, 0.0)
        check_betas(betas)
        defaults = {
            "lr": lr,
            "betas": betas,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "decoupled_weight_decay": True,
        }
        super().__init__(params, defaults)

    @staticmethod
    def rule(flags: Flags, args: Any, p: Any, g: Any, *state: Any) -> tuple[Any, ...]:
        """The direction mixes in more of the newest gradient than the mean that is kept."""
        decay, lr, beta1, fresh1, fresh2 = args
        (m,) = state
        g = adjusted(flags, g, p, decay)
        if "decoupled" in flags:
            p = mul(p, decay)
        direction = sign(add(mul(m, beta1), mul(g, fresh1)))
        return sub(p, mul(direction, lr)), running_mean(m, g, fresh2)

    def streams(self, group: Group) -> dict[str, float]:
        """The mean."""
        return {"exp_avg": 0.0}

    def arguments(self, group: Group, state: State) -> tuple[Flags, tuple[float, ...], State]:
        """See `rule`."""
        beta1, beta2 = betas_of(group)
        flags, decay = decay_of(group)
        args = (decay, number(group["lr"]), beta1, 1.0 - beta1, 1.0 - beta2)
        return flags, args, {"step": state["step"] + 1}
