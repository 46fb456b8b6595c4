"""Convolution of any rank: windows of the input laid out as columns, and a matrix product.

    CONV         (input, weight[, bias]) -> output
    CONV_INPUT   (output, weight)        -> input     gradient of the input, transposed convolution
    CONV_WEIGHT  (output, input)         -> weight    gradient of the weight

Each is linear in both of its tensors, and its gradients are the other two; so the family is closed
and has gradients of any order. Shapes: input (N, C, *S), weight (O, C / groups, *K), output
(N, O, *L). Products are batched over the groups G; N and L are columns of one product.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op, as_any_suggests
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, cast
from livegrad.ops.elementwise.conjugate import conj
from livegrad.ops.making.generate import filled
from livegrad.ops.products.matmul import MATMUL
from livegrad.ops.reductions.reduce import SUM
from livegrad.ops.shaping.movement import reshape_to
from livegrad.ops.support import parts, samples as s
from livegrad.ops.windows.unfolding import (
    Amounts,
    Sizes,
    merge_phases,
    permuted,
    resized,
    skewed_sum,
    spaced,
    split_phases,
    window_count,
    windows,
)

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


def _columns(x: Tensor, kernel: Sizes, geo: Geometry) -> Tensor:
    """The windows of an input as columns: (G, C / G * K, N * L)."""
    x = resized(x, geo.pads())
    rank = len(kernel)
    for i in reversed(range(rank)):
        x = windows(x, 2 + i, kernel[i], geo.stride[i], geo.dilation[i])
    batch, channels = node_of(x).meta.shape[:2]
    places = [2 + 2 * i for i in range(rank)]
    x = permuted(x, (1, *places, 0, *[d + 1 for d in places]))  # (C, *K, N, *L)
    counts = node_of(x).meta.shape[2 + rank :]
    rows = channels // geo.groups * prod(kernel)
    return reshape_to(x, (geo.groups, rows, batch * prod(counts)))


def _grouped(weight: Tensor, groups: int) -> Tensor:
    """(O, C / G, *K) as (G, O / G, C / G * K)."""
    shape = node_of(weight).meta.shape
    return reshape_to(weight, (groups, shape[0] // groups, prod(shape[1:])))


def _conv_expand(n: Any, x: Tensor, weight: Tensor, *bias: Tensor) -> Tensor:
    geo = geometry(n)
    batch, outputs, *counts = n.meta.shape
    kernel = node_of(weight).meta.shape[2:]
    if n.meta.numel == 0 or node_of(weight).meta.numel == 0:
        out = filled(n.meta.shape, 0, n.meta.dtype)
    else:
        out = record(MATMUL, (_grouped(weight, geo.groups), _columns(x, kernel, geo)))
        out = reshape_to(out, (outputs, batch, *counts))
        out = permuted(out, (1, 0, *range(2, n.meta.ndim)))
    return add(out, along_channels(bias[0], n.meta.ndim)) if bias else out


def along_channels(bias: Tensor, ndim: int) -> Tensor:
    """A value per channel, broadcastable to (N, C, …)."""
    return reshape_to(bias, (node_of(bias).meta.shape[0], *[1] * (ndim - 2)))


def _conv_input_expand(n: Any, y: Tensor, weight: Tensor) -> Tensor:
    """Columns for the zero-padded output, then windows added where they overlap."""
    geo = geometry(n)
    if n.meta.numel == 0 or node_of(y).meta.numel == 0:
        return filled(n.meta.shape, 0, n.meta.dtype)
    rank = n.meta.ndim - 2
    wide = n.meta.dtype.compute
    y, weight = cast(y, wide), cast(weight, wide)
    batch, outputs, *counts = node_of(y).meta.shape
    channels, *sizes = n.meta.shape[1:]
    steps, pads, cuts = [], {}, {}
    for i in range(rank):
        stride, dilation, before = geo.stride[i], geo.dilation[i], geo.padding[i][0]
        if stride > 1 and dilation > 1:
            weight, dilation = spaced(weight, 2 + 2 * i, dilation), 1
        weight, _ = split_phases(weight, 2 + 2 * i, stride)  # see Note [Phases] in unfolding.py
        first, last = before // stride, -(-(before + sizes[i]) // stride)
        reach = dilation * (node_of(weight).meta.shape[2 + 2 * i] - 1)
        pads[2 + i] = (reach - first, last - counts[i])
        cuts[2 + i] = (first * stride - before, before + sizes[i] - last * stride)
        steps.append(dilation)
    y = resized(permuted(y, (1, 0, *range(2, 2 + rank))), pads)  # (O, N, *L)
    long = node_of(y).meta.shape[2:]
    phases = node_of(weight).meta.shape[2:]  # (*(j, phase))
    y = reshape_to(y, (geo.groups, outputs // geo.groups, batch * prod(long)))
    turned = permuted(_grouped(weight, geo.groups), (0, 2, 1))
    x = reshape_to(record(MATMUL, (turned, y)), (channels, *phases, batch, *long))
    for i in range(rank):  # each j taken leaves (C, *phase, *(j, phase), N, *L)
        x = skewed_sum(x, 1 + i, 2 * rank + 2, steps[i])
    x = permuted(x, (rank + 1, 0, *range(1, rank + 1), *range(rank + 2, 2 * rank + 2)))
    x = merge_phases(x, range(2, 2 + rank), range(2 + rank, 2 + 2 * rank))
    return cast(resized(x, cuts), n.meta.dtype)


def _conv_weight_expand(n: Any, y: Tensor, x: Tensor) -> Tensor:
    geo = geometry(n)
    if n.meta.numel == 0 or node_of(y).meta.numel == 0:
        return filled(n.meta.shape, 0, n.meta.dtype)
    batch, outputs, *counts = node_of(y).meta.shape
    columns = _columns(x, geo.sizes, geo)  # (G, C / G * K, N * L)
    y = reshape_to(y, (batch, geo.groups, outputs // geo.groups, *counts))
    y = permuted(y, (1, 0, *range(3, 3 + len(counts)), 2))
    y = reshape_to(y, (geo.groups, batch * prod(counts), outputs // geo.groups))
    return reshape_to(permuted(record(MATMUL, (columns, y)), (0, 2, 1)), n.meta.shape)


# ------------------------------------------------------------------------------------- records


def _like_conv(metas: Metas, attrs: Any, shape: Any) -> Meta:
    x, weight = metas[:2]
    counts = Geometry(*attrs).counts(x.shape[2:], weight.shape[2:])
    return meta_of((x.shape[0], weight.shape[0], *counts), x.dtype)


def _like_input(metas: Metas, attrs: Any, shape: Any) -> Meta:
    y, weight = metas
    geo = Geometry(*attrs)
    return meta_of((y.shape[0], weight.shape[1] * geo.groups, *geo.sizes), y.dtype)


def _like_weight(metas: Metas, attrs: Any, shape: Any) -> Meta:
    y, x = metas
    geo = Geometry(*attrs)
    return meta_of((y.shape[1], x.shape[1] // geo.groups, *geo.sizes), y.dtype)


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
    layout=as_any_suggests,
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
    layout=as_any_suggests,
    grads=(
        lambda g, y, out, weight: _to_output(y, g, conj(weight)),
        lambda g, y, out, weight: _to_weight(y, conj(out), g, weight.shape[2:]),
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
