"""Writes through views of views: `x[i][0][k] = 1` changes memory at once, and nothing else."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad.graph.state import LOCAL


def pending() -> list[str]:
    return [node.spec.op.name for node in LOCAL.state.nodes]


@pytest.fixture(autouse=True)
def nothing_pending() -> None:
    lg.zeros(1).add(1).item()


def test_a_table_that_is_filled_in_element_by_element_records_nothing() -> None:
    x = lg.zeros(9, 1, 57)
    for i in range(9):
        x[i][0][7 * i % 57] = 1
    assert pending() == ["full"]  # of which nobody needs anything
    expected = np.zeros((9, 1, 57), "f")
    for i in range(9):
        expected[i, 0, 7 * i % 57] = 1
    assert np.array_equal(x.numpy(), expected)
    assert x._version == 9


def test_what_was_computed_from_a_view_before_keeps_the_old_value() -> None:
    x = lg.arange(12.0).reshape(3, 4).clone()
    x.sum().item()
    row = x[1]
    double = row * 2
    row[0] = 100
    assert double.tolist() == [8, 10, 12, 14]
    assert row.tolist() == [100, 5, 6, 7]
    assert x[1].tolist() == [100, 5, 6, 7]


def test_a_view_that_is_kept_is_written_again_and_again() -> None:
    x = lg.zeros(3, 4)
    row = x[2]
    for k in range(4):
        row[k] = k + 1
    assert pending() == ["full"]
    assert row.tolist() == [1, 2, 3, 4]
    assert x.tolist()[2] == [1, 2, 3, 4]
    assert row._version == x._version == 4


@pytest.mark.parametrize("shown", [lambda x: x.data, lambda x: x.detach(), lambda x: x.data.data])
def test_what_is_known_is_written_through_a_detached_tensor_at_once(shown: Any) -> None:
    x, part = lg.zeros(3, 4), lg.ones(3)
    x.sum().item() + part.sum().item()
    for k in range(3):
        shown(x)[:, k] = part
        shown(x)[k, 3] = 2
    assert pending() == []
    assert x.tolist() == [[1, 1, 1, 2]] * 3


def test_detached_tensors_that_are_kept_count_and_see_what_is_written_at_once() -> None:
    x, part = lg.zeros(2), lg.ones(())
    x.sum().item() + part.item()
    data, other, same = x.data, x.data, x.detach()
    before = data * 10
    data[0] = 5
    x.data[1] = part
    same[0] = same[0] + 1
    assert data.tolist() == other.tolist() == same.tolist() == x.tolist() == [6, 1]
    assert (data._version, other._version, same._version, x._version) == (1, 0, 1, 1)
    assert before.tolist() == [0, 0]


def test_a_view_that_requires_a_gradient_is_not_written() -> None:
    row = lg.zeros(3, 4)[1].requires_grad_()
    with pytest.raises(RuntimeError):
        row[0] = 1


def test_a_part_of_what_requires_a_gradient_is_recorded() -> None:
    w = lg.ones(3, 4, requires_grad=True)
    x = w * 1
    x[1][2] = 5
    x.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [[1, 1, 1, 1], [1, 1, 0, 1], [1, 1, 1, 1]]


class _Both:
    """A program on tensors and on NumPy's arrays, whose views mean the same."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        start = np.arange(60.0, dtype="f").reshape(3, 4, 5)
        whole: Any = lg.tensor(start) if self.chance.random() < 0.5 else lg.zeros(3, 4, 5)
        array = start.copy() if whole._node.buffer is not None else np.zeros((3, 4, 5), "f")
        self.views: list[tuple[Any, Any]] = [(whole, array)]
        self.copies: list[tuple[Any, Any]] = []

    def key(self, size: int) -> Any:
        if self.chance.random() < 0.6:
            return self.chance.randrange(-size, size)
        first = self.chance.randrange(size)
        return slice(first, self.chance.randrange(first, size) + 1)

    def look(self) -> tuple[Any, Any]:
        """Some view of a view, each time by another way."""
        x, y = self.chance.choice(self.views)
        for _ in range(self.chance.randrange(3)):
            if y.ndim > 1:
                key = self.key(y.shape[0])
                x, y = x[key], y[key]
            elif self.chance.random() < 0.5:
                x = x.data if self.chance.random() < 0.5 else x.detach()
        return x, y

    def step(self) -> None:
        what = self.chance.random()
        x, y = self.look()
        if what < 0.5:
            key, value = self.key(y.shape[0]), float(self.chance.randrange(100))
            x[key] = value
            y[key] = value
        elif what < 0.65:
            self.views.append((x, y))
        elif what < 0.75:
            self.copies.append((x * 2, y * 2))
        elif what < 0.85 and len(self.views) > 1:
            self.views.pop(self.chance.randrange(1, len(self.views)))
        elif what < 0.95:
            assert np.array_equal(x.numpy().copy(), y)
        else:
            self.check()

    def check(self) -> None:
        for x, y in self.views + self.copies:
            assert x.tolist() == y.tolist()


@pytest.mark.parametrize("seed", range(60))
def test_random_writes_through_views_are_those_of_numpy(seed: int) -> None:
    both = _Both(seed)
    for _ in range(60):
        both.step()
    both.check()
