"""Elementwise functions made of few others: products with logarithms, sinc, angles in degrees."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.blame import as_float
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.infer import TYPE_NAMES
from livegrad.graph.op import Op, as_first, not_implemented_in_torch, with_numbers
from livegrad.graph.record import binary, elementwise, unary
from livegrad.ops.elementwise.arithmetic import add, anew, cast, define, div, mul, neg, sub, where
from livegrad.ops.elementwise.comparison import eq, gt, le, logical_and, logical_or, lt
from livegrad.ops.elementwise.conjugate import conj
from livegrad.ops.elementwise.host_functions import need_tensors
from livegrad.ops.elementwise.pointwise_math import cos, log, sigmoid
from livegrad.ops.elementwise.power import pow
from livegrad.ops.making.generate import filled
from livegrad.ops.support import parts, samples as s
from livegrad.ops.support.out import casting, exact, plain

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = Any


def special(name: str, *operands: Any) -> Any:
    """SciPy's function of that name; imported here, for importing it takes long."""
    import scipy.special

    return getattr(scipy.special, name)(*operands)


# ------------------------------------------------------------------------- angles, differences

DEG2RAD: Op = define(
    "deg2rad",
    ref=np.deg2rad,
    emit=lambda e, x: e.mul(x, math.pi / 180),
    grads=(lambda g, y, x: unary(DEG2RAD, g),),
    layout=as_first,
    result="float",
    cheap=True,
    saves="",
    grad_fn="Deg2RadBackward0",
    samples=s.unary(-200.0, 200.0),
)
RAD2DEG: Op = define(
    "rad2deg",
    ref=np.rad2deg,
    emit=lambda e, x: e.mul(x, 180 / math.pi),
    grads=(lambda g, y, x: unary(RAD2DEG, g),),
    layout=as_first,
    result="float",
    cheap=True,
    saves="",
    grad_fn="Rad2DegBackward0",
    samples=s.unary(),
)


@casting
@plain
def deg2rad(input: Tensor) -> Tensor:
    """Elementwise degrees as radians."""
    return unary(DEG2RAD, input)


@casting
@plain
def rad2deg(input: Tensor) -> Tensor:
    """Elementwise radians as degrees."""
    return unary(RAD2DEG, input)


def rsub(input: Tensor, other: Tensor, *, alpha: float = 1) -> Tensor:
    """Elementwise `other - alpha * input`."""
    need_tensors("rsub", input=input)
    return sub(other, input, alpha=alpha)


@exact
def float_power(input: Tensor, exponent: Tensor) -> Tensor:
    """Elementwise `input ** exponent` in double precision, complex if either is."""
    whole = [x for x in (input, exponent) if isinstance(x, Handle)]
    intricate = any(node_of(x).meta.dtype.is_complex for x in whole) or any(
        isinstance(x, complex) for x in (input, exponent)
    )
    dtype = dtypes.complex128 if intricate else dtypes.float64
    base, power = (cast(x, dtype) if isinstance(x, Handle) else x for x in (input, exponent))
    return pow(base, power)


def float_power_in_place(input: Tensor, exponent: Tensor) -> Tensor:
    """`float_power` of what is to take its values: it must have room for double precision."""
    result = float_power(input, exponent)
    have, need = node_of(input).meta.dtype, node_of(result).meta.dtype
    if have is not need:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {TYPE_NAMES[have.name]} but the operation's "
            f"result requires dtype {TYPE_NAMES[need.name]}"
        )
    return result


float_power_in_place.__name__ = "float_power"

# ------------------------------------------------------------------------------- with logarithms


def _emit_xlogy(logarithm: str) -> Any:
    def emit(e: Any, x: Any, y: Any) -> Any:
        product = e.mul(x, getattr(e, logarithm)(y))
        nothing = e.and_(e.eq(x, 0), e.eq(y, y))
        return e.select(nothing, 0, product)

    return emit


def _nothing(g: Tensor, x: Tensor, y: Tensor | float, lowest: float) -> Tensor:
    """Where the product is 0 for `x` is, although the logarithm does not exist."""
    if not isinstance(y, Handle):
        y = filled((), y, node_of(g).meta.dtype)
    return logical_and(eq(x, 0), le(y, lowest))


XLOGY: Op = define(
    "xlogy",
    ref=lambda x, y: special("xlogy", x, y),
    emit=_emit_xlogy("log"),
    grads=(
        lambda g, _, x, y: where(_nothing(g, x, y, 0), 0, xlogy(g, y)),
        lambda g, _, x, y: mul(g, div(x, y)),
    ),
    result="float",
    saves="x",
    layout=with_numbers,
    grad_fn=parts.pair,
    samples=s.binary(low2=0.2),
)
XLOG1PY: Op = define(
    "xlog1py",
    ref=lambda x, y: special("xlog1py", x, y),
    emit=_emit_xlogy("log1p"),
    grads=(
        lambda g, _, x, y: where(_nothing(g, x, y, -1), 0, xlog1py(g, y)),
        lambda g, _, x, y: mul(g, div(x, add(y, 1))),
    ),
    result="float",
    saves="x",
    layout=with_numbers,
    grad_fn="SpecialXlog1PyBackward0",
    samples=s.binary(low2=-0.8),
)


@casting
@plain
def xlogy(input: Tensor, other: Tensor) -> Tensor:
    """Elementwise `input * log(other)`, which is 0 where `input` is 0, unless `other` is NaN."""
    return binary(XLOGY, input, other)


@casting
@plain
def xlog1py(input: Tensor, other: Tensor) -> Tensor:
    """Elementwise `input * log1p(other)`, which is 0 where `input` is 0, unless `other` is NaN."""
    return binary(XLOG1PY, input, other)


def _emit_entr(e: Any, x: Any) -> Any:
    value = e.neg(e.mul(x, e.log(x)))
    return e.select(e.eq(x, 0), 0, e.select(e.lt(x, 0), e.const(-math.inf), value))


ENTR = define(
    "entr",
    ref=lambda x: special("entr", x),
    emit=_emit_entr,
    grads=(lambda g, y, x: mul(g, neg(add(log(x), 1))),),
    result="float",
    saves="x",
    grad_fn="SpecialEntrBackward0",
    samples=s.unary(0.1, 4.0),
)


@casting
@plain
def entr(input: Tensor) -> Tensor:
    """Elementwise `-input * log(input)`: 0 at 0, and -inf below."""
    return unary(ENTR, input)


LOGIT: Op = define(
    "logit",
    ref=lambda x: np.log(x / (1 - x)),
    emit=lambda e, x: e.log(e.div(x, e.sub(1, x))),
    grads=(lambda g, y, x: where(_outside(x), math.nan, div(g, mul(x, sub(1, x)))),),
    result="float",
    saves="x",
    samples=s.unary(0.05, 0.95),
)


def _outside(x: Tensor) -> Tensor:
    return logical_or(lt(x, 0), gt(x, 1))


@casting
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """Elementwise `log(input / (1 - input))`, of `input` limited to [eps, 1 - eps] if given."""
    if eps is None:
        return unary(LOGIT, input)
    low, high = as_float(eps), 1.0 - eps
    # Not clamp, whose gradient is 0 at NaN.
    return unary(LOGIT, where(lt(input, low), low, where(gt(input, high), high, input)))


_LOG2 = math.log(2)


def _emit_logaddexp2(e: Any, a: Any, b: Any) -> Any:
    way = e.log1p(e.exp2(e.neg(e.abs(e.sub(a, b)))))
    total = e.add(e.max(a, b), e.mul(way, 1 / _LOG2))
    # Equal infinities have no difference.
    return e.select(e.eq(a, b), e.add(a, e.const(1)), total)


LOGADDEXP2 = define(
    "logaddexp2",
    ref=np.logaddexp2,
    emit=_emit_logaddexp2,
    grads=(
        lambda g, y, a, b: mul(g, sigmoid(mul(sub(a, b), _LOG2))),
        lambda g, y, a, b: mul(g, sigmoid(mul(sub(b, a), _LOG2))),
    ),
    result="floating",
    saves="x",
    samples=s.binary(),
)


@casting
def logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    """Elementwise `log2(2**input + 2**other)` without overflow."""
    need_tensors("logaddexp2", input=input, other=other)
    return binary(LOGADDEXP2, input, other)


# ----------------------------------------------------------------------------- sinc, steps


def _emit_sinc(e: Any, x: Any) -> Any:
    # sin(pi * x) with whole turns taken off before the multiplication rounds.
    turn = e.sub(x, e.mul(e.rint(e.mul(x, 0.5)), 2))
    sine = e.sin(e.mul(turn, math.pi))
    ratio = e.div(sine, e.mul(x, math.pi))
    infinite = e.eq(e.abs(x), math.inf)
    return e.select(e.eq(x, 0), 1, e.select(infinite, math.nan, ratio))


def _sinc_slope(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    zero = eq(x, 0)
    slope = div(sub(cos(mul(x, math.pi)), anew(y, SINC, x)), where(zero, 1, x))
    return where(zero, 0, mul(g, conj(slope)))


SINC: Op = define(
    "sinc",
    ref=np.sinc,
    emit=_emit_sinc,
    grads=(_sinc_slope,),
    result="float",
    complex=True,
    samples=s.unary(),
)


@casting
@plain
def sinc(input: Tensor) -> Tensor:
    """Elementwise `sin(pi * input) / (pi * input)`, 1 at 0."""
    return unary(SINC, input)


def _spherical(x: Array) -> Array:
    safe = np.where((x == 0) | np.isinf(x), 1, x)
    return np.where(np.isinf(x), 0, np.where(x == 0, 1, np.sin(safe) / safe))


def _emit_spherical(e: Any, x: Any) -> Any:
    infinite = e.eq(e.abs(x), math.inf)
    return e.select(e.eq(x, 0), 1, e.select(infinite, 0, e.div(e.sin(x), x)))


def _spherical_slope(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    zero = eq(x, 0)
    return mul(g, where(zero, 0, div(sub(cos(x), y), where(zero, 1, x))))


SPHERICAL_BESSEL_J0 = define(
    "spherical_bessel_j0",
    ref=_spherical,
    emit=_emit_spherical,
    grads=(_spherical_slope,),
    result="float",
    samples=s.unary(),
)


@casting
@plain
def spherical_bessel_j0(input: Tensor) -> Tensor:
    """Elementwise `sin(input) / input`, 1 at 0."""
    return unary(SPHERICAL_BESSEL_J0, input)


def _heaviside(x: Array, values: Array) -> Array:
    return np.where(x == 0, values, (x > 0).astype(values.dtype))


HEAVISIDE = define(
    "heaviside",
    ref=_heaviside,
    emit=lambda e, x, values: e.select(e.eq(x, 0), values, e.select(e.gt(x, 0), e.const(1), 0)),
    grads=(not_implemented_in_torch("heaviside"),) * 2,
    cheap=True,
    saves="",
    samples=s.calls(
        lambda: s.Sample((np.array([-1.5, 0.0, -0.0, 2.0]), s.uniform(3, 4)), smooth=False),
        lambda: s.Sample((s.integers(4, low=-1, high=2), s.integers(4)), smooth=False),
        lambda: s.Sample((np.array(0.0), np.array(0.5)), smooth=False),
        lambda: s.Sample((s.uniform(0), s.uniform(1)), smooth=False),
    ),
)


@exact
def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """Elementwise 0 where `input` is negative, 1 where positive, and `values` where it is 0."""
    need_tensors("heaviside", input=input, values=values)
    left, right = node_of(input).meta.dtype, node_of(values).meta.dtype
    if left is not right:
        raise RuntimeError(
            "heaviside is not yet implemented for tensors with different dtypes; got "
            f"{left.name} and {right.name}. Convert one with .to(dtype)"
        )
    return elementwise(HEAVISIDE, (input, values))
