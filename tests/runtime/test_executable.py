"""Plans as native programs: segments, host steps, faults, run-time numbers, missing BLAS."""

from __future__ import annotations

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad.runtime import flush
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


def test_plans_with_host_steps_are_followed(counted, monkeypatch):
    def step(x, shift):
        return (lg.linalg.inv(x * 2) + shift).sum().item()

    matrices = [lg.tensor(np.eye(3, dtype=np.float32) * (k + 1)) for k in range(6)]
    step(matrices[0], 0.5)
    monkeypatch.setattr(flush, "_flush_as_recorded", None)  # what is not followed would come here
    with counted() as c:
        found = [step(x, float(shift)) for shift, x in enumerate(matrices)]
    assert found == pytest.approx([1.5 / (k + 1) + 9 * k for k in range(6)])
    assert (c.plan_hits, c.plan_misses, c.host_steps) == (6, 0, 6)


def test_a_followed_host_step_that_refuses_says_so_and_goes_on():
    def step(x):
        y = lg.linalg.cholesky(x + 0)
        return y, y.sum() * 2

    good, bad = lg.eye(2), lg.tensor([[1.0, 2.0], [2.0, 1.0]])
    for x in (good, good, bad, good, bad, bad, good):
        y, z = step(x)
        if x is good:
            assert z.item() == 4.0
        else:
            with pytest.raises(RuntimeError, match="not positive-definite") as caught:
                z.item()
            line = test_a_followed_host_step_that_refuses_says_so_and_goes_on.__code__
            assert f"{__file__}:{line.co_firstlineno + 2}: " in str(caught.value)
            with pytest.raises(RuntimeError, match="not positive-definite"):
                y.tolist()


def test_training_through_host_steps_updates_in_place(counted):
    p = lg.nn.Parameter(lg.eye(3) * 2)
    optimizer = lg.optim.SGD([p], lr=0.1)

    def step():
        optimizer.zero_grad()
        loss = lg.linalg.slogdet(p).logabsdet
        loss.backward()
        optimizer.step()

    step()
    step()
    with counted() as c:
        for _ in range(4):
            step()
    assert (c.plan_misses, c.plan_hits, c.donations) == (0, 4, 4)
    want = np.eye(3) * 2
    for _ in range(6):
        want = want - 0.1 * np.linalg.inv(want).T
    np.testing.assert_allclose(p.detach().numpy(), want, rtol=1e-6)


def test_a_host_step_may_run_its_own_plan():
    """What a program's own operation computes may be the very structure that it is part of."""
    left, found = [0], []

    @lg.library.custom_op("tests::halved", mutates_args=())
    def halved(x: lg.Tensor) -> lg.Tensor:
        if left[0]:
            left[0] -= 1
            found.append(step(x * 8))
        return x / 2

    @halved.register_fake
    def _(x):
        return lg.empty_like(x)

    def step(x):
        return (halved(x + 1) * 3 + x).sum().item()

    for k in range(4):
        left[0] = 2
        found.clear()
        assert step(lg.full((2,), float(k))) == 2 * ((k + 1) / 2 * 3 + k)
        inner = 8.0 * (k + 1)
        within = 8 * (inner + 1)
        assert found == [2 * ((x + 1) / 2 * 3 + x) for x in (within, inner)]


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
