"""Optimisers that scale each element's step by the size of its past gradients."""

from __future__ import annotations

from typing import Any

from livegrad.ops.elementwise.arithmetic import add, div, mul, sub
from livegrad.ops.elementwise.roots import sqrt
from livegrad.optim.optimizer import Group
from livegrad.optim.options import (
    check_common,
    check_range,
    check_ways,
    number,
)
from livegrad.optim.ruled import Flags, Ruled, State, adjusted, common_flags, running_mean


class Adagrad(Ruled):
    """Divides by the root of the sum of all squared gradients.

    Args:
        params: parameters, or dicts of groups with options of their own.
        lr: the learning rate.
        lr_decay: how fast it falls.
        eps: added to what is divided by.

    Example:
        >>> w = nn.Parameter(lg.tensor([1.0]))
        >>> optimizer = optim.Adagrad([w], lr=0.1)
        >>> (w**2).sum().backward()
        >>> optimizer.step()
        >>> w
        Parameter containing:
        tensor([0.9000], requires_grad=True)
    """

    op_name = "adagrad"
    takes_sparse = True

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_common(lr, eps, weight_decay)
        check_range("lr_decay value", lr_decay, 0.0)
        check_range("initial_accumulator_value value", initial_accumulator_value, 0.0)
        check_ways(foreach, differentiable, fused)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        # PyTorch has the sums from the beginning, so that they can be saved and shared.
        for group in self.param_groups:
            for p in group["params"]:
                self._start(p, self.state[p], self.streams(group))

    @staticmethod
    def rule(flags: Flags, args: Any, p: Any, g: Any, *state: Any) -> tuple[Any, ...]:
        """The step size is `lr / (1 + (t - 1) * lr_decay)`."""
        decay, step_size, eps = args
        g = adjusted(flags, g, p, decay)
        total = add(state[0], mul(g, g))
        return sub(p, mul(div(g, add(sqrt(total), eps)), step_size)), total

    def streams(self, group: Group) -> dict[str, float]:
        """The sum of squares."""
        return {"sum": group["initial_accumulator_value"]}

    def arguments(self, group: Group, state: State) -> tuple[Flags, tuple[float, ...], State]:
        """See `rule`."""
        step = state["step"] + 1
        step_size = number(group["lr"]) / (1.0 + (step - 1) * number(group["lr_decay"]))
        args = (number(group["weight_decay"]), step_size, number(group["eps"]))
        return common_flags(group), args, {"step": step}

    def _update_by_sparse(self, group: Group, p: Any, g: Any) -> None:
        if group["weight_decay"]:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        super()._update_by_sparse(group, p, g)


class Adadelta(Ruled):
    """Scales by the ratio of the sizes of past steps and past gradients."""

    op_name = "adadelta"

    def __init__(
        self,
        params: Any,
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_common(lr, eps, weight_decay)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    @staticmethod
    def rule(flags: Flags, args: Any, p: Any, g: Any, *state: Any) -> tuple[Any, ...]:
        """Both running means are of squares."""
        decay, lr, rho, fresh, eps = args
        squares, steps = state
        g = adjusted(flags, g, p, decay)
        squares = add(mul(squares, rho), mul(mul(g, g), fresh))
        delta = mul(div(sqrt(add(steps, eps)), sqrt(add(squares, eps))), g)
        steps = add(mul(steps, rho), mul(mul(delta, delta), fresh))
        return sub(p, mul(delta, lr)), squares, steps

    def streams(self, group: Group) -> dict[str, float]:
        """Means of squared gradients and squared steps."""
        return {"square_avg": 0.0, "acc_delta": 0.0}

    def arguments(self, group: Group, state: State) -> tuple[Flags, tuple[float, ...], State]:
        """See `rule`."""
        rho = number(group["rho"])
        lr, decay = number(group["lr"]), number(group["weight_decay"])
        args = (decay, lr, rho, 1.0 - rho, number(group["eps"]))
        return common_flags(group), args, {"step": state["step"] + 1}


class RMSprop(Ruled):
    """Divides by the root of the running mean of squares, or of the variance if centered.

    Args:
        params: parameters, or dicts of groups with options of their own.
        lr: the learning rate.
        alpha: how much of the running mean stays.
        eps: added to what is divided by.
        weight_decay: how much of a parameter is added to its gradient.
        momentum: how much of the last step is done again.
        centered: divide by the variance's root.
        maximize: whether steps go up.

    Example:
        >>> w = nn.Parameter(lg.tensor([1.0]))
        >>> optimizer = optim.RMSprop([w], lr=0.01)
        >>> (w**2).sum().backward()
        >>> optimizer.step()
        >>> w
        Parameter containing:
        tensor([0.9000], requires_grad=True)
    """

    op_name = "rmsprop"

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_common(lr, eps, weight_decay)
        check_range("momentum value", momentum, 0.0)
        check_range("alpha value", alpha, 0.0)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    @staticmethod
    def rule(flags: Flags, args: Any, p: Any, g: Any, *state: Any) -> tuple[Any, ...]:
        """State: the mean of squares, then the momentum and the mean, where in use."""
        decay, lr, alpha, fresh, eps, momentum = args
        g = adjusted(flags, g, p, decay)
        squares = add(mul(state[0], alpha), mul(mul(g, g), fresh))
        new = [squares]
        spread = squares
        if "centered" in flags:
            mean = running_mean(state[-1], g, fresh)
            spread = sub(squares, mul(mean, mean))
        direction = div(g, add(sqrt(spread), eps))
        if "momentum" in flags:
            direction = add(mul(state[1], momentum), direction)
            new.append(direction)
        if "centered" in flags:
            new.append(mean)
        return sub(p, mul(direction, lr)), *new

    def streams(self, group: Group) -> dict[str, float]:
        """See `rule`."""
        names = {"square_avg": 0.0}
        if number(group["momentum"]) > 0:
            names["momentum_buffer"] = 0.0
        if group["centered"]:
            names["grad_avg"] = 0.0
        return names

    def arguments(self, group: Group, state: State) -> tuple[Flags, tuple[float, ...], State]:
        """See `rule`."""
        alpha, momentum = number(group["alpha"]), number(group["momentum"])
        flags = common_flags(group)
        if momentum > 0:
            flags = ("momentum", *flags)
        if group["centered"]:
            flags = ("centered", *flags)
        lr, decay = number(group["lr"]), number(group["weight_decay"])
        args = (decay, lr, alpha, 1.0 - alpha, number(group["eps"]), momentum)
        return flags, args, {"step": state["step"] + 1}
