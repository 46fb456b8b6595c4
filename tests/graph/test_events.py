"""Events: what is told, by which names, and to whom."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import livegrad as lg
from livegrad import events, nn, optim
from livegrad.graph.events import KINDS as LISTS, NODES, Numbers
from livegrad.graph.state import flush
from livegrad.runtime.plans import forget_plans


@pytest.fixture
def heard() -> Iterator[list[Any]]:
    """All events of a test, in order."""
    flush("a test begins")  # what others have left pending
    told: list[Any] = []
    listening = [events.listen(kind, told.append) for kind in events.KINDS]
    yield told
    for one in listening:
        one.remove()


def of(kind: type, told: list[Any]) -> list[Any]:
    return [event for event in told if type(event) is kind]


@pytest.mark.usefixtures("whole_plans")
def test_a_program_is_told_from_line_to_value(heard: list[Any]) -> None:
    forget_plans()
    x = lg.ones(5, 7)
    y = (x * 3).exp().sum()
    number = y.item()
    ones, mul, exp, total = of(events.Recorded, heard)
    assert [e.op for e in (ones, mul, exp, total)] == ["full", "mul", "exp", "sum"]
    assert (mul.inputs, exp.inputs, total.inputs) == ((ones.node,), (mul.node,), (exp.node,))
    assert (exp.shape, exp.dtype, total.shape) == ((5, 7), lg.float32, ())
    assert exp.file == __file__
    (planned,) = of(events.Planned, heard)
    (ran,) = of(events.Ran, heard)
    (read,) = of(events.Read, heard)
    assert planned.nodes == ran.nodes == (ones.node, mul.node, exp.node, total.node)
    assert (ran.plan, ran.steps) == (planned.plan, planned.steps)
    assert (ran.reason, ran.hit) == ("item()", False)
    assert ran.lines == (f"test_events.py:{exp.line - 1}", f"test_events.py:{exp.line}")
    assert (read.node, read.number, read.reason) == (total.node, number, "item()")
    order = [type(e) for e in heard if type(e) is not events.Recorded]
    assert order[0] is events.Planned
    assert order[-2:] == [events.Ran, events.Read]


@pytest.mark.usefixtures("whole_plans")
def test_a_plan_found_again_has_its_number_and_steps(heard: list[Any]) -> None:
    for _ in range(3):
        lg.arange(6).float().tanh().tolist()
    first, second, third = of(events.Ran, heard)
    assert first.plan == second.plan == third.plan
    assert first.steps == third.steps
    assert [step.step for step in first.steps] == list(range(1, len(first.steps) + 1))
    assert (second.hit, third.hit) == (True, True)
    assert first.nodes != second.nodes


def test_kernels_are_told_once_by_the_name_that_steps_have(heard: list[Any]) -> None:
    forget_plans()
    (lg.ones(3).sin() + lg.ones(3).cos()).sigmoid().tolist()
    names = {step.kernel for ran in of(events.Ran, heard) for step in ran.steps}
    assert {e.kernel for e in of(events.Compiled, heard)} <= names
    assert all(e.seconds >= 0 for e in of(events.Compiled, heard))


NAMES = """
import json, livegrad as lg
told = []
lg.events.listen("compiled", told.append)
lg.softmax(lg.ones(3, 4).exp(), 1).tolist()
print(json.dumps([e.kernel for e in told]))
"""


def test_kernels_have_the_same_names_in_other_processes(python: Any) -> None:
    first, second = [json.loads(python(NAMES).stdout) for _ in range(2)]
    assert first == second != []


def test_numbers_of_values_are_not_used_again() -> None:
    seen = set()
    for _ in range(100):
        x = lg.ones(1)
        number = NODES[x._node]
        assert number == NODES[x._node]
        assert number not in seen
        seen.add(number)


def test_numbers_do_not_depend_on_who_asks_first() -> None:
    nodes = [lg.ones(1)._node for _ in range(200)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: [NODES[node] for node in nodes], range(4)))
    assert all(numbers == found[0] for numbers in found)
    assert len(set(found[0])) == 200


def test_arrays_are_reads_too(heard: list[Any]) -> None:
    x = lg.ones(2, 2)
    x.tolist(), x.numpy(), repr(x), bool(x[0, 0])
    reads = of(events.Read, heard)
    assert [(e.reason, e.number) for e in reads] == [
        ("tolist()", None),
        ("numpy()", None),
        ("print", None),
        ("bool()", 1.0),
    ]


@pytest.mark.usefixtures("whole_plans")
def test_a_training_step_that_repeats(heard: list[Any]) -> None:
    net = nn.Linear(3, 2)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    x = lg.ones(4, 3)
    for _ in range(5):
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()
    runs = of(events.Ran, heard)
    assert {ran.reason for ran in runs[1:]} == {"optimizer.step()"}
    assert len({ran.plan for ran in runs[2:]}) == 1
    assert all(ran.nodes for ran in runs)


def test_listeners_may_compute() -> None:
    """What they do does not mix with the program, and is not told."""
    told: list[float] = []

    def compute(event: Any) -> None:
        told.append((lg.ones(3) * 2).sum().item())

    with events.listen("recorded", compute), events.listen("ran", compute):
        y = lg.zeros(4) + 1
        z = y.cos()
        assert y.sum().item() == 4.0
        assert told == [6.0] * 5
    assert z.tolist() == lg.ones(4).cos().tolist()
    assert len(told) == 5


def test_removing() -> None:
    before = {kind: len(listeners) for kind, listeners in LISTS.items()}
    told: list[Any] = []
    listening = events.listen("read", told.append)
    lg.ones(1).item()
    listening.remove()
    listening.remove()
    lg.ones(1).item()
    assert len(told) == 1
    assert {kind: len(listeners) for kind, listeners in LISTS.items()} == before


def test_nobody_listens_by_itself() -> None:
    assert not any(LISTS[kind] for kind in ("recorded", "planned", "compiled", "ran"))


def test_an_error_of_a_listener_comes_at_the_line() -> None:
    def refuse(event: Any) -> None:
        raise LookupError(event.op)

    with events.listen("recorded", refuse), pytest.raises(LookupError, match="exp"):
        lg.tensor([1.0]).exp()
    assert lg.ones(2).exp().shape == (2,)


def test_unknown_kinds() -> None:
    with pytest.raises(ValueError, match="unknown kind 'run'; there are recorded, planned"):
        events.listen("run", print)


def test_values_are_not_kept_by_events(heard: list[Any]) -> None:
    import gc
    import weakref

    x = lg.ones(8) + 1
    x.tolist()
    gone = weakref.ref(x._node)
    del x
    gc.collect()
    assert gone() is None


def test_a_number_is_not_given_again_after_an_interrupt_in_a_destructor() -> None:
    """Ctrl-C while an object dies is swallowed, and so is what was to be done about its death."""

    class Thing:
        pass

    def interrupt(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            raise KeyboardInterrupt

    numbers = Numbers()
    things = [Thing() for _ in range(100)]
    given = {numbers[thing] for thing in things}
    hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        while things:
            sys.setprofile(interrupt)
            try:
                del things[-1]
            except KeyboardInterrupt:
                pass
            finally:
                sys.setprofile(None)
    finally:
        sys.unraisablehook = hook
    others = [Thing() for _ in range(100)]  # at the addresses of the first
    assert not given & {numbers[thing] for thing in others}
