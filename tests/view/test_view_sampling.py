"""Watching in full costs time: of short steps only some are watched so."""

from __future__ import annotations

import time

import livegrad as lg
from livegrad.view.budget import Budget
from livegrad.view.sampling import FIRST, SHARE, Sampler
from tests.view.networks import Net, train


def shares(full: int, bare: int, steps: int = 3000) -> tuple[float, float]:
    """Of steps that take so long with and without being watched: how many are, and the cost."""
    sampler, is_full, watched = Sampler(), True, 0
    for _ in range(steps):
        watched += is_full
        is_full = sampler.next_is_full(is_full, full if is_full else bare)
    return watched / steps, watched * (full - bare) / (steps * bare)


def test_long_steps_are_all_watched() -> None:
    watched, cost = shares(10_100_000, 10_000_000)
    assert watched > 0.9
    assert cost < SHARE


def test_short_steps_now_and_then() -> None:
    watched, cost = shares(150_000, 30_000, 30_000)
    assert 0 < watched < 0.05
    assert cost < 2 * SHARE


def test_the_first_and_those_asked_for_are_watched() -> None:
    sampler = Sampler()
    assert all(sampler.next_is_full(True, 1000) for _ in range(FIRST - 1))
    assert not sampler.next_is_full(True, 1000)
    sampler.ask(2)
    assert [sampler.next_is_full(False, 10) for _ in range(2)] == [True, True]


def test_steps_that_are_not_watched_have_times_and_curves() -> None:
    net = Net()
    with lg.watch() as watching:
        watching.recorder.sampler.next_is_full = lambda *step: False  # type: ignore[method-assign]
        train(net, 5)
    assert [step.is_full for step in watching.steps] == [True, False, False, False, False]
    assert all(step.ended > step.started for step in watching.steps)
    (points,) = watching.recorder.curves.values()
    assert [number for number, _ in points] == [0, 1, 2, 3, 4]
    assert watching.graph().title == "step 0"


def test_long_steps_after_short_ones_are_watched_soon() -> None:
    """What short ones owe is time, not a number of steps."""
    sampler = Sampler()
    is_full = True
    for _ in range(200):
        is_full = sampler.next_is_full(is_full, 40_000 if is_full else 20_000)
    waited = 0
    while not is_full:
        is_full = sampler.next_is_full(is_full, 5_000_000)
        waited += 1
    assert waited <= 2


def test_waiting_for_the_processor_is_no_cost_of_watching() -> None:
    budget = Budget(0.0, advance=0.02)
    with budget.spending():
        time.sleep(0.05)
    assert budget.allows()
    with budget.spending():
        until = time.thread_time_ns() + 30_000_000
        while time.thread_time_ns() < until:
            pass
    assert not budget.allows()
