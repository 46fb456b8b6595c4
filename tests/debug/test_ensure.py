"""Assertions about values: checked with the flush, with the user's line, for next to nothing."""

from __future__ import annotations

from typing import Any

import pytest

import livegrad as lg
import livegrad.nn as nn
from livegrad.debug import EnsureError


def positive(x: Any) -> Any:
    lg.ensure(x > 0, "x must be positive")
    return x.log()


@pytest.mark.parametrize("times", [1, 40])
def test_the_error_comes_with_the_flush(times: int) -> None:
    for _ in range(times):
        assert positive(lg.ones(3) + 1).sum().item() == pytest.approx(2.0794415)
    y = positive(lg.tensor([1.0, -1.0]))
    with pytest.raises(EnsureError, match="x must be positive.*test_ensure.py:15"):
        y.sum().item()
    assert positive(lg.ones(3)).sum().item() == 0.0  # what failed is forgotten


def test_nothing_is_flushed_and_all_is_one_plan() -> None:
    before = lg.stats().flushes
    x = lg.ones(4)
    for i in range(5):
        lg.ensure(x.sum() < 100, f"step {i}")
        x = x * 1.5
    assert lg.stats().flushes == before
    x.sum().item()
    assert lg.stats().flushes == before + 1


def test_a_step_that_fails_updates_nothing() -> None:
    p = nn.Parameter(lg.ones(2))
    optimizer = lg.optim.SGD([p], lr=0.1)
    (p * p).sum().backward()
    lg.ensure(p.grad < 1, "the gradient is large")
    with pytest.raises(EnsureError, match="the gradient is large"):
        optimizer.step()
    assert p.tolist() == [1.0, 1.0]


def test_numbers_and_other_dtypes() -> None:
    lg.ensure(True)
    lg.ensure(lg.tensor([1, 2, 3]))
    lg.ensure(lg.ones(0) > 0)
    with pytest.raises(EnsureError, match="does not hold"):
        lg.ensure(0)
    lg.ensure(lg.tensor([1.0, 0.0]), "a float")
    with pytest.raises(AssertionError, match="a float"):
        lg.ones(1).sum().item()
    with lg.no_grad():
        lg.ensure(lg.ones(2, requires_grad=True) > 0)
    lg.ones(1).add(1).sum().item()
