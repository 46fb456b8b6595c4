"""Plans as native programs: segments, host steps, faults, run-time numbers, missing BLAS."""

from __future__ import annotations

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad.runtime.cpu.segments import ARENA
from livegrad.runtime.report import last_steps

pytestmark = pytest.mark.usefixtures("whole_plans")


def kinds():
    return [step.kind for step in last_steps()]


def test_a_plan_is_one_native_call(counted):
    x = lg.tensor(np.ones((6, 8), np.float32))
    w = lg.tensor(np.ones((8, 8), np.float32))
    with counted() as c:
        y = F.softmax(F.gelu(x @ w) @ w, -1)
        y.tolist()
    assert (c.plans_run, c.kernels_run, c.host_steps) == (1, len(kinds()), 0)
    assert kinds().count("product") == 2


def test_host_steps_stand_between_native_ones(counted):
    x = lg.tensor([3.0, 1.0, 2.0])
    y = lg.special.airy_ai(x * 0) + 1
    with counted() as c:
        assert y.tolist() == pytest.approx([1.3550280] * 3)
    assert c.host_steps == kinds().count("host") >= 1
    assert c.plans_run == 2  # native programs: before the host step, and after it


def test_kernels_are_shared_between_plans(counted):
    a = lg.tensor(np.ones((5, 9), np.float32))
    (a.exp() * 3 - 1).tolist()
    b = lg.tensor(np.ones((6, 10), np.float32))
    with counted() as c:
        (b.exp() * 4 - 2).tolist()
    assert (c.plan_misses, c.kernels_made, c.compiles) == (1, 0, 0)


def test_numbers_reach_the_kernel():
    x = lg.tensor([1.0, 2.0])
    for a, b in ((2.0, 3.0), (-0.5, 1e30), (float("inf"), 0.0)):
        want = (np.array([1, 2], np.float32) * np.float32(a) + np.float32(b)).tolist()
        assert (x * a + b).tolist() == want


def test_integers_beyond_32_bits():
    x = lg.tensor([1, 2])
    big = (1 << 53) + 1
    assert (x + big).tolist() == [big + 1, big + 2]
    assert (x * -(1 << 62)).tolist() == [-(1 << 62), -(1 << 63)]


@pytest.mark.parametrize("index", [3, -4, 1 << 40, -(1 << 62)])
def test_fault_says_index_bounds_and_line(index):
    x = lg.ones(3)
    y = x[lg.tensor([0, index]) + 0]
    with pytest.raises(IndexError) as caught:
        y.tolist()
    message = str(caught.value)
    assert f"index {index} is out of bounds for dimension 0 with size 3" in message
    line = test_fault_says_index_bounds_and_line.__code__.co_firstlineno + 3
    assert f"{__file__}:{line}: y = x[lg.tensor([0, index]) + 0]" in message


def test_plan_that_faulted_runs_again():
    def pick(*index):
        return lg.tensor([5.0, 6.0])[lg.tensor(list(index))] * 2

    assert pick(0, 1).tolist() == [10.0, 12.0]
    for _ in range(3):
        with pytest.raises(IndexError):
            pick(0, 2).tolist()
        assert pick(1, 1).tolist() == [12.0, 12.0]


def test_arena_is_shared_and_reused():
    x = lg.tensor(np.ones((64, 64), np.float32))
    (x @ x @ x).tolist()
    size, place = ARENA.nbytes, ARENA.buffer.ptr
    for _ in range(5):
        (x @ x @ x).tolist()
    assert (ARENA.nbytes, ARENA.buffer.ptr) == (size, place)
