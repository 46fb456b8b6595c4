"""An element of a computed tensor is read where it lies: nothing is run for it."""

from __future__ import annotations

import numpy as np
import pytest

import livegrad as lg
from livegrad.graph.state import LOCAL
from livegrad.runtime import at_once

DTYPES = ["bool", "uint8", "int32", "int64", "float16", "float32", "float64"]


@pytest.fixture(autouse=True)
def not_now(monkeypatch):
    """Now and then an element is computed all the same; not in these tests."""
    monkeypatch.setattr(at_once._READS, "count", 0)


def flushes() -> int:
    return lg.stats().flushes


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_element_is_what_it_is(dtype):
    values = np.random.default_rng(0).uniform(0, 3, (2, 3, 5)).astype(dtype)
    x = lg.tensor(values)
    for place in np.ndindex(values.shape):
        assert x[place].item() == values[place]
        assert x[place[0]][place[1:]].item() == values[place]


def test_nothing_is_run_nor_left_pending():
    x, before = lg.tensor([[1.0, 2.0], [3.0, 4.0]]), flushes()
    assert [x[1, 0].item(), float(x[0, -1]), int(x[1, 1]), bool(x[0, 0])] == [3.0, 2.0, 4, True]
    assert flushes() == before
    assert not LOCAL.state.nodes


def test_what_else_is_pending_stays_so():
    x = lg.tensor([1.0, 2.0])
    y, before = x * 3, flushes()
    assert x[1].item() == 2.0
    assert flushes() == before
    assert y.tolist() == [3.0, 6.0]


def test_the_element_is_a_tensor_like_any_other():
    x = lg.tensor([1.0, 2.0, 3.0])
    element = x[1]
    assert element.item() == 2.0
    assert ((element + 1) * x).tolist() == [3.0, 6.0, 9.0]
    x[1] = 5.0
    assert element.item() == 5.0
    element.add_(1)
    assert x.tolist() == [1.0, 6.0, 3.0]


def test_what_is_pending_is_computed_first():
    x = lg.tensor([1.0, 2.0, 3.0])
    x += 1
    assert x[2].item() == 4.0
    element, other = x[0], x * 2
    assert element.item() == 2.0
    assert other.tolist() == [4.0, 6.0, 8.0]


def test_gradients_flow_through_an_element_that_was_read():
    x = lg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    element = x[1]
    assert element.item() == 2.0
    (element * element).backward()
    assert x.grad.tolist() == [0.0, 4.0, 0.0]


def test_a_program_that_only_reads_flushes_now_and_then():
    x, before = lg.tensor([1.0, 2.0]), flushes()
    for _ in range(2 * at_once._BETWEEN_FLUSHES):
        assert x[1].item() == 2.0
    assert flushes() == before + 2
