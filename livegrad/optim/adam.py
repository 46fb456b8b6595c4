"""Adam and its relatives: steps along a mean of gradients, scaled by a mean of their squares."""

from __future__ import annotations

from typing import Any, ClassVar

from livegrad.ops.elementwise.arithmetic import abs, add, div, mul, sub
from livegrad.ops.elementwise.comparison import maximum
from livegrad.ops.elementwise.roots import sqrt
from livegrad.optim.optimizer import Group
from livegrad.optim.options import (
    betas_of,
    check_betas,
    check_common,
    check_plain,
    check_range,
    check_rate,
    check_ways,
    number,
    root,
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

Betas = tuple[float, float]


def _decayed(flags: Flags, p: Any, g: Any, decay: Any) -> tuple[Any, Any]:
    """Parameter and gradient after weight decay of either kind."""
    g = adjusted(flags, g, p, decay)
    return (mul(p, decay) if "decoupled" in flags else p), g


def _moments(g: Any, m: Any, v: Any, fresh1: Any, beta2: Any, fresh2: Any) -> tuple[Any, Any]:
    """The running means of the gradient and of its square."""
    return running_mean(m, g, fresh1), add(mul(v, beta2), mul(mul(g, g), fresh2))


class Adam(Ruled):
    """Steps along the running mean of the gradient over the root of that of its square.

    Args:
        params: parameters, or dicts of groups with options of their own.
        lr: the learning rate.
        betas: how much of the running means stays.
        eps: added to what is divided by.
        weight_decay: how much of a parameter is added to its gradient.
        amsgrad: divide by the greatest mean of squares so far.
        maximize: whether steps go up.
        decoupled_weight_decay: whether the decay is a step of its own, as in AdamW.

    Example:
        >>> w = nn.Parameter(lg.tensor([1.0]))
        >>> optimizer = optim.Adam([w], lr=0.1)
        >>> (w**2).sum().backward()
        >>> optimizer.step()
        >>> w
        Parameter containing:
        tensor([0.9000], requires_grad=True)
    """

    op_name = "adam"

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        if foreach and not capturable:
            check_plain(lr=lr, **{f"betas[{i}]": beta for i, beta in enumerate(betas)})
        check_common(lr, eps, weight_decay)
        check_betas(betas)
        check_ways(foreach, differentiable, fused)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    @staticmethod
    def rule(flags: Flags, args: Any, p: Any, g: Any, *state: Any) -> tuple[Any, ...]:
        """The step size is `lr / (1 - beta1^t)`, the correction `sqrt(1 - beta2^t)`."""
        decay, fresh1, beta2, fresh2, step_size, correction, eps = args
        p, g = _decayed(flags, p, g, decay)
        m, v = _moments(g, state[0], state[1], fresh1, beta2, fresh2)
        top = maximum(state[2], v) if "amsgrad" in flags else v
        scale = add(div(sqrt(top), correction), eps)
        p = sub(p, mul(div(m, scale), step_size))
        return (p, m, v, top) if "amsgrad" in flags else (p, m, v)

    def streams(self, group: Group) -> dict[str, float]:
        """Both means, and with amsgrad the largest mean of squares so far."""
        names = {"exp_avg": 0.0, "exp_avg_sq": 0.0}
        return {**names, "max_exp_avg_sq": 0.0} if group["amsgrad"] else names

    def arguments(self, group: Group, state: State) -> tuple[Flags, tuple[float, ...], State]:
        """See `rule`."""
        step = state["step"] + 1
        beta1, beta2 = betas_of(group)
        flags, decay = decay_of(group)
        if group["amsgrad"]:
            flags = ("amsgrad", *flags)
        step_size = number(group["lr"]) / (1.0 - beta1**step)
        correction = root(1.0 - beta2**step)
        eps = number(group["eps"])
        args = (decay, 1.0 - beta1, beta2, 1.0 - beta2, step_size, correction, eps)
        return flags, args, {"step": step}


class AdamW(Adam):
    """Adam that shrinks parameters by `lr * weight_decay` instead of changing their gradient.

    Args:
        params: parameters, or dicts of groups with options of their own.
        lr: the learning rate.
        betas: how much of the running means stays.
        eps: added to what is divided by.
        weight_decay: how much parameters shrink, times `lr`.
        amsgrad: divide by the greatest mean of squares so far.
        maximize: whether steps go up.

    Example:
        >>> w = nn.Parameter(lg.tensor([1.0]))
        >>> optimizer = optim.AdamW([w], lr=0.1)
        >>> (w**2).sum().backward()
        >>> optimizer.step()
        >>> w
        Parameter containing:
        tensor([0.8990], requires_grad=True)
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            maximize=maximize,
            foreach=foreach,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )


class NAdam(Ruled):
    """Adam with Nesterov's look ahead; its momentum grows by a schedule."""

    op_name = "nadam"
    numbers: ClassVar[dict[str, float]] = {"step": 0, "mu_product": 1.0}

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_common(lr, eps, weight_decay)
        check_betas(betas)
        check_range("momentum_decay value", momentum_decay, 0.0)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    @staticmethod
    def rule(flags: Flags, args: Any, p: Any, g: Any, *state: Any) -> tuple[Any, ...]:
        """One part of the step along the gradient itself, one along its mean."""
        decay, fresh1, beta2, fresh2, correction, eps, along_g, along_m = args
        p, g = _decayed(flags, p, g, decay)
        m, v = _moments(g, state[0], state[1], fresh1, beta2, fresh2)
        scale = add(sqrt(div(v, correction)), eps)
        return sub(sub(p, mul(div(g, scale), along_g)), mul(div(m, scale), along_m)), m, v

    def streams(self, group: Group) -> dict[str, float]:
        """The two means."""
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def arguments(self, group: Group, state: State) -> tuple[Flags, tuple[float, ...], State]:
        """See `rule`."""
        step = state["step"] + 1
        beta1, beta2 = betas_of(group)
        lr, pace = number(group["lr"]), number(group["momentum_decay"])
        mu, mu_next = [beta1 * (1.0 - 0.5 * 0.96 ** (t * pace)) for t in (step, step + 1)]
        product = state["mu_product"] * mu
        flags, decay = decay_of(group)
        args = (
            decay,
            1.0 - beta1,
            beta2,
            1.0 - beta2,
            1.0 - beta2**step,
            number(group["eps"]),
            lr * (1.0 - mu) / (1.0 - product),
            lr * mu_next / (1.0 - product * mu_next),
        )
        return flags, args, {"step": step, "mu_product": product}


class RAdam(Ruled):
    """Adam that scales by the mean of squares only once enough of them have been seen."""

    op_name = "radam"

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_common(lr, eps, weight_decay)
        check_betas(betas)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    @staticmethod
    def rule(flags: Flags, args: Any, p: Any, g: Any, *state: Any) -> tuple[Any, ...]:
        """The step size has all corrections in it."""
        decay, fresh1, beta2, fresh2, step_size, eps = args
        p, g = _decayed(flags, p, g, decay)
        m, v = _moments(g, state[0], state[1], fresh1, beta2, fresh2)
        direction = div(m, add(sqrt(v), eps)) if "rectified" in flags else m
        return sub(p, mul(direction, step_size)), m, v

    def streams(self, group: Group) -> dict[str, float]:
        """The two means."""
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def arguments(self, group: Group, state: State) -> tuple[Flags, tuple[float, ...], State]:
        """See `rule`."""
        step = state["step"] + 1
        beta1, beta2 = betas_of(group)
        flags, decay = decay_of(group)
        step_size = number(group["lr"]) / (1.0 - beta1**step)
        seen = 1.0 - beta2**step
        longest = 2.0 / (1.0 - beta2) - 1.0
        # How many squares the mean amounts to by now.
        length = longest - 2.0 * step * beta2**step / seen
        if length > 5.0:
            flags = ("rectified", *flags)
            rectified = (length - 4.0) * (length - 2.0) * longest
            rectified /= (longest - 4.0) * (longest - 2.0) * length
            step_size *= root(rectified) * root(seen)
        eps = number(group["eps"])
        return flags, (decay, 1.0 - beta1, beta2, 1.0 - beta2, step_size, eps), {"step": step}


class Adamax(Ruled):
    """Adam with the largest recent gradient in place of the root of the mean of squares."""

    op_name = "adamax"

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_common(lr, eps, weight_decay)
        check_betas(betas)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    @staticmethod
    def rule(flags: Flags, args: Any, p: Any, g: Any, *state: Any) -> tuple[Any, ...]:
        """The step size is `lr / (1 - beta1^t)`."""
        decay, fresh1, beta2, step_size, eps = args
        m, top = state
        g = adjusted(flags, g, p, decay)
        m = running_mean(m, g, fresh1)
        top = maximum(mul(top, beta2), add(abs(g), eps))
        return sub(p, mul(div(m, top), step_size)), m, top

    def streams(self, group: Group) -> dict[str, float]:
        """The mean, and the decaying maximum."""
        return {"exp_avg": 0.0, "exp_inf": 0.0}

    def arguments(self, group: Group, state: State) -> tuple[Flags, tuple[float, ...], State]:
        """See `rule`."""
        step = state["step"] + 1
        beta1, beta2 = betas_of(group)
        step_size = number(group["lr"]) / (1.0 - beta1**step)
        decay, eps = number(group["weight_decay"]), number(group["eps"])
        return common_flags(group), (decay, 1.0 - beta1, beta2, step_size, eps), {"step": step}


class SparseAdam(Ruled):
    """Adam for sparse gradients: what is not among their elements does not move."""

    op_name = "sparse_adam"
    takes_sparse = True
    counts = ()

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check_rate(lr, zero=False)
        check_range("epsilon value", eps, 0.0, zero=False)
        check_betas(betas)
        defaults = {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize}
        super().__init__(params, defaults)
        given = enumerate([group["params"] for group in self.param_groups])
        placed = [(i, j, p) for i, params in given for j, p in enumerate(params)]
        sparse = [[i, j] for i, j, p in placed if p.is_sparse]
        if sparse:
            raise ValueError(
                f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors"
            )
        complexes = [[i, j] for i, j, p in placed if p.is_complex()]
        if complexes:
            raise ValueError(
                f"Complex params at indices {complexes}: SparseAdam does not support complex "
                "parameters"
            )

    def update_group(self, group: Group) -> None:
        """Records the update of one group, whose gradients must be sparse."""
        if any([p._grad is not None and not p._grad.is_sparse for p in group["params"]]):
            raise RuntimeError(
                "SparseAdam does not support dense gradients, please consider Adam instead"
            )
        super().update_group(group)

    @staticmethod
    def rule(flags: Flags, args: Any, p: Any, g: Any, *state: Any) -> tuple[Any, ...]:
        """Adam's rule, for the elements of a gradient."""
        fresh1, beta2, fresh2, step_size, eps = args
        g = adjusted(flags, g, p, 0.0)
        m, v = _moments(g, state[0], state[1], fresh1, beta2, fresh2)
        return sub(p, mul(div(m, add(sqrt(v), eps)), step_size)), m, v

    def streams(self, group: Group) -> dict[str, float]:
        """The two means."""
        return {"exp_avg": 0.0, "exp_avg_sq": 0.0}

    def arguments(self, group: Group, state: State) -> tuple[Flags, tuple[float, ...], State]:
        """See `rule`."""
        step = state["step"] + 1
        beta1, beta2 = betas_of(group)
        step_size = number(group["lr"]) * root(1.0 - beta2**step) / (1.0 - beta1**step)
        args = (1.0 - beta1, beta2, 1.0 - beta2, step_size, number(group["eps"]))
        return common_flags(group), args, {"step": step}
