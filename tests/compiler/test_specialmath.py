"""Special functions: errors in ULP against mpmath, edge cases, scalars like vectors."""

from __future__ import annotations

from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from building import host_builder
from test_builder import compile_ir
from test_vectormath import apply, points

INF, NAN = np.inf, np.nan
ROOT = mpmath.sqrt(2)


def erfcx(x: mpmath.mpf) -> mpmath.mpf:
    if x < 200:
        return mpmath.exp(x * x) * mpmath.erfc(x)
    return (1 - 1 / (2 * x * x) + 3 / (4 * x**4)) / (x * mpmath.sqrt(mpmath.pi))


def ndtr(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.erfc(-x / ROOT) / 2


def log_ndtr(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.log(ndtr(x)) if x < 5 else mpmath.log1p(-ndtr(-x))


# name: (function, ULP bound of the double, ranges of double arguments)
FUNCTIONS: dict[str, tuple[Callable[..., mpmath.mpf], float, list[tuple[float, float]]]] = {
    "lgamma": (lambda x: mpmath.log(abs(mpmath.gamma(x))), 4, [(0, 3), (0, 20), (0, 1e6)]),
    "digamma": (lambda x: mpmath.psi(0, x), 8, [(0, 3), (0, 12), (0, 1e6)]),
    "trigamma": (lambda x: mpmath.psi(1, x), 4, [(0, 3), (0, 12), (0, 1e6)]),
    "erfcx": (erfcx, 8, [(-26, 9), (0, 30), (0, 1e6)]),
    "ndtr": (ndtr, 6, [(-38, 8), (-2, 2)]),
    "log_ndtr": (log_ndtr, 6, [(-100, 38), (-2, 2)]),
    "i0": (lambda x: mpmath.besseli(0, x), 4, [(-9, 9), (-700, 700)]),
    "i1": (lambda x: mpmath.besseli(1, x), 4, [(-9, 9), (-700, 700)]),
    "i0e": (lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)), 4, [(-9, 9), (-900, 900)]),
    "i1e": (lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)), 4, [(-9, 9), (-900, 900)]),
}
# Inverses: judged by one step of Newton's method from the result, which doubles its digits.
INVERSES = {
    "erfinv": (3, [(-1, 1), (0.99, 1), (-1e-3, 1e-3)]),
    "ndtri": (4, [(0, 1), (0, 1e-3), (0.999, 1), (0, 1e-200)]),
}


def newton(name: str, x: mpmath.mpf, y: mpmath.mpf) -> mpmath.mpf:
    """The exact inverse at `x`, given an approximation `y` of it."""
    if name == "erfinv":
        slope = 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-y * y)
        far = mpmath.erfc(abs(y)) - (1 - abs(x))
        return y + mpmath.sign(y) * far / slope
    return y - (ndtr(y) - x) * mpmath.sqrt(2 * mpmath.pi) * mpmath.exp(y * y / 2)


def worst_error(name: str, x: np.ndarray) -> float:
    got = apply(name, x)
    info = np.finfo(x.dtype)
    worst = 0.0
    for argument, y in zip(x.tolist(), got.tolist(), strict=True):
        if name in INVERSES:
            want = newton(name, mpmath.mpf(argument), mpmath.mpf(y))
        else:
            want = FUNCTIONS[name][0](mpmath.mpf(argument))
        if abs(want) > info.max:
            assert abs(y) == INF or abs(y) == info.max, (argument, y)
            continue
        _, exponent = mpmath.frexp(want)
        unit = max(mpmath.ldexp(1, int(exponent) - info.nmant - 1), float(info.smallest_subnormal))
        worst = max(worst, float(abs(mpmath.mpf(y) - want) / unit))
    return worst


@pytest.mark.parametrize("name", [*FUNCTIONS, *INVERSES])
def test_errors(name: str) -> None:
    bound, ranges = INVERSES[name] if name in INVERSES else FUNCTIONS[name][1:]
    double = worst_error(name, points(ranges, np.float64, 60))
    single = worst_error(name, points(ranges, np.float32, 30))
    print(f"{name} double {double:.2f} float {single:.3f}")
    assert double <= bound
    assert single <= 0.51


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_reflections(dtype: type) -> None:
    x = np.array([-0.5, -0.25, -1.5, -2.75, -7.125, -30.5, -100.25], dtype)
    for name, function in (
        ("lgamma", FUNCTIONS["lgamma"][0]),
        ("digamma", FUNCTIONS["digamma"][0]),
        ("trigamma", FUNCTIONS["trigamma"][0]),
    ):
        want = np.array([float(function(mpmath.mpf(v))) for v in x.tolist()])
        np.testing.assert_allclose(apply(name, x), want, rtol=4 * np.finfo(dtype).eps, atol=1e-15)


# name: (arguments, results)
EDGES = {
    "lgamma": (
        [0.0, -0.0, -1, -2, 1, 2, INF, -INF, NAN],
        [INF, INF, INF, INF, 0, 0, INF, INF, NAN],
    ),
    "digamma": ([0.0, -0.0, -1, -2, INF, -INF, NAN], [-INF, INF, NAN, NAN, INF, NAN, NAN]),
    "trigamma": ([0.0, -0.0, -1, INF, -INF, NAN], [INF, INF, INF, 0, NAN, NAN]),
    "erfcx": ([0.0, -0.0, INF, -INF, -1e30, 1e30, NAN], [1, 1, 0, INF, INF, 5.6418958e-31, NAN]),
    "ndtr": ([0.0, INF, -INF, 1e30, -1e30, NAN], [0.5, 1, 0, 1, 0, NAN]),
    "log_ndtr": ([INF, -INF, 1e30, -1e10, NAN], [-0.0, -INF, -0.0, -5e19, NAN]),
    "erfinv": ([0.0, -0.0, 1, -1, 1.5, -2, INF, NAN], [0.0, -0.0, INF, -INF, NAN, NAN, NAN, NAN]),
    "ndtri": ([0.0, 0.5, 1, -1, 2, INF, NAN], [-INF, 0, INF, NAN, NAN, NAN, NAN]),
    "i0": ([0.0, INF, -INF, NAN], [1, INF, INF, NAN]),
    "i1": ([0.0, -0.0, INF, -INF, NAN], [0.0, -0.0, INF, -INF, NAN]),
    "i0e": ([0.0, INF, -INF, NAN], [1, 0, 0, NAN]),
    "i1e": ([0.0, -0.0, INF, -INF, NAN], [0.0, -0.0, 0.0, -0.0, NAN]),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", EDGES)
def test_edges(name: str, dtype: type) -> None:
    arguments, results = EDGES[name]
    got, want = apply(name, np.array(arguments, dtype)), np.array(results, dtype)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))


@pytest.mark.parametrize("name", ["digamma", "erfinv", "i1e", "log_ndtr"])
def test_scalars_agree_with_vectors(name: str) -> None:
    x = np.array([-2.5, -0.75, 0.0, 0.5, 0.9999, 3.5, 50.0], np.float32)
    b = host_builder("kernel", [("ptr", "x"), ("ptr", "out"), ("i64", "n")])
    src, out, n = b.params
    with b.loop(0, n) as loop:
        value = b.load("float", b.gep(src, "float", loop.index))
        b.store(getattr(b, name)(value), b.gep(out, "float", loop.index))
    got = np.empty_like(x)
    compile_ir(b.ir(), "kernel", 3)(x.ctypes.data, got.ctypes.data, x.size)
    np.testing.assert_array_equal(got, apply(name, x))
