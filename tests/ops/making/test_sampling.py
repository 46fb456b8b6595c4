"""Drawing: moments of counts and of fills, the slope of gamma samples, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special as sc

import livegrad as lg
from livegrad.ops.making.sampling import gamma_slope, standard_gamma

N = 40_000


@pytest.fixture(autouse=True)
def _seed() -> None:
    lg.manual_seed(5)


@pytest.mark.parametrize("rate", [0.0, 0.3, 4.0, 50.0, 1e4])
def test_poisson(rate: float) -> None:
    x = np.asarray(lg.poisson(lg.full((N,), rate)))
    assert abs(x.mean() - rate) <= 5 * np.sqrt(rate / N)
    assert x.var() == pytest.approx(rate, rel=0.05, abs=1e-9)


@pytest.mark.parametrize(
    ("count", "chance"), [(1, 0.3), (20, 0.1), (1000, 0.7), (5, 0.0), (5, 1.0)]
)
def test_binomial(count: int, chance: float) -> None:
    x = np.asarray(lg.binomial(lg.full((N,), float(count)), lg.full((N,), chance)))
    variance = count * chance * (1 - chance)
    assert abs(x.mean() - count * chance) <= 5 * np.sqrt(variance / N)
    assert x.max() <= count


@pytest.mark.parametrize("alpha", [0.05, 0.7, 3.0, 200.0])
def test_standard_gamma(alpha: float) -> None:
    x = np.asarray(standard_gamma(lg.full((N,), alpha, dtype=lg.float64)))
    assert x.min() > 0
    assert abs(x.mean() - alpha) <= 5 * np.sqrt(alpha / N)


def test_gamma_slope() -> None:
    rng = np.random.default_rng(0)
    a = 10 ** rng.uniform(-1.5, 3, 300)
    quantile = rng.uniform(0.001, 0.999, 300)
    h = 1e-4 * a

    def x(shape: Any) -> Any:
        return sc.gammaincinv(shape, quantile)

    numeric = (8 * (x(a + h) - x(a - h)) - (x(a + 2 * h) - x(a - 2 * h))) / (12 * h)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(gamma_slope(a, x(a)), numeric, rtol=2e-5)


def test_fills() -> None:
    x = lg.empty(N, dtype=lg.float64)
    assert np.median(x.cauchy_(1.0, 2.0).numpy()) == pytest.approx(1.0, abs=0.1)
    assert np.log(x.log_normal_(0.5, 0.25).numpy()).mean() == pytest.approx(0.5, abs=0.01)
    assert x.exponential_(2.0).mean().item() == pytest.approx(0.5, abs=0.02)
    trials = lg.empty(N, dtype=lg.int64).geometric_(0.25)
    assert trials.min().item() == 1
    assert trials.double().mean().item() == pytest.approx(4.0, abs=0.1)
    z = lg.empty(N, dtype=lg.complex64).uniform_(1, 2)
    assert 1 <= z.real.min().item() <= z.imag.max().item() < 2


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (RuntimeError, lambda x: x.cauchy_(0.0, -1.0)),
        (RuntimeError, lambda x: x.log_normal_(0.0, 0.0)),
        (RuntimeError, lambda x: x.exponential_(0.0)),
        (RuntimeError, lambda x: x.geometric_(1.5)),
        (RuntimeError, lambda x: x.long().cauchy_()),
        (RuntimeError, lambda x: x.random_(5, 3)),
        (RuntimeError, lambda x: lg.poisson(x - 1).sum().item()),
        (RuntimeError, lambda x: lg.binomial(x, x.double())),
        (NotImplementedError, lambda x: lg.poisson(x.long())),
    ],
)
def test_refused(error: type[Exception], call: Any) -> None:
    with pytest.raises(error):
        call(lg.zeros(3))
