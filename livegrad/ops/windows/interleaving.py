"""Parts whose elements take turns in the last dims of a whole.

steps (2,), starts (0,) and (1,):     a0 a1 a2, b0 b1  ──►  a0 b0 a1 b1 a2
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad.graph.lowering import lowered_by
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.shaping.joining import EachInput
from livegrad.ops.shaping.movement import INDEX, wholes
from livegrad.ops.support import samples as s
from livegrad.ops.windows.unfolding import Sizes

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]


def interleaved(parts: list[Tensor], steps: Sizes, starts: list[Sizes], shape: Shape) -> Tensor:
    """A whole of `shape`, of which parts hold every `steps`-th element from `starts` on; each
    element is in one of them."""
    return record(INTERLEAVE, parts, (steps, tuple(starts)), (), shape)


def span_of_phase(
    phase: Sizes, stride: Sizes, before: Sizes, sizes: Sizes
) -> tuple[list[int], list[int]]:
    """Of padded elements stride * u + phase, the first u in each dim that is inside, and how many
    there are."""
    rows = list(zip(phase, stride, before, sizes, strict=True))
    first = [-(-(pad - r) // step) for r, step, pad, _ in rows]
    last = [(pad + size - 1 - r) // step for r, step, pad, size in rows]
    return first, [high - low + 1 for low, high in zip(first, last, strict=True)]


def _ref(n: Any, *parts: Array) -> Array:
    steps, starts = n.attrs
    whole = np.zeros(n.meta.shape, parts[0].dtype)
    for part, start in zip(parts, starts, strict=True):
        at: list[Any] = [
            slice(*pair) for pair in zip(start, n.meta.shape[-len(steps) :], steps, strict=True)
        ]
        whole[(..., *at)] = part
    return whole


def _infer(metas: tuple[Meta, ...], attrs: Any, shape: Any) -> Meta:
    return meta_of(shape, metas[0].dtype)


def _grad(i: int, g: Tensor, y: Tensor, *parts: Tensor) -> Tensor:
    steps, starts = y._node.attrs
    lead = len(g.shape) - len(steps)
    items = tuple([("all",)] * lead + [("slice", step) for step in steps])
    return record(INDEX, (g,), (items,), starts[i], parts[i].shape)


def _batch(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    return record(INTERLEAVE, wholes(xs, batched, size), n.attrs, (), (size, *n.meta.shape))


INTERLEAVE: Op = Op(
    "interleave",
    "kernel",
    # inputs in any number, attrs (steps, starts of each input), both of the last dims
    infer=_infer,
    ref=_ref,
    lower=lowered_by("parts.Interleave"),
    grads=EachInput(_grad),
    saves="",
    batch=_batch,
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, 3), s.uniform(3, 2, seed=1)),
            lambda a, b: interleaved([a, b], (2,), [(0,), (1,)], (3, 5)),
        ),
        lambda: s.Sample(
            (s.uniform(2, 2, 3), s.uniform(2, 2, 2, seed=1), s.uniform(2, 2, 2, seed=2)),
            lambda a, b, c: interleaved([b, a, c], (1, 3), [(0, 1), (0, 0), (0, 2)], (2, 2, 7)),
        ),
    ),
)
