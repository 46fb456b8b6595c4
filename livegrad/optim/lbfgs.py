"""L-BFGS: a quasi-Newton method that calls for the loss again and again within one step."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt as root
from typing import Any, NamedTuple

from livegrad.autograd import enable_grad, no_grad
from livegrad.creation import zeros
from livegrad.ops.shaping.joining import cat
from livegrad.optim.optimizer import Optimizer
from livegrad.optim.options import (
    check_rate,
    number,
)


class Point(NamedTuple):
    """A place along the line: step length, loss, gradient, slope along the line."""

    t: float
    loss: float
    gradient: Any
    slope: float


class LBFGS(Optimizer):
    """Steps along an estimate of the inverse Hessian times the gradient.

    `step(closure)` needs a function that computes the loss and its gradients anew. With
    `line_search_fn="strong_wolfe"` the length of each step is searched for.
    """

    needs_closure = True

    def __init__(
        self,
        params: Any,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_rate(lr)
        if line_search_fn not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @property
    def _params(self) -> list[Any]:
        params: list[Any] = self.param_groups[0]["params"]
        return params

    def _gradient(self) -> Any:
        """The gradients of all parameters as one vector."""
        parts = []
        for p in self._params:
            g = zeros(p.numel(), dtype=p.dtype) if p.grad is None else p.grad
            parts.append(g.reshape(-1))
        return cat(parts)

    def _move(self, t: float, direction: Any) -> None:
        at = 0
        for p in self._params:
            part = direction[at : at + p.numel()].reshape(p.shape)
            p.copy_(p + part * t)
            at += p.numel()

    def step(self, closure: Callable[[], Any]) -> Any:
        """Runs up to `max_iter` iterations; returns the loss at the start."""
        with no_grad():
            return self._iterate(enable_grad()(closure))

    def _iterate(self, closure: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        lr, small = number(group["lr"]), group["tolerance_change"]
        state = self.state[self._params[0]]
        for name in ("func_evals", "n_iter"):
            state.setdefault(name, 0)
        first = closure()
        loss, gradient, evaluations = float(first), self._gradient(), 1
        state["func_evals"] += 1
        if _largest(gradient) <= group["tolerance_grad"]:
            return first
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = self._direction(state, gradient, group["history_size"])
            t = lr
            if state["n_iter"] == 1:
                t *= min(1.0, 1.0 / float(gradient.abs().sum()))
            before, state["prev_flat_grad"], state["prev_loss"] = loss, gradient, loss
            state["d"], state["t"] = direction, t
            slope = float(gradient.dot(direction))
            if slope > -small:
                break
            last = iteration == group["max_iter"]
            if group["line_search_fn"] is not None:
                start = Point(0.0, loss, gradient, slope)
                most = group["max_eval"] - evaluations
                found, used = self._search(closure, direction, start, t, most)
                t, loss, gradient, _ = found
                self._move(t, direction)
            else:
                self._move(t, direction)
                used = 0
                if not last:
                    loss, gradient, used = float(closure()), self._gradient(), 1
            state["t"] = t
            evaluations += used
            state["func_evals"] += used
            if (
                last
                or evaluations >= group["max_eval"]
                or _largest(gradient) <= group["tolerance_grad"]
                or _largest(direction * t) <= small
                or abs(loss - before) < small
            ):
                break
        return first

    def _direction(self, state: dict[str, Any], gradient: Any, history: int) -> Any:
        """Minus the inverse Hessian, as far as past steps tell, times the gradient."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
            return -gradient
        changes, steps, weights = state["old_dirs"], state["old_stps"], state["ro"]
        change, step = gradient - state["prev_flat_grad"], state["d"] * state["t"]
        product = float(change.dot(step))
        if product > 1e-10:
            if len(changes) == history:
                del changes[0], steps[0], weights[0]
            changes.append(change)
            steps.append(step)
            weights.append(1.0 / product)
            state["H_diag"] = product / float(change.dot(change))
        direction, parts = -gradient, []
        for y, s, weight in zip(reversed(changes), reversed(steps), reversed(weights), strict=True):
            parts.append(s.dot(direction) * weight)
            direction = direction - y * parts[-1]
        direction = direction * state["H_diag"]
        for y, s, weight, part in zip(changes, steps, weights, reversed(parts), strict=True):
            direction = direction + s * (part - y.dot(direction) * weight)
        return direction

    def _search(
        self,
        closure: Callable[[], Any],
        direction: Any,
        start: Point,
        t: float,
        most: int,
    ) -> tuple[Point, int]:
        """A point along `direction` that meets the strong Wolfe conditions, and evaluations."""
        values = [p.clone() for p in self._params]

        def evaluate(t: float) -> Point:
            self._move(t, direction)
            loss = float(closure())
            gradient = self._gradient()
            for p, value in zip(self._params, values, strict=True):
                p.copy_(value)
            return Point(t, loss, gradient, float(gradient.dot(direction)))

        return strong_wolfe(evaluate, start, t, _largest(direction), most)


def _largest(x: Any) -> float:
    return float(x.abs().max())


# Nocedal and Wright, "Numerical Optimization", 3.5: a decrease of the loss, and of the slope.
_DECREASE, _FLATNESS, _TOLERANCE = 1e-4, 0.9, 1e-9


def strong_wolfe(
    evaluate: Callable[[float], Point], start: Point, t: float, reach: float, most: int
) -> tuple[Point, int]:
    """The search: widen until a good point is bracketed, then narrow the bracket."""
    before, point = start, evaluate(t)
    rounds = 0
    bracket: list[Point] = []
    while rounds < most:
        if _too_high(point, start) or (rounds > 1 and point.loss >= before.loss):
            bracket = [before, point]
            break
        if abs(point.slope) <= -_FLATNESS * start.slope:
            return point, rounds + 1
        if point.slope >= 0:
            bracket = [before, point]
            break
        bounds = (point.t + 0.01 * (point.t - before.t), point.t * 10)
        t = _interpolated(before, point, bounds)
        before, point = point, evaluate(t)
        rounds += 1
    if rounds == most:
        bracket = [start, point]
    return _narrow(evaluate, start, bracket, reach, most, rounds)


def _too_high(point: Point, start: Point) -> bool:
    return point.loss > start.loss + _DECREASE * point.t * start.slope


def _narrow(
    evaluate: Callable[[float], Point],
    start: Point,
    bracket: list[Point],
    reach: float,
    most: int,
    rounds: int,
) -> tuple[Point, int]:
    low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
    stuck = False
    while rounds < most and abs(bracket[1].t - bracket[0].t) * reach >= _TOLERANCE:
        t, stuck = _trial(bracket, stuck)
        point = evaluate(t)
        rounds += 1
        if _too_high(point, start) or point.loss >= bracket[low].loss:
            bracket[high] = point
            low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
            continue
        done = abs(point.slope) <= -_FLATNESS * start.slope
        if not done and point.slope * (bracket[high].t - bracket[low].t) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = point
        if done:
            break
    return bracket[low], rounds + 1


def _trial(bracket: list[Point], stuck: bool) -> tuple[float, bool]:
    """The next point to try: not twice in a row close to an end of the bracket."""
    t = _interpolated(bracket[0], bracket[1])
    left, right = sorted([point.t for point in bracket])
    margin = 0.1 * (right - left)
    if min(right - t, t - left) >= margin:
        return t, False
    if stuck or t >= right or t <= left:
        return (right - margin if abs(t - right) < abs(t - left) else left + margin), False
    return t, True


def _interpolated(a: Point, b: Point, bounds: tuple[float, float] | None = None) -> float:
    """Where the cubic through two points with their slopes is least, kept within bounds."""
    left, right = bounds or ((a.t, b.t) if a.t <= b.t else (b.t, a.t))
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if square < 0:
        return (left + right) / 2.0
    d2 = root(square)
    near, far = (a, b) if a.t <= b.t else (b, a)
    part = (far.slope + d2 - d1) / (far.slope - near.slope + 2 * d2)
    return min(max(far.t - (far.t - near.t) * part, left), right)
