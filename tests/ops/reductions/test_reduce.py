"""Special cases of reductions; values and gradients in general: test_registry.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad.ops.reductions import reduce as R, statistics as S

NAN, INF = math.nan, math.inf


def values(x: Any) -> Any:
    return np.asarray(x.detach()).tolist()


def slope(function: Any, point: Any) -> Any:
    """Gradient of the sum of `function` at `point`."""
    x = lg.tensor(point, dtype=lg.float64).requires_grad_()
    function(x).sum().backward()
    return values(x.grad)


def test_nothing_to_fold() -> None:
    empty = lg.zeros(0, 3)
    assert values(R.sum(empty)) == 0.0
    assert values(lg.prod(empty, 0)) == [1.0, 1.0, 1.0]
    assert np.isnan(values(R.mean(empty)))
    assert values(R.any(empty)) is False
    assert values(R.all(empty)) is True
    assert values(S.logsumexp(empty, 0)) == [-INF] * 3


@pytest.mark.parametrize("name", ["amax", "amin", "argmax", "argmin", "max", "min"])
def test_extremes_of_nothing(name: str) -> None:
    function = getattr(R, name)
    with pytest.raises(IndexError, match="Expected reduction dim 0 to have non-zero size"):
        function(lg.zeros(0, 3), 0)
    whole = IndexError if name.startswith("arg") else RuntimeError
    with pytest.raises(whole, match="Expected reduction dim to be specified"):
        function(lg.zeros(0, 3))
    if name in ("max", "min"):
        assert function(lg.zeros(0, 3), 1).values.shape == (0,)
    else:
        assert function(lg.zeros(0, 3), 1).shape == (0,)


def test_first_nan_and_lowest_index_win() -> None:
    rows = lg.tensor([[1.0, NAN, 3.0, NAN], [-INF] * 4, [2.0, 3.0, 1.0, 3.0]])
    assert values(R.argmax(rows, 1)) == [1, 0, 1]
    assert values(R.argmin(rows, 1)) == [1, 0, 2]
    assert np.isnan(values(R.amax(rows, 1))[0])


def test_argmax_of_the_whole_is_row_major() -> None:
    x = lg.tensor([[1, 2], [9, 3]])
    assert values(R.argmax(x)) == 2
    assert R.argmax(x, keepdim=True).shape == (1, 1)


def test_dtypes_of_results() -> None:
    small = lg.tensor([100, 100, 100], dtype=lg.int8)
    assert (values(R.sum(small)), R.sum(small).dtype) == (300, lg.int64)
    assert lg.prod(lg.tensor([True])).dtype is lg.int64
    assert lg.prod(lg.tensor([True]), dtype=lg.bool).dtype is lg.bool
    assert R.sum(small, dtype=lg.int32).dtype is lg.int32
    assert R.any(lg.tensor([1, 0], dtype=lg.uint8)).dtype is lg.uint8
    assert R.all(lg.tensor([1.0, 0.0])).dtype is lg.bool


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_truth_of_bytes_is_0_or_1_also_of_one_element(shape: tuple[int, ...]) -> None:
    x = lg.full(shape, 7, dtype=lg.uint8)
    for fold in (R.any, R.all):
        for found in (fold(x), fold(x, 0), fold(x, -1, True), fold(x, ())):
            assert found.dtype is lg.uint8
            assert found.sum().item() == 1
    assert values(R.sum(lg.tensor([1.5, 1.5]), dtype=lg.int64)) == 2
    assert values(R.count_nonzero(lg.tensor([0.0, 2.0, NAN]))) == 2


def test_half_precision_does_not_overflow_on_the_way() -> None:
    x = lg.full((100_000,), 2.0, dtype=lg.float16)
    assert values(R.mean(x)) == 2.0
    assert values(S.var(x)) == 0.0
    assert values(S.norm(lg.full((4,), 300.0, dtype=lg.float16))) == 600.0


def test_ties_of_the_whole_share_and_along_a_dim_one_takes_all() -> None:
    x = [[1.0, 2.0, 2.0], [0.0, 0.0, 2.0]]
    third = 1 / 3
    np.testing.assert_allclose(slope(R.max, x), [[0, third, third], [0, 0, third]])
    assert slope(lambda t: R.amax(t, 1), x) == [[0, 0.5, 0.5], [0, 0, 1]]
    assert slope(lambda t: R.max(t, 1).values, x) == [[0, 1, 0], [0, 0, 1]]


@pytest.mark.parametrize("extreme", ["max", "min"])
def test_nan_has_the_gradient_where_it_is_the_extreme_of_all(extreme: str) -> None:
    x = lg.tensor([[1.0, NAN], [NAN, 2.0]], requires_grad=True)
    getattr(x, extreme)().backward()
    assert values(x.grad) == [[0.0, 0.5], [0.5, 0.0]]


def test_max_gives_values_and_indices() -> None:
    x = lg.tensor([[1.0, 5.0], [7.0, 2.0]])
    result = R.max(x, 1, keepdim=True)
    assert (values(result.values), values(result.indices)) == ([[5.0], [7.0]], [[1], [0]])
    assert values(R.min(lg.tensor(3.0), 0).indices) == 0
    assert values(R.max(lg.tensor([True, False]), 0).values) is True
    assert values(R.max(x, lg.tensor(4.0))) == [[4.0, 5.0], [7.0, 4.0]]


def test_product_gradient_with_zeros() -> None:
    x = [[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [4.0, 5.0, 6.0]]
    expected = [[0, 2, 0], [0, 0, 0], [30, 24, 20]]
    np.testing.assert_allclose(slope(lambda t: lg.prod(t, 1), x), expected)


def test_second_product_gradient_with_zeros() -> None:
    for row in ([2.0, 0.0, 3.0], [0.0, 2.0, 0.0, 3.0], [0.0, 0.0, 0.0], [2.0, 3.0, 5.0]):
        x = lg.tensor(row, dtype=lg.float64, requires_grad=True)
        (g,) = lg.autograd.grad(lg.prod(x), x, create_graph=True)
        weights = lg.arange(1, len(row) + 1).double()
        (got,) = lg.autograd.grad((g * weights).sum(), x)
        # The product of all but i and j, for each pair.
        others = [
            [0.0 if i == j else math.prod(row[k] for k in range(len(row)) if k not in (i, j))
             for i in range(len(row))] for j in range(len(row))
        ]  # fmt: skip
        np.testing.assert_allclose(got.numpy(), np.array(others) @ weights.numpy())


def test_gradients_where_there_is_a_kink() -> None:
    assert slope(S.norm, [0.0, 0.0]) == [0.0, 0.0]
    assert slope(S.std, [1.0, 1.0]) == [0.0, 0.0]
    assert slope(lambda t: S.norm(t, INF), [2.0, -2.0]) == [0.5, -0.5]


def test_variance_corrections() -> None:
    x = lg.tensor([1.0, 2.0, 4.0])
    array = np.array([1.0, 2.0, 4.0])
    assert math.isclose(values(S.var(x)), array.var(ddof=1), rel_tol=1e-6)
    assert math.isclose(values(S.var(x, False)), array.var(), rel_tol=1e-6)
    assert math.isclose(values(S.var(x, 0, unbiased=False)), array.var(), rel_tol=1e-6)
    assert math.isclose(values(S.var(x, correction=2)), array.var(ddof=2), rel_tol=1e-6)
    assert np.isnan(values(S.var(lg.tensor([1.0]))))
    variance, mean = S.var_mean(x)
    assert math.isclose(values(mean), array.mean(), rel_tol=1e-6)
    assert values(variance) == values(S.var(x))


def test_variance_far_from_zero_is_two_pass() -> None:
    x = lg.tensor([1e4 + 1, 1e4 + 2, 1e4 + 3])
    assert values(S.var(x)) == 1.0


def test_logsumexp_of_infinities() -> None:
    rows = lg.tensor([[-INF, -INF], [INF, 0.0], [1000.0, 1000.0]])
    np.testing.assert_allclose(values(S.logsumexp(rows, 1)), [-INF, INF, 1000 + math.log(2)])


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (IndexError, lambda: R.sum(lg.ones(2, 3), 2)),
        (RuntimeError, lambda: R.sum(lg.ones(2, 3), (0, -2))),
        (RuntimeError, lambda: R.mean(lg.tensor([1, 2]))),
        (RuntimeError, lambda: S.var(lg.tensor([1, 2]))),
        (RuntimeError, lambda: S.norm(lg.tensor([1, 2]))),
        (RuntimeError, lambda: S.norm(lg.zeros(0), INF)),
        (RuntimeError, lambda: R.argmax(lg.tensor([True]))),
    ],
)
def test_wrong_operands(error: type[Exception], call: Any) -> None:
    with pytest.raises(error):
        call()
