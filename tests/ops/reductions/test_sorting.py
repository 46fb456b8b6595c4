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


def _with_ties(dtype: str, *shape: int) -> Any:
    """Values of which many are equal; floats with NaN, infinities and both zeros."""
    random = np.random.default_rng(sum(shape))
    x = (random.standard_normal(shape) * 30).astype(dtype)
    if x.dtype.kind == "f":
        flat = x.reshape(-1)
        for start, odd in enumerate((np.nan, 0.0, -0.0, np.inf, -np.inf)):
            flat[start::13] = odd
    return x


SIZES = [(1,), (17,), (96,), (97,), (1000,), (3, 40, 5), (0, 4), (4, 0)]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8".split())
def test_order_is_that_of_a_stable_sort(dtype: str, descending: bool) -> None:
    for shape in SIZES:
        x = _with_ties(dtype, *shape)
        for dim in range(x.ndim):
            found = np.asarray(lg.argsort(lg.tensor(x), dim, descending))
            turned = np.argsort(np.flip(x, dim), dim, kind="stable")
            backwards = x.shape[dim] - 1 - np.flip(turned, dim)
            np.testing.assert_array_equal(
                found, backwards if descending else np.argsort(x, dim, kind="stable")
            )


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i8", "u2"])
def test_the_foremost_are_those_of_the_whole_order(dtype: str) -> None:
    for shape, dim, count in (((800,), 0, 1), ((2, 900, 3), 1, 60), ((4, 3000), 1, 20)):
        x = lg.tensor(_with_ties(dtype, *shape))
        for largest in (False, True):
            whole = lg.argsort(x, dim, largest).narrow(dim, 0, count)
            found = lg.topk(x, count, dim, largest).indices
            np.testing.assert_array_equal(np.asarray(found), np.asarray(whole))


def test_bfloat16_and_bool_are_ordered() -> None:
    x = lg.tensor([2.0, NAN, -0.0, 0.0, -INF, 2.0]).bfloat16()
    assert values(lg.argsort(x)) == [4, 2, 3, 0, 5, 1]
    assert values(lg.argsort(lg.tensor([True, False, True, False]), 0, True)) == [0, 2, 1, 3]


def test_sorting_is_part_of_a_plan_and_of_any_number_of_threads(counted: Any) -> None:
    x = lg.tensor(_with_ties("f4", 300, 200))
    threads, found = lg.get_num_threads(), []
    try:
        for count in (1, 2, 3, 7, 16):
            lg.set_num_threads(count)
            with counted() as c:
                found.append(np.asarray(lg.sort(x * 2, 1).indices).tobytes())
            assert c.host_steps == 0
    finally:
        lg.set_num_threads(threads)
    assert len(set(found)) == 1


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
