"""Operands that overlap with what is written."""

from __future__ import annotations

import pytest
from overlap_programs import FILLED_CONJUGATES, FINE, REFUSED

import livegrad as lg


@pytest.mark.parametrize("program", REFUSED)
def test_refused(program):
    b = lg.arange(6.0)
    with pytest.raises(RuntimeError, match="some elements of the input tensor"):
        exec(program, {"b": b, "T": lg})
    assert b.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize("program", FINE)
def test_fine(program):
    exec(program, {"b": lg.arange(6.0), "T": lg})


def test_each_element_read_where_it_is_written():
    b = lg.arange(6.0)
    b[1:].add_(b[1:])
    assert b.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]


def test_memory_that_is_shared_with_numpy():
    b = lg.arange(6.0)
    array = b.numpy()
    with pytest.raises(RuntimeError, match="some elements of the input tensor"):
        b[1:].add_(b[:-1])
    assert array.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_an_index_that_is_written():
    mask = lg.tensor([True, False, True])
    with pytest.raises(RuntimeError, match="single memory location"):
        mask.index_put_((mask,), lg.tensor([False, True]))
    mask.index_put_((mask,), lg.tensor(False))  # which fills
    assert mask.tolist() == [False] * 3


@pytest.mark.parametrize("program", FILLED_CONJUGATES)
def test_conjugates_of_what_is_expanded(program):
    exec(program.replace(".conj()", ""), {"b": lg.arange(6.0), "T": lg})
    with pytest.raises(RuntimeError, match="more than one element"):
        exec(program, {"b": lg.arange(6.0), "T": lg})
