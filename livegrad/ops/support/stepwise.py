"""How results lie in PyTorch's memory that it computes in several elementwise steps.

A step may bring dims of size 1 back to row-major order, which the operands of the first one did
not have: see `elementwise_strides`.
"""

from __future__ import annotations

from livegrad.graph.infer import broadcast_shapes
from livegrad.graph.layout import Strides, elementwise_strides
from livegrad.graph.meta import Meta, Shape

Seen = tuple[Shape, Strides]
NUMBER: Seen = ((), ())


def seen(meta: Meta) -> Seen:
    """An operand of the first step."""
    return meta.shape, meta.stride()


def elementwise(*operands: Seen) -> Seen:
    """The result of a step."""
    shape = broadcast_shapes("step", [shape for shape, _ in operands])
    return shape, elementwise_strides(shape, operands)
