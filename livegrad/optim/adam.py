"""Adam and AdamW."""

from __future__ import annotations

from functools import cache
from math import sqrt as root
from typing import Any

from livegrad.creation import zeros_like
from livegrad.graph.op import Op
from livegrad.ops import samples as s
from livegrad.ops.comparison import maximum
from livegrad.ops.elementwise import add, div, mul, neg, sub
from livegrad.ops.power import sqrt
from livegrad.ops.update import Rule, define, update
from livegrad.optim.optimizer import Group, Optimizer, check_ignored, check_range, number

# Structural variants, each a registered op: which of these options are in use.
# "decay" adds weight decay to the gradient, "decoupled" shrinks the parameter itself.
Flags = tuple[str, ...]


def adam_rule(flags: Flags) -> Rule:
    """The update of one parameter.

    args (decay, 1 - beta1, beta2, 1 - beta2, step size, correction, eps): decay is the weight decay
    ("decay") or `1 - lr * weight_decay` ("decoupled"), the step size is `lr / (1 - beta1^t)`, the
    correction is `sqrt(1 - beta2^t)`.
    """

    def rule(args: Any, p: Any, g: Any, m: Any, v: Any, top: Any = None) -> tuple[Any, ...]:
        decay, fresh1, beta2, fresh2, step_size, correction, eps = args
        if "maximize" in flags:
            g = neg(g)
        if "decay" in flags:
            g = add(g, mul(p, decay))
        elif "decoupled" in flags:
            p = mul(p, decay)
        m = add(m, mul(sub(g, m), fresh1))
        v = add(mul(v, beta2), mul(mul(g, g), fresh2))
        if "amsgrad" not in flags:
            scale = add(div(sqrt(v), correction), eps)
            return sub(p, mul(div(m, scale), step_size)), m, v
        top = maximum(top, v)
        scale = add(div(sqrt(top), correction), eps)
        return sub(p, mul(div(m, scale), step_size)), m, v, top

    return rule


@cache
def adam_op(flags: Flags) -> Op:
    """The update op for a set of options."""
    name = f"adam[{','.join(flags)}]" if flags else "adam"
    streams, written = (5, (0, 2, 3, 4)) if "amsgrad" in flags else (4, (0, 2, 3))
    return define(name, adam_rule(flags), streams, written, samples=s.calls())


class Adam(Optimizer):
    """Steps along the running mean of the gradient over the root of that of its square."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
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
        check_range("learning rate", lr, 0.0)
        check_range("epsilon value", eps, 0.0)
        check_range("beta parameter at index 0", betas[0], 0.0, 1.0)
        check_range("beta parameter at index 1", betas[1], 0.0, 1.0)
        check_range("weight_decay value", weight_decay, 0.0)
        check_ignored(foreach=foreach, differentiable=differentiable, fused=fused)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def update_group(self, group: Group) -> None:
        """Records the update of one group: one node if all its parameters are equally old."""
        params = [p for p in group["params"] if p.grad is not None]
        if not params:
            return
        amsgrad = group["amsgrad"]
        table = self.state
        states = [table[p] for p in params]
        for p, state in zip(params, states, strict=True):
            if not state:
                _start(state, p, amsgrad)
        step = states[0]["step"]
        if all([state["step"] == step for state in states]):
            self._update(group, amsgrad, params, states)
            return
        for batch in _by_age(params, states):
            self._update(group, amsgrad, *batch)

    def _update(
        self, group: Group, amsgrad: bool, params: list[Any], states: list[dict[str, Any]]
    ) -> None:
        step = states[0]["step"] + 1
        for state in states:
            state["step"] = step
        flags, args = _flags_and_args(group, amsgrad, step)
        streams = [
            params,
            [p.grad for p in params],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
        ]
        if amsgrad:
            streams.append([state["max_exp_avg_sq"] for state in states])
        update(adam_op(flags), streams, args)


def _start(state: dict[str, Any], p: Any, amsgrad: bool) -> None:
    state["step"] = 0
    state["exp_avg"] = zeros_like(p)
    state["exp_avg_sq"] = zeros_like(p)
    if amsgrad:
        state["max_exp_avg_sq"] = zeros_like(p)


def _by_age(
    params: list[Any], states: list[dict[str, Any]]
) -> list[tuple[list[Any], list[dict[str, Any]]]]:
    """Batches of parameters that have been updated equally often, with their states."""
    batches: dict[int, tuple[list[Any], list[dict[str, Any]]]] = {}
    for p, state in zip(params, states, strict=True):
        batch = batches.setdefault(state["step"], ([], []))
        batch[0].append(p)
        batch[1].append(state)
    return list(batches.values())


def _flags_and_args(group: Group, amsgrad: bool, step: int) -> tuple[Flags, tuple[float, ...]]:
    lr, decay = number(group["lr"]), number(group["weight_decay"])
    beta1, beta2 = group["betas"]
    flags: Flags = ("amsgrad",) if amsgrad else ()
    if decay:
        if group.get("decoupled_weight_decay"):
            flags += ("decoupled",)
            decay = 1.0 - lr * decay
        else:
            flags += ("decay",)
    if group["maximize"]:
        flags += ("maximize",)
    step_size = lr / (1.0 - beta1**step)
    correction = root(1.0 - beta2**step)
    eps = number(group["eps"])
    return flags, (decay, 1.0 - beta1, beta2, 1.0 - beta2, step_size, correction, eps)


class AdamW(Adam):
    """Adam that shrinks parameters by `lr * weight_decay` instead of changing their gradient."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
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
