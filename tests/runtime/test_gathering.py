"""Graphs that backward is going to walk gather longer than other nodes before they are flushed."""

from __future__ import annotations

import numpy as np
import pytest

import livegrad as lg
from livegrad.graph.state import LOCAL, MOST_PENDING_NODES
from livegrad.runtime import sight
from livegrad.runtime.cpu.pieces import making
from livegrad.runtime.gathering import MOST_GATHERED, Gathering, is_short

LONG = MOST_PENDING_NODES + 1000


@pytest.fixture(autouse=True)
def by_pieces(monkeypatch):
    monkeypatch.setattr(sight.Policy, "pieces", True)
    monkeypatch.setattr(Gathering, "allowed", True)


def weight(size=6):
    return lg.tensor(np.linspace(-1, 1, size, dtype=np.float32), requires_grad=True)


def chain(w, nodes):
    """A graph of so many nodes, and how many of them were ever pending."""
    x, most = w, 0
    for _ in range(nodes // 2):
        x = (x * w) + 0.5
        most = max(most, len(LOCAL.state.nodes))
    return x, most


def gradient(nodes):
    w = weight()
    x, most = chain(w, nodes)
    x.sum().backward()
    return w.grad.numpy().tobytes(), most


def test_a_graph_gathers_and_has_the_same_bits(monkeypatch):
    gradient(64)  # its families are known
    long, most = gradient(LONG)
    assert most >= LONG - 2
    monkeypatch.setattr(Gathering, "allowed", False)
    cut, most = gradient(LONG)
    assert most <= MOST_PENDING_NODES + 1
    assert long == cut


def test_what_is_no_graph_does_not_gather():
    with lg.no_grad():
        chain(weight(), 64)[0].sum().item()
        _, most = chain(weight(), LONG)
    assert most <= MOST_PENDING_NODES + 1


def test_sizes_that_are_new_gather():
    gradient(64)
    _, most = chain(weight(size=13), LONG)  # no other test has this size
    assert most >= LONG - 2


def test_what_is_to_be_learnt_does_not_gather(monkeypatch):
    gradient(64)
    monkeypatch.setattr(making, "is_on", lambda: False)  # nor is it on disk
    x = w = weight().view(1, 2, 1, 3)
    most = 0
    for _ in range(LONG // 2):
        x = (x * w).flip((0, 2, 3))  # nobody else does
        most = max(most, len(LOCAL.state.nodes))
    assert most <= MOST_PENDING_NODES + 1


def test_what_gathers_is_bounded():
    gradient(64)
    _, most = chain(weight(), MOST_GATHERED + 3 * MOST_PENDING_NODES)
    assert MOST_GATHERED - MOST_PENDING_NODES < most <= MOST_GATHERED + 1


def test_long_structures_that_repeat_are_cut():
    assert is_short(MOST_PENDING_NODES)
    assert Gathering.allowed
    assert not is_short(LONG)
    assert not Gathering.allowed
    gradient(64)
    assert gradient(LONG)[1] <= MOST_PENDING_NODES + 1
