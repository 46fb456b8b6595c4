"""The numbers of nodes: no two states share one, and they do not run out."""

import threading

import pytest

import livegrad as lg
from livegrad.func import grad, vmap
from livegrad.graph.state import LOCAL, Ranges, State, scratch_state


@pytest.fixture
def nearly_used_up(monkeypatch):
    """Three more ranges may be made; none is left over from what ran before."""
    monkeypatch.setattr(Ranges, "left", [])
    monkeypatch.setattr(Ranges, "made", Ranges.most - 3)


def test_vmap_can_be_called_any_number_of_times(nearly_used_up):
    x = lg.tensor([1.0, 2.0, 3.0])
    for _ in range(20):
        assert vmap(grad(lambda v: v * v))(x).tolist() == [2.0, 4.0, 6.0]


def test_plans_can_be_made_any_number_of_times(nearly_used_up):
    for n in range(2, 20):
        assert lg.softmax(lg.zeros(n), 0).sum().item() == pytest.approx(1)


def test_threads_can_be_started_any_number_of_times(nearly_used_up):
    results = []
    for i in range(20):
        thread = threading.Thread(target=lambda i=i: results.append((lg.ones(2) * i).tolist()))
        thread.start()
        thread.join()
    assert results == [[float(i)] * 2 for i in range(20)]


def test_more_states_at_once_than_there_are_numbers_are_refused(monkeypatch):
    monkeypatch.setattr(Ranges, "left", [])
    monkeypatch.setattr(Ranges, "made", Ranges.most - 1)
    first = State()
    with pytest.raises(RuntimeError, match="threads record at once"):
        State()
    del first
    State()


def test_numbers_of_scratch_states_are_not_used_again():
    outer = LOCAL.state.position
    used = set()
    for _ in range(3):
        with scratch_state() as state:
            made = [lg.ones(2) + 1 for _ in range(4)]
            indices = {x._node.index for x in made}
            assert not indices & used
            used |= indices
            with scratch_state():
                inner = lg.ones(2) + 1
                assert inner._node.index not in used
            assert state.nodes[-1] is made[-1]._node
    assert LOCAL.state.position == outer


def test_a_range_that_is_used_up_is_left(monkeypatch):
    state = LOCAL.state
    lg.ones(2).tolist()
    fields = state.fields()
    monkeypatch.setattr(state, "limit", state.base + Ranges.least)
    try:
        y = lg.ones(2) + 1
        assert y.tolist() == [2.0, 2.0]
        assert state.limit - state.base >= Ranges.least
        assert (y + 1).tolist() == [3.0, 3.0]
    finally:
        state.put_back(fields)
