"""The error function's relatives: its inverse, scaled and normal forms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from livegrad.graph.op import GradRule, Op
from livegrad.graph.record import unary
from livegrad.ops.elementwise.arithmetic import anew, define, div, mul, neg, sub
from livegrad.ops.elementwise.pointwise_math import exp
from livegrad.ops.elementwise.roots import square
from livegrad.ops.special.special_math import special
from livegrad.ops.support import samples as s
from livegrad.ops.support.out import casting, plain

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = Any

_ROOT_HALF = math.sqrt(0.5)


def _function(
    name: str, grad: GradRule, low: float, high: float, saves: str = "xy",
    ref: Callable[..., Any] | None = None, grad_fn: str | None = None,
) -> Op:  # fmt: skip
    """Registers a function that the builder and SciPy have under the same name."""
    return define(
        name,
        ref=ref or (lambda x: special(name, x)),
        emit=lambda e, x: getattr(e, name)(x),
        grads=(grad,),
        result="float",
        saves=saves,
        grad_fn=grad_fn,
        samples=s.unary(low, high),
    )


def _bell(x: Tensor) -> Tensor:
    """The density of the standard normal distribution."""
    return mul(exp(mul(square(x), -0.5)), 1 / math.sqrt(2 * math.pi))


ERFINV: Op = _function(
    "erfinv",
    lambda g, y, x: mul(g, mul(exp(square(anew(y, ERFINV, x))), math.sqrt(math.pi) / 2)),
    -0.95,
    0.95,
    saves="y",
)
ERFCX = _function(
    "erfcx",
    lambda g, y, x: mul(g, sub(mul(mul(x, y), 2), 2 / math.sqrt(math.pi))),
    -1.5,
    4.0,
    grad_fn="SpecialErfcxBackward0",
)
NDTR = _function("ndtr", lambda g, y, x: mul(g, _bell(x)), -3.0, 3.0, saves="x")
NDTRI = _function(
    "ndtri",
    lambda g, y, x: mul(g, mul(exp(mul(square(y), 0.5)), math.sqrt(2 * math.pi))),
    0.05,
    0.95,
    saves="y",
    grad_fn="SpecialNdtriBackward0",
)


LOG_NDTR = _function(
    "log_ndtr",
    # The bell curve divided by the area below it, both scaled by exp(x**2 / 2).
    lambda g, y, x: div(mul(g, math.sqrt(2 / math.pi)), erfcx(mul(neg(x), _ROOT_HALF))),
    -4.0,
    3.0,
    saves="x",
    grad_fn="SpecialLogNdtrBackward0",
)


@casting
@plain
def erfinv(input: Tensor) -> Tensor:
    """Elementwise inverse of erf: infinite at -1 and 1, NaN beyond.

    float32 within 0.51 ULP, float64 within 3 ULP.
    """
    return unary(ERFINV, input)


@casting
@plain
def erfcx(input: Tensor) -> Tensor:
    """Elementwise `exp(input**2) * erfc(input)`, without overflow for large `input`.

    float32 within 0.51 ULP, float64 within 8 ULP.
    """
    return unary(ERFCX, input)


@casting
@plain
def ndtr(input: Tensor) -> Tensor:
    """Elementwise area below `input` under the standard normal curve.

    float32 within 0.51 ULP, float64 within 6 ULP.
    """
    return unary(NDTR, input)


@casting
@plain
def ndtri(input: Tensor) -> Tensor:
    """Elementwise inverse of ndtr: infinite at 0 and 1, NaN outside.

    float32 within 0.51 ULP, float64 within 4 ULP.
    """
    return unary(NDTRI, input)


@casting
@plain
def log_ndtr(input: Tensor) -> Tensor:
    """Elementwise logarithm of ndtr, also where that is too small for a float.

    float32 within 0.51 ULP, float64 within 6 ULP.
    """
    return unary(LOG_NDTR, input)
