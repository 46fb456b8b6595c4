"""The verifier notices graphs, groups and arenas that are wrong."""

from __future__ import annotations

import pytest

import livegrad as lg
from livegrad.compiler import verify
from livegrad.compiler.expand import Recorded, expand
from livegrad.compiler.fuse import fuse
from livegrad.compiler.legalise import legalise
from livegrad.compiler.place import Life
from livegrad.graph.state import LOCAL


@pytest.fixture
def graph():
    x = lg.tensor([[1.0, 2.0], [3.0, 4.0]])
    y = (x.exp() * 2).sum(1)
    recorded = Recorded(list(LOCAL.state.nodes), [x._node], [len(LOCAL.state.nodes) - 1])
    yield expand(recorded)
    assert y.tolist()


def test_good_passes_are_accepted(graph):
    verify.check_graph("expand", graph)
    legal = legalise(graph)
    verify.check_legal(legal)
    verify.check_groups(*fuse(legal))


def test_a_node_before_its_input(graph):
    graph.nodes[1], graph.nodes[2] = graph.nodes[2], graph.nodes[1]
    with pytest.raises(AssertionError, match="is numbered"):
        verify.check_graph("expand", graph)
    for place, node in enumerate(graph.nodes):
        node.index = place
    with pytest.raises(AssertionError, match="does not come before it"):
        verify.check_graph("expand", graph)


def test_a_reduction_that_drops_dims(graph):
    with pytest.raises(AssertionError, match="drops the dims it folds"):
        verify.check_legal(graph)


def test_a_group_before_what_it_depends_on(graph):
    groups, fuser = fuse(legalise(graph))
    groups[0].before |= 1 << groups[0].number
    with pytest.raises(AssertionError, match="runs before what it depends on"):
        verify.check_groups(groups, fuser)


def test_a_node_in_no_group(graph):
    groups, fuser = fuse(legalise(graph))
    groups[0].members.clear()
    with pytest.raises(AssertionError, match="is in no group"):
        verify.check_groups(groups, fuser)


def test_values_that_overlap(graph):
    node = graph.nodes[0]
    first, second = Life(node, 100, 0, 2), Life(node, 100, 1, 3, offset=64)
    with pytest.raises(AssertionError, match="overlaps"):
        verify.check_arena([first, second], 256)
    second.first = 3
    verify.check_arena([first, second], 256)
    with pytest.raises(AssertionError, match="reaches past"):
        verify.check_arena([first, second], 128)
