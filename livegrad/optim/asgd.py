"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any, ClassVar

from livegrad.ops.elementwise.arithmetic import add, clone, mul, sub
from livegrad.optim.optimizer import Group
from livegrad.optim.options import (
    check_range,
    check_rate,
    number,
)
from livegrad.optim.ruled import Flags, Ruled, State, adjusted, common_flags


class ASGD(Ruled):
    """SGD with a falling step size, and in the state ("ax") the average of the parameters."""

    op_name = "asgd"
    numbers: ClassVar[dict[str, float]] = {"step": 0, "eta": 0.0, "mu": 1.0}

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_rate(lr)
        check_range("weight_decay value", weight_decay, 0.0)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    @staticmethod
    def rule(flags: Flags, args: Any, p: Any, g: Any, *state: Any) -> tuple[Any, ...]:
        """`kept` is `1 - lambd * eta`."""
        decay, eta, kept, mu = args
        (average,) = state
        g = adjusted(flags, g, p, decay)
        p = sub(mul(p, kept), mul(g, eta))
        if "averages" in flags:
            return p, add(average, mul(sub(p, average), mu))
        return p, clone(p)

    def streams(self, group: Group) -> dict[str, float]:
        """The average."""
        return {"ax": 0.0}

    def arguments(self, group: Group, state: State) -> tuple[Flags, tuple[float, ...], State]:
        """See `rule`; the new numbers are those of the next step."""
        step = state["step"] + 1
        lr, lambd = number(group["lr"]), number(group["lambd"])
        eta = state["eta"] if step > 1 else lr
        flags = common_flags(group)
        if state["mu"] != 1:
            flags = ("averages", *flags)
        args = (number(group["weight_decay"]), eta, 1.0 - lambd * eta, state["mu"])
        new_eta = lr / (1.0 + lambd * lr * step) ** number(group["alpha"])
        return flags, args, {"step": step, "eta": new_eta, "mu": 1.0 / max(1.0, step - group["t0"])}
