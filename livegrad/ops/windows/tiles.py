"""Maxima of windows that lie side by side, as tiles, and their gradient without looking for places.

x (…, 4, 6)     its elements at each place of 2×2 windows: four (…, 2, 3)
                ──► which is the greatest, and the first such ──► the gradient, or 0
                ──► which take turns in the result
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import where
from livegrad.ops.elementwise.comparison import (
    eq,
    isnan,
    logical_and,
    logical_not,
    logical_or,
    maximum,
)
from livegrad.ops.making.generate import filled
from livegrad.ops.shaping.movement import INDEX
from livegrad.ops.support import batched, samples as s
from livegrad.ops.windows.interleaving import interleaved
from livegrad.ops.windows.unfolding import Sizes, resized

if TYPE_CHECKING:
    from livegrad.ops.windows.pooling import Pool
    from livegrad.tensor import Tensor

# Places in a window that are looked at one by one.
MOST_PLACES = 16


def are_tiles(pool: Pool) -> bool:
    """Whether small windows lie side by side, all inside."""
    kernel = pool.kernel
    near = kernel == pool.stride and not any(pool.padding) and set(pool.dilation) == {1}
    inside = [n * k <= size for n, k, size in zip(pool.counts, kernel, pool.sizes, strict=True)]
    return near and all(inside) and prod(kernel) <= MOST_PLACES


def spread_maximum(g: Tensor, x: Tensor, kernel: Sizes) -> Tensor:
    """The gradient of x from that of the maxima of its tiles, to the first greatest of each."""
    return record(TILES_SPREAD, (g, x), (kernel,))


def _spread_expand(n: Any, g: Tensor, x: Tensor) -> Tensor:
    (kernel,), (lead, counts) = n.attrs, _counted(n, node_of(g).meta)
    if 0 in counts or n.meta.numel == 0:
        return filled(n.meta.shape, 0, n.meta.dtype)
    places = list(product(*map(range, kernel)))
    elements = _elements(x, kernel, (*lead, *counts))
    covered = [count * step for count, step in zip(counts, kernel, strict=True)]
    whole = interleaved(_shares(g, elements), kernel, places, (*lead, *covered))
    after = zip(n.meta.shape[len(lead) :], covered, strict=True)
    return resized(whole, {len(lead) + i: (0, s - c) for i, (s, c) in enumerate(after)})


def tile_maximum(x: Tensor, kernel: Sizes, shape: Shape) -> Tensor:
    """The maximum of each tile."""
    return _greatest(_elements(x, kernel, shape))


def _elements(x: Tensor, kernel: Sizes, shape: Shape) -> list[Tensor]:
    """The elements at each place in a tile."""
    lead = len(shape) - len(kernel)
    items = tuple([("all",)] * lead + [("slice", step) for step in kernel])
    places = product(*map(range, kernel))
    return [record(INDEX, (x,), (items,), place, shape) for place in places]


def _greatest(elements: list[Tensor]) -> Tensor:
    top = elements[0]
    for x in elements[1:]:
        top = maximum(top, x)
    return top


def _counted(n: Any, g: Meta) -> tuple[tuple[int, ...], Sizes]:
    first = g.ndim - len(n.attrs[0])
    return g.shape[:first], g.shape[first:]


def _shares(g: Tensor, elements: list[Tensor]) -> list[Tensor]:
    """What the element at each place gets: all, if it is the greatest and none before it was."""
    top = _greatest(elements)
    shares, found = [], None
    for x in elements:
        here = logical_or(eq(x, top), isnan(x))
        first = here if found is None else logical_and(here, logical_not(found))
        shares.append(where(first, g, 0))
        found = here if found is None else logical_or(found, here)
    return shares


def _like_x(metas: tuple[Meta, ...], attrs: Any, shape: Any) -> Meta:
    return meta_of(metas[1].shape, metas[0].dtype)


def _samples(*shape: int, kernel: Sizes) -> s.Sample:
    lead, sizes = shape[: -len(kernel)], shape[-len(kernel) :]
    counts = [size // k for size, k in zip(sizes, kernel, strict=True)]
    return s.Sample(
        (s.uniform(*lead, *counts), s.uniform(*shape, seed=1)),
        lambda g, x: spread_maximum(g, x, kernel),
        smooth=False,
    )


TILES_SPREAD: Op = Op(
    "tiles_spread",
    "composite",
    # inputs (g, x), attrs (sizes of a window,)
    infer=_like_x,
    expand=_spread_expand,
    saves="x",
    batch=batched.all_batched,
    samples=s.calls(
        lambda: _samples(2, 3, 5, 4, kernel=(2, 2)),
        lambda: _samples(2, 7, kernel=(3,)),
        lambda: _samples(1, 4, 2, 6, kernel=(2, 1, 3)),
        lambda: _samples(0, 4, kernel=(2,)),
    ),
)
