"""How losses per element lie in PyTorch's memory, which computes them step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from livegrad.graph.layout import Strides, like_strides
from livegrad.graph.meta import Meta
from livegrad.graph.op import LayoutRule
from livegrad.ops.support.stepwise import NUMBER, Seen, elementwise, seen


def by_steps(steps: Callable[..., Seen]) -> LayoutRule:
    """The layout of what `steps(flags, *inputs)` computes."""

    def layout(metas: tuple[Meta, ...], attrs: tuple[Any, ...], meta: Meta) -> Strides | None:
        return steps(attrs[-1], *[seen(m) for m in metas])[1]

    return layout


def absolute_difference(flags: Any, x: Seen, t: Seen) -> Seen:
    return elementwise(elementwise(x, t))


def divergence(log_target: bool, x: Seen, t: Seen) -> Seen:
    """exp(t) * (t - x), or xlogy(t, t) - t * x."""
    entropy = elementwise(t) if log_target else elementwise(t, t)
    return elementwise(entropy, elementwise(t, x))


def poisson(flags: tuple[bool, bool], x: Seen, t: Seen) -> Seen:
    """exp(x) - t * x, or x - t * log(x + eps)."""
    if flags[0]:
        return elementwise(elementwise(x), elementwise(t, x))
    logarithm = elementwise(elementwise(x, NUMBER))
    return elementwise(x, elementwise(t, logarithm))


def ranking(flags: Any, x1: Seen, x2: Seen, t: Seen) -> Seen:
    """clamp(-t * (x1 - x2) + margin)."""
    return elementwise(elementwise(elementwise(t), elementwise(x1, x2)), NUMBER)


def hinge(flags: Any, x: Seen, t: Seen) -> Seen:
    """where(t != 1, clamp(margin - x), 0) + where(t != -1, x, 0)."""
    zeros, is_one = _like(x), elementwise(t, NUMBER)
    apart = elementwise(is_one, elementwise(NUMBER, x), zeros)
    return elementwise(apart, elementwise(is_one, x, zeros))


def soft_margin(flags: Any, x: Seen, t: Seen) -> Seen:
    """log1p(exp(-x * t)), all in the memory of -x."""
    return elementwise(x)


def gaussian(flags: Any, x: Seen, t: Seen, var: Seen) -> Seen:
    """0.5 * (log(var) + (x - t) ** 2 / var), of a copy of the variances."""
    var, squares = _like(var), elementwise(elementwise(x, t))
    return elementwise(elementwise(elementwise(var), elementwise(squares, var)), NUMBER)


def _like(x: Seen) -> Seen:
    """A copy."""
    return x[0], like_strides(*x)
