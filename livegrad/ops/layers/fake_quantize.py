"""Values as they would be after quantisation, with gradients that go straight through.

    y = (clamp(round(x / scale) + zero, low, high) - zero) * scale

The gradient is that of the identity where x lies within the range, and 0 outside of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, cast, div, mul, sub, where
from livegrad.ops.elementwise.comparison import clamp, eq
from livegrad.ops.elementwise.pointwise_math import round as rounded
from livegrad.ops.making.constants import from_array
from livegrad.ops.shaping.movement import normal_dim, reshape_to
from livegrad.ops.support import samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


STRAIGHT_THROUGH: Op = Op(
    "straight_through",
    "composite",
    # inputs (x, value, inside): the value, whose gradient goes to x where it is inside.
    infer=lambda metas, attrs, shape: metas[0],
    expand=lambda n, x, value, inside: value,
    grads=(lambda g, y, x, value, inside: where(inside, g, 0.0), None, None),
    saves="x",
    grad_fn="FakeQuantizePerTensorAffineCachemaskBackward0",
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 5),), lambda x: _sampled(x), smooth=False),
        lambda: s.Sample((s.uniform(),), lambda x: _sampled(x), smooth=False),
    ),
)


def _sampled(x: Tensor) -> Tensor:
    return record(STRAIGHT_THROUGH, (x, rounded(x), x > 0))


def _faked(x: Tensor, scale: Tensor, zero: Tensor, low: int, high: int) -> Tensor:
    dtype = node_of(x).meta.dtype
    steps = add(rounded(mul(cast(x, dtypes.float32), div(1.0, scale))), zero)
    held = clamp(steps, low, high)
    value = cast(mul(sub(held, zero), scale), dtype)
    return record(STRAIGHT_THROUGH, (x, value, eq(steps, held)))


def _check(name: str, x: Any, low: int, high: int) -> None:
    if not isinstance(x, Handle) or not node_of(x).meta.dtype.is_floating_point:
        raise RuntimeError(f"{name}: expected a floating-point tensor")
    if low > high:
        raise RuntimeError(f"{name}: `quant_min` should be less than or equal to `quant_max`")


def _as_float(x: Any) -> Tensor:
    made: Any = x if isinstance(x, Handle) else from_array(np.asarray(x, np.float32))
    return cast(made, dtypes.float32)


def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Tensor:
    """`input` rounded to steps of `scale`, of which there are those from `quant_min` up to
    `quant_max`; `zero_point` is the one that stands for 0."""
    _check("fake_quantize_per_tensor_affine", input, quant_min, quant_max)
    return _faked(input, _as_float(scale), _as_float(zero_point), quant_min, quant_max)


def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """The same with a scale and a zero per channel, along the dim `axis`."""
    name = "fake_quantize_per_channel_affine"
    _check(name, input, quant_min, quant_max)
    shape = node_of(input).meta.shape
    axis = normal_dim(name, axis, len(shape))
    if tuple(scale.shape) != (shape[axis],) or tuple(zero_point.shape) != (shape[axis],):
        raise RuntimeError(
            f"{name}: got scale {tuple(scale.shape)} and zero_point {tuple(zero_point.shape)}; "
            f"expected ({shape[axis]},), one per channel"
        )
    wide = [1] * len(shape)
    wide[axis] = shape[axis]
    scales, zeros = [reshape_to(_as_float(v), tuple(wide)) for v in (scale, zero_point)]
    return _faked(input, scales, zeros, quant_min, quant_max)


__all__ = ["fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine"]
