"""What another process is told of structures, for it to make a plan for any size."""

from __future__ import annotations

import json

import pytest

import livegrad as lg
from livegrad.runtime import aside, resizing, sight
from livegrad.runtime.counters import counters
from livegrad.runtime.structure import Structure, read_structure


class Given:
    """Stands for the process: what it was given."""

    tasks: list[bytes] = []  # noqa: RUF012
    over = False

    def __init__(self, source: str, given: bytes) -> None:
        Given.tasks.append(given)

    def is_over(self) -> bool:
        return Given.over


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    sight.forget()
    monkeypatch.setattr(sight.Policy, "patience", 0.0)
    monkeypatch.setattr(sight, "is_to_be_had", lambda: True)
    monkeypatch.setattr(aside, "Task", Given)
    monkeypatch.setattr(aside, "_BEGUN", [])
    monkeypatch.setattr(Given, "tasks", [])
    monkeypatch.setattr(Given, "over", False)
    return Given.tasks


def step(rows: int, columns: int) -> None:
    """Forward and backward, with numbers of both kinds."""
    w = lg.ones(7, columns, requires_grad=True)
    x = lg.arange(rows * 7, dtype=lg.float32).reshape(rows, 7)
    loss = (lg.relu(x @ w) * 0.5)[1:].softmax(1).sum()
    loss.backward()
    w.grad.sum().item()


def test_it_is_told_of_some_sizes_and_makes_a_plan_for_all(given, monkeypatch):
    planned = counters.plan_misses
    for n in range(aside.EXAMPLES + 4):
        step(10 + n, 30 + n)
    assert counters.plan_misses == planned, "something was planned here"
    assert len(given) == 1
    examples = [read_structure(told) for told in json.loads(given[0])]
    assert len({x.text() for x in examples}) == aside.EXAMPLES
    (text,) = {x.text_without_sizes() for x in examples}
    assert text is not None

    stored = []
    monkeypatch.setattr(
        resizing,
        "store_for_sizes",
        lambda recorded, plan, mould: stored.append((Structure(recorded), mould)),
    )
    resizing.store_from([x.recorded() for x in examples])
    ((structure, mould),) = stored
    assert structure.text_without_sizes() == text
    assert mould.steps


def test_what_comes_to_nothing_is_not_tried_again(given, monkeypatch):
    looks = []
    monkeypatch.setattr(sight, "recall_for_sizes", lambda snapshot: bool(looks.append(1)))
    for n in range(aside.EXAMPLES + 2):
        step(10 + n, 30 + n)
    Given.over = True
    before = len(looks)
    for n in range(20, 24):
        step(n, n + 50)
    assert len(given) == 1
    assert len(looks) - before <= 2


def test_structures_in_which_other_sizes_are_equal_are_told_apart(given):
    for n in range(aside.EXAMPLES + 2):
        step(10 + n, 30 + n)
        step(10 + n, 10 + n)
    assert len(given) == 1
    structures = [read_structure(told) for told in json.loads(given[0])]
    assert len({x.text_without_sizes() for x in structures}) == 1


def test_a_program_begins_only_so_many_processes(given, monkeypatch):
    monkeypatch.setattr(aside, "_MOST_RUNNING", 2)
    monkeypatch.setattr(aside, "_MOST_BEGUN", 3)
    monkeypatch.setattr(Given, "over", False)
    for ones in range(6):  # another structure each
        for n in range(aside.EXAMPLES + 4):
            x = lg.arange(10.0 + n, requires_grad=True)
            y = x
            for _ in range(ones + 2):
                y = lg.sin(y)
            y.sum().backward()
            x.grad.sum().item()
        if ones == 3:
            assert len(given) == 2, "as many as may run at a time"
            Given.over = True
    assert len(given) == 3
