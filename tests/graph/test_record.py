"""What waits for a flush: no more than the program can see, and nothing for Python's collector."""

import contextlib
import functools
import gc
import weakref
from collections.abc import Iterator

import pytest

import livegrad as lg
from livegrad.graph.node import CYCLES
from livegrad.graph.record import _SWEPT
from livegrad.graph.state import LOCAL, flush
from livegrad.graph.watch import BLAMING
from livegrad.runtime.speedup import Speedup


@pytest.fixture(autouse=True)
def nothing_pending():
    flush("test")


def record_many(x):
    for _ in range(2 * _SWEPT):
        x = x + 1
    return x


def test_a_tensor_that_was_dropped_does_not_wait_for_the_flush():
    x = lg.zeros(2)
    dropped = x * 2
    seen = weakref.ref(dropped)
    del dropped
    record_many(x)
    assert LOCAL.state.nodes
    assert seen() is None


def test_a_tensor_that_somebody_holds_gets_its_value():
    x = lg.ones(2)
    held = [x * i for i in range(_SWEPT)]
    last = record_many(x)
    assert [h.tolist() for h in held] == [[float(i)] * 2 for i in range(_SWEPT)]
    assert last.tolist() == [1.0 + 2 * _SWEPT] * 2


def test_a_dropped_whole_is_written_through_its_view():
    whole = lg.zeros(4) + 1
    part = whole[1:3]
    del whole
    record_many(lg.zeros(2))
    part += 5
    assert part.tolist() == [6.0, 6.0]


def test_a_write_that_is_refused_is_taken_back_after_tensors_were_dropped():
    x, places = lg.zeros(4) + 1, lg.arange(6) + 0
    record_many(lg.zeros(2))
    x[places] = 3.0  # known only when it is computed
    with pytest.raises(IndexError):
        x.tolist()
    assert x.tolist() == [1.0] * 4


def test_the_collector_need_not_look_at_nodes(monkeypatch):
    monkeypatch.setattr(CYCLES, "are_possible", False)
    y = lg.ones(2, requires_grad=True) * 2
    # Python's own functions cannot tell it.
    assert gc.is_tracked(y._node) == gc.is_tracked(y._node.inputs) == (not Speedup.made)
    assert gc.is_tracked(y)


def test_a_hook_that_refers_to_its_graph_is_collected():
    x = lg.ones(2, requires_grad=True)
    x.register_hook(lambda g: g)  # from now on there may be cycles
    y = x * 2
    y.register_hook(functools.partial(print, y * 3))
    seen = weakref.ref(y)
    del y
    flush("test")
    gc.collect()
    assert seen() is None


def test_a_line_is_never_one_of_pythons_that_only_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BLAMING, "enabled", True)

    @contextlib.contextmanager
    def around() -> Iterator[lg.Tensor]:
        yield lg.ones(3)

    with around() as x:
        y = x * 2  # what a generator of the user's records has the user's line
    assert x._node.site[0].co_filename == __file__
    assert y._node.site[0].co_filename == __file__
    layer = lg.nn.Linear(2, 2)
    optimizer = lg.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        layer(lg.ones(1, 2)).sum().backward()
        found = []
        with lg.events.listen("recorded", lambda e: found.append((e.op, e.file))):  # noqa: B023
            # Gradients are asked about within a context of livegrad's own.
            lg.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        optimizer.step()
    assert "finite" in dict(found)
    assert {file for _, file in found} == {__file__}
