"""Wrong results that random programs (tests/fuzz) found, shrunk to what matters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad.graph.state import LOCAL, reference_mode
from livegrad.nn import functional as F


def array(x: Any) -> Any:
    return np.array(x.detach().to(lg.float64) if x.dtype.is_floating_point else x.detach())


def check(function: Callable[[], Any], runs: int = 2) -> None:
    """`function` gives the same compiled as with NumPy, also when its plan is used again."""
    with reference_mode():
        wanted = array(function())
    for _ in range(runs):
        np.testing.assert_allclose(array(function()), wanted, rtol=1e-5, atol=1e-6)


def numbers(*shape: int) -> Any:
    return lg.tensor(np.cos(np.arange(np.prod(shape, dtype=int)) + 0.5).reshape(shape))


def gradient(function: Callable[[Any], Any], x: Any) -> Any:
    x = x.detach().requires_grad_()
    y = function(x)
    (y * numbers(*y.shape)).sum().backward()
    return x.grad


def test_part_stored_from_loops_of_another_rank() -> None:
    # The part has one dim, the loops it is computed in have two.
    x = numbers(2, 3)
    check(lambda: lg.cat([lg.tanh(x.sum(0)), numbers(3)]).sum())
    check(lambda: lg.stack([lg.tanh(x.sum(0)).unsqueeze(0)] * 2))
    check(lambda: gradient(lambda x: lg.tanh(x[0] + 1), x))


def test_offset_known_at_run_time_is_not_added_twice() -> None:
    # A slice of a counter has no memory: its start went into the argument block of every run anew.
    x = numbers(2, 3, 5)
    check(lambda: lg.triu(x, 1)[:, :, 2:] + lg.triu(x, 1)[:, :, :3], runs=4)
    check(lambda: lg.arange(10)[3:7] * 2, runs=4)
    for start in range(4):
        check(lambda start=start: lg.arange(10)[start : start + 5] + 1)


@pytest.mark.parametrize("name", ["tril", "triu"])
def test_triangle_of_bools(name: str) -> None:
    x = numbers(2, 3) > 0
    check(lambda: getattr(lg, name)(x, 1))
    assert getattr(lg, name)(x).dtype is lg.bool


def test_part_in_a_kernel_that_folds_two_dims() -> None:
    # Folded as one, two dims of a part do not step evenly through the buffer it is stored into.
    def both() -> Any:
        y = lg.log(x * x + 0.5)
        z = lg.cat([y, y], 1)
        return z + y.sum() + z.sum()

    x = numbers(2, 3).float()
    check(both)

    def cut() -> Any:
        y = lg.log(x * x + 0.5)
        y.sum().item()
        z = lg.cat([y, y], 1)
        total = (y * 2).sum() + z.sum()
        return z + total

    check(cut)


def test_slice_from_the_start_in_a_kernel_that_folds_two_dims() -> None:
    # At offset 0 the index of a slice looks like that of the whole, but rows are longer.
    x = numbers(2, 3).float()

    def through_cat(x: Any) -> Any:
        return lg.cat([x, lg.tanh(x)], 1) * F.mse_loss(x, lg.zeros(2, 3))

    check(lambda: gradient(through_cat, x))
    y = numbers(2, 6)
    check(lambda: (y[:, :3] * 2 + 1).sum() + (y[:, :3] * 2).sum())


def test_turned_dim_in_a_column_sum_over_two_dims() -> None:
    x = numbers(1, 5)

    def stacked(x: Any) -> Any:
        y = x.expand(2, 3, 5)
        return lg.stack([y, y * 2, y.flip(0)])

    check(lambda: gradient(stacked, x))
    z = numbers(3, 4, 5)
    check(lambda: (lg.tanh(z.flip(0)) * 2 + z).sum((0, 1)))


@pytest.mark.parametrize("dtype", [lg.float16, lg.bfloat16], ids=str)
def test_half_precisions_are_rounded_after_every_op(dtype: Any) -> None:
    x = numbers(33).to(dtype)
    y = lg.cos(x)
    fused = lg.sin(lg.cos(x)) * 3 + x
    y.tolist()
    apart = lg.sin(y)
    apart.tolist()
    apart = apart * 3
    apart.tolist()
    assert fused.tolist() == (apart + x).tolist()


def test_numbers_are_not_rounded_to_half_precisions() -> None:
    x = numbers(17).to(lg.bfloat16)
    expected = (x.float() * 0.3).to(lg.bfloat16)
    assert (x * 0.3).tolist() == expected.tolist()


@pytest.mark.parametrize("most", range(8))
def test_cap_on_pending_nodes_spares_what_belongs_together(
    most: int, monkeypatch: pytest.MonkeyPatch, untranslated: None
) -> None:
    # The planner's own nodes do not count, nor do those of one backward, nor an update.
    monkeypatch.setattr(LOCAL.state, "most", most)
    x = numbers(3).requires_grad_()
    optimizer = lg.optim.SGD([x], lr=0.1)
    before = array(x)
    (lg.tanh(x) * 2).sum().backward()
    optimizer.step()
    expected = before - 0.1 * 2 * (1 - np.tanh(before) ** 2)
    np.testing.assert_allclose(array(x), expected, rtol=1e-12)


def test_tall_products_have_one_rounding() -> None:
    # Whether a batch is multiplied as one tall matrix must not depend on how it lies in memory.
    x, w = numbers(2, 3, 33).float(), numbers(33, 17).float()
    turned = x.transpose(0, 1)
    stored = turned.clone()
    stored.tolist()
    assert (turned @ w).tolist() == (stored @ w).tolist()
    check(lambda: numbers(3, 1, 5) @ numbers(5, 6))
    check(lambda: numbers(3, 4, 1) @ numbers(1, 6))


def test_long_folds_are_shared_out_and_accurate() -> None:
    values = np.random.default_rng(0).random((1 << 18, 3), np.float32)
    for x, wanted in (
        (lg.tensor(values).sum(), values.astype(np.float64).sum()),
        (lg.tensor(values).sum(0), values.astype(np.float64).sum(0)),
        (lg.tensor(values).amax(), values.max()),
        (lg.tensor(values[:, 0]).sum(), values[:, 0].astype(np.float64).sum()),
    ):
        np.testing.assert_allclose(np.asarray(x), wanted, rtol=3e-7)


@pytest.mark.parametrize("divisor", [lambda x: lg.tensor(0), lambda x: x.sum(1, keepdim=True)])
@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0, 0)])
def test_nothing_can_be_divided_by_zero(
    shape: tuple[int, ...], divisor: Callable[..., Any]
) -> None:
    # What is the same throughout a row was computed for rows without elements, too.
    for x in (lg.full(shape, 5), lg.full(shape, 5) + 1):
        quotient = x // divisor(x)
        assert quotient.sum(0).tolist() == [0] * shape[1]
        assert (x // divisor(x)).sum(1).tolist() == [0] * shape[0]
        assert quotient.shape == shape
