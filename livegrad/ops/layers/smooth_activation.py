"""Smooth activations: each is one op, its gradient another, whose own gradient is written with ops.

So a training step records two nodes for an activation, and derivatives of every order exist.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad.graph.blame import check_number
from livegrad.graph.handle import node_of
from livegrad.graph.op import Op
from livegrad.graph.record import binary, elementwise, unary
from livegrad.ops.elementwise.arithmetic import (
    abs,
    add,
    anew,
    define,
    div,
    mul,
    neg,
    one_minus,
    sub,
    where,
)
from livegrad.ops.elementwise.comparison import gt
from livegrad.ops.elementwise.pointwise_math import each, exp, sigmoid, stable_sigmoid, tanh
from livegrad.ops.elementwise.roots import square
from livegrad.ops.support import samples as s
from livegrad.ops.support.out import exact, plain

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = Any


def with_numbers(*numbers: float, low: float = -4.0, high: float = 4.0) -> s.SampleRule:
    """Samples of an activation with these run-time numbers."""
    shapes = ((), (5,), (3, 37), (0,))
    return s.calls(
        *[lambda n=n: s.Sample((s.uniform(*n, low=low, high=high), *numbers)) for n in shapes]
    )


# --------------------------------------------------------------------------- elu, selu, celu


def _elu(x: Array, alpha: Array, scale: Array, inner: Array) -> Array:
    return scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0) * inner))


def _elu_emit(e: Any, x: Any, alpha: Any, scale: Any, inner: Any) -> Any:
    below = e.mul(e.expm1(e.mul(x, inner)), alpha)
    return e.mul(e.select(e.gt(x, 0), x, below), scale)


def _elu_slope(g: Array, x: Array, alpha: Array, scale: Array, inner: Array) -> Array:
    return g * scale * np.where(x <= 0, alpha * inner * np.exp(np.minimum(x, 0) * inner), 1)


def _elu_slope_emit(e: Any, g: Any, x: Any, alpha: Any, scale: Any, inner: Any) -> Any:
    below = e.mul(e.exp(e.mul(x, inner)), e.mul(alpha, inner))
    return e.mul(e.mul(g, scale), e.select(e.le(x, 0), below, 1))


def _elu_curve(g: Tensor, y: Tensor, g1: Tensor, x: Tensor, *numbers: float) -> Tensor:
    alpha, scale, inner = numbers
    bend = exp(mul(x, inner))
    for number in (alpha, scale, inner, inner):
        bend = mul(bend, number)
    return mul(mul(g, g1), where(gt(x, 0), 0, bend))


ELU_BACKWARD: Op = define(
    "elu_backward",
    ref=_elu_slope,
    emit=_elu_slope_emit,
    grads=(
        lambda g, y, g1, *xs: elementwise(ELU_BACKWARD, (g, *xs)),
        _elu_curve,
        None,
        None,
        None,
    ),
    result="floating",
    saves="x",
    samples=s.calls(lambda: s.Sample((s.uniform(5), s.uniform(5, seed=1), 1.5, 1.1, 0.8))),
)
# elu, selu and celu: scale * (x if x > 0 else alpha * (exp(inner * x) - 1))
ELU = define(
    "elu",
    ref=_elu,
    emit=_elu_emit,
    grads=(lambda g, y, *xs: elementwise(ELU_BACKWARD, (g, *xs)), None, None, None),
    result="floating",
    saves="x",
    samples=with_numbers(1.5, 1.1, 0.8),
)


def _silu_slope(g: Array, x: Array) -> Array:
    s = stable_sigmoid(x)
    return g * s * (1 + x * (1 - s))


def _silu_slope_emit(e: Any, g: Any, x: Any) -> Any:
    s = e.sigmoid(x)
    return e.mul(e.mul(g, s), e.add(e.mul(x, e.sub(1, s)), 1))


def _silu_curve(g: Tensor, y: Tensor, g1: Tensor, x: Tensor) -> Tensor:
    s = sigmoid(x)
    bend = mul(mul(s, one_minus(s)), add(mul(x, sub(1, mul(s, 2))), 2))
    return mul(mul(g, g1), bend)


SILU_BACKWARD: Op = define(
    "silu_backward",
    ref=_silu_slope,
    emit=_silu_slope_emit,
    grads=(lambda g, y, g1, x: binary(SILU_BACKWARD, g, x), _silu_curve),
    result="floating",
    saves="x",
    samples=s.binary(),
)
SILU = define(
    "silu",
    ref=lambda x: x * stable_sigmoid(x),
    emit=lambda e, x: e.mul(x, e.sigmoid(x)),
    grads=(lambda g, y, x: binary(SILU_BACKWARD, g, x),),
    result="floating",
    saves="x",
    samples=s.unary(),
)


def _softplus(x: Array, beta: Array, threshold: Array) -> Array:
    z = x * beta
    return np.where(z > threshold, x, (np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z)))) / beta)


def _softplus_emit(e: Any, x: Any, beta: Any, threshold: Any) -> Any:
    z = e.mul(x, beta)
    grown = e.add(e.max(z, 0), e.log1p(e.exp(e.neg(e.abs(z)))))
    return e.select(e.gt(z, threshold), x, e.div(grown, beta))


def _softplus_slope_emit(e: Any, g: Any, x: Any, beta: Any, threshold: Any) -> Any:
    z = e.mul(x, beta)
    return e.select(e.gt(z, threshold), g, e.mul(g, e.sigmoid(z)))


def _softplus_curve(
    g: Tensor, y: Tensor, g1: Tensor, x: Tensor, beta: float, threshold: float
) -> Tensor:
    s = sigmoid(mul(x, beta))
    bend = mul(mul(s, one_minus(s)), beta)
    return mul(mul(g, g1), where(gt(mul(x, beta), threshold), 0, bend))


SOFTPLUS_BACKWARD: Op = define(
    "softplus_backward",
    ref=lambda g, x, beta, t: np.where(x * beta > t, g, g * stable_sigmoid(x * beta)),
    emit=_softplus_slope_emit,
    grads=(
        lambda g, y, g1, *xs: elementwise(SOFTPLUS_BACKWARD, (g, *xs)),
        _softplus_curve,
        None,
        None,
    ),
    result="floating",
    saves="x",
    samples=s.calls(lambda: s.Sample((s.uniform(5), s.uniform(5, seed=1), 1.5, 20.0))),
)
SOFTPLUS = define(
    "softplus",
    ref=_softplus,
    emit=_softplus_emit,
    grads=(lambda g, y, *xs: elementwise(SOFTPLUS_BACKWARD, (g, *xs)), None, None),
    result="floating",
    saves="x",
    samples=with_numbers(1.5, 20.0),
)
SOFTSIGN: Op = define(
    "softsign",
    ref=lambda x: x / (1 + np.abs(x)),
    emit=lambda e, x: e.div(x, e.add(e.abs(x), 1)),
    # The slope is (1 - |y|)**2.
    grads=(lambda g, y, x: mul(g, square(one_minus(abs(anew(y, SOFTSIGN, x))))),),
    result="float",
    saves="y",
    grad_fn="DivBackward0",
    samples=s.unary(),
)


LOGSIGMOID = define(
    "logsigmoid",
    ref=lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))),
    emit=lambda e, x: e.sub(e.min(x, 0), e.log1p(e.exp(e.neg(e.abs(x))))),
    grads=(lambda g, y, x: mul(g, sigmoid(neg(x))),),
    layout=lambda metas, attrs, meta: None,
    result="floating",
    saves="x",
    grad_fn="LogSigmoidBackward0",
    samples=s.unary(),
)


def elu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`input` where positive, else `alpha * (exp(input) - 1)`."""
    return elementwise(ELU, (input, alpha, 1.0, 1.0))


_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


def selu(input: Tensor) -> Tensor:
    """The ELU whose constants keep mean 0 and variance 1 from layer to layer."""
    return elementwise(ELU, (input, _SELU_ALPHA, _SELU_SCALE, 1.0))


def celu(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`input` where positive, else `alpha * (exp(input / alpha) - 1)`."""
    check_number(alpha)
    if alpha == 0:
        raise ZeroDivisionError("celu: alpha cannot be 0")
    return elementwise(ELU, (input, alpha, 1.0, 1.0 / alpha))


def silu(input: Tensor) -> Tensor:
    """Elementwise `input * sigmoid(input)`, also called swish."""
    if node_of(input).meta.dtype.is_complex:
        return mul(input, sigmoid(input))
    return unary(SILU, input)


@exact
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """`log(1 + exp(beta * input)) / beta`; `input` itself where `beta * input > threshold`.

    Example:
        >>> F.softplus(lg.tensor([-1.0, 0.0, 100.0]))
        tensor([  0.3133,   0.6931, 100.0000])
    """
    return elementwise(SOFTPLUS, (input, beta, threshold))


def softsign(input: Tensor) -> Tensor:
    """Elementwise `input / (1 + |input|)`."""
    if node_of(input).meta.dtype.is_complex:
        return div(input, add(abs(input), 1))
    return unary(SOFTSIGN, input)


@exact
@plain
def logsigmoid(input: Tensor) -> Tensor:
    """Elementwise `log(sigmoid(input))` without overflow."""
    return unary(LOGSIGMOID, input)


# ------------------------------------------------------------------------------------------- gelu

_ROOT_HALF = math.sqrt(0.5)
_DENSITY = 1 / math.sqrt(2 * math.pi)
_erf = each(math.erf)


def _gelu_slope(g: Array, x: Array) -> Array:
    return g * (0.5 * (1 + _erf(x * _ROOT_HALF)) + x * _DENSITY * np.exp(-0.5 * x * x))


def _gelu_slope_emit(e: Any, g: Any, x: Any) -> Any:
    below = e.mul(e.add(e.erf(e.mul(x, _ROOT_HALF)), 1), 0.5)
    density = e.mul(e.exp(e.mul(e.mul(x, x), -0.5)), _DENSITY)
    return e.mul(g, e.add(below, e.mul(x, density)))


def _gelu_curve(g: Tensor, y: Tensor, g1: Tensor, x: Tensor) -> Tensor:
    density = mul(exp(mul(square(x), -0.5)), _DENSITY)
    return mul(mul(g, g1), mul(density, sub(2, square(x))))


GELU_BACKWARD: Op = define(
    "gelu_backward",
    ref=_gelu_slope,
    emit=_gelu_slope_emit,
    grads=(lambda g, y, g1, x: binary(GELU_BACKWARD, g, x), _gelu_curve),
    result="floating",
    saves="x",
    samples=s.binary(),
)
GELU = define(
    "gelu",
    ref=lambda x: 0.5 * x * (1 + _erf(x * _ROOT_HALF)),
    emit=lambda e, x: e.mul(e.mul(x, 0.5), e.add(e.erf(e.mul(x, _ROOT_HALF)), 1)),
    grads=(lambda g, y, x: binary(GELU_BACKWARD, g, x),),
    result="floating",
    saves="x",
    samples=s.unary(),
)

# The approximation: 0.5 * x * (1 + tanh(u)) with u = k * (x + c * x**3).
_K = math.sqrt(2 / math.pi)
_C = 0.044715


def _gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(_K * (x + _C * x * x * x)))


def _emit_inner(e: Any, x: Any) -> tuple[Any, Any]:
    """tanh(u) and x**2."""
    square = e.mul(x, x)
    return e.tanh(e.mul(e.mul(x, e.add(e.mul(square, _C), 1)), _K)), square


def _gelu_tanh_slope(g: Array, x: Array) -> Array:
    t = np.tanh(_K * (x + _C * x * x * x))
    return g * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * _K * (1 + 3 * _C * x * x))


def _gelu_tanh_slope_emit(e: Any, g: Any, x: Any) -> Any:
    t, square = _emit_inner(e, x)
    inner = e.mul(e.add(e.mul(square, 3 * _C), 1), _K)
    bend = e.mul(e.mul(e.sub(1, e.mul(t, t)), inner), x)
    return e.mul(e.mul(g, 0.5), e.add(e.add(t, 1), bend))


def _gelu_tanh_curve(g: Tensor, y: Tensor, g1: Tensor, x: Tensor) -> Tensor:
    t = tanh(mul(mul(x, add(mul(square(x), _C), 1)), _K))
    inner = mul(add(mul(square(x), 3 * _C), 1), _K)
    # y'' = (1 - t^2) * (u' + x * (u'' / 2 - t * u'^2)) with u'' = 6 k c x
    bend = sub(mul(x, 3 * _K * _C), mul(t, square(inner)))
    return mul(mul(g, g1), mul(one_minus(square(t)), add(inner, mul(x, bend))))


GELU_TANH_BACKWARD: Op = define(
    "gelu_tanh_backward",
    ref=_gelu_tanh_slope,
    emit=_gelu_tanh_slope_emit,
    grads=(lambda g, y, g1, x: binary(GELU_TANH_BACKWARD, g, x), _gelu_tanh_curve),
    result="floating",
    saves="x",
    samples=s.binary(),
)
GELU_TANH = define(
    "gelu_tanh",
    ref=_gelu_tanh,
    emit=lambda e, x: e.mul(e.mul(x, 0.5), e.add(_emit_inner(e, x)[0], 1)),
    grads=(lambda g, y, x: binary(GELU_TANH_BACKWARD, g, x),),
    result="floating",
    saves="x",
    grad_fn="GeluBackward0",
    samples=s.unary(),
)


@exact
def gelu(input: Tensor, *, approximate: str = "none") -> Tensor:
    """`input` times the normal distribution's probability of less than `input`.

    Args:
        approximate: "none" uses erf, "tanh" the approximation of GPT-2.

    Example:
        >>> F.gelu(lg.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.1587,  0.0000,  0.8413])
    """
    if approximate == "none":
        return unary(GELU, input)
    if approximate == "tanh":
        return unary(GELU_TANH, input)
    raise RuntimeError(
        f"gelu: approximate argument must be either none or tanh; got {approximate!r}"
    )


# ------------------------------------------------------------------------------- mish, tanhshrink


def _softplus_one(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _emit_softplus_one(e: Any, x: Any) -> Any:
    return e.add(e.max(x, 0), e.log1p(e.exp(e.neg(e.abs(x)))))


def _mish_slope(g: Array, x: Array) -> Array:
    t = np.tanh(_softplus_one(x))
    return g * (t + x * (1 - t * t) * stable_sigmoid(x))


def _mish_slope_emit(e: Any, g: Any, x: Any) -> Any:
    t = e.tanh(_emit_softplus_one(e, x))
    bend = e.mul(e.sub(1, e.mul(t, t)), e.sigmoid(x))
    return e.mul(g, e.add(t, e.mul(x, bend)))


def _mish_curve(g: Tensor, y: Tensor, g1: Tensor, x: Tensor) -> Tensor:
    s = sigmoid(x)
    t = tanh(softplus(x, 1.0, math.inf))
    # y'' = (1 - t^2) * s * (2 + x * (1 - s - 2 * t * s))
    inner = add(mul(x, sub(one_minus(s), mul(mul(t, s), 2))), 2)
    return mul(mul(g, g1), mul(mul(one_minus(square(t)), s), inner))


MISH_BACKWARD: Op = define(
    "mish_backward",
    ref=_mish_slope,
    emit=_mish_slope_emit,
    grads=(lambda g, y, g1, x: binary(MISH_BACKWARD, g, x), _mish_curve),
    result="floating",
    saves="x",
    samples=s.binary(),
)
MISH = define(
    "mish",
    ref=lambda x: x * np.tanh(_softplus_one(x)),
    emit=lambda e, x: e.mul(x, e.tanh(_emit_softplus_one(e, x))),
    grads=(lambda g, y, x: binary(MISH_BACKWARD, g, x),),
    result="floating",
    saves="x",
    samples=s.unary(),
)
TANHSHRINK = define(
    "tanhshrink",
    ref=lambda x: x - np.tanh(x),
    emit=lambda e, x: e.sub(x, e.tanh(x)),
    grads=(lambda g, y, x: mul(g, square(tanh(x))),),
    result="float",
    saves="x",
    grad_fn="SubBackward0",
    samples=s.unary(),
)


def mish(input: Tensor) -> Tensor:
    """Elementwise `input * tanh(softplus(input))`."""
    return unary(MISH, input)


def tanhshrink(input: Tensor) -> Tensor:
    """Elementwise `input - tanh(input)`."""
    if node_of(input).meta.dtype.is_complex:
        return sub(input, tanh(input))
    return unary(TANHSHRINK, input)
