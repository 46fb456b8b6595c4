"""Convolutions of channels by themselves (depthwise): a sum of shifted images, each times a number.

    product of windows     x (N, G, 1, *S), weight (G, O, 1, *K) -> (N, G, O, *L)
    slopes                 g (N, G, O, *L), x (N, G, 1, *S)      -> (G, O, 1, *K)

As matrix products these would have one row, or a few terms: loops over elements take less time. Of
images with several channels these are lanes (CONV_ALONE, ALONE_SLOPES), which takes less still; of
the product both ways give the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from livegrad.graph.handle import node_of
from livegrad.graph.meta import Shape
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, cast, mul
from livegrad.ops.reductions.reduce import SUM
from livegrad.ops.shaping.joining import stack
from livegrad.ops.shaping.movement import INDEX, reshape_to
from livegrad.ops.windows.unfolding import Sizes, resized, span
from livegrad.ops.windows.window_products import ALONE_SLOPES, CONV_ALONE, Lie

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

# Outputs per channel, and places in a window, that are summed up so.
MOST_OUTPUTS, MOST_SHIFTS = 2, 25
# Lines of fewer elements are short.
SHORT_LINE = 32
# Channels that are worth being lanes; and elements of an image then, with what is around it.
LEAST_LANES, MOST_ELEMENTS = 8, 1 << 18
# Elements of an image, with what is around it, that sums over windows are made of as a whole; parts
# of these sums at most, and windows of each at least.
MOST_BROUGHT, MOST_PARTS, LEAST_WINDOWS = 1 << 14, 8, 2048


def is_alone(weight: Shape) -> bool:
    """Whether a weight (G, O, C, *K) is for single channels and few enough places."""
    _, outputs, channels, *taps = weight
    return channels == 1 and outputs <= MOST_OUTPUTS and prod(taps) <= MOST_SHIFTS


def are_alone(weight: Shape, lie: Lie, counts: Shape) -> bool:
    """Whether products are of single channels: as lanes, or with few enough places."""
    return is_alone(weight) or channels_are_lanes(weight, lie, counts)


def channels_are_lanes(weight: Shape, lie: Lie, counts: Shape, limit: int = MOST_ELEMENTS) -> bool:
    """Whether channels of images are single ones and several, and images not too large."""
    groups, outputs, channels, *taps = weight
    if len(taps) != 2 or channels * outputs != 1 or groups < LEAST_LANES:
        return False
    padded = [
        step * (count - 1) + span(k, d) + max(before, 0)
        for count, k, step, before, d in zip(counts, taps, *lie, strict=True)
    ]
    return prod(padded) <= limit


def alone_product(x: Tensor, weight: Tensor, lie: Lie, shape: Shape) -> Tensor:
    """What each output is: the elements of its window times the weight, added one by one."""
    factors = node_of(weight).meta.shape
    if not channels_are_lanes(factors, lie, shape[3:]):
        return shifted_sum(x, weight, lie, shape)
    batch, groups, _, *sizes = node_of(x).meta.shape
    seen = reshape_to(x, (batch, 1, groups, *sizes))
    factor = reshape_to(weight, (1, groups, 1, *factors[3:]))
    found = record(CONV_ALONE, (seen, factor), lie, (), (batch, 1, groups, *shape[3:]))
    return reshape_to(found, shape)


def shifted_sum(x: Tensor, weight: Tensor, lie: Lie, shape: Shape) -> Tensor:
    """The same, as loops."""
    dtype = node_of(x).meta.dtype
    x, weight = cast(x, dtype.compute), cast(weight, dtype.compute)
    groups, outputs, _, *taps = node_of(weight).meta.shape
    ones = (1,) * len(taps)
    items = tuple([("all",)] * 3 + [("slice", 1)] * len(taps))
    total = None
    for place, image in _shifted(x, lie, tuple(taps), shape[3:]):
        factor = record(INDEX, (weight,), (items,), place, (groups, outputs, 1, *ones))
        term = mul(image, reshape_to(factor, (groups, outputs, *ones)))
        total = term if total is None else add(total, term)
    assert total is not None
    return cast(total, dtype)


def alone_slopes(g: Tensor, x: Tensor, lie: Lie, shape: Shape) -> Tensor:
    """For each place in a window, the sum of gradients times the elements they met there."""
    dtype, (batch, groups, _, *counts) = node_of(x).meta.dtype, node_of(g).meta.shape
    lanes = channels_are_lanes(shape, lie, tuple(counts), MOST_BROUGHT)
    if not lanes or not dtype.is_floating_point:
        return shifted_slopes(g, x, lie, shape)
    pair = [
        reshape_to(cast(y, dtype.compute), (batch, groups, *node_of(y).meta.shape[3:]))
        for y in (g, x)
    ]
    parts = _parts(batch, prod(counts))
    sums = record(ALONE_SLOPES, pair, lie, (), (parts, groups, *shape[3:]))
    return reshape_to(cast(record(SUM, (sums,), ((0,), False)), dtype), shape)


def _parts(images: int, windows: int) -> int:
    """Into how many parts of images a sum over windows is cut, which threads share: as many in
    each, by nothing but how many there are."""
    for parts in range(MOST_PARTS, 1, -1):
        if images % parts == 0 and images * windows >= parts * LEAST_WINDOWS:
            return parts
    return 1


def shifted_slopes(g: Tensor, x: Tensor, lie: Lie, shape: Shape) -> Tensor:
    """The same, as loops."""
    taps, counts = shape[3:], node_of(g).meta.shape[3:]
    dims = tuple(range(3, 3 + len(taps)))
    # One dim first, so that products need not be stored: lines, or columns if lines are short.
    first = dims[-1] if counts[-1] >= SHORT_LINE else dims[0]
    found = []
    for _, image in _shifted(x, lie, taps, counts):
        sums = record(SUM, (mul(g, image),), ((first,), True))
        found.append(record(SUM, (sums,), ((0, *dims), False)))
    return reshape_to(stack(found, -1), shape)


def _shifted(x: Tensor, lie: Lie, taps: Shape, counts: Shape) -> Iterator[tuple[Sizes, Tensor]]:
    """For each place in a window, the elements (N, G, 1, *L) that are there."""
    lead, sizes = node_of(x).meta.shape[:3], node_of(x).meta.shape[3:]
    amounts = {}
    for i, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        needed = lie.stride[i] * (count - 1) + span(taps[i], lie.dilation[i])
        amounts[3 + i] = (lie.before[i], needed - lie.before[i] - size)
    whole = resized(x, amounts)
    items = tuple([("all",)] * 3 + [("slice", step) for step in lie.stride])
    for place in product(*map(range, taps)):
        start = tuple([k * d for k, d in zip(place, lie.dilation, strict=True)])
        yield place, record(INDEX, (whole,), (items,), start, (*lead, *counts))
