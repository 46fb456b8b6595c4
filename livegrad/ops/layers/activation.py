"""Activations: elementwise functions that networks are made of, as in `torch.nn.functional`.

Slopes, thresholds and the like are run-time numbers: changing one compiles nothing. Here are those
made of straight (or, hardswish, square) pieces, whose gradient is one op, linear in `g`; the
others are in smooth_activation.py and can be imported from here too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.blame import check_number
from livegrad.graph.handle import node_of
from livegrad.graph.infer import TYPE_NAMES, not_implemented
from livegrad.graph.op import Op, as_first
from livegrad.graph.record import binary, elementwise, unary
from livegrad.ops.bookkeeping.in_place import also_of
from livegrad.ops.elementwise.arithmetic import define, mul, where
from livegrad.ops.elementwise.comparison import CLAMP, gt
from livegrad.ops.layers.smooth_activation import (
    celu,
    elu,
    gelu,
    logsigmoid,
    mish,
    selu,
    silu,
    softplus,
    softsign,
    tanhshrink,
    with_numbers,
)
from livegrad.ops.making.generate import zeros_like
from livegrad.ops.shaping.movement import reshape
from livegrad.ops.support import samples as s
from livegrad.ops.support.autocast import in_low
from livegrad.ops.support.numbers import number_for
from livegrad.ops.support.out import exact

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


__all__ = [
    "celu",
    "elu",
    "gelu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "selu",
    "silu",
    "softplus",
    "softshrink",
    "softsign",
    "tanhshrink",
    "threshold",
]


def linear_backward(name: str, ref: Any, emit: Any, *numbers: float) -> Op:
    """Registers the gradient op (g, x, *numbers) of a piecewise linear function of `x`."""
    op: Op = define(
        name,
        ref,
        emit,
        # Linear in g; constant in x but for the kinks. Zeros flow to x all the same, as in PyTorch:
        # who asks for a gradient of a gradient there gets one.
        grads=(
            lambda g, y, *xs: elementwise(op, (g, *xs[1:])),
            lambda g, y, *xs: zeros_like(g),
            *[None] * len(numbers),
        ),
        result="floating",
        cheap=True,
        saves="x",
        samples=s.calls(
            lambda: s.Sample((s.uniform(3, 4), s.uniform(3, 4, low=-4.0, high=4.0), *numbers)),
            lambda: s.Sample((s.uniform(), s.uniform(seed=1), *numbers)),
        ),
    )
    return op


# ------------------------------------------------------------------------------- piecewise linear

THRESHOLD_BACKWARD = linear_backward(
    "threshold_backward",
    lambda g, x, t: np.where(x <= t, 0, g),
    lambda e, g, x, t: e.select(e.le(x, t), 0, g),
    0.5,
)
RELU = define(
    "relu",
    # NaN and -0 pass through, as in PyTorch.
    ref=lambda x: np.where(x < 0, x.dtype.type(0), x),
    emit=lambda e, x: e.select(e.lt(x, 0), 0, x),
    grads=(lambda g, y, x: elementwise(THRESHOLD_BACKWARD, (g, y, 0)),),
    result="number",
    cheap=True,
    saves="y",
    samples=s.unary(),
)
THRESHOLD = define(
    "threshold",
    ref=lambda x, t, value: np.where(x <= t, value, x),
    emit=lambda e, x, t, value: e.select(e.le(x, t), value, x),
    grads=(lambda g, y, x, t, value: elementwise(THRESHOLD_BACKWARD, (g, x, t)), None, None),
    result="number",
    cheap=True,
    saves="x",
    samples=with_numbers(0.5, -2.0),
)
HARDTANH_BACKWARD = linear_backward(
    "hardtanh_backward",
    lambda g, x, low, high: np.where((x > low) & (x < high), g, 0),
    lambda e, g, x, low, high: e.select(e.and_(e.gt(x, low), e.lt(x, high)), g, 0),
    -1.0,
    1.0,
)
HARDTANH = define(
    "hardtanh",
    ref=CLAMP.ref,  # type: ignore[arg-type]
    emit=CLAMP.emit,  # type: ignore[arg-type]
    grads=(
        lambda g, y, x, low, high: elementwise(HARDTANH_BACKWARD, (g, x, low, high)),
        None,
        None,
    ),
    result="number",
    cheap=True,
    saves="x",
    layout=as_first,
    samples=with_numbers(-1.0, 1.0),
)
LEAKY_RELU_BACKWARD = linear_backward(
    "leaky_relu_backward",
    lambda g, x, slope: np.where(x > 0, g, g * slope),
    lambda e, g, x, slope: e.select(e.gt(x, 0), g, e.mul(g, slope)),
    0.1,
)
LEAKY_RELU = define(
    "leaky_relu",
    ref=lambda x, slope: np.where(x > 0, x, x * slope),
    emit=lambda e, x, slope: e.select(e.gt(x, 0), x, e.mul(x, slope)),
    grads=(lambda g, y, x, slope: elementwise(LEAKY_RELU_BACKWARD, (g, x, slope)), None),
    result="floating",
    cheap=True,
    saves="x",
    samples=with_numbers(0.1),
)
PRELU = define(
    "prelu",
    ref=lambda x, w: np.where(x > 0, x, x * w),
    emit=lambda e, x, w: e.select(e.gt(x, 0), x, e.mul(x, w)),
    layout=as_first,
    grads=(
        lambda g, y, x, w: also_of(x, where(gt(x, 0), g, mul(g, w))),
        lambda g, y, x, w: also_of(w, where(gt(x, 0), 0, mul(g, x))),
    ),
    result="floating",
    cheap=True,
    saves="x",
    grad_fn="PreluKernelBackward0",
    samples=s.binary(),
)
HARDSIGMOID_BACKWARD = linear_backward(
    "hardsigmoid_backward",
    lambda g, x: np.where((x > -3) & (x < 3), g / 6, 0),
    lambda e, g, x: e.select(e.and_(e.gt(x, -3), e.lt(x, 3)), e.mul(g, 1 / 6), 0),
)
HARDSIGMOID = define(
    "hardsigmoid",
    ref=lambda x: np.clip(x + 3, 0, 6) / 6,
    emit=lambda e, x: e.div(e.min(e.max(e.add(x, 3), 0), 6), 6),
    grads=(lambda g, y, x: binary(HARDSIGMOID_BACKWARD, g, x),),
    result="floating",
    cheap=True,
    saves="x",
    samples=s.unary(-5.0, 5.0),
)
HARDSWISH_BACKWARD: Op = define(
    "hardswish_backward",
    ref=lambda g, x: np.where(x <= -3, 0, g * np.where(x < 3, x / 3 + 0.5, 1)),
    emit=lambda e, g, x: e.select(
        e.le(x, -3), 0, e.mul(g, e.select(e.lt(x, 3), e.add(e.div(x, 3), 0.5), 1))
    ),
    grads=(
        lambda g, y, g1, x: binary(HARDSWISH_BACKWARD, g, x),
        # 1/3 inside, where the slope of hardsigmoid is 1/6.
        lambda g, y, g1, x: mul(binary(HARDSIGMOID_BACKWARD, mul(g, g1), x), 2),
    ),
    result="floating",
    cheap=True,
    saves="x",
    samples=s.binary(-5.0, 5.0),
)
HARDSWISH = define(
    "hardswish",
    ref=lambda x: x * np.clip(x + 3, 0, 6) / 6,
    emit=lambda e, x: e.div(e.mul(x, e.min(e.max(e.add(x, 3), 0), 6)), 6),
    grads=(lambda g, y, x: binary(HARDSWISH_BACKWARD, g, x),),
    result="floating",
    cheap=True,
    saves="x",
    samples=s.unary(-5.0, 5.0),
)
SHRINK_BACKWARD = linear_backward(
    "shrink_backward",
    lambda g, x, lambd: np.where(np.abs(x) > lambd, g, 0),
    lambda e, g, x, lambd: e.select(e.gt(e.abs(x), lambd), g, 0),
    0.5,
)
HARDSHRINK = define(
    "hardshrink",
    ref=lambda x, lambd: np.where((x >= -lambd) & (x <= lambd), 0, x),
    emit=lambda e, x, lambd: e.select(e.le(e.abs(x), lambd), 0, x),
    grads=(lambda g, y, x, lambd: elementwise(SHRINK_BACKWARD, (g, x, lambd)), None),
    result="floating",
    cheap=True,
    saves="x",
    samples=with_numbers(0.5),
)


def _softshrink_emit(e: Any, x: Any, lambd: Any) -> Any:
    above = e.select(e.gt(x, lambd), e.sub(x, lambd), e.mul(x, 0))  # NaN stays NaN
    return e.select(e.lt(x, e.neg(lambd)), e.add(x, lambd), above)


SOFTSHRINK = define(
    "softshrink",
    ref=lambda x, lambd: np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, x * 0)),
    emit=_softshrink_emit,
    grads=(lambda g, y, x, lambd: elementwise(SHRINK_BACKWARD, (g, x, lambd)), None),
    result="floating",
    cheap=True,
    saves="x",
    samples=with_numbers(0.5),
)


def relu(input: Tensor) -> Tensor:
    """Elementwise `max(input, 0)`; its gradient at 0 is 0.

    Example:
        >>> lg.relu(lg.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
    return unary(RELU, input)


@exact
def threshold(input: Tensor, threshold: float, value: float) -> Tensor:
    """`input` where it is above `threshold`, else `value`."""
    dtype = node_of(input).meta.dtype
    if dtype is dtypes.bool_:
        raise not_implemented("threshold", dtype)
    if not dtype.is_floating_point:  # integers stay integers
        threshold, value = [number_for("threshold", x, dtype) for x in (threshold, value)]
    return elementwise(THRESHOLD, (input, threshold, value))


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """`input` limited to [min_val, max_val]."""
    check_number(min_val, max_val)
    if min_val > max_val:
        raise ValueError(
            f"hardtanh: min_val cannot be greater than max_val; got {min_val} and {max_val}"
        )
    dtype = node_of(input).meta.dtype
    if dtype is dtypes.bool_:
        raise RuntimeError("hardtanh: Bool inputs not supported for hardtanh")
    if not dtype.is_floating_point:
        # Integers stay integers.
        min_val, max_val = [number_for("hardtanh", x, dtype) for x in (min_val, max_val)]
    return elementwise(HARDTANH, (input, min_val, max_val))


def relu6(input: Tensor) -> Tensor:
    """`input` limited to [0, 6]."""
    return hardtanh(input, 0.0, 6.0)


def leaky_relu(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """`input` where positive, else `negative_slope * input`."""
    return binary(LEAKY_RELU, input, negative_slope)


@in_low
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """`input` where positive, else `weight * input`, with one weight or one per channel (dim 1)."""
    x, w = node_of(input).meta, node_of(weight).meta
    if x.dtype is not w.dtype:
        raise RuntimeError(
            "prelu: Type promoting not supported. Got "
            f"{TYPE_NAMES[x.dtype.name]} and {TYPE_NAMES[w.dtype.name]}"
        )
    if w.numel == 1 and w.ndim <= 1:
        if not x.ndim and w.ndim:
            weight = reshape(weight, ())
        return binary(PRELU, input, weight)
    channels = x.shape[1] if x.ndim > 1 else 1
    if w.ndim != 1 or w.numel != channels:
        raise RuntimeError(
            f"prelu: mismatch of parameter numbers and input channel size; got weight {w.shape} "
            f"and channel size {channels}"
        )
    return binary(PRELU, input, reshape(weight, (channels,) + (1,) * (x.ndim - 2)))


def hardsigmoid(input: Tensor) -> Tensor:
    """Elementwise `clamp(input + 3, 0, 6) / 6`."""
    return unary(HARDSIGMOID, input)


def hardswish(input: Tensor) -> Tensor:
    """Elementwise `input * clamp(input + 3, 0, 6) / 6`."""
    return unary(HARDSWISH, input)


@exact
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """`input` outside [-lambd, lambd], else 0."""
    return binary(HARDSHRINK, input, lambd)


@exact
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """`input` moved toward 0 by `lambd`, and 0 where it would cross."""
    check_number(lambd)
    if lambd < 0:
        raise RuntimeError(f"softshrink: lambda must be greater or equal to 0, but found {lambd}")
    return binary(SOFTSHRINK, input, lambd)
