"""Special cases of scans and differences; values and gradients in general: test_registry.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad.runtime.report import last_steps

NAN, INF = math.nan, math.inf


def values(x: Any) -> Any:
    return np.asarray(x.detach()).tolist()


def slope(function: Any, point: Any) -> Any:
    """Gradient of the sum of `function` at `point`."""
    x = lg.tensor(point, dtype=lg.float64).requires_grad_()
    function(x).sum().backward()
    return values(x.grad)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("dtype", [lg.float32, lg.int16, lg.bool])
def test_any_dim_and_dtype_is_one_native_kernel(dim: int, dtype: Any) -> None:
    x = np.random.default_rng(0).normal(size=(3, 70, 5)) * 3
    t = lg.tensor(x).to(dtype)
    stored = np.asarray(t)
    expected = np.cumsum(stored, dim, np.float64 if dtype is lg.float32 else np.int64)
    got = lg.cumsum(t, dim)
    np.testing.assert_array_equal(np.asarray(got), expected.astype(got.numpy().dtype))
    assert [step.kind for step in last_steps()] == ["scan"]


def test_results_do_not_depend_on_threads() -> None:
    x = lg.randn(64, 257, 33)
    threads = lg.get_num_threads()
    try:
        found = []
        for count in (1, 4):
            lg.set_num_threads(count)
            found.append([np.asarray(lg.cumsum(x, d)) for d in range(3)])
    finally:
        lg.set_num_threads(threads)
    for one, four in zip(*found, strict=True):
        np.testing.assert_array_equal(one, four)


def test_latest_of_equals_and_nan_win() -> None:
    rows = lg.tensor([[1.0, 3.0, 3.0, 2.0], [1.0, NAN, 5.0, NAN], [-INF, -INF, 0.0, INF]])
    most = lg.cummax(rows, 1)
    assert values(most.indices) == [[0, 1, 2, 2], [0, 1, 1, 3], [0, 1, 2, 3]]
    assert values(most.values)[0] == [1.0, 3.0, 3.0, 3.0]
    assert values(lg.cummin(rows, 1).indices) == [[0, 0, 0, 0], [0, 1, 1, 3], [0, 1, 1, 1]]


def test_gradient_of_products_at_zeros() -> None:
    # d/dx of x0 + x0 x1 + x0 x1 x2 at (2, 0, 3) and with two zeros
    assert slope(lambda x: x.cumprod(0), [2.0, 0.0, 3.0]) == [1.0, 8.0, 0.0]
    assert slope(lambda x: x.cumprod(0), [0.0, 0.0, 3.0]) == [1.0, 0.0, 0.0]
    point = lg.tensor([2.0, 0.0, 3.0, 0.0], dtype=lg.float64, requires_grad=True)
    assert lg.autograd.gradgradcheck(lambda x: x.cumprod(0), (point,))


def test_logcumsumexp_neither_overflows_nor_loses_infinities() -> None:
    x = lg.tensor([-INF, -INF, 1000.0, 1000.0], dtype=lg.float64)
    got = values(lg.logcumsumexp(x, 0))
    assert got[:3] == [-INF, -INF, 1000.0]
    assert got[3] == pytest.approx(1000 + math.log(2))
    assert slope(lambda t: t.logcumsumexp(0), [1000.0, 0.0, 999.0])[1] == 0.0
    with pytest.raises(NotImplementedError, match="logcumsumexp"):
        lg.logcumsumexp(lg.tensor([1, 2]), 0)


def test_in_place_and_dtype() -> None:
    x = lg.tensor([1, 2, 3], dtype=lg.int8)
    assert lg.cumsum(x, 0).dtype is lg.int64
    assert lg.cumsum(x, 0, dtype=lg.float32).dtype is lg.float32
    x.cumsum_(0)
    assert x.dtype is lg.int8
    assert values(x) == [1, 3, 6]
    with pytest.raises(IndexError):
        lg.cumsum(x, 1)


def test_differences_and_areas() -> None:
    x = lg.tensor([1.0, 4.0, 9.0, 16.0])
    assert values(lg.diff(x, n=2)) == [2.0, 2.0]
    assert values(lg.diff(x, prepend=lg.tensor([0.0]))) == [1.0, 3.0, 5.0, 7.0]
    assert values(lg.diff(lg.tensor([True, True, False]))) == [False, True]
    assert values(lg.diff(x, n=9)) == []
    assert values(lg.trapezoid(x)) == 21.5
    assert values(lg.trapezoid(x, lg.tensor([0.0, 2.0, 4.0, 6.0]))) == 43.0
    assert values(lg.cumulative_trapezoid(x, dx=2)) == [5.0, 18.0, 43.0]
    (by_places,) = lg.gradient(x, spacing=[lg.tensor([1.0, 2.0, 3.0, 4.0])], edge_order=2)
    assert values(by_places) == [2.0, 4.0, 6.0, 8.0]


@pytest.mark.parametrize("name", ["cumsum_", "cumprod_"])
def test_bools_are_scanned_in_place_only_where_there_is_nothing_to_do(name):
    for alone in (lg.tensor(True), lg.zeros(0, dtype=lg.bool), lg.zeros(2, 0, dtype=lg.bool)):
        before = alone.tolist()
        assert getattr(alone, name)(0).tolist() == before
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        getattr(lg.tensor([True, False]), name)(0)


def test_the_largest_of_nothing_is_nothing_along_any_dim():
    values, indices = lg.zeros(4, 5)[:0, ::2].cummax(7)
    assert (values.shape, indices.shape, values.stride()) == ((0, 3), (0, 3), (3, 1))
    assert lg.tensor(1 + 2j).cummax(0).values.item() == 1 + 2j
    with pytest.raises(IndexError):
        lg.tensor(1.0).cummax(7)
