"""Elementwise functions of analysis: exponentials, logarithms, angles, erf, and rounding.

Integers and bools give the default float; rounding leaves integers as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad.graph.blame import as_index
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.op import GradRule, Op
from livegrad.graph.record import binary, elementwise, unary
from livegrad.ops.elementwise.arithmetic import (
    add,
    as_operand,
    define,
    div,
    mul,
    needs_tensor,
    neg,
    sub,
    where,
    zero_gradient,
)
from livegrad.ops.elementwise.comparison import eq
from livegrad.ops.elementwise.conjugate import conj
from livegrad.ops.elementwise.roots import rsqrt, square
from livegrad.ops.support import parts, samples as s
from livegrad.ops.support.out import casting, exact, plain

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = Any


def _function(
    name: str,
    ref: Callable[..., Any],
    grad: GradRule,
    saves: str = "x",
    low: float = -3.0,
    high: float = 3.0,
    complex: bool = True,
    grad_fn: str | None = None,
) -> Op:
    """Registers a function of one number that the emitter has under the same name."""
    return define(
        name,
        ref=ref,
        emit=lambda e, x: getattr(e, name)(x),
        grads=(grad,),
        result="float",
        saves=saves,
        complex=complex,
        grad_fn=grad_fn,
        samples=s.unary(low, high),
    )


def each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """A NumPy function out of one on Python floats, for what NumPy lacks."""
    apply = np.frompyfunc(function, 1, 1)
    return lambda x: np.asarray(apply(x)).astype(x.dtype)


# ------------------------------------------------------------------------ exponentials, logarithms

EXP = _function("exp", np.exp, lambda g, y, x: mul(g, conj(y)), saves="y")
EXP2 = _function("exp2", np.exp2, lambda g, y, x: mul(g, conj(mul(y, math.log(2)))), saves="y")
EXPM1 = _function("expm1", np.expm1, lambda g, y, x: mul(g, conj(add(y, 1))), saves="y")
LOG = _function("log", np.log, lambda g, y, x: div(g, conj(x)), low=0.1, high=4.0)
LOG2 = _function(
    "log2", np.log2, lambda g, y, x: div(g, conj(mul(x, math.log(2)))), low=0.1, high=4.0
)
LOG10 = _function(
    "log10", np.log10, lambda g, y, x: div(g, conj(mul(x, math.log(10)))), low=0.1, high=4.0
)
LOG1P = _function(
    "log1p",
    np.log1p,
    lambda g, y, x: div(g, conj(add(x, 1))),
    low=-0.9,
    high=4.0,
    grad_fn="Log1PBackward0",
)


@casting
@plain
def exp(input: Tensor) -> Tensor:
    """Elementwise exponential.

    Example:
        >>> lg.exp(lg.tensor([0.0, 1.0]))
        tensor([1.0000, 2.7183])
    """
    return unary(EXP, input)


@casting
@plain
def exp2(input: Tensor) -> Tensor:
    """Elementwise `2 ** input`."""
    return unary(EXP2, input)


@casting
@plain
def expm1(input: Tensor) -> Tensor:
    """Elementwise `exp(input) - 1`, precise near 0."""
    return unary(EXPM1, input)


@casting
@plain
def log(input: Tensor) -> Tensor:
    """Elementwise natural logarithm.

    Example:
        >>> lg.log(lg.tensor([1.0, 10.0]))
        tensor([0.0000, 2.3026])
    """
    return unary(LOG, input)


@casting
@plain
def log2(input: Tensor) -> Tensor:
    """Elementwise logarithm to base 2."""
    return unary(LOG2, input)


@casting
@plain
def log10(input: Tensor) -> Tensor:
    """Elementwise logarithm to base 10."""
    return unary(LOG10, input)


@casting
@plain
def log1p(input: Tensor) -> Tensor:
    """Elementwise `log(1 + input)`, precise near 0."""
    return unary(LOG1P, input)


def _logaddexp(a: Array, b: Array) -> Array:
    if np.result_type(a, b).kind != "c":
        return np.logaddexp(a, b)
    first = np.real(a) >= np.real(b)
    large: Array = np.where(first, a, b)
    small: Array = np.where(first, b, a)
    return large + np.log1p(np.exp(small - large))


def _logaddexp_emit(e: Any, a: Any, b: Any) -> Any:
    largest = e.max(a, b)
    total = e.add(largest, e.log1p(e.exp(e.neg(e.abs(e.sub(a, b))))))
    # Equal infinities have no difference.
    return e.select(e.eq(a, b), e.add(a, e.const(math.log(2))), total)


LOGADDEXP = define(
    "logaddexp",
    ref=_logaddexp,
    emit=_logaddexp_emit,
    grads=(
        lambda g, y, a, b: mul(g, conj(sigmoid(sub(a, b)))),
        lambda g, y, a, b: mul(g, conj(sigmoid(sub(b, a)))),
    ),
    result="floating",
    saves="x",
    complex=True,
    grad_fn=parts.pair,
    samples=s.binary(),
)


@casting
def logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """Elementwise `log(exp(input) + exp(other))` without overflow."""
    if not isinstance(input, Handle) or not isinstance(other, Handle):
        raise needs_tensor("logaddexp", input, other)
    return binary(LOGADDEXP, input, other)


# ----------------------------------------------------------------------------------------- angles


def _acosh_slope(x: Tensor) -> Tensor:
    if node_of(x).meta.dtype.is_complex:  # √a √b and √(ab) differ there
        return mul(rsqrt(add(x, 1)), rsqrt(sub(x, 1)))
    return rsqrt(sub(square(x), 1))


SIN = _function("sin", np.sin, lambda g, y, x: mul(g, conj(cos(x))))
COS = _function("cos", np.cos, lambda g, y, x: neg(mul(g, conj(sin(x)))))
TAN = _function(
    "tan", np.tan, lambda g, y, x: mul(g, conj(add(square(y), 1))), saves="y", low=-1.2, high=1.2
)
ASIN = _function(
    "asin", np.arcsin, lambda g, y, x: mul(g, conj(rsqrt(sub(1, square(x))))), low=-0.9, high=0.9
)
ACOS = _function(
    "acos",
    np.arccos,
    lambda g, y, x: neg(mul(g, conj(rsqrt(sub(1, square(x)))))),
    low=-0.9,
    high=0.9,
)
ATAN = _function("atan", np.arctan, lambda g, y, x: div(g, conj(add(square(x), 1))))
SINH = _function("sinh", np.sinh, lambda g, y, x: mul(g, conj(cosh(x))))
COSH = _function("cosh", np.cosh, lambda g, y, x: mul(g, conj(sinh(x))))
ASINH = _function("asinh", np.arcsinh, lambda g, y, x: mul(g, conj(rsqrt(add(square(x), 1)))))
ACOSH = _function(
    "acosh", np.arccosh, lambda g, y, x: mul(g, conj(_acosh_slope(x))), low=1.2, high=4.0
)
ATANH = _function(
    "atanh", np.arctanh, lambda g, y, x: div(g, conj(sub(1, square(x)))), low=-0.9, high=0.9
)
ATAN2 = define(
    "atan2",
    ref=np.arctan2,
    emit=lambda e, a, b: e.atan2(a, b),
    grads=(
        lambda g, y, a, b: mul(g, _over_squares(b, a, b, g)),
        lambda g, y, a, b: neg(mul(g, _over_squares(a, a, b, g))),
    ),
    result="float",
    saves="x",
    grad_fn=parts.pair,
    samples=s.binary(low2=0.5),
)


def _over_squares(x: Tensor | float, a: Tensor | float, b: Tensor | float, g: Tensor) -> Tensor:
    """`x / (a * a + b * b)`, 0 at the origin, where an angle has no direction to change in."""
    squares = _squares(a, b, g)
    return where(eq(squares, 0), 0, div(x, squares))


def _squares(a: Tensor | float, b: Tensor | float, g: Tensor) -> Tensor:
    """`a * a + b * b`, where one may be a number."""
    return add(square(as_operand(a, g)), square(as_operand(b, g)))


def _hypot_emit(e: Any, a: Any, b: Any) -> Any:
    a, b = e.abs(a), e.abs(b)
    large, small = e.max(a, b), e.min(a, b)
    ratio = e.select(e.eq(large, 0), 0, e.div(small, large))
    length = e.mul(large, e.sqrt(e.add(e.mul(ratio, ratio), 1)))
    infinite = e.or_(e.eq(a, math.inf), e.eq(b, math.inf))
    return e.select(infinite, math.inf, length)


HYPOT = define(
    "hypot",
    ref=np.hypot,
    emit=_hypot_emit,
    grads=(
        lambda g, y, a, b: mul(g, div(a, y)),
        lambda g, y, a, b: mul(g, div(b, y)),
    ),
    result="floating",
    grad_fn=parts.pair,
    samples=s.binary(low2=0.5),
)


@casting
@plain
def sin(input: Tensor) -> Tensor:
    """Elementwise sine of `input`, in radians.

    Example:
        >>> lg.sin(lg.tensor([0.0, lg.pi / 2]))
        tensor([0., 1.])
    """
    return unary(SIN, input)


@casting
@plain
def cos(input: Tensor) -> Tensor:
    """Elementwise cosine of `input`, in radians.

    Example:
        >>> lg.cos(lg.tensor([0.0, lg.pi]))
        tensor([ 1., -1.])
    """
    return unary(COS, input)


@casting
@plain
def tan(input: Tensor) -> Tensor:
    """Elementwise tangent of `input`, in radians."""
    return unary(TAN, input)


@casting
@plain
def asin(input: Tensor) -> Tensor:
    """Elementwise inverse sine; NaN outside [-1, 1]."""
    return unary(ASIN, input)


@casting
@plain
def acos(input: Tensor) -> Tensor:
    """Elementwise inverse cosine; NaN outside [-1, 1]."""
    return unary(ACOS, input)


@casting
@plain
def atan(input: Tensor) -> Tensor:
    """Elementwise inverse tangent."""
    return unary(ATAN, input)


@casting
def atan2(input: Tensor, other: Tensor) -> Tensor:
    """Elementwise angle of the point (x = other, y = input), in (-pi, pi]."""
    if not isinstance(input, Handle) or not isinstance(other, Handle):
        raise needs_tensor("atan2", input, other)
    return binary(ATAN2, input, other)


@casting
@plain
def sinh(input: Tensor) -> Tensor:
    """Elementwise hyperbolic sine."""
    return unary(SINH, input)


@casting
@plain
def cosh(input: Tensor) -> Tensor:
    """Elementwise hyperbolic cosine."""
    return unary(COSH, input)


@casting
@plain
def asinh(input: Tensor) -> Tensor:
    """Elementwise inverse hyperbolic sine."""
    return unary(ASINH, input)


@casting
@plain
def acosh(input: Tensor) -> Tensor:
    """Elementwise inverse hyperbolic cosine; NaN below 1."""
    return unary(ACOSH, input)


@casting
@plain
def atanh(input: Tensor) -> Tensor:
    """Elementwise inverse hyperbolic tangent; NaN outside [-1, 1]."""
    return unary(ATANH, input)


@casting
def hypot(input: Tensor, other: Tensor) -> Tensor:
    """Elementwise `sqrt(input**2 + other**2)` without overflow."""
    if not isinstance(input, Handle) or not isinstance(other, Handle):
        raise needs_tensor("hypot", input, other)
    return binary(HYPOT, input, other)


# ------------------------------------------------------------------------- saturating functions


def stable_sigmoid(x: Array) -> Array:
    """The logistic function in NumPy, without overflow (of real numbers)."""
    if x.dtype.kind == "c":
        return 1 / (1 + np.exp(-x))
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1) / (1 + small)


TANH_BACKWARD: Op = define(
    "tanh_backward",
    ref=lambda g, y: g * np.conj(1 - y * y),
    emit=lambda e, g, y: e.mul(g, e.sub(1, e.mul(y, y))),
    grads=(
        lambda g, _, g1, y: binary(TANH_BACKWARD, g, conj(y)),
        lambda g, _, g1, y: mul(mul(conj(g), g1), conj(mul(y, -2))),
    ),
    result="floating",
    cheap=True,
    complex=True,
    saves="x",
    samples=s.binary(-1.0, 1.0),
)
SIGMOID_BACKWARD: Op = define(
    "sigmoid_backward",
    ref=lambda g, y: g * np.conj((1 - y) * y),
    emit=lambda e, g, y: e.mul(e.mul(g, e.sub(1, y)), y),
    grads=(
        lambda g, _, g1, y: binary(SIGMOID_BACKWARD, g, conj(y)),
        lambda g, _, g1, y: mul(mul(conj(g), g1), conj(sub(1, mul(y, 2)))),
    ),
    result="floating",
    cheap=True,
    complex=True,
    saves="x",
    samples=s.binary(-1.0, 1.0, low2=0.1, high2=0.9),
)
TANH = _function("tanh", np.tanh, lambda g, y, x: binary(TANH_BACKWARD, g, y), saves="y")
SIGMOID = _function(
    "sigmoid", stable_sigmoid, lambda g, y, x: binary(SIGMOID_BACKWARD, g, y), saves="y"
)
_SLOPE = 2 / math.sqrt(math.pi)
ERF = _function(
    "erf",
    each(math.erf),
    lambda g, y, x: mul(g, mul(exp(neg(square(x))), _SLOPE)),
    complex=False,
)
ERFC = _function(
    "erfc",
    each(math.erfc),
    lambda g, y, x: mul(g, mul(exp(neg(square(x))), -_SLOPE)),
    complex=False,
)


@casting
@plain
def tanh(input: Tensor) -> Tensor:
    """Elementwise hyperbolic tangent.

    Example:
        >>> lg.tanh(lg.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.7616,  0.0000,  0.7616])
    """
    return unary(TANH, input)


@casting
@plain
def sigmoid(input: Tensor) -> Tensor:
    """Elementwise `1 / (1 + exp(-input))`.

    Example:
        >>> lg.sigmoid(lg.tensor([-1.0, 0.0, 1.0]))
        tensor([0.2689, 0.5000, 0.7311])
    """
    return unary(SIGMOID, input)


@casting
@plain
def erf(input: Tensor) -> Tensor:
    """Elementwise error function.

    Example:
        >>> lg.erf(lg.tensor([0.0, 1.0]))
        tensor([0.0000, 0.8427])
    """
    return unary(ERF, input)


@casting
@plain
def erfc(input: Tensor) -> Tensor:
    """Elementwise `1 - erf(input)`, precise for large `input`."""
    return unary(ERFC, input)


# --------------------------------------------------------------------------------------- rounding


def _rounding(name: str, ref: Callable[..., Any], emit: Callable[..., Any]) -> Op:
    return define(
        name, ref, emit, (zero_gradient,), result="number", cheap=True, saves="",
        samples=s.unary(smooth=False),
    )  # fmt: skip


FLOOR = _rounding("floor", np.floor, lambda e, x: e.floor(x))
CEIL = _rounding("ceil", np.ceil, lambda e, x: e.ceil(x))
TRUNC = _rounding("trunc", np.trunc, lambda e, x: e.trunc(x))
ROUND = _rounding("round", np.rint, lambda e, x: e.rint(x))
# round(x * up / down) * down / up, where one of the two is 1 and the other a power of ten
ROUND_SCALED = define(
    "round_scaled",
    ref=lambda x, up, down: np.rint(x * up / down) * down / up,
    emit=lambda e, x, up, down: e.div(e.mul(e.rint(e.div(e.mul(x, up), down)), down), up),
    grads=(zero_gradient, None, None),
    result="floating",
    saves="",
    samples=s.calls(lambda: s.Sample((s.uniform(3, 5), 100.0, 1.0), smooth=False)),
)
FRAC = define(
    "frac",
    ref=lambda x: x - np.trunc(x),
    emit=lambda e, x: e.sub(x, e.trunc(x)),
    grads=(lambda g, y, x: g,),
    result="floating",
    cheap=True,
    saves="",
    samples=s.unary(),
)


@exact
@plain
def floor(input: Tensor) -> Tensor:
    """Elementwise largest integer not above `input`.

    Example:
        >>> lg.floor(lg.tensor([-0.5, 1.7]))
        tensor([-1.,  1.])
    """
    return unary(FLOOR, input)


@exact
@plain
def ceil(input: Tensor) -> Tensor:
    """Elementwise smallest integer not below `input`.

    Example:
        >>> lg.ceil(lg.tensor([0.5, -0.5, 2.0]))
        tensor([1., -0., 2.])
    """
    return unary(CEIL, input)


@exact
@plain
def trunc(input: Tensor) -> Tensor:
    """Elementwise `input` without its fraction."""
    return unary(TRUNC, input)


@exact
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """Elementwise nearest integer, ties to even, or nearest multiple of `10 ** -decimals`.

    Args:
        input: a tensor.
        decimals: how many digits stay after the point; negative: before it.

    Example:
        >>> lg.round(lg.tensor([0.5, 1.5, 2.6]))
        tensor([0., 2., 3.])
        >>> lg.round(lg.tensor([1.2345]), decimals=2)
        tensor([1.2300])
    """
    if decimals == 0:
        return unary(ROUND, input)
    places = abs(as_index(decimals))
    scale = 10.0**places if places <= 308 else math.inf
    up, down = (scale, 1.0) if decimals > 0 else (1.0, scale)
    return elementwise(ROUND_SCALED, (input, up, down))


@exact
@plain
def frac(input: Tensor) -> Tensor:
    """Elementwise `input - trunc(input)`."""
    return unary(FRAC, input)


# PyTorch's other names.
arccos = acos
arccosh = acosh
arcsin = asin
arcsinh = asinh
arctan = atan
arctan2 = atan2
arctanh = atanh
fix = trunc
