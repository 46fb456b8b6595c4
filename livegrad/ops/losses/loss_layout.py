"""How losses per element lie in PyTorch's memory, which computes them step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from livegrad.graph.layout import Strides
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
