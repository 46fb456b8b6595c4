"""Elementwise squares, cubes, roots and reciprocals: powers with instructions of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad.graph.handle import node_of
from livegrad.graph.record import unary
from livegrad.ops.elementwise.arithmetic import define, div, mul, neg
from livegrad.ops.elementwise.conjugate import conj
from livegrad.ops.support import parts, samples as s
from livegrad.ops.support.numbers import NUMBERS
from livegrad.ops.support.out import casting, plain

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

SQUARE = define(
    "square",
    ref=np.square,
    emit=lambda e, x: e.mul(x, x),
    grads=(lambda g, y, x: mul(g, conj(mul(x, 2))),),
    result="bool-to-int",
    cheap=True,
    complex=True,
    saves="x",
    grad_fn=parts.fixed_power(2),
    samples=s.unary(),
)
CUBE = define(
    "cube",
    ref=lambda x: x * x * x,
    emit=lambda e, x: e.mul(e.mul(x, x), x),
    grads=(lambda g, y, x: mul(g, conj(mul(square(x), 3))),),
    result="bool-to-int",
    cheap=True,
    complex=True,
    saves="x",
    grad_fn=parts.fixed_power(3),
    samples=s.unary(),
)
SQRT = define(
    "sqrt",
    ref=np.sqrt,
    emit=lambda e, x: e.sqrt(x),
    grads=(lambda g, y, x: div(g, conj(mul(y, 2))),),
    complex=True,
    result="float",
    saves="y",
    samples=s.unary(0.1, 4.0),
)
RSQRT = define(
    "rsqrt",
    ref=lambda x: 1 / np.sqrt(x),
    emit=lambda e, x: e.div(1, e.sqrt(x)),
    grads=(lambda g, y, x: mul(g, conj(mul(unary(CUBE, y), -0.5))),),
    complex=True,
    result="float",
    saves="y",
    samples=s.unary(0.1, 4.0),
)
RECIPROCAL = define(
    "reciprocal",
    ref=lambda x: np.true_divide(1, x),  # NumPy's reciprocal of a complex 0 is another
    emit=lambda e, x: e.div(1, x),
    grads=(lambda g, y, x: mul(g, conj(neg(square(y)))),),
    complex=True,
    result="float",
    saves="y",
    samples=s.unary(0.3, 4.0),
)


@casting
@plain
def square(input: Tensor) -> Tensor:
    """Elementwise `input * input`.

    Example:
        >>> lg.square(lg.tensor([2.0, -3.0]))
        tensor([4., 9.])
    """
    return unary(SQUARE, input)


@casting
@plain
def sqrt(input: Tensor) -> Tensor:
    """Elementwise square root; NaN for negative numbers.

    Example:
        >>> lg.sqrt(lg.tensor([4.0, 2.0, -1.0]))
        tensor([2.0000, 1.4142,    nan])
    """
    return unary(SQRT, input)


@casting
@plain
def rsqrt(input: Tensor) -> Tensor:
    """Elementwise `1 / sqrt(input)`.

    Example:
        >>> lg.rsqrt(lg.tensor([4.0, 16.0]))
        tensor([0.5000, 0.2500])
    """
    return unary(RSQRT, input)


@casting
@plain
def reciprocal(input: Tensor) -> Tensor:
    """Elementwise `1 / input`.

    Example:
        >>> lg.reciprocal(lg.tensor([2.0, -4.0]))
        tensor([ 0.5000, -0.2500])
    """
    return unary(RECIPROCAL, input)


def number_over(number: Any, x: Tensor) -> Tensor:
    """`number / x`: as in PyTorch, the number times the reciprocal.

    That is seen with complex numbers, in what is divided by 0, and its sign; and with half
    precisions, which are rounded between the two.
    """
    if isinstance(number, NUMBERS):
        dtype = node_of(x).meta.dtype
        is_complex = isinstance(number, complex) or dtype.is_complex
        if is_complex or dtype is not dtype.compute:
            return mul(reciprocal(x), number)
    return div(number, x)
