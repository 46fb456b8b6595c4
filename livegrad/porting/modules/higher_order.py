"""`torch._higher_order_ops`: functions that take functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from livegrad.control_flow import cond as cond, while_loop as while_loop
from livegrad.func.tree import flatten, unflatten
from livegrad.ops.shaping.joining import cat

__path__: list[str] = []  # what is asked of packages


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """All that `combine_fn` makes of the first elements along a dim: of one, of two, and so on.

    `xs` is a tensor, or a nested value of tensors that belong together. With `reverse`, of the last
    elements. `combine_fn` must be associative: it is called with many elements at once.
    """
    leaves, shape = flatten(xs)
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    if reverse:
        leaves = [x.flip(dim) for x in leaves]
    count, step = leaves[0].shape[dim], 1
    while step < count:  # each holds what is combined of `step` elements that end with it
        before = unflatten([x.narrow(dim, 0, count - step) for x in leaves], shape)
        after = unflatten([x.narrow(dim, step, count - step) for x in leaves], shape)
        combined, _ = flatten(combine_fn(before, after))
        firsts = [x.narrow(dim, 0, step) for x in leaves]
        leaves = [cat([a, b], dim) for a, b in zip(firsts, combined, strict=True)]
        step *= 2
    if reverse:
        leaves = [x.flip(dim) for x in leaves]
    return unflatten(leaves, shape)
