"""Layers whose weights are bytes, and whose inputs are made so on the way.

    x ──► q = round(x / step) + zero, 0 to 255 ──► quads ──┐
                                                           ├─► sums, int32 ──► out
    weight, bytes as quads ────────────────────────────────┘

    out = (sums - zero * sum of the weight's bytes) * step * step of the weight + bias

One node each; the products are exact (ops/products/quads.py), and what comes after them is fused
with them as after other products: an activation, and rounding for the layer that follows.

Steps of weights are one per output. Those of inputs are known beforehand (`static`), or found for
each row by itself from its least and its greatest value (`dynamic`), so that what a row comes to
does not depend on its neighbours.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from livegrad import dtypes
from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, cast, div, mul, neg, sub
from livegrad.ops.elementwise.comparison import bitwise_left_shift, bitwise_or, clamp
from livegrad.ops.elementwise.pointwise_math import round as rounded
from livegrad.ops.products.quads import QUAD, byte_quads, quad_conv, quad_product
from livegrad.ops.reductions.reduce import amax, amin
from livegrad.ops.shaping.joining import pad
from livegrad.ops.shaping.movement import detach, reshape_to
from livegrad.ops.shaping.slicing import narrow
from livegrad.ops.support import samples as s
from livegrad.ops.windows.window_products import Lie

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Attrs = tuple[Any, ...]
Metas = tuple[Meta, ...]

HIGHEST = 255
# The least step of a row, for rows of zeros.
LEAST_STEP = 1e-12


def as_bytes(x: Tensor, inverse: Any, zero: Any) -> Tensor:
    """round(x * inverse) + zero as a uint8."""
    found = add(rounded(mul(x, inverse)), zero)
    return cast(clamp(found, 0, HIGHEST), dtypes.uint8)


def _ended(x: Tensor) -> Tensor:
    """`x` without its history: rounding has no slope, and gradients end here."""
    return detach(x) if x.requires_grad else x


def _in_quads(q: Tensor, quads: int) -> Tensor:
    """Bytes of rows, filled up to whole quads. (The weight has zeros there.)"""
    missing = quads * QUAD - node_of(q).meta.shape[-1]
    return byte_quads(pad(q, (0, missing)) if missing else q)


def _scaled(sums: Tensor, shift: Tensor, scale: Tensor, *bias: Tensor) -> Tensor:
    out = mul(cast(sub(sums, shift), dtypes.float32), scale)
    return add(out, bias[0]) if bias else out


# ----------------------------------------------------------------------------------- linear


def _linear_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    x, weight = metas[:2]
    if not x.dtype.is_floating_point:
        raise RuntimeError(f"quantized linear: got {x.dtype.name}; expected floating-point values")
    if not x.ndim or x.shape[-1] != attrs[0]:
        raise RuntimeError(
            f"quantized linear: inner sizes differ; got input {x.shape}; expected "
            f"input.shape[-1] == {attrs[0]}"
        )
    return meta_of((*x.shape[:-1], weight.shape[0]), x.dtype)


def _product(n: Any, q: Tensor, weight: Tensor) -> Tensor:
    return quad_product(_in_quads(q, node_of(weight).meta.shape[1]), weight)


def _rows(x: Tensor) -> Tensor:
    """In float32, and of two dims or more."""
    x = cast(x, dtypes.float32)
    shape = node_of(x).meta.shape
    return x if len(shape) > 1 else reshape_to(x, (1, *shape))


def _shaped(n: Any, out: Tensor) -> Tensor:
    return cast(reshape_to(out, n.meta.shape), n.meta.dtype)


def _static_linear(
    n: Any, x: Tensor, weight: Tensor, shift: Tensor, scale: Tensor, *bias: Tensor
) -> Tensor:
    q = as_bytes(_rows(x), *n.args)
    return _shaped(n, _scaled(_product(n, q, weight), shift, scale, *bias))


def _dynamic_linear(
    n: Any, x: Tensor, weight: Tensor, sums: Tensor, scale: Tensor, *bias: Tensor
) -> Tensor:
    x = _rows(x)
    if not n.attrs[0]:  # rows of nothing have no extremes
        return _shaped(n, _scaled(_product(n, cast(x, dtypes.uint8), weight), sums, scale, *bias))
    # Zero is a value of its own: what is 0 stays so.
    low, high = clamp(amin(x, -1, True), max=0.0), clamp(amax(x, -1, True), min=0.0)
    step = clamp(div(sub(high, low), HIGHEST), min=LEAST_STEP)
    inverse = div(1.0, step)
    zero = rounded(mul(neg(low), inverse))
    q = as_bytes(x, inverse, zero)
    shift = mul(cast(zero, dtypes.int32), sums)
    return _shaped(n, _scaled(_product(n, q, weight), shift, mul(step, scale), *bias))


def _linear_sample(static: bool, x: tuple[int, ...], outputs: int, biased: bool) -> s.Sample:
    size = x[-1]
    inputs = [s.uniform(*x), s.integers(outputs, size, low=-127, high=128), s.uniform(outputs)]

    def call(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        sums = cast(weight.sum(1), dtypes.int32)
        quads = _in_quads(cast(weight, dtypes.int8), -(-size // QUAD))
        scale = add(mul(cast(bias, dtypes.float32), 0.0), 0.01)
        offset = cast(bias, dtypes.float32) if biased else None
        if static:
            return linear_static(x, quads, mul(sums, 128), scale, offset, size, 1 / 127, 128)
        return linear_dynamic(x, quads, sums, scale, offset, size)

    return s.Sample(tuple(inputs), call, smooth=False)


def _linear_samples(static: bool) -> s.SampleRule:
    """The same calls for both linear layers."""
    return s.calls(
        lambda: _linear_sample(static, (3, 8), 4, True),
        lambda: _linear_sample(static, (2, 3, 7), 21, False),
        lambda: _linear_sample(static, (5,), 1, True),
        lambda: _linear_sample(static, (0, 8), 4, True),
    )


STATIC_LINEAR: Op = Op(
    "quantized_linear",
    "composite",
    # inputs (x, quads (N, n), zero * sums int32 (N), step * steps (N)[, bias]); attrs (inputs,);
    # args (1 / step, zero)
    infer=_linear_infer,
    expand=_static_linear,
    saves="",
    samples=_linear_samples(True),
)
DYNAMIC_LINEAR: Op = Op(
    "quantized_linear_dynamic",
    "composite",
    # inputs (x, quads (N, n), sums int32 (N), steps (N)[, bias]); attrs (inputs,)
    infer=_linear_infer,
    expand=_dynamic_linear,
    saves="",
    samples=_linear_samples(False),
)


def linear_static(
    x: Tensor,
    weight: Tensor,
    shift: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    size: int,
    step: float,
    zero: int,
) -> Tensor:
    """A linear layer of rows of `size`; `step` and `zero` are those of `x`."""
    more = () if bias is None else (bias,)
    args = (1.0 / step, float(zero))
    return record(STATIC_LINEAR, (_ended(x), weight, shift, scale, *more), (size,), args)


def linear_dynamic(
    x: Tensor, weight: Tensor, sums: Tensor, scale: Tensor, bias: Tensor | None, size: int
) -> Tensor:
    """A linear layer of rows of `size`, each of which has a step of its own."""
    more = () if bias is None else (bias,)
    return record(DYNAMIC_LINEAR, (_ended(x), weight, sums, scale, *more), (size,))


# ------------------------------------------------------------------------------ convolution


class ConvAttrs(NamedTuple):
    """How windows lie; whether quads are channels, or places of the last dim; and the zero."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    channels: int
    by_channels: bool
    zero: int

    def counts(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Windows in each dim."""
        found = []
        for size, kernel, stride, pads, dilation in zip(
            sizes, self.kernel, self.stride, self.padding, self.dilation, strict=True
        ):
            found.append((size + sum(pads) - dilation * (kernel - 1) - 1) // stride + 1)
        return tuple(found)


def quads_by_channels(channels: int, kernel: tuple[int, ...]) -> bool:
    """Whether fewer quads are needed if they are channels than if they are places."""
    return -(-channels // QUAD) * kernel[-1] <= channels * -(-kernel[-1] // QUAD)


def packed_channels(x: Tensor, dim: int = 1) -> Tensor:
    """Bytes whose channels, four at a time, become quads; what is missing is 0."""
    shape = node_of(x).meta.shape
    missing = -shape[dim] % QUAD
    if missing:
        x = pad(x, [0, 0] * (len(shape) - dim - 1) + [0, missing])
    quads = (shape[dim] + missing) // QUAD
    apart = reshape_to(x, (*shape[:dim], quads, QUAD, *shape[dim + 1 :]))
    parts = [
        reshape_to(narrow(apart, dim + 1, i, 1), (*shape[:dim], quads, *shape[dim + 1 :]))
        for i in range(QUAD)
    ]
    return _joined(parts)


def packed_places(x: Tensor, dilation: int) -> Tensor:
    """Bytes of the last dim, each with the three that follow it in a window."""
    size = node_of(x).meta.shape[-1] - (QUAD - 1) * dilation
    return _joined([narrow(x, -1, i * dilation, size) for i in range(QUAD)])


def _joined(parts: list[Tensor]) -> Tensor:
    out = cast(parts[0], dtypes.int32)
    for i, part in enumerate(parts[1:], 1):
        out = bitwise_or(out, bitwise_left_shift(cast(part, dtypes.int32), 8 * i))
    return out


def _conv_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    x, weight = metas[:2]
    told, rank = ConvAttrs(*attrs), len(attrs[0])
    if not x.dtype.is_floating_point:
        raise RuntimeError(f"quantized conv: got {x.dtype.name}; expected floating-point values")
    if x.ndim != rank + 2 or x.shape[1] != told.channels:
        raise RuntimeError(
            f"quantized conv: got input {x.shape}; expected {rank + 2} dims and {told.channels} "
            "channels"
        )
    counts = told.counts(x.shape[2:])
    if min(counts) < 1:
        raise RuntimeError(
            f"quantized conv: got input {x.shape}, smaller than the kernel {told.kernel}"
        )
    return meta_of((x.shape[0], weight.shape[1], *counts), x.dtype)


def _conv_expand(
    n: Any, x: Tensor, weight: Tensor, shift: Tensor, scale: Tensor, *bias: Tensor
) -> Tensor:
    told, rank = ConvAttrs(*n.attrs), n.meta.ndim - 2
    batch, outputs, *counts = n.meta.shape
    q = as_bytes(cast(x, dtypes.float32), n.args[0], told.zero)
    quads, lie = _windowed(q, told, rank)
    shape = node_of(quads).meta.shape
    images = reshape_to(quads, (batch, 1, *shape[1:]))
    sums = quad_conv(images, weight, lie, (batch, 1, outputs, *counts))
    columns = [reshape_to(v, (outputs, *[1] * rank)) for v in (shift, scale, *bias)]
    return _shaped(n, _scaled(sums, *columns))


def _windowed(q: Tensor, told: ConvAttrs, rank: int) -> tuple[Tensor, Lie]:
    """Quads of an input, and how windows lie in them. Around it are zeros: those of its steps."""
    amounts = [list(pads) for pads in told.padding]
    before, dilation = [0] * rank, list(told.dilation)
    if not told.by_channels:
        spread = told.dilation[-1]
        dilation[-1] = QUAD * spread
        whole = -(-told.kernel[-1] // QUAD) * QUAD
        amounts[-1][1] += spread * (whole - told.kernel[-1])
    elif told.zero == 0:  # what multiplies takes 0 for what is outside
        before = [pads[0] for pads in amounts]
        amounts = [[0, 0]] * rank
    if any([any(pads) for pads in amounts]):
        flat = [amount for pads in reversed(amounts) for amount in pads]
        q = pad(q, flat, "constant", told.zero)
    quads = packed_channels(q) if told.by_channels else packed_places(q, told.dilation[-1])
    return quads, Lie(told.stride, tuple(before), tuple(dilation))


STATIC_CONV: Op = Op(
    "quantized_conv",
    "composite",
    # inputs (x, quads (1, O, C', *K'), zero * sums int32 (O), step * steps (O)[, bias]);
    # attrs ConvAttrs; args (1 / step,)
    infer=_conv_infer,
    expand=_conv_expand,
    saves="",
    samples=s.calls(
        lambda: _conv_sample((2, 1, 9, 9), 3, (5, 5), 2, 1, 7),
        lambda: _conv_sample((2, 6, 7, 8), 5, (3, 3), 1, 2, 3),
        lambda: _conv_sample((17, 4, 5), 3, (2,), 1, 1, 0),
        lambda: _conv_sample((1, 5, 6), 2, (1,), 0, 1, 0),
    ),
)


def conv_static(
    x: Tensor,
    weight: Tensor,
    shift: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    told: ConvAttrs,
    step: float,
) -> Tensor:
    """A convolution of one group; `weight` is that of `conv_quads`."""
    more = () if bias is None else (bias,)
    return record(STATIC_CONV, (_ended(x), weight, shift, scale, *more), told, (1.0 / step,))


def conv_quads(weight: Tensor, by_channels: bool) -> Tensor:
    """The bytes (O, C, *K) of a convolution's weight as quads (1, O, C', *K')."""
    if by_channels:
        packed = packed_channels(cast(weight, dtypes.uint8))  # the same bits, put side by side
    else:
        shape = node_of(weight).meta.shape
        filled = pad(weight, (0, -shape[-1] % QUAD)) if shape[-1] % QUAD else weight
        packed = byte_quads(filled)
    return reshape_to(packed, (1, *node_of(packed).meta.shape))


# ---------------------------------------------------------------------------------- samples


def _conv_sample(
    x: tuple[int, ...], outputs: int, kernel: tuple[int, ...], padding: int, stride: int, zero: int
) -> s.Sample:
    rank, channels = len(kernel), x[1]
    inputs = (s.uniform(*x), s.integers(outputs, channels, *kernel, low=-127, high=128))
    told = ConvAttrs(
        kernel, (stride,) * rank, ((padding, padding),) * rank, (1,) * rank, channels,
        quads_by_channels(channels, kernel), zero,
    )  # fmt: skip

    def call(x: Tensor, weight: Tensor) -> Tensor:
        sums = cast(weight.reshape(outputs, channels * prod(kernel)).sum(1), dtypes.int32)
        quads = conv_quads(cast(weight, dtypes.int8), told.by_channels)
        scale = add(mul(cast(sums, dtypes.float32), 0.0), 0.01)
        return conv_static(x, quads, mul(sums, zero), scale, None, told, 0.0078125)

    return s.Sample(inputs, call, smooth=False)


__all__ = [
    "ConvAttrs",
    "as_bytes",
    "conv_quads",
    "conv_static",
    "linear_dynamic",
    "linear_static",
    "quads_by_channels",
]
