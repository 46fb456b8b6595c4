"""Special cases of sorting, order statistics, searching and counting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import livegrad as lg

NAN, INF = math.nan, math.inf


def values(x: Any) -> Any:
    return np.asarray(x.detach()).tolist()


def slope(function: Any, point: Any) -> Any:
    """Gradient of the sum of `function` at `point`."""
    x = lg.tensor(point, dtype=lg.float64).requires_grad_()
    function(x).sum().backward()
    return values(x.grad)


def test_equals_keep_their_order_and_nan_is_last() -> None:
    x = lg.tensor([2.0, NAN, 1.0, 2.0, -INF])
    assert values(lg.argsort(x)) == [4, 2, 0, 3, 1]
    assert values(lg.argsort(x, descending=True)) == [1, 0, 3, 2, 4]
    assert values(lg.sort(lg.tensor(3.0)).values) == 3.0


def test_few_of_many_are_split_off_first() -> None:
    x = lg.tensor(np.random.default_rng(0).integers(0, 50, (3, 400)))
    for largest in (True, False):
        top = lg.topk(x, 5, largest=largest)
        ranked = np.sort(np.asarray(x), 1)
        expected = ranked[:, ::-1][:, :5] if largest else ranked[:, :5]
        np.testing.assert_array_equal(np.asarray(top.values), expected)
        np.testing.assert_array_equal(
            np.take_along_axis(np.asarray(x), np.asarray(top.indices), 1), expected
        )
    with pytest.raises(RuntimeError, match="k out of range"):
        lg.topk(x, 401)


def test_medians() -> None:
    x = lg.tensor([[3.0, 1.0, 2.0, 4.0], [NAN, 5.0, 1.0, NAN]])
    assert values(lg.median(x, 1).indices)[0] == 2
    assert math.isnan(values(lg.median(x, 1).values)[1])
    assert values(lg.nanmedian(x, 1).values) == [2.0, 1.0]
    assert values(lg.nanmedian(x)) == 2.0
    assert slope(lambda t: t.median(), [2.0, 1.0, 2.0, 3.0]) == [0.5, 0.0, 0.5, 0.0]
    assert values(lg.mode(lg.tensor([3, 1, 2, 1, 2])).values) == 1
    assert values(lg.mode(lg.tensor([3, 1, 2, 1, 2])).indices) == 3
    with pytest.raises(RuntimeError, match="k out of range"):
        lg.kthvalue(x, 5)


def test_quantiles() -> None:
    x = lg.tensor([[4.0, 1.0, 3.0], [NAN, 2.0, 0.0]])
    q = lg.tensor([0.0, 0.5])
    got = np.asarray(lg.quantile(x, q, dim=1))
    assert got.shape == (2, 2)
    assert got[:, 0].tolist() == [1.0, 3.0]
    assert np.isnan(got[:, 1]).all()
    assert values(lg.nanquantile(x, 0.5, dim=1, interpolation="higher")) == [3.0, 2.0]
    assert slope(lambda t: lg.quantile(t, 0.25), [1.0, 5.0, 3.0]) == [0.5, 0.0, 0.5]
    with pytest.raises(RuntimeError, match=r"range \[0, 1\]"):
        lg.quantile(x, 1.5)
    with pytest.raises(RuntimeError, match=r"test_sorting\.py"):  # found when it is computed
        lg.quantile(x, lg.tensor([0.5, 2.0])).tolist()


@pytest.mark.parametrize("count", [8, 200])  # compared with all; searched by halving
def test_searching(count: int) -> None:
    rng = np.random.default_rng(0)
    edges = np.sort(rng.integers(0, 40, count)).astype(np.float32)
    x = rng.integers(-2, 42, (4, 6)).astype(np.float32)
    x[0, 0] = NAN
    for right in (False, True):
        side: Any = "right" if right else "left"
        got = lg.bucketize(lg.tensor(x), lg.tensor(edges), right=right)
        np.testing.assert_array_equal(np.asarray(got), np.searchsorted(edges, x, side))
        same = lg.searchsorted(lg.tensor(np.stack([edges] * 4)), lg.tensor(x), side=side)
        np.testing.assert_array_equal(np.asarray(same), np.asarray(got))
    among = lg.isin(lg.tensor(x), lg.tensor(edges))
    np.testing.assert_array_equal(np.asarray(among), np.isin(x, edges))


def test_counting() -> None:
    x = lg.tensor([3, 1, 1, 5, 3])
    assert values(lg.bincount(x)) == [0, 2, 0, 2, 0, 1]
    weights = lg.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    assert values(lg.bincount(x, weights, 8)) == [0, 5, 0, 6, 0, 4, 0, 0]
    found, inverse, counts = lg.unique(x, return_inverse=True, return_counts=True)
    assert values(found) == [1, 3, 5]
    assert values(inverse) == [1, 0, 0, 2, 1]
    assert values(counts) == [2, 2, 1]
    rows = lg.tensor([[1, 2], [0, 9], [1, 2]])
    assert values(lg.unique(rows, dim=0)) == [[0, 9], [1, 2]]
    assert values(lg.unique_consecutive(x)) == [3, 1, 5, 3]
    hist, edges = lg.histogram(lg.tensor([1.0, 2.0, 2.0, 4.0]), 3)
    assert values(hist) == [1.0, 2.0, 1.0]
    assert values(edges) == [1.0, 2.0, 3.0, 4.0]
    assert values(lg.histc(lg.tensor([0.0, 1.0, 1.5, 9.0]), 2, 0, 2)) == [1.0, 2.0]
    with pytest.raises(RuntimeError, match="not finite"):
        lg.histc(lg.tensor([0.0, INF]), 2).tolist()
