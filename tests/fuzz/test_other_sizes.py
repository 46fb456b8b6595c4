"""Random programs with other sizes: plans filled in from an outline are those the passes make."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import programs as machine
import pytest
from hypothesis import given, settings
from programs import Program, execute
from test_graphs import EXAMPLES, SETTINGS, programs

from livegrad.compiler import sizes
from livegrad.runtime.counters import counters
from livegrad.runtime.plans import forget_plans

pytestmark = pytest.mark.slow

# What each size but 0 and 1 becomes: equal sizes stay equal, others stay different.
OTHERS: list[Callable[[int], int]] = [
    lambda n: n, lambda n: 2 * n, lambda n: n + 5, lambda n: 3 * n + 1, lambda n: n + 40,
]  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def at_once() -> Iterator[None]:
    """Outlines are learnt from the first plan, and checked by the verifier only: it raises."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sizes, "FEW", 0)
        patch.setattr(sizes, "CHECKS", 0)
        forget_plans()
        yield
        forget_plans()


@settings(SETTINGS, max_examples=EXAMPLES or 60)
@given(programs(0, len(machine.DTYPES) - 1))
def run_with_other_sizes(program: Program) -> None:
    shapes = machine.SHAPES
    with pytest.MonkeyPatch.context() as patch:
        for other in OTHERS:
            resized = [tuple([n if n < 2 else other(n) for n in shape]) for shape in shapes]
            patch.setattr(machine, "SHAPES", type(shapes)(resized))
            execute(program, None)


@pytest.mark.usefixtures("whole_plans")
def test_filled_plans_are_those_of_the_passes() -> None:
    before = counters.plans_filled
    run_with_other_sizes()
    assert counters.plans_filled > before
