"""Special cases of distances, covariances, segments and masked folds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import livegrad as lg


def values(x: Any) -> Any:
    return np.asarray(x.detach()).tolist()


@pytest.mark.parametrize("p", [0.5, 1.0, 1.5, 2.0, 3.0, math.inf])
def test_gradient_at_distance_zero(p: float) -> None:
    x = lg.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=lg.float64, requires_grad=True)
    y = lg.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=lg.float64)
    lg.cdist(x, y, p).sum().backward()
    assert np.isfinite(np.asarray(x.grad)).all()
    x.grad = None
    lg.cdist(x[:1], y[:1], p).sum().backward()
    assert values(x.grad) == [[0.0, 0.0], [0.0, 0.0]]


def test_each_of_the_largest_gets_the_gradient() -> None:
    x = lg.tensor([[2.0, -2.0, 1.0]], requires_grad=True)
    lg.cdist(x, lg.zeros(1, 3), math.inf).sum().backward()
    assert values(x.grad) == [[1.0, -1.0, 0.0]]


def test_distances_are_those_of_the_differences() -> None:
    # The usual trick, |a|² + |b|² - 2ab, has no digit left here.
    x = lg.tensor([[10000.0, 1.0]])
    y = lg.tensor([[10000.0, 1.001]])
    assert values(lg.cdist(x, y))[0][0] == pytest.approx(1e-3, rel=1e-3)
    rows = lg.tensor(np.random.default_rng(0).normal(size=(5, 3)))
    whole = np.asarray(lg.cdist(rows, rows, 3.0))
    np.testing.assert_allclose(np.asarray(lg.pdist(rows, 3.0)), whole[np.triu_indices(5, 1)])


def test_covariance() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 7)) + 1e6
    np.testing.assert_allclose(np.asarray(lg.cov(lg.tensor(x))), np.cov(x), rtol=1e-6)
    times, weights = rng.integers(1, 4, 7), rng.uniform(size=7)
    got = lg.cov(lg.tensor(x), fweights=lg.tensor(times), aweights=lg.tensor(weights))
    np.testing.assert_allclose(
        np.asarray(got), np.cov(x, fweights=times, aweights=weights), rtol=1e-6
    )
    np.testing.assert_allclose(np.asarray(lg.corrcoef(lg.tensor(x))), np.corrcoef(x), atol=1e-6)
    with pytest.raises(RuntimeError, match="cannot be negative"):
        lg.cov(lg.tensor(x), fweights=lg.tensor(-times)).tolist()


def test_renorm_leaves_short_slices_alone() -> None:
    x = lg.tensor([[3.0, 4.0], [0.3, 0.4]])
    np.testing.assert_allclose(
        np.asarray(lg.renorm(x, 2, 0, 1.0)), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6
    )


def test_segments() -> None:
    x = lg.tensor([1.0, 4.0, 2.0, 3.0], requires_grad=True)
    got = lg.segment_reduce(x, "max", lengths=lg.tensor([2, 0, 2]), initial=-1.0)
    assert values(got) == [4.0, -1.0, 3.0]
    got.sum().backward()
    assert values(x.grad) == [0.0, 1.0, 0.0, 1.0]
    with pytest.raises(RuntimeError, match="sum to"):
        lg.segment_reduce(x, "sum", lengths=lg.tensor([2, 1])).tolist()


def test_masked_folds_leave_out_what_the_mask_does() -> None:
    x = lg.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    mask = lg.tensor([[True, False, True], [False, False, False]])
    assert values(lg.masked.sum(x, 1, mask=mask)) == [4.0, 0.0]
    assert values(lg.masked.amax(x, 1, mask=mask)) == [3.0, -math.inf]
    assert values(lg.masked.mean(x, 1, mask=mask))[0] == 2.0
    assert math.isnan(values(lg.masked.mean(x, 1, mask=mask))[1])
    assert values(lg.masked.var(x, 1, mask=mask))[0] == 2.0
    assert values(lg.masked.softmax(x, 1, mask=mask))[0][1] == 0.0
    with pytest.raises(IndexError, match="dimensionality"):
        lg.masked.sum(x, mask=lg.ones(1, 2, 3, dtype=lg.bool))
