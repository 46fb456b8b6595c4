"""Convolution of any rank: products with windows of the input.

    CONV         (input, weight[, bias])  -> output
    CONV_INPUT   (output, weight[, bias]) -> input    gradient of the input, transposed convolution
    CONV_WEIGHT  (output, input)          -> weight   gradient of the weight

Each is linear in both of its tensors, and its gradients are the other two; so the family is closed
and has gradients of any order. Shapes: input (N, C, *S), weight (O, C / groups, *K), output
(N, O, *L). What computes them is in window_products.py.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import gcd, prod
from typing import TYPE_CHECKING, Any, NamedTuple

from livegrad import dtypes
from livegrad.graph.handle import node_of
from livegrad.graph.layout import Strides, contiguous_strides, prefers_channels_last
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op, as_any_suggests
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, cast
from livegrad.ops.elementwise.conjugate import conj
from livegrad.ops.making.generate import filled
from livegrad.ops.products.matmul import HALVES
from livegrad.ops.reductions.reduce import SUM
from livegrad.ops.shaping.movement import INDEX, reshape_to
from livegrad.ops.shaping.slicing import FLIP
from livegrad.ops.support import parts, samples as s
from livegrad.ops.windows.interleaving import interleaved, span_of_phase
from livegrad.ops.windows.shifted_products import (
    alone_product,
    alone_slopes,
    are_alone,
    is_alone,
)
from livegrad.ops.windows.unfolding import (
    Amounts,
    Sizes,
    permuted,
    resized,
    window_count,
)
from livegrad.ops.windows.window_products import CONV_PRODUCT, CONV_SLOPES, MOST_TAPS, Lie

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Metas = tuple[Meta, ...]


class Geometry(NamedTuple):
    """attrs of the family: how windows lie in the input. Padding is (before, after) per dim."""

    stride: Sizes
    padding: tuple[Amounts, ...]
    dilation: Sizes
    groups: int
    # Sizes that the operands do not tell: of the input for CONV_INPUT, of a window for CONV_WEIGHT.
    sizes: Sizes = ()

    def counts(self, sizes: Sizes, kernel: Sizes) -> Sizes:
        """Windows along each dim."""
        padded = [size + sum(pads) for size, pads in zip(sizes, self.padding, strict=True)]
        return tuple(map(window_count, padded, kernel, self.stride, self.dilation))

    def pads(self, first: int = 2) -> dict[int, Amounts]:
        """The padding by dim of a tensor whose dims from `first` on are padded."""
        return {first + i: amounts for i, amounts in enumerate(self.padding)}


def geometry(n: Any) -> Geometry:
    """The geometry of a node."""
    return Geometry(*n.attrs)


# ----------------------------------------------------------------------------- the three products


def _grouped(x: Tensor, dim: int, groups: int) -> Tensor:
    """Channels, a dim, as groups and the channels of each."""
    shape = node_of(x).meta.shape
    return reshape_to(x, (*shape[:dim], groups, shape[dim] // groups, *shape[dim + 1 :]))


def _rounded_once(expand: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """An expansion that adds a bias to a product: half precisions are rounded after it alone."""

    def run(n: Any, *operands: Tensor) -> Tensor:
        if len(operands) < 3 or n.meta.dtype not in HALVES:
            return expand(n, *operands)
        return cast(expand(n, *[cast(x, dtypes.float32) for x in operands]), n.meta.dtype)

    return run


@_rounded_once
def _conv_expand(n: Any, x: Tensor, weight: Tensor, *bias: Tensor) -> Tensor:
    geo, rank = geometry(n), n.meta.ndim - 2
    if n.meta.numel == 0 or node_of(weight).meta.numel == 0:
        out = filled(n.meta.shape, 0, node_of(x).meta.dtype)
        return add(out, along_channels(bias[0], n.meta.ndim)) if bias else out
    batch, outputs, *counts = n.meta.shape
    shape = (batch, geo.groups, outputs // geo.groups, *counts)
    lie = Lie(geo.stride, tuple([before for before, _ in geo.padding]), geo.dilation)
    out = _product(_grouped(x, 1, geo.groups), _grouped(weight, 0, geo.groups), lie, shape)
    if bias:
        out = add(out, reshape_to(bias[0], (*shape[1:3], *[1] * rank)))
    return reshape_to(out, n.meta.shape)


def _product(x: Tensor, weight: Tensor, lie: Lie, shape: Shape) -> Tensor:
    """CONV_PRODUCT; of very large windows, part by part of their first dim that is large."""
    taps = node_of(weight).meta.shape[3:]
    if are_alone(node_of(weight).meta.shape, lie, shape[3:]):
        return alone_product(x, weight, lie, shape)
    if prod(taps) <= MOST_TAPS:
        return record(CONV_PRODUCT, (x, weight), lie, (), shape)
    d = taps.index(max(taps))
    half = taps[d] // 2
    first, second = [
        resized(weight, {3 + d: amounts}) for amounts in ((0, half - taps[d]), (-half, 0))
    ]
    moved = list(lie.before)
    moved[d] -= half * lie.dilation[d]
    further = lie._replace(before=tuple(moved))
    return add(_product(x, first, lie, shape), _product(x, second, further, shape))


def along_channels(bias: Tensor, ndim: int) -> Tensor:
    """A value per channel, broadcastable to (N, C, …)."""
    return reshape_to(bias, (node_of(bias).meta.shape[0], *[1] * (ndim - 2)))


@_rounded_once
def _conv_input_expand(n: Any, y: Tensor, weight: Tensor, *bias: Tensor) -> Tensor:
    out = _transposed(n, y, weight)
    return add(out, along_channels(bias[0], n.meta.ndim)) if bias else out


def _transposed(n: Any, y: Tensor, weight: Tensor) -> Tensor:
    """Windows of the output, with the weight turned round; strides leave phases, each by itself,
    whose elements take turns in the result.

    Element q = stride * u + r of the padded input is in the windows i at places k for which
    q = stride * i + dilation * k: every so many places, in windows that lie as far apart.
    """
    geo, rank = geometry(n), n.meta.ndim - 2
    if n.meta.numel == 0 or node_of(y).meta.numel == 0:
        return filled(n.meta.shape, 0, node_of(y).meta.dtype)
    batch, channels, *sizes = n.meta.shape
    y = _grouped(y, 1, geo.groups)
    weight = permuted(_grouped(weight, 0, geo.groups), (0, 2, 1, *range(3, 3 + rank)))
    kernel = node_of(weight).meta.shape[3:]
    shared = [gcd(*pair) for pair in zip(geo.stride, geo.dilation, strict=True)]
    spread = [d // common for d, common in zip(geo.dilation, shared, strict=True)]
    found, starts = [], []
    befores = tuple([before for before, _ in geo.padding])
    for phase in product(*map(range, geo.stride)):
        first, counts = span_of_phase(phase, geo.stride, befores, tuple(sizes))
        if min(counts) < 1:
            continue
        shape = (batch, geo.groups, channels // geo.groups, *counts)
        places = zip(phase, first, geo.stride, befores, strict=True)
        starts.append(tuple([u * step + r - before for r, u, step, before in places]))
        rows = zip(phase, geo.stride, geo.dilation, kernel, strict=True)
        spans = [_places_of_phase(*row) for row in rows]
        if not all([places for places, _ in spans]):
            found.append(filled(shape, 0, node_of(y).meta.dtype))
            continue
        moved = [
            d * (len(places) - 1) + back - u
            for d, (places, back), u in zip(spread, spans, first, strict=True)
        ]
        lie = Lie((1,) * rank, tuple(moved), tuple(spread))
        taps = _picked(weight, [places for places, _ in spans])
        found.append(_product(y, _turned(taps), lie, shape))
    if len(found) == 1:
        return reshape_to(found[0], n.meta.shape)
    whole = (batch, geo.groups, channels // geo.groups, *sizes)
    return reshape_to(interleaved(found, geo.stride, starts, whole), n.meta.shape)


def _places_of_phase(phase: int, stride: int, dilation: int, kernel: int) -> tuple[range, int]:
    """The places k of a window that elements stride * u + phase are at, and by how many windows u
    comes after the one that has such an element at the first of them."""
    step = stride // gcd(stride, dilation)
    for k in range(min(step, kernel)):
        back, rest = divmod(dilation * k - phase, stride)
        if rest == 0:
            return range(k, kernel, step), back
    return range(0), 0


def _picked(weight: Tensor, places: list[range]) -> Tensor:
    """Some places in windows."""
    shape = node_of(weight).meta.shape
    wanted = (*shape[:3], *map(len, places))
    if wanted == shape:
        return weight
    items = tuple([("all",)] * 3 + [("slice", along.step) for along in places])
    return record(INDEX, (weight,), (items,), tuple([along.start for along in places]), wanted)


def _turned(weight: Tensor) -> Tensor:
    shape = node_of(weight).meta.shape
    dims = tuple([d for d in range(3, len(shape)) if shape[d] > 1])
    if not dims:
        return weight
    return record(FLIP, (weight,), (dims,), tuple([shape[d] - 1 for d in dims]))


def _conv_weight_expand(n: Any, y: Tensor, x: Tensor) -> Tensor:
    geo = geometry(n)
    if n.meta.numel == 0 or node_of(y).meta.numel == 0:
        return filled(n.meta.shape, 0, n.meta.dtype)
    lie = Lie(geo.stride, tuple([before for before, _ in geo.padding]), geo.dilation)
    outputs, *rest = n.meta.shape
    shape = (geo.groups, outputs // geo.groups, *rest)
    pair = _grouped(y, 1, geo.groups), _grouped(x, 1, geo.groups)
    if is_alone(shape):
        return reshape_to(alone_slopes(*pair, lie, shape), n.meta.shape)
    return reshape_to(record(CONV_SLOPES, pair, lie, (), shape), n.meta.shape)


# ------------------------------------------------------------------------------------- records


def _like_conv(metas: Metas, attrs: Any, shape: Any) -> Meta:
    x, weight = metas[:2]
    counts = Geometry(*attrs).counts(x.shape[2:], weight.shape[2:])
    return meta_of((x.shape[0], weight.shape[0], *counts), x.dtype)


def _like_input(metas: Metas, attrs: Any, shape: Any) -> Meta:
    y, weight, *_ = metas
    geo = Geometry(*attrs)
    return meta_of((y.shape[0], weight.shape[1] * geo.groups, *geo.sizes), y.dtype)


def _like_weight(metas: Metas, attrs: Any, shape: Any) -> Meta:
    y, x = metas
    geo = Geometry(*attrs)
    return meta_of((y.shape[1], x.shape[1] // geo.groups, *geo.sizes), y.dtype)


def _layout(metas: Metas, attrs: Any, meta: Meta) -> Strides | None:
    """channels_last if an operand suggests it; in PyTorch, lines are images of one row."""
    if meta.ndim != 3:
        return as_any_suggests(metas, attrs, meta)
    x, weight = metas[:2]
    lines = x.stride() if x.contiguous else contiguous_strides(x.shape)
    if _suggests(x.shape, lines) or _suggests(weight.shape, weight.stride()):
        _, channels, places = meta.shape
        return channels * places, 1, channels
    return None


def _suggests(shape: Shape, strides: Strides) -> bool:
    """Whether lines (N, C, L), seen as images, look like channels_last."""
    (batch, channels, places), (*first, step) = shape, strides
    return prefers_channels_last((batch, channels, 1, places), (*first, places * step, step))


def _to_output(like: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    return record(CONV, (x, weight), (*_attrs_of(like)[:4], ()))


def _to_input(like: Tensor, y: Tensor, weight: Tensor, sizes: Sizes) -> Tensor:
    return record(CONV_INPUT, (y, weight), (*_attrs_of(like)[:4], tuple(sizes)))


def _to_weight(like: Tensor, y: Tensor, x: Tensor, sizes: Sizes) -> Tensor:
    return record(CONV_WEIGHT, (y, x), (*_attrs_of(like)[:4], tuple(sizes)))


def _attrs_of(y: Tensor) -> tuple[Any, ...]:
    return node_of(y).attrs


def _bias_gradient(g: Tensor, y: Tensor, *operands: Tensor) -> Tensor:
    return record(SUM, (g,), ((0, *range(2, len(g.shape))), False))


def _samples(op: str) -> s.SampleRule:
    def sample(
        x: Shape, weight: Shape, stride: int, pads: Amounts, dilation: int, groups: int
    ) -> s.Sample:
        rank = len(x) - 2
        geo = Geometry((stride,) * rank, (pads,) * rank, (dilation,) * rank, groups)
        out = (x[0], weight[0], *geo.counts(x[2:], weight[2:]))
        if op == "conv":
            return s.Sample(
                (s.uniform(*x), s.uniform(*weight, seed=1)), lambda a, b: record(CONV, (a, b), geo)
            )
        if op == "conv_input":
            attrs = geo._replace(sizes=x[2:])
            return s.Sample(
                (s.uniform(*out), s.uniform(*weight, seed=1)),
                lambda a, b: record(CONV_INPUT, (a, b), attrs),
            )
        attrs = geo._replace(sizes=weight[2:])
        return s.Sample(
            (s.uniform(*out), s.uniform(*x, seed=1)),
            lambda a, b: record(CONV_WEIGHT, (a, b), attrs),
        )

    return s.calls(
        lambda: sample((2, 2, 5), (3, 2, 3), 1, (1, 1), 1, 1),
        lambda: sample((1, 4, 6), (2, 2, 2), 2, (0, 1), 3, 2),
        lambda: sample((1, 2, 4, 5), (2, 1, 3, 2), 2, (1, 1), 1, 2),
        lambda: sample((0, 2, 4), (1, 2, 3), 1, (0, 0), 1, 1),
    )


def _places(outputs: Meta) -> int:
    """How many windows a convolution has: those of (N, O, *L)."""
    return outputs.shape[0] * prod(outputs.shape[2:])


CONV: Op = Op(
    "conv",
    "composite",
    infer=_like_conv,
    expand=_conv_expand,
    layout=_layout,
    grads=(
        lambda g, y, x, weight, *bias: _to_input(y, g, conj(weight), x.shape[2:]),
        lambda g, y, x, weight, *bias: _to_weight(y, g, conj(x), weight.shape[2:]),
        _bias_gradient,
    ),
    saves="x",
    linked=2,
    flops=lambda node: _places(node.meta) * node.inputs[1].meta.numel,
    grad_fn=parts.with_parameters("Convolution"),
    samples=_samples("conv"),
)
CONV_INPUT: Op = Op(
    "conv_input",
    "composite",
    infer=_like_input,
    expand=_conv_input_expand,
    layout=_layout,
    grads=(
        lambda g, y, out, weight, *bias: _to_output(y, g, conj(weight)),
        lambda g, y, out, weight, *bias: _to_weight(y, conj(out), g, weight.shape[2:]),
        _bias_gradient,
    ),
    saves="x",
    linked=2,
    flops=lambda node: _places(node.inputs[0].meta) * node.inputs[1].meta.numel,
    grad_fn=parts.with_parameters("Convolution"),
    samples=_samples("conv_input"),
)
CONV_WEIGHT: Op = Op(
    "conv_weight",
    "composite",
    infer=_like_weight,
    expand=_conv_weight_expand,
    grads=(
        lambda g, y, out, x: _to_output(y, conj(x), g),
        lambda g, y, out, x: _to_input(y, conj(out), g, x.shape[2:]),
    ),
    saves="x",
    flops=lambda node: _places(node.inputs[0].meta) * node.meta.numel,
    samples=_samples("conv_weight"),
)
