"""Sums of products over windows, by groups: what convolutions and their gradients are made of.

    CONV_PRODUCT   x (N, G, C, *S), weight (G, O, C, *K) -> (N, G, O, *L)
    CONV_SLOPES    g (N, G, O, *L), x (N, G, C, *S)      -> (G, O, C, *K)
    CONV_ALONE     x (N, 1, C, *S), weight (1, C, 1, *K) -> (N, 1, C, *L)      channel by channel
    ALONE_SLOPES   g (N, C, *L), x (N, C, *S)            -> (P, C, *K)         for parts of images

Element k of window l is element stride * l + dilation * k - before of a dim, and 0 outside of it.
All have native code that brings windows together where they are multiplied (compiler/windows.py,
channel_lanes.py, alone_slopes.py): nothing is laid out in memory for it.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from livegrad.graph.handle import node_of
from livegrad.graph.lowering import lowered_by
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.shaping.movement import expanded, reshape_to
from livegrad.ops.support import samples as s
from livegrad.ops.windows.unfolding import Sizes, permuted

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]
Metas = tuple[Meta, ...]

# Places in a window that native code takes at a time.
MOST_TAPS = 256


class Lie(NamedTuple):
    """attrs: how windows lie in an input, per dim."""

    stride: Sizes
    before: Sizes
    dilation: Sizes


def seen(x: Array, lie: Lie, taps: Shape, counts: Shape) -> Array:
    """(N, G, C, *S) as (N, G, C, *K, *L)."""
    rank = len(taps)
    for i in reversed(range(rank)):
        steps = np.arange(taps[i])[:, None] * lie.dilation[i] - lie.before[i]
        at = steps + np.arange(counts[i]) * lie.stride[i]
        size = x.shape[3 + i]
        inside = ((at >= 0) & (at < size)).reshape(at.shape + (1,) * (x.ndim - 4 - i))
        x = np.where(inside, np.take(x, at.clip(0, max(size - 1, 0)), 3 + i), x.dtype.type(0))
    places = [3 + 2 * i for i in range(rank)]
    return x.transpose(0, 1, 2, *places, *[d + 1 for d in places])


def _product_ref(n: Any, x: Array, weight: Array) -> Array:
    groups, outputs, channels, *taps = weight.shape
    found = seen(x, Lie(*n.attrs), tuple(taps), n.meta.shape[3:])
    terms = channels * prod(taps)
    columns = found.reshape(x.shape[0], groups, terms, prod(n.meta.shape[3:]))
    sums = np.matmul(weight.reshape(groups, outputs, terms), columns)
    return np.asarray(sums.reshape(n.meta.shape))


def _slopes_ref(n: Any, g: Array, x: Array) -> Array:
    batch, groups, outputs, *counts = g.shape
    found = seen(x, Lie(*n.attrs), n.meta.shape[3:], tuple(counts))
    terms, windows = prod(n.meta.shape[2:]), prod(counts)
    columns = found.reshape(batch, groups, terms, windows).transpose(1, 0, 3, 2)
    lines = g.reshape(batch, groups, outputs, windows).transpose(1, 2, 0, 3)
    rows = lines.reshape(groups, outputs, batch * windows)
    sums = np.matmul(rows, columns.reshape(groups, batch * windows, terms))
    return np.asarray(sums.reshape(n.meta.shape))


def _alone_ref(n: Any, x: Array, weight: Array) -> Array:
    taps = weight.shape[3:]
    found = seen(x, Lie(*n.attrs), taps, n.meta.shape[3:])
    factors = weight.reshape(1, 1, weight.shape[1], *taps, *[1] * len(taps))
    return np.asarray((found * factors).sum(tuple(range(3, 3 + len(taps)))), x.dtype)


def _alone_slopes_ref(n: Any, g: Array, x: Array) -> Array:
    parts, channels, *taps = n.meta.shape
    found = seen(x[:, None], Lie(*n.attrs), tuple(taps), g.shape[2:])
    columns = found.reshape(parts, -1, channels, prod(taps), prod(g.shape[2:]))
    lines = g.reshape(parts, -1, channels, prod(g.shape[2:]))
    sums = np.einsum("pnckl,pncl->pck", columns, lines)
    return np.asarray(sums.reshape(n.meta.shape), x.dtype)


# ------------------------------------------------------------------------------------- batching


def _into(x: Tensor, place: int) -> Tensor:
    """The first dim of `x` joined to the one that has this place without it."""
    order = [*range(1, place + 1), 0, *range(place + 1, node_of(x).meta.ndim)]
    shape = node_of(x).meta.shape
    merged = (*shape[1 : place + 1], shape[0] * shape[place + 1], *shape[place + 2 :])
    return reshape_to(permuted(x, order), merged)


def _out_of(x: Tensor, place: int, size: int) -> Tensor:
    """The other way round."""
    shape = node_of(x).meta.shape
    apart = reshape_to(x, (*shape[:place], size, shape[place] // size, *shape[place + 1 :]))
    return permuted(apart, (place, *range(place), *range(place + 1, len(shape) + 1)))


# Which dim takes the batch: of both inputs, of the result; for a batch of either, and of both.
_Places = dict[tuple[bool, bool], tuple[int, int, int]]


def _batch(places: _Places) -> Any:
    def rule(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, bool]) -> Tensor:
        *inputs, result = places[batched]
        merged = [
            _into(x, place) if is_batched else x
            for x, place, is_batched in zip(xs, inputs, batched, strict=True)
        ]
        shape = list(n.meta.shape)
        shape[result] *= size
        return _out_of(record(n.op, merged, n.attrs, (), tuple(shape)), result, size)

    return rule


_product_batch = _batch(
    {(True, False): (0, 0, 0), (False, True): (0, 1, 2), (True, True): (1, 0, 1)}
)
_slopes_of_both = _batch({(True, False): (2, 0, 1), (True, True): (1, 1, 0)})


def _slopes_batch(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, bool]) -> Tensor:
    """Channels of a batch stay apart: in which order terms are added goes by how many there are."""
    g, x = xs
    if batched == (False, True):
        g, batched = expanded(g, (size, *node_of(g).meta.shape)), (True, True)
    found: Tensor = _slopes_of_both(n, size, [g, x], batched)
    return found


_alone_of_both = _batch({(True, False): (0, 0, 0), (True, True): (2, 1, 2)})


def _alone_batch(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, bool]) -> Tensor:
    """Weights of a batch are channels."""
    x, weight = xs
    if batched == (False, True):
        x, batched = expanded(x, (size, *node_of(x).meta.shape)), (True, True)
    found: Tensor = _alone_of_both(n, size, [x, weight], batched)
    return found


_alone_slopes_of_both = _batch({(True, True): (1, 1, 1)})


def _alone_slopes_batch(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, bool]) -> Tensor:
    """Channels of a batch stay apart."""
    both = [
        x if is_batched else expanded(x, (size, *node_of(x).meta.shape))
        for x, is_batched in zip(xs, batched, strict=True)
    ]
    found: Tensor = _alone_slopes_of_both(n, size, both, (True, True))
    return found


# ----------------------------------------------------------------------------------- the records


def _given(metas: Metas, attrs: Any, shape: Any) -> Meta:
    return meta_of(shape, metas[0].dtype)


def _samples(op: str) -> s.SampleRule:
    def sample(x: Shape, weight: Shape, counts: Shape, *lie: int) -> s.Sample:
        rank = len(counts)
        attrs = Lie(*[(number,) * rank for number in lie])
        result = (x[0], *weight[:2], *counts)
        if op == "conv_product":
            return s.Sample(
                (s.uniform(*x), s.uniform(*weight, seed=1)),
                lambda a, b: record(CONV_PRODUCT, (a, b), attrs, (), result),
                smooth=False,
            )
        return s.Sample(
            (s.uniform(*result), s.uniform(*x, seed=1)),
            lambda a, b: record(CONV_SLOPES, (a, b), attrs, (), weight),
            smooth=False,
        )

    return s.calls(
        lambda: sample((2, 1, 2, 5), (1, 3, 2, 3), (5,), 1, 1, 1),
        lambda: sample((2, 2, 3, 9), (2, 2, 3, 2), (4,), 2, 1, 3),
        lambda: sample((3, 1, 2, 6, 7), (1, 17, 2, 3, 2), (5, 7), 1, 1, 1),
        lambda: sample((1, 2, 1, 4, 5), (2, 1, 1, 3, 2), (2, 3), 2, 0, 1),
        lambda: sample((1, 1, 2, 3, 4, 5), (1, 5, 2, 2, 3, 2), (4, 4, 6), 1, 1, 1),
        lambda: sample((2, 1, 2, 4), (1, 3, 2, 3), (3,), 1, -1, 1),
    )


CONV_PRODUCT: Op = Op(
    "conv_product",
    "kernel",
    infer=_given,
    ref=_product_ref,
    lower=lowered_by("convolution.ConvProduct"),
    flops=lambda node: node.meta.numel * prod(node.inputs[1].meta.shape[2:]),
    batch=_product_batch,
    samples=_samples("conv_product"),
)
CONV_SLOPES: Op = Op(
    "conv_slopes",
    "kernel",
    infer=_given,
    ref=_slopes_ref,
    lower=lowered_by("convolution.ConvSlopes"),
    flops=lambda node: node.meta.numel * _windows(node.inputs[0].meta),
    batch=_slopes_batch,
    samples=_samples("conv_slopes"),
)


def _alone_sample(x: Shape, taps: Shape, counts: Shape, *lie: int) -> s.Sample:
    attrs = Lie(*[(number,) * len(counts) for number in lie])
    return s.Sample(
        (s.uniform(*x), s.uniform(1, x[2], 1, *taps, seed=1)),
        lambda a, b: record(CONV_ALONE, (a, b), attrs, (), (*x[:3], *counts)),
        smooth=False,
    )


CONV_ALONE: Op = Op(
    "conv_alone",
    "kernel",
    infer=_given,
    ref=_alone_ref,
    lower=lowered_by("convolution.ConvProduct", alone=True),
    flops=lambda node: node.meta.numel * prod(node.inputs[1].meta.shape[2:]),
    batch=_alone_batch,
    samples=s.calls(
        lambda: _alone_sample((2, 1, 3, 5, 6), (3, 3), (5, 6), 1, 1, 1),
        lambda: _alone_sample((2, 1, 17, 7, 9), (2, 3), (4, 4), 2, 1, 1),
        lambda: _alone_sample((1, 1, 16, 6, 20), (3, 2), (6, 17), 1, 2, 2),
        lambda: _alone_sample((1, 1, 2, 5, 4), (3, 3), (2, 1), 1, -1, 1),
    ),
)


def _alone_slopes_sample(x: Shape, taps: Shape, counts: Shape, parts: int, *lie: int) -> s.Sample:
    attrs = Lie(*[(number,) * len(counts) for number in lie])
    return s.Sample(
        (s.uniform(*x[:2], *counts), s.uniform(*x, seed=1)),
        lambda a, b: record(ALONE_SLOPES, (a, b), attrs, (), (parts, x[1], *taps)),
        smooth=False,
    )


ALONE_SLOPES: Op = Op(
    "alone_slopes",
    "kernel",
    infer=_given,
    ref=_alone_slopes_ref,
    lower=lowered_by("convolution.AloneSlopes"),
    flops=lambda node: node.inputs[0].meta.numel * prod(node.meta.shape[2:]),
    batch=_alone_slopes_batch,
    samples=s.calls(
        lambda: _alone_slopes_sample((2, 3, 5, 6), (3, 3), (5, 6), 1, 1, 1, 1),
        lambda: _alone_slopes_sample((4, 17, 7, 9), (2, 3), (4, 4), 2, 2, 1, 1),
        lambda: _alone_slopes_sample((1, 16, 6, 20), (3, 2), (6, 17), 1, 1, 2, 2),
        lambda: _alone_slopes_sample((3, 2, 5, 4), (5, 5), (2, 1), 3, 1, -1, 1),
    ),
)


def _windows(g: Meta) -> int:
    return g.shape[0] * prod(g.shape[3:])
