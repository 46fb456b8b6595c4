"""Why something was planned: what changed against the plan that is most like it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import livegrad as lg
from livegrad import events
from livegrad.runtime.plans import forget_plans
from livegrad.runtime.sight import Policy


@pytest.fixture(autouse=True)
def whole_plans(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(Policy, "whole", True)
    forget_plans()
    yield
    forget_plans()


def program(x: Any, dim: int = 0, extra: bool = False) -> Any:
    y = x.exp() * 2
    if extra:
        y = y.tanh()
    return y.sum(dim)


def why(*runs: Callable[[], Any]) -> str:
    """What is said of the last plan that was made."""
    told: list[str] = []
    for run in runs:
        with events.listen("planned", lambda event: told.append(event.why)):
            result = run()
            result.tolist()
    return told[-1]


def x(*shape: int, **options: Any) -> Any:
    made = lg.ones(*shape, **options)
    made.tolist()
    return made


def test_the_first() -> None:
    assert why(lambda: lg.ones(3).exp()) == "the first plan"


@pytest.mark.parametrize(
    ("first", "then", "said"),
    [
        (lambda: program(x(3, 4)), lambda: program(x(3, 7)), "the shape of exp at test_misses.py"),
        (lambda: program(x(3, 4)), lambda: program(x(3, 4, dtype=lg.float64)), "dtype of exp"),
        (lambda: program(x(4, 4)), lambda: program(x(4, 4), dim=1), "the constant of sum"),
        (lambda: program(x(3, 4)), lambda: program(x(3, 4), extra=True), "tanh came in at test_mi"),
        (lambda: program(x(3, 4), extra=True), lambda: program(x(3, 4)), "tanh went out"),
    ],
)
def test_what_changed(first: Any, then: Any, said: str) -> None:
    found = why(first, then)
    assert said in found
    assert "compared with plan" in found


def test_a_shape_is_told_with_what_it_was() -> None:
    found = why(lambda: program(x(3, 4)), lambda: program(x(3, 7)))
    assert "from [3, 4] to [3, 7]; 2 more values like this (compared" in found


def test_another_value_is_kept() -> None:
    kept = []

    def keeping() -> Any:
        y = x(3, 4).exp()
        kept.append(y)
        return y.sum()

    found = why(lambda: x(3, 4).exp().sum(), keeping)
    assert "the value of exp at test_misses.py" in found
    assert "is kept now" in found


def test_the_graph_says_it() -> None:
    with lg.watch() as watching:
        program(x(3, 4)).tolist()
        program(x(3, 9)).tolist()
    last = watching.graph(len(watching.steps) - 1)
    assert "from [3, 4] to [3, 9]" in last.why(0)
