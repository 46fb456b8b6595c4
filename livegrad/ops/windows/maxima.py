"""Maxima of small windows, where in them they are, and their gradient: loops over elements.

    x (…, 4, 6)     its elements at each place of 2×2 windows: four (…, 2, 3)

Of windows side by side, *tiles*, each element is in one:

    ──► which is the greatest, and the first such ──► the gradient, or 0
    ──► which take turns in the result

Of others, each element is in several. Which place of each window is the greatest comes first:

    ──► the number of that place, a byte per window
    ──► for each phase of the stride: gradients of all windows that an element is in, of those that
        have their maximum there ──► phases take turns in the result
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, cast, mul, sub, where
from livegrad.ops.elementwise.comparison import (
    eq,
    ge,
    isnan,
    logical_and,
    logical_not,
    logical_or,
    maximum,
)
from livegrad.ops.elementwise.division import floor_divide
from livegrad.ops.making.generate import counting, filled
from livegrad.ops.shaping.movement import INDEX, reshape_to
from livegrad.ops.support import batched, samples as s
from livegrad.ops.windows.interleaving import interleaved, span_of_phase
from livegrad.ops.windows.pool import Pool
from livegrad.ops.windows.unfolding import Sizes, resized, window_count

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

# Places in a window that are looked at one by one.
MOST_PLACES = 16


def lowest(dtype: DType) -> float:
    """What is no greater than any value of `dtype`."""
    return -float("inf") if dtype.is_floating_point else dtypes.iinfo(dtype).min


def are_small(pool: Pool) -> bool:
    """Whether the places in a window are few enough to be looked at one by one."""
    return prod(pool.kernel) <= MOST_PLACES


def small_maximum(x: Tensor, pool: Pool) -> Tensor:
    """The maximum of each window."""
    return _tops(_in_windows(x, pool))[-1]


def _in_windows(x: Tensor, pool: Pool) -> list[Tensor]:
    """The elements at each place in a window; outside of the input, what is no greater."""
    meta = node_of(x).meta
    lead = meta.ndim - len(pool.kernel)
    padded = resized(x, pool.pads(lead), lowest(meta.dtype))
    shape = (*meta.shape[:lead], *pool.counts)
    return _elements(padded, pool.kernel, pool.stride, pool.dilation, shape)


def _elements(x: Tensor, kernel: Sizes, stride: Sizes, dilation: Sizes, shape: Shape) -> list[Any]:
    lead = len(shape) - len(kernel)
    items = tuple([("all",)] * lead + [("slice", step) for step in stride])
    starts = product(*[range(0, k * d, d) for k, d in zip(kernel, dilation, strict=True)])
    return [record(INDEX, (x,), (items,), start, shape) for start in starts]


def _tops(elements: list[Tensor]) -> list[Tensor]:
    """The greatest of the first, of the first two, and so on."""
    found = elements[:1]
    for x in elements[1:]:
        found.append(maximum(found[-1], x))
    return found


# ----------------------------------------------------------------------------------- which place


def greatest_places(x: Tensor, pool: Pool) -> Tensor:
    """The number of the first place in each window that has its maximum, or is NaN: uint8."""
    elements = _in_windows(x, pool)
    which = _first_inside(pool, node_of(elements[0]).meta.shape)
    for k, (x, top) in enumerate(zip(elements[1:], _tops(elements), strict=False), 1):
        here = logical_and(logical_not(ge(top, x)), eq(top, top))
        which = where(here, filled((), k, dtypes.uint8), which)
    return which


def _first_inside(pool: Pool, shape: Shape) -> Tensor:
    """The number of the first place in each window that is not in the padding."""
    rank, found = len(pool.kernel), filled(shape, 0, dtypes.uint8)
    for i, (padding, dilation) in enumerate(zip(pool.padding, pool.dilation, strict=True)):
        if padding:
            start = sub(mul(counting(pool.counts[i]), pool.stride[i]), padding)
            skipped = floor_divide(sub(dilation - 1, start), dilation)
            places = mul(maximum(skipped, filled((), 0, dtypes.int64)), prod(pool.kernel[i + 1 :]))
            along = reshape_to(cast(places, dtypes.uint8), (pool.counts[i], *[1] * (rank - 1 - i)))
            found = add(found, along)
    return found


# --------------------------------------------------------------------------------------- gradient


def are_near(pool: Pool) -> bool:
    """Whether a gradient is spread so: small windows of neighbours."""
    return are_small(pool) and set(pool.dilation) == {1}


def spread_maximum(g: Tensor, x: Tensor, pool: Pool) -> Tensor:
    """The gradient of x from that of its windows' maxima, to the first greatest of each."""
    return record(MAXIMUM_SPREAD, (g, x), pool)


def _spread_expand(n: Any, g: Tensor, x: Tensor) -> Tensor:
    pool = Pool(*n.attrs)
    if node_of(g).meta.numel == 0 or n.meta.numel == 0:
        return filled(n.meta.shape, 0, n.meta.dtype)
    return _spread_tiles(n, g, x, pool) if _are_tiles(pool) else _spread_near(n, g, x, pool)


def _are_tiles(pool: Pool) -> bool:
    """Whether windows lie side by side, all inside."""
    kernel = pool.kernel
    inside = [n * k <= size for n, k, size in zip(pool.counts, kernel, pool.sizes, strict=True)]
    return kernel == pool.stride and not any(pool.padding) and all(inside)


def _spread_tiles(n: Any, g: Tensor, x: Tensor, pool: Pool) -> Tensor:
    kernel, lead = pool.kernel, n.meta.ndim - len(pool.kernel)
    shares = _shares(g, _in_windows(x, pool))
    covered = [count * step for count, step in zip(pool.counts, kernel, strict=True)]
    places = list(product(*map(range, kernel)))
    whole = interleaved(shares, kernel, places, (*n.meta.shape[:lead], *covered))
    after = zip(pool.sizes, covered, strict=True)
    return resized(whole, {lead + i: (0, s - c) for i, (s, c) in enumerate(after)})


def _shares(g: Tensor, elements: list[Tensor]) -> list[Tensor]:
    """What the element at each place gets: all, if it is the greatest and none before it was."""
    top = _tops(elements)[-1]
    shares, found = [], None
    for x in elements:
        here = logical_or(eq(x, top), isnan(x))
        first = here if found is None else logical_and(here, logical_not(found))
        shares.append(where(first, g, 0))
        found = here if found is None else logical_or(found, here)
    return shares


def _spread_near(n: Any, g: Tensor, x: Tensor, pool: Pool) -> Tensor:
    """Element q = stride * u + r of the padded input is in the windows u - j at their place
    stride * j + r."""
    lead = n.meta.ndim - len(pool.kernel)
    which, g = greatest_places(x, pool), cast(g, n.meta.dtype.compute)
    # One window before the first, or some, and after the last: elements look for them there.
    around = {}
    for i, (kernel, stride) in enumerate(zip(pool.kernel, pool.stride, strict=True)):
        before = (kernel - 1) // stride
        last = (pool.padding[i] + pool.sizes[i] - 1) // stride
        around[lead + i] = (before, max(last + 1 - pool.counts[i], 0))
    seen = resized(which, around, MOST_PLACES), resized(g, around)
    found, starts = [], []
    for phase in product(*map(range, pool.stride)):
        first, counts = span_of_phase(phase, pool.stride, pool.padding, pool.sizes)
        if min(counts) < 1:
            continue
        shape = (*n.meta.shape[:lead], *counts)
        begin = [u + around[lead + i][0] for i, u in enumerate(first)]
        found.append(cast(_met(*seen, pool, phase, begin, shape), n.meta.dtype))
        places = zip(phase, first, pool.stride, pool.padding, strict=True)
        starts.append(tuple([u * step + r - before for r, u, step, before in places]))
    return interleaved(found, pool.stride, starts, n.meta.shape)


def _met(
    which: Tensor, g: Tensor, pool: Pool, phase: Sizes, begin: list[int], shape: Shape
) -> Tensor:
    """What the elements of a phase get from all windows they are in, from the first one on."""
    lead = len(shape) - len(phase)
    items = tuple([("all",)] * lead + [("slice", 1)] * len(phase))
    steps = [
        range((kernel - 1 - r) // stride, -1, -1)
        for kernel, r, stride in zip(pool.kernel, phase, pool.stride, strict=True)
    ]
    total = None
    for back in product(*steps):
        place = 0
        for kernel, r, stride, j in zip(pool.kernel, phase, pool.stride, back, strict=True):
            place = place * kernel + stride * j + r
        start = tuple([u - j for u, j in zip(begin, back, strict=True)])
        there, share = [record(INDEX, (x,), (items,), start, shape) for x in (which, g)]
        term = where(eq(there, place), share, 0)
        total = term if total is None else add(total, term)
    return filled(shape, 0, node_of(g).meta.dtype) if total is None else total


def _like_x(metas: tuple[Meta, ...], attrs: Any, shape: Any) -> Meta:
    return meta_of(metas[1].shape, metas[0].dtype)


def _samples(
    *shape: int, kernel: Sizes, stride: Sizes | None = None, padding: Sizes | None = None
) -> s.Sample:
    lead, sizes = shape[: -len(kernel)], shape[-len(kernel) :]
    ones, steps = (1,) * len(kernel), stride or kernel
    before = padding or (0,) * len(kernel)
    rows = zip(sizes, kernel, steps, before, strict=True)
    counts = tuple([window_count(size + 2 * p, k, step, 1) for size, k, step, p in rows])
    pool = Pool(kernel, steps, before, ones, sizes, counts)
    return s.Sample(
        (s.uniform(*lead, *counts), s.uniform(*shape, seed=1)),
        lambda g, x: spread_maximum(g, x, pool),
        smooth=False,
    )


MAXIMUM_SPREAD: Op = Op(
    "maximum_spread",
    "composite",
    # inputs (g, x), attrs Pool
    infer=_like_x,
    expand=_spread_expand,
    saves="x",
    batch=batched.all_batched,
    samples=s.calls(
        lambda: _samples(2, 3, 5, 4, kernel=(2, 2)),
        lambda: _samples(2, 7, kernel=(3,)),
        lambda: _samples(1, 4, 2, 6, kernel=(2, 1, 3)),
        lambda: _samples(0, 4, kernel=(2,)),
        lambda: _samples(2, 2, 7, 6, kernel=(3, 3), stride=(2, 2), padding=(1, 1)),
        lambda: _samples(2, 9, kernel=(5,), stride=(1,), padding=(2,)),
        lambda: _samples(1, 11, 5, kernel=(2, 3), stride=(3, 1)),
    ),
)
