"""Orthogonal polynomials of a degree given per element: Chebyshev, Hermite, Laguerre, Legendre.

The degree is an operand like the argument, rounded toward zero; a negative one gives 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad.graph.op import Op
from livegrad.ops.elementwise.host_functions import apply, define_on_host
from livegrad.ops.special.special_math import special
from livegrad.ops.support import samples as s
from livegrad.ops.support.out import casting

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]
Rule = Callable[[Array, Array], Array]


# SciPy takes as many steps as the degree is high: a tenth of a second for each element here.
_MOST = 1 << 24


def _define(name: str, rule: Rule) -> Op:
    """Registers a family, given `rule(degree, x)` for degrees not negative."""

    def value(x: Array, n: Array) -> Array:
        degree = np.trunc(np.where(np.isfinite(n), n, 0)).astype(np.int64)
        if degree.size and degree.max() > _MOST:
            raise RuntimeError(f"{name}: degree {degree.max()} is too high; expected <= {_MOST}")
        result = rule(np.maximum(degree, 0), x.astype(np.float64))
        return np.where(degree < 0, 0, result)

    def sample(shape: tuple[int, ...], degrees: Any) -> s.Sample:
        return s.Sample((s.uniform(*shape, low=-1.5, high=1.5), degrees), smooth=False)

    return define_on_host(
        name,
        value,
        samples=s.calls(
            lambda: sample((3, 1), np.arange(-1, 5)),
            lambda: sample((2,), 9),
            lambda: sample((), 3.7),
            lambda: sample((0,), 2),
        ),
    )


def _second(n: Array, x: Array) -> Array:
    """Chebyshev polynomials of the second kind, also of degree -1, which is 0."""
    return np.where(n < 0, 0, special("eval_chebyu", np.maximum(n, 0), x))


def _third(n: Array, x: Array) -> Array:
    return _second(n, x) - _second(n - 1, x)


def _fourth(n: Array, x: Array) -> Array:
    return _second(n, x) + _second(n - 1, x)


def _shifted(rule: Rule) -> Rule:
    """The family moved from [-1, 1] to [0, 1]."""
    return lambda n, x: rule(n, 2 * x - 1)


def _from_scipy(name: str) -> Rule:
    return lambda n, x: special(name, n, x)


CHEBYSHEV_T = _define("chebyshev_polynomial_t", _from_scipy("eval_chebyt"))
CHEBYSHEV_U = _define("chebyshev_polynomial_u", _second)
CHEBYSHEV_V = _define("chebyshev_polynomial_v", _third)
CHEBYSHEV_W = _define("chebyshev_polynomial_w", _fourth)
SHIFTED_T = _define("shifted_chebyshev_polynomial_t", _shifted(_from_scipy("eval_chebyt")))
SHIFTED_U = _define("shifted_chebyshev_polynomial_u", _shifted(_second))
SHIFTED_V = _define("shifted_chebyshev_polynomial_v", _shifted(_third))
SHIFTED_W = _define("shifted_chebyshev_polynomial_w", _shifted(_fourth))
HERMITE_H = _define("hermite_polynomial_h", _from_scipy("eval_hermite"))
HERMITE_HE = _define("hermite_polynomial_he", _from_scipy("eval_hermitenorm"))
LAGUERRE_L = _define("laguerre_polynomial_l", _from_scipy("eval_laguerre"))
LEGENDRE_P = _define("legendre_polynomial_p", _from_scipy("eval_legendre"))


@casting
def chebyshev_polynomial_t(input: Tensor, n: Tensor) -> Tensor:
    """Elementwise Chebyshev polynomial of the first kind, of degree `n`."""
    return apply(CHEBYSHEV_T, input, n)


@casting
def chebyshev_polynomial_u(input: Tensor, n: Tensor) -> Tensor:
    """Elementwise Chebyshev polynomial of the second kind, of degree `n`."""
    return apply(CHEBYSHEV_U, input, n)


@casting
def chebyshev_polynomial_v(input: Tensor, n: Tensor) -> Tensor:
    """Elementwise Chebyshev polynomial of the third kind, of degree `n`."""
    return apply(CHEBYSHEV_V, input, n)


@casting
def chebyshev_polynomial_w(input: Tensor, n: Tensor) -> Tensor:
    """Elementwise Chebyshev polynomial of the fourth kind, of degree `n`."""
    return apply(CHEBYSHEV_W, input, n)


@casting
def shifted_chebyshev_polynomial_t(input: Tensor, n: Tensor) -> Tensor:
    """`chebyshev_polynomial_t` of `2 * input - 1`."""
    return apply(SHIFTED_T, input, n)


@casting
def shifted_chebyshev_polynomial_u(input: Tensor, n: Tensor) -> Tensor:
    """`chebyshev_polynomial_u` of `2 * input - 1`."""
    return apply(SHIFTED_U, input, n)


@casting
def shifted_chebyshev_polynomial_v(input: Tensor, n: Tensor) -> Tensor:
    """`chebyshev_polynomial_v` of `2 * input - 1`."""
    return apply(SHIFTED_V, input, n)


@casting
def shifted_chebyshev_polynomial_w(input: Tensor, n: Tensor) -> Tensor:
    """`chebyshev_polynomial_w` of `2 * input - 1`."""
    return apply(SHIFTED_W, input, n)


@casting
def hermite_polynomial_h(input: Tensor, n: Tensor) -> Tensor:
    """Elementwise physicist's Hermite polynomial of degree `n`."""
    return apply(HERMITE_H, input, n)


@casting
def hermite_polynomial_he(input: Tensor, n: Tensor) -> Tensor:
    """Elementwise probabilist's Hermite polynomial of degree `n`."""
    return apply(HERMITE_HE, input, n)


@casting
def laguerre_polynomial_l(input: Tensor, n: Tensor) -> Tensor:
    """Elementwise Laguerre polynomial of degree `n`."""
    return apply(LAGUERRE_L, input, n)


@casting
def legendre_polynomial_p(input: Tensor, n: Tensor) -> Tensor:
    """Elementwise Legendre polynomial of degree `n`."""
    return apply(LEGENDRE_P, input, n)
