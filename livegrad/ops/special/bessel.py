"""Bessel functions of orders 0 and 1, and Airy's: modified ones native, others from SciPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad.graph.op import GradRule, Op
from livegrad.graph.record import unary
from livegrad.ops.elementwise.arithmetic import add, define, div, mul, neg, sign, sub, where
from livegrad.ops.elementwise.comparison import eq
from livegrad.ops.elementwise.host_functions import apply, define_on_host
from livegrad.ops.special.special_math import special
from livegrad.ops.support import samples as s
from livegrad.ops.support.out import casting, plain

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]

# ------------------------------------------------------------------- modified, of the first kind


def _modified(name: str, grad: GradRule, grad_fn: str | None = None) -> Op:
    def ref(x: Array) -> Array:
        end = np.copysign(0.0 if name.endswith("e") else np.inf, x if name[1] == "1" else 1.0)
        return np.where(np.isinf(x), end, special(name, x))  # SciPy gives NaN for infinities

    return define(
        name,
        ref=ref,
        emit=lambda e, x: getattr(e, name)(x),
        grads=(grad,),
        result="float",
        grad_fn=grad_fn,
        samples=s.unary(-12.0, 12.0),
    )


def _per_x(y: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Where `x` is 0, and `y / x` elsewhere."""
    zero = eq(x, 0)
    return zero, div(y, where(zero, 1, x))


def _i1_slope(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    zero, ratio = _per_x(y, x)
    return mul(g, where(zero, 0.5, sub(i0(x), ratio)))


def _i1e_slope(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    zero, ratio = _per_x(y, x)
    slope = sub(i0e(x), add(mul(y, sign(x)), ratio))
    return mul(g, where(zero, 0.5, slope))


I0 = _modified("i0", lambda g, y, x: mul(g, i1(x)))
I0E = _modified("i0e", lambda g, y, x: mul(g, sub(i1e(x), mul(y, sign(x)))), "SpecialI0EBackward0")
I1 = _modified("i1", _i1_slope, "SpecialI1Backward0")
I1E = _modified("i1e", _i1e_slope, "SpecialI1EBackward0")


@casting
@plain
def i0(input: Tensor) -> Tensor:
    """Elementwise modified Bessel function of the first kind, of order 0.

    float32 within 0.51 ULP, float64 within 4 ULP.
    """
    return unary(I0, input)


@casting
@plain
def i0e(input: Tensor) -> Tensor:
    """Elementwise `exp(-|input|) * i0(input)`. float32 within 0.51 ULP, float64 within 4 ULP."""
    return unary(I0E, input)


@casting
@plain
def i1(input: Tensor) -> Tensor:
    """Elementwise modified Bessel function of the first kind, of order 1.

    float32 within 0.51 ULP, float64 within 4 ULP.
    """
    return unary(I1, input)


@casting
@plain
def i1e(input: Tensor) -> Tensor:
    """Elementwise `exp(-|input|) * i1(input)`. float32 within 0.51 ULP, float64 within 4 ULP."""
    return unary(I1E, input)


# ------------------------------------------------------------------------------- on the host


def _on_host(name: str, scipy_name: str, grad: GradRule, low: float, high: float) -> Op:
    return define_on_host(
        name,
        lambda x: special(scipy_name, x),
        (grad,),
        samples=s.unary(low, high),
    )


BESSEL_J0 = _on_host("bessel_j0", "j0", lambda g, y, x: neg(mul(g, bessel_j1(x))), -9.0, 9.0)
BESSEL_J1 = _on_host(
    "bessel_j1",
    "j1",
    lambda g, y, x: mul(g, where(eq(x, 0), 0.5, sub(bessel_j0(x), _per_x(y, x)[1]))),
    -9.0,
    9.0,
)
BESSEL_Y0 = _on_host("bessel_y0", "y0", lambda g, y, x: neg(mul(g, bessel_y1(x))), 0.5, 9.0)
BESSEL_Y1 = _on_host(
    "bessel_y1", "y1", lambda g, y, x: mul(g, sub(bessel_y0(x), div(y, x))), 0.5, 9.0
)
MODIFIED_BESSEL_K0 = _on_host(
    "modified_bessel_k0", "k0", lambda g, y, x: neg(mul(g, modified_bessel_k1(x))), 0.5, 5.0
)
MODIFIED_BESSEL_K1 = _on_host(
    "modified_bessel_k1",
    "k1",
    lambda g, y, x: neg(mul(g, add(modified_bessel_k0(x), div(y, x)))),
    0.5,
    5.0,
)
SCALED_MODIFIED_BESSEL_K0 = _on_host(
    "scaled_modified_bessel_k0",
    "k0e",
    lambda g, y, x: mul(g, sub(y, scaled_modified_bessel_k1(x))),
    0.5,
    5.0,
)
SCALED_MODIFIED_BESSEL_K1 = _on_host(
    "scaled_modified_bessel_k1",
    "k1e",
    lambda g, y, x: mul(g, sub(sub(y, div(y, x)), scaled_modified_bessel_k0(x))),
    0.5,
    5.0,
)


def _airy(order: int) -> Any:
    return lambda x: np.asarray(special("airy", x)[order])


AIRY_AI = define_on_host(
    "airy_ai",
    _airy(0),
    (lambda g, y, x: mul(g, apply(AIRY_AI_SLOPE, x)),),
    samples=s.unary(-6.0, 4.0),
)
AIRY_AI_SLOPE: Op = define_on_host(
    "airy_ai_slope",
    # The derivative of Airy's function, whose own is x * Ai(x).
    _airy(1),
    (lambda g, y, x: mul(g, mul(x, airy_ai(x))),),
    samples=s.unary(-6.0, 4.0),
)


@casting
def airy_ai(input: Tensor) -> Tensor:
    """Elementwise Airy function Ai."""
    return apply(AIRY_AI, input)


@casting
def bessel_j0(input: Tensor) -> Tensor:
    """Elementwise Bessel function of the first kind, of order 0."""
    return apply(BESSEL_J0, input)


@casting
def bessel_j1(input: Tensor) -> Tensor:
    """Elementwise Bessel function of the first kind, of order 1."""
    return apply(BESSEL_J1, input)


@casting
def bessel_y0(input: Tensor) -> Tensor:
    """Elementwise Bessel function of the second kind, of order 0; NaN below 0."""
    return apply(BESSEL_Y0, input)


@casting
def bessel_y1(input: Tensor) -> Tensor:
    """Elementwise Bessel function of the second kind, of order 1; NaN below 0."""
    return apply(BESSEL_Y1, input)


@casting
def modified_bessel_k0(input: Tensor) -> Tensor:
    """Elementwise modified Bessel function of the second kind, of order 0; NaN below 0."""
    return apply(MODIFIED_BESSEL_K0, input)


@casting
def modified_bessel_k1(input: Tensor) -> Tensor:
    """Elementwise modified Bessel function of the second kind, of order 1; NaN below 0."""
    return apply(MODIFIED_BESSEL_K1, input)


@casting
def scaled_modified_bessel_k0(input: Tensor) -> Tensor:
    """Elementwise `exp(input) * modified_bessel_k0(input)`."""
    return apply(SCALED_MODIFIED_BESSEL_K0, input)


@casting
def scaled_modified_bessel_k1(input: Tensor) -> Tensor:
    """Elementwise `exp(input) * modified_bessel_k1(input)`."""
    return apply(SCALED_MODIFIED_BESSEL_K1, input)


# PyTorch's other names.
modified_bessel_i0 = i0
modified_bessel_i1 = i1
