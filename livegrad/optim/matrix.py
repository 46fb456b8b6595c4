"""Optimisers that treat parameters as matrices: Adafactor and Muon."""

from __future__ import annotations

from math import sqrt as root
from typing import Any

from livegrad import dtypes
from livegrad.creation import zeros, zeros_like
from livegrad.ops.elementwise.arithmetic import div, lerp, mul, neg, sub
from livegrad.ops.elementwise.comparison import clamp
from livegrad.ops.elementwise.roots import rsqrt, sqrt
from livegrad.ops.products.matmul import addmm, matmul
from livegrad.ops.reductions.reduce import mean, sum
from livegrad.ops.reductions.statistics import norm
from livegrad.optim.optimizer import Group, Optimizer
from livegrad.optim.options import (
    check_one_element,
    number,
)
from livegrad.optim.ruled import running_mean
from livegrad.runtime.counts import as_count, count_on, number_in


def _norm(x: Any) -> Any:
    return sqrt(sum(mul(x, x)))


class Adafactor(Optimizer):
    """Adam whose mean of squares is kept as one row and one column per matrix.

    The step size is relative to the size of the parameter (Shazeer and Stern, 2018).
    """

    counts = ("step",)

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_one_element("lr", lr)
        conditions = [
            (lr >= 0.0, f"Learning rate should be >= 0 but is: {lr}"),
            (beta2_decay <= 0.0, f"beta2_decay should be <= 0 but is: {beta2_decay}"),
            (eps[0] is None or eps[0] >= 0.0, f"epsilon1 should be >= 0 but is: {eps[0]}"),
            (eps[1] >= 0.0, f"epsilon2 should be >= 0 but is: {eps[1]}"),
            (d >= 1.0, f"Clipping threshold d should be >= 1 but is: {d}"),
            (weight_decay >= 0.0, f"weight_decay should be >= 0 but is: {weight_decay}"),
        ]
        for holds, message in conditions:
            if not holds:
                raise ValueError(message)
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def update_group(self, group: Group) -> None:
        """Records the update of one group."""
        for p in group["params"]:
            if p.grad is not None:
                self._update(group, p, neg(p.grad) if group["maximize"] else p.grad)

    def _update(self, group: Group, p: Any, g: Any) -> None:
        if p.dtype.is_complex:
            raise RuntimeError("Adafactor does not support complex parameters")
        state = self.state[p]
        if not state:
            _start_factors(state, g)
        step, lr = number_in(state, "step") + 1, number(group["lr"])
        count_on([state], {"step": step})
        least, least_scale = group["eps"]
        least = dtypes.finfo(p.dtype).eps if least is None else least
        scale = clamp(div(_norm(p), root(p.numel())), least_scale)
        alpha = mul(scale, min(lr, step**-0.5))
        if group["weight_decay"]:
            p.mul_(1.0 - lr * group["weight_decay"])
        fresh = step ** group["beta2_decay"]
        squares = _mean_of_squares(state, g, fresh, least)
        direction = mul(rsqrt(clamp(squares, least * least)), g)
        too_long = clamp(div(_norm(direction), root(direction.numel()) * group["d"]), 1.0)
        p.copy_(sub(p, mul(direction, div(alpha, too_long))))


def _start_factors(state: dict[str, Any], g: Any) -> None:
    state["step"] = as_count(0)
    if g.ndim > 1:
        state["row_var"] = zeros(*g.shape[:-1], 1, dtype=g.dtype)
        state["col_var"] = zeros(*g.shape[:-2], 1, g.shape[-1], dtype=g.dtype)
    else:
        state["variance"] = zeros_like(g)


def _mean_of_squares(state: dict[str, Any], g: Any, fresh: float, least: float) -> Any:
    squares = mul(g, g)
    if g.ndim <= 1:
        state["variance"].copy_(running_mean(state["variance"], squares, fresh))
        return state["variance"]
    rows, columns = state["row_var"], state["col_var"]
    rows.copy_(running_mean(rows, mean(squares, -1, True), fresh))
    columns.copy_(running_mean(columns, mean(squares, -2, True), fresh))
    return div(matmul(rows, columns), clamp(mean(rows, -2, True), least))


class Muon(Optimizer):
    """Momentum made orthogonal: for the matrices of hidden layers (Jordan et al., 2024)."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_one_element("lr", lr)
        for name, value in [
            ("Learning rate", lr), ("momentum", momentum), ("weight decay", weight_decay),
        ]:  # fmt: skip
            if not value >= 0.0:
                raise ValueError(f"{name} should be >= 0 but is: {value}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        if ns_steps >= 100:
            raise ValueError("Number of steps must be less than 100 for computational efficiency")
        if len(ns_coefficients) != 3:
            raise ValueError("Coefficients must be a tuple of exactly 3 values")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{p.shape}"
                    )

    def update_group(self, group: Group) -> None:
        """Records the update of one group."""
        for p in group["params"]:
            if p.grad is not None:
                self._update(group, p, p.grad)

    def _update(self, group: Group, p: Any, g: Any) -> None:
        state = self.state[p]
        if not state:
            state["momentum_buffer"] = zeros_like(p).requires_grad_(False)
        buffer, momentum = state["momentum_buffer"], number(group["momentum"])
        buffer.copy_(lerp(buffer, g, 1.0 - momentum))
        direction = lerp(g, buffer, momentum) if group["nesterov"] else buffer
        direction = _orthogonal(
            direction, group["ns_coefficients"], group["ns_steps"], group["eps"]
        )
        lr = number(group["lr"])
        rate = lr * _ratio(group["adjust_lr_fn"], *p.shape)
        kept = mul(p, 1.0 - lr * group["weight_decay"])
        p.copy_(sub(kept, mul(direction.to(p.dtype), rate)))


def _ratio(kind: str | None, rows: int, columns: int) -> float:
    """How the learning rate depends on the shape."""
    if kind == "match_rms_adamw":
        return 0.2 * root(max(rows, columns))
    return root(max(1.0, rows / columns))


def _orthogonal(g: Any, coefficients: tuple[float, float, float], steps: int, eps: float) -> Any:
    """Nearly the orthogonal matrix closest to `g`, by Newton-Schulz iterations in bfloat16."""
    a, b, c = coefficients
    x = g.to(dtypes.bfloat16)
    tall = x.shape[0] > x.shape[1]
    if tall:
        x = x.mT
    x = div(x, clamp(norm(x), eps))
    for _ in range(steps):
        gram = matmul(x, x.mT)
        gram = addmm(gram, gram, gram, beta=b, alpha=c)
        x = addmm(x, gram, x, beta=a)
    return x.mT if tall else x
