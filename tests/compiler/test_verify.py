"""The verifier notices graphs, groups and arenas that are wrong."""

from __future__ import annotations

import pytest

import livegrad as lg
from livegrad.compiler import verify
from livegrad.compiler.draft import Draft
from livegrad.compiler.expand import Recorded, expand
from livegrad.compiler.fuse import fuse
from livegrad.compiler.legalise import legalise
from livegrad.compiler.pipeline import PASSES
from livegrad.compiler.plan import Life
from livegrad.graph.state import LOCAL


@pytest.fixture
def draft():
    x = lg.tensor([[1.0, 2.0], [3.0, 4.0]])
    y = (x.exp() * 2).sum(1)
    recorded = Recorded(list(LOCAL.state.nodes), [x._node], [len(LOCAL.state.nodes) - 1])
    draft = Draft(recorded)
    draft.graph = expand(recorded)
    yield draft
    assert y.tolist()


def fused(draft):
    draft.groups, draft.fuser = fuse(legalise(draft.graph))


def test_good_passes_are_accepted(draft):
    verify.check_expanded(draft)
    for each in PASSES[1:]:
        each.run(draft)
        each.check(draft)


def test_a_node_before_its_input(draft):
    graph = draft.graph
    graph.nodes[1], graph.nodes[2] = graph.nodes[2], graph.nodes[1]
    with pytest.raises(AssertionError, match="is numbered"):
        verify.check_expanded(draft)
    for place, node in enumerate(graph.nodes):
        node.index = place
    with pytest.raises(AssertionError, match="does not come before it"):
        verify.check_expanded(draft)


def test_a_reduction_that_drops_dims(draft):
    with pytest.raises(AssertionError, match="drops the dims it folds"):
        verify.check_legal(draft)


def test_a_group_before_what_it_depends_on(draft):
    fused(draft)
    groups = draft.groups
    groups[0].before |= 1 << groups[0].number
    with pytest.raises(AssertionError, match="runs before what it depends on"):
        verify.check_groups(draft)


def test_a_node_in_no_group(draft):
    fused(draft)
    groups = draft.groups
    groups[0].members.clear()
    with pytest.raises(AssertionError, match="is in no group"):
        verify.check_groups(draft)


def test_values_that_overlap():
    first, second = Life(100, 0, 2), Life(100, 1, 3, offset=64)
    with pytest.raises(AssertionError, match="overlaps"):
        verify.check_lives([first, second], 256)
    second.first = 3
    verify.check_lives([first, second], 256)
    with pytest.raises(AssertionError, match="reaches past"):
        verify.check_lives([first, second], 128)
