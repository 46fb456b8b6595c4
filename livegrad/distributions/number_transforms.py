"""Transforms of numbers, one at a time."""

from __future__ import annotations

import math
from typing import Any

from livegrad import dtypes
from livegrad.distributions import constraints
from livegrad.distributions.transform import Transform
from livegrad.distributions.utils import as_size, sum_rightmost
from livegrad.graph.infer import broadcast_shapes
from livegrad.ops.layers.smooth_activation import softplus
from livegrad.ops.support.reading import is_tensor
from livegrad.tensor import Tensor


class ExpTransform(Transform):
    """`y = exp(x)`."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExpTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """`y = x ** exponent` of positive numbers."""

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent: Tensor | float = exponent

    @property
    def sign(self) -> Any:
        e = self.exponent
        return e.sign() if is_tensor(e) else math.copysign(1, e)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and _same(self.exponent, other.exponent)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def _shape(self, shape: Any) -> Any:
        return _broadcast(shape, self.exponent)

    forward_shape = inverse_shape = _shape


def _same(a: Any, b: Any) -> bool:
    if is_tensor(a) or is_tensor(b):
        return bool((a == b).all())
    return bool(a == b)


def _broadcast(shape: Any, *values: Any) -> Any:
    shapes = [tuple(v.shape) for v in values if is_tensor(v)]
    return as_size(broadcast_shapes("transform", [tuple(shape), *shapes]))


def _clipped_sigmoid(x: Tensor) -> Tensor:
    limits = dtypes.finfo(x.dtype)
    return x.sigmoid().clamp(min=limits.tiny, max=1.0 - limits.eps)


class SigmoidTransform(Transform):
    """`y = 1 / (1 + exp(-x))`, kept away from 0 and 1 so that it can be inverted."""

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SigmoidTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return _clipped_sigmoid(x)

    def _inverse(self, y: Tensor) -> Tensor:
        limits = dtypes.finfo(y.dtype)
        inside = y.clamp(min=limits.tiny, max=1.0 - limits.eps)
        return inside.log() - (-inside).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(Transform):
    """`y = log(1 + exp(x))`."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftplusTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)


class TanhTransform(Transform):
    """`y = tanh(x)`."""

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TanhTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # log(1 - tanh(x)**2) without cancellation
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(Transform):
    """`y = |x|`, which has no inverse; `inv` gives the positive argument."""

    domain = constraints.real
    codomain = constraints.positive

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbsTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """`y = loc + scale * x`; with `event_dim` the last dims count as one event."""

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc: Tensor | float = loc
        self.scale: Tensor | float = scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @property
    def domain(self) -> Any:
        dims = self._event_dim
        return constraints.independent(constraints.real, dims) if dims else constraints.real

    @property
    def codomain(self) -> Any:
        return self.domain

    @property
    def sign(self) -> Any:
        s = self.scale
        return s.sign() if is_tensor(s) else (s > 0) - (s < 0)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        return _same(self.loc, other.loc) and _same(self.scale, other.scale)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if is_tensor(self.scale):
            stretch = self.scale.abs().log()
        else:
            stretch = x.new_full((), math.log(abs(float(self.scale))))
        cut = x.ndim - self._event_dim
        if self._event_dim:
            stretch = sum_rightmost(stretch.expand(x.shape), self._event_dim)
        return stretch.expand(tuple(x.shape[:cut]))

    def _shape(self, shape: Any) -> Any:
        return _broadcast(shape, self.loc, self.scale)

    forward_shape = inverse_shape = _shape
