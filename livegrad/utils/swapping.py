"""`swap_tensors`: two tensors become each other, for everybody who holds them."""

from __future__ import annotations

import weakref
from typing import Any

from livegrad.creation import own_node
from livegrad.graph.handle import node_of
from livegrad.graph.node import LeafRef, leaf_ref
from livegrad.tensor import Tensor


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchanges values, classes, gradients and attributes of two tensors."""
    for x in (t1, t2):
        if not isinstance(x, Tensor):
            raise RuntimeError(f"swap_tensors: expected a tensor, but got {type(x).__name__}")
        x._values("swap")  # nothing that is pending knows them by their places any more
        node_of(x)
    one, other = _taken(t1), _taken(t2)
    _give(t1, other, t2)
    _give(t2, one, t1)


def _taken(x: Any) -> tuple[Any, ...]:
    return x.__class__, x._node, x._share, dict(x.__dict__)


def _give(x: Any, parts: tuple[Any, ...], before: Any) -> None:
    """Makes `x` what `before` was."""
    x.__class__, x._node, x._share, attributes = parts
    x.__dict__.clear()
    x.__dict__.update(attributes)
    if isinstance(x._node.grad_to, LeafRef) and x._node.grad_to() is before:
        own_node(x).grad_to = to = leaf_ref(x)  # gradients come to who has the value now
        to.hooks = attributes.get("_hooks")
    share = x._share
    base = getattr(share.cell, "base", None) if share is not None else None
    if base is not None and base() is before:
        share.cell.base = weakref.ref(x)
