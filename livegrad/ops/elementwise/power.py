"""Elementwise powers. Those with instructions of their own are in roots.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.op import as_iterated
from livegrad.graph.record import binary, elementwise, unary
from livegrad.ops.elementwise.arithmetic import (
    CLONE,
    as_operand,
    cast,
    define,
    mul,
    sub,
    where,
    zero_gradient,
)
from livegrad.ops.elementwise.comparison import eq, ge, logical_and
from livegrad.ops.elementwise.complex_parts import imag, real
from livegrad.ops.elementwise.conjugate import conj
from livegrad.ops.elementwise.pointwise_math import log
from livegrad.ops.elementwise.roots import CUBE, RECIPROCAL, RSQRT, SQRT, SQUARE
from livegrad.ops.support import parts, samples as s
from livegrad.ops.support.numbers import number_for
from livegrad.ops.support.out import casting

if TYPE_CHECKING:
    from livegrad.tensor import Tensor
    from livegrad.typing import Operand

Array = Any


def _power(a: Array, b: Array) -> Array:
    if a.dtype.kind in "fc":
        return np.power(a, b)
    negative = b < 0
    result = np.power(a, np.where(negative, 0, b).astype(a.dtype))
    unit = np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b & 1), 0))
    return np.where(negative, unit, result)


def _power_grad_base(g: Tensor, y: Tensor, a: Tensor, b: Any) -> Tensor:
    if type(b) in (int, float) and b == 0:  # not of a FloatArg, for which a plan is made
        return zero_gradient(g, y, a)
    b = as_operand(b, g)
    slope = mul(b, elementwise(POW, (a, sub(b, 1))))
    return where(eq(b, 0), 0, mul(g, conj(slope)))


def _power_grad_exponent(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Tensor:
    dtype = node_of(y).meta.dtype
    a = as_operand(a, g)
    # The limit of a**b * log(a) at a = 0 is 0 for positive b (and 0 by agreement at b = 0).
    flat = logical_and(eq(a, 0), _is_positive(b))
    return mul(g, where(flat, 0, conj(mul(y, log(cast(a, dtype) if dtype.is_complex else a)))))


def _is_positive(x: Tensor) -> Tensor:
    """Whether `x >= 0`; a complex number is if it is real."""
    if not isinstance(x, Handle) or not node_of(x).meta.dtype.is_complex:
        return ge(x, 0)
    return logical_and(eq(imag(x), 0), ge(real(x), 0))


POW = define(
    "pow",
    ref=_power,
    emit=lambda e, a, b: e.pow(a, b),
    grads=(_power_grad_base, _power_grad_exponent),
    result="number",
    complex=True,
    narrows=True,
    # PyTorch makes a number to the power of a tensor row-major.
    layout=lambda metas, attrs, meta: None if attrs[1] == "st" else as_iterated(metas, attrs, meta),
    grad_fn=parts.power,
    samples=s.binary(low=0.5, high=3.0, low2=-2.0, high2=2.0),
)


@casting
def pow(input: Operand, exponent: Operand) -> Tensor:
    """Elementwise `input ** exponent`; either may be a number.

    Args:
        input: a tensor or a number.
        exponent: a tensor that broadcasts with it, or a number.

    Example:
        >>> lg.pow(lg.tensor([1.0, 2.0, 3.0]), 2)
        tensor([1., 4., 9.])
    """
    if type(exponent) in (int, float) and isinstance(input, Handle):
        # Not for FloatArg: a plan must not depend on the value of a run-time number.
        return _power_number(input, exponent)
    return binary(POW, input, exponent)


def _power_number(x: Tensor, exponent: Any) -> Tensor:
    floating = node_of(x).meta.dtype.category >= dtypes.FLOAT
    if floating or type(exponent) is int:
        if not floating:
            number_for("pow", exponent, node_of(x).meta.dtype)
        if exponent == 2:
            return unary(SQUARE, x)
        if exponent == 3:
            return unary(CUBE, x)
        if exponent == 1 and node_of(x).grad_to is None:  # else its gradient is a function of x
            return unary(CLONE, x) if node_of(x).meta.dtype is not dtypes.bool_ else mul(x, 1)
        if exponent < 0 and not floating:
            raise RuntimeError(
                f"pow: Integers to negative integer powers are not allowed; got exponent {exponent}"
                ". Convert the tensor with .float() first"
            )
    # A root of -0 is -0, and of -inf NaN; PyTorch's powers of float16 are 0 and inf there.
    takes_roots = node_of(x).meta.dtype is not dtypes.float16
    if exponent == 0.5 and takes_roots:
        return unary(SQRT, x)
    if exponent == -0.5 and takes_roots:
        return unary(RSQRT, x)
    if exponent == -1:
        return unary(RECIPROCAL, x)
    return binary(POW, x, exponent)
