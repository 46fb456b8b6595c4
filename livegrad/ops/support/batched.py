"""Operands of batching rules: those of one example, and of all of them with a dim in front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from livegrad.graph.handle import node_of
from livegrad.graph.meta import Shape
from livegrad.graph.record import record
from livegrad.ops.shaping.movement import EXPAND, reshape_to

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def expanded(x: Tensor, shape: Shape) -> Tensor:
    """`x` repeated to `shape`."""
    return x if node_of(x).meta.shape == shape else record(EXPAND, (x,), (), (), shape)


def whole(x: Tensor, batched: bool, size: int) -> Tensor:
    """`x` with the dim of the examples, also if it is the same for all."""
    return x if batched else record(EXPAND, (x,), (), (), (size, *node_of(x).meta.shape))


def wholes(xs: Sequence[Tensor], batched: tuple[bool, ...], size: int) -> list[Tensor]:
    """All operands with the dim of the examples."""
    return [whole(x, b, size) for x, b in zip(xs, batched, strict=True)]


def aligned(x: Tensor, ndim: int) -> Tensor:
    """A batched `x` with dims of size 1 after the first, so that each example has `ndim` dims."""
    size, *rest = node_of(x).meta.shape
    return reshape_to(x, (size, *[1] * (ndim - len(rest)), *rest))
