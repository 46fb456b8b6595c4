"""Special functions: what samples of records do not show — edges, dtypes, bits, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special as sc

import livegrad as lg

INF, NAN = np.inf, np.nan
GRID = np.concatenate(
    [np.linspace(-30, 30, 601), [0.0, -0.0, 1e-300, -1e-12, 300.0, INF, -INF, NAN]]
)


@pytest.mark.parametrize(
    ("ours", "scipys"),
    [
        (lg.lgamma, sc.gammaln), (lg.special.erfcx, sc.erfcx), (lg.special.ndtr, sc.ndtr),
        (lg.special.log_ndtr, sc.log_ndtr), (lg.special.i0e, sc.i0e), (lg.special.i1e, sc.i1e),
        (lg.i0, sc.i0), (lg.special.i1, sc.i1), (lg.special.entr, sc.entr),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_wide_range(ours: Any, scipys: Any, dtype: type) -> None:
    x = GRID.astype(dtype)
    with np.errstate(all="ignore"):
        want = scipys(x.astype(np.float64)).astype(dtype)
    if ours is lg.lgamma or ours is lg.i0 or ours is lg.special.i1:  # SciPy differs at infinity
        x, want = x[np.isfinite(x)], want[np.isfinite(x)]
    np.testing.assert_allclose(
        np.asarray(ours(lg.tensor(x))),
        want,
        rtol=4 * np.finfo(dtype).eps if dtype is np.float32 else 1e-12,
    )


def test_every_name_of_torch_special() -> None:
    torch = pytest.importorskip("torch")
    names = [n for n in torch.special.__all__ if not n.startswith("_")]
    assert [n for n in names if not hasattr(lg.special, n)] == []


# ------------------------------------------------------------------------------------ zero and NaN


def test_products_with_logarithms_at_zero() -> None:
    x = lg.tensor([0.0, 0.0, 0.0, 2.0], requires_grad=True)
    y = lg.tensor([0.0, 3.0, NAN, 0.5], requires_grad=True)
    out = lg.xlogy(x, y)
    np.testing.assert_allclose(np.asarray(out.detach()), [0, 0, NAN, 2 * np.log(0.5)], rtol=1e-6)
    out[:2].sum().backward()
    np.testing.assert_allclose(np.asarray(x.grad)[:2], [0, np.log(3)], rtol=1e-6)
    assert lg.xlogy(2, lg.tensor([1.0])).item() == 0
    assert lg.special.xlog1py(lg.tensor([0.0]), -1).item() == 0


def test_logit_outside_and_clamped() -> None:
    x = lg.tensor([-0.5, 0.0, 0.5, 1.0, 1.5], dtype=lg.float64, requires_grad=True)
    np.testing.assert_array_equal(np.asarray(lg.logit(x).detach()), [NAN, -INF, 0, INF, NAN])
    clamped = lg.logit(x, eps=0.25)
    top = np.log(3)
    np.testing.assert_allclose(np.asarray(clamped.detach()), [-top, -top, 0, top, top])
    clamped.sum().backward()
    np.testing.assert_allclose(np.asarray(x.grad), [0, 0, 4, 0, 0])


def test_sinc_and_its_slope_at_zero() -> None:
    x = lg.tensor([0.0, 1.0, 0.5], dtype=lg.float64, requires_grad=True)
    y = lg.sinc(x)
    np.testing.assert_allclose(np.asarray(y.detach()), [1, 0, 2 / np.pi], atol=1e-16)
    (slope,) = lg.autograd.grad(y.sum(), [x], create_graph=True)
    np.testing.assert_allclose(np.asarray(slope.detach()), [0, -1, -4 / np.pi], atol=1e-15)


def test_zeta_where_it_has_no_value() -> None:
    x, q = lg.tensor([1.0, 0.5, 2.0, 2.5, NAN]), lg.tensor([1.0, 1.0, -1.0, -0.5, 1.0])
    np.testing.assert_array_equal(np.asarray(lg.special.zeta(x, q)), [INF, NAN, INF, NAN, NAN])


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_polygamma(order: int) -> None:
    x = np.array([0.1, 1.0, 2.5, 40.0])
    got = lg.polygamma(order, lg.tensor(x))
    np.testing.assert_allclose(np.asarray(got), sc.polygamma(order, x), rtol=1e-12)
    assert lg.tensor([3]).polygamma(order).dtype is lg.float32


# -------------------------------------------------------------------------------------------- bits


@pytest.mark.parametrize("dtype", [lg.float16, lg.bfloat16, lg.float32, lg.float64])
def test_nextafter_steps_over_all_dtypes(dtype: Any) -> None:
    x = lg.tensor([1.0, 1.0, -1.0, 0.0, -0.0, INF, 2.0]).to(dtype)
    y = lg.tensor([2.0, 0.0, 0.0, 1.0, -1.0, 0.0, 2.0]).to(dtype)
    got = lg.nextafter(x, y).double().numpy()
    limits = lg.finfo(dtype)
    tiny = limits.smallest_subnormal
    expected = [1 + limits.eps, 1 - limits.eps / 2, -1 + limits.eps / 2, tiny, -tiny, limits.max, 2]
    np.testing.assert_array_equal(got, expected)


def test_frexp_and_ldexp_are_inverse() -> None:
    x = np.array([0.0, -0.0, 1.0, -3.5, 1e-310, 5e-324, 1e308, INF, NAN])
    mantissa, exponent = lg.frexp(lg.tensor(x))
    want = np.frexp(x)
    np.testing.assert_array_equal(np.asarray(mantissa), want[0])
    finite = np.isfinite(x)
    np.testing.assert_array_equal(np.asarray(exponent)[finite], want[1][finite])
    assert exponent.dtype is lg.int32
    back = lg.ldexp(mantissa, exponent)
    np.testing.assert_array_equal(np.asarray(back)[finite], x[finite])


@pytest.mark.parametrize("dtype", [lg.float16, lg.float32, lg.float64])
def test_ldexp_of_whole_exponents_is_right_where_the_power_is_no_number(dtype: Any) -> None:
    limits = np.finfo(str(dtype).split(".")[-1])
    x = np.array(
        [0.0, limits.smallest_subnormal, limits.tiny, 1.5, 3, -5, limits.max], limits.dtype
    )
    width = limits.maxexp - limits.minexp + limits.nmant
    for power in (-9999, -width, 2 - limits.maxexp - limits.nmant, 3, width, 9999):
        got = lg.ldexp(lg.tensor(x), lg.tensor(power))
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(np.asarray(got), np.ldexp(x, power))


def test_signs_of_zero() -> None:
    x = lg.tensor([0.0, -0.0, -1.0, NAN])
    assert lg.signbit(x).tolist()[:3] == [False, True, True]
    signed = lg.copysign(lg.tensor([1.0, 1.0]), lg.tensor([0.0, -0.0]))
    assert signed.tolist() == [1.0, -1.0]
    assert lg.copysign(lg.tensor([3]), -1).dtype is lg.float32


def test_nan_to_num_uses_the_limits_of_the_dtype() -> None:
    x = lg.tensor([NAN, INF, -INF, 1.0])
    for dtype in (lg.float16, lg.bfloat16, lg.float32, lg.float64):
        limits = lg.finfo(dtype)
        got = lg.nan_to_num(x.to(dtype)).double().tolist()
        assert got == [0.0, limits.max, limits.min, 1.0]
    assert lg.nan_to_num(x, 2.0, 3.0, 4.0).tolist() == [2.0, 3.0, 4.0, 1.0]
    assert lg.nan_to_num(lg.tensor([1, 2])).dtype is lg.int64


# ---------------------------------------------------------------------------------------- integers


def test_gcd_and_lcm() -> None:
    a, b = lg.tensor([12, -12, 0, 7]), lg.tensor([18, 18, 5, 0])
    assert lg.gcd(a, b).tolist() == [6, 6, 5, 7]
    assert lg.lcm(a, b).tolist() == [36, 36, 0, 0]
    assert lg.gcd(a.to(lg.int8), b.to(lg.uint8)).dtype is lg.int16


def test_polynomials_of_a_degree_per_element() -> None:
    x = np.linspace(-1.2, 1.2, 7)[:, None]
    n = np.arange(6)
    got = lg.special.chebyshev_polynomial_t(lg.tensor(x), lg.tensor(n))
    want = np.stack([np.polynomial.Chebyshev.basis(k)(x[:, 0]) for k in n], 1)
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12, atol=1e-13)
    w = lg.special.chebyshev_polynomial_w(lg.tensor([0.3]), 2)  # 4 x**2 + 2 x - 1
    assert w.item() == pytest.approx(4 * 0.09 + 0.6 - 1, rel=1e-5)
    assert lg.special.legendre_polynomial_p(lg.tensor([0.5]), -1).item() == 0


def test_float_power_is_double() -> None:
    assert lg.float_power(lg.tensor([2], dtype=lg.int8), 3).dtype is lg.float64
    assert lg.float_power(2, lg.tensor([0.5])).item() == pytest.approx(2**0.5, rel=1e-15)
    assert lg.float_power(lg.tensor([1j]), 2).dtype is lg.complex128


# -------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (TypeError, lambda: lg.gcd(lg.tensor([1]), 2)),
        (TypeError, lambda: lg.copysign(1.0, lg.tensor([1.0]))),
        (TypeError, lambda: lg.special.zeta(1.0, 2.0)),
        (TypeError, lambda: lg.special.zeta(lg.tensor([1.0]), "x")),
        (NotImplementedError, lambda: lg.gcd(lg.tensor([1.0]), lg.tensor([1.0]))),
        (NotImplementedError, lambda: lg.igamma(lg.tensor([1]), lg.tensor([1]))),
        (RuntimeError, lambda: lg.heaviside(lg.tensor([1.0]), lg.tensor([1]))),
        (RuntimeError, lambda: lg.polygamma(-1, lg.tensor([1.0]))),
        (RuntimeError, lambda: lg.mvlgamma(lg.tensor([1.0]), 0)),
        (RuntimeError, lambda: lg.igamma(lg.ones(2), lg.ones(3))),
        (RuntimeError, lambda: lg.rsub(lg.tensor([True]), lg.tensor([True]))),
    ],
)
def test_refused(error: type[Exception], call: Any) -> None:
    with pytest.raises(error):
        call()


def test_a_derivative_that_does_not_exist_says_so() -> None:
    a = lg.tensor([1.5], requires_grad=True)
    with pytest.raises(NotImplementedError, match="igamma"):
        lg.igamma(a, lg.tensor([1.0])).sum().backward()
