"""When values are computed, which, and what a flush leaves behind."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import optim
from livegrad.graph.state import LOCAL, flush
from livegrad.runtime import report


def pending():
    return len(LOCAL.state.nodes)


@pytest.fixture(autouse=True)
def nothing_pending():
    flush("test")
    yield
    flush("test")


def test_recording_computes_nothing(counted):
    with counted() as c:
        x = lg.tensor([1.0, 2.0])
        y = (x + 1).exp().sum()
    assert y._node.buffer is None
    assert c.flushes == 0
    assert pending() == 3
    y.item()
    assert pending() == 0


def test_everything_alive_is_computed_by_one_flush(counted):
    x = lg.tensor([1.0, 2.0])
    a, b = x + 1, x * 3
    c = a * b
    with counted() as rise:
        b.tolist()
    assert rise.flushes == 1
    assert all(t._node.buffer is not None for t in (a, b, c))
    with counted() as rise:
        assert (a.tolist(), c.tolist()) == ([2.0, 3.0], [6.0, 18.0])
    assert rise.flushes == 0


def test_dead_values_get_no_buffer():
    x = lg.tensor([1.0, 2.0])
    a = x + 1
    inner = a._node
    b = a * 2
    del a
    assert b.tolist() == [4.0, 6.0]
    assert inner.buffer is None


def test_values_let_go_of_their_inputs():
    x = lg.tensor([1.0, 2.0])
    a = x + 1
    b = a * 2
    node = weakref.ref(a._node)
    b.tolist()
    del a
    gc.collect()
    assert node() is None or node().inputs == ()
    assert b._node.inputs == ()


def test_reads_flush_nothing_when_nothing_is_pending(counted):
    x = lg.tensor([1.0, 2.0])
    with counted() as rise:
        x.tolist(), repr(x), x.numpy()
    assert rise.flushes == 0


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (lambda x: x.tolist(), "tolist()"),
        (lambda x: x.sum().item(), "item()"),
        (lambda x: x.numpy(), "numpy()"),
        (lambda x: repr(x), "print"),
        (lambda x: bool(x.any()), "bool()"),
        (lambda x: float(x[0]), "float()"),
        (lambda x: np.from_dlpack(x), "DLPack"),
    ],
)
def test_reason_of_a_flush(read, reason):
    read(lg.tensor([1.0, 2.0]) + 1)
    assert report.explanation().startswith(f"flushed because of {reason}:")


def test_step_flushes(counted):
    p = lg.tensor([1.0, 2.0], requires_grad=True)
    loss = (p * p).sum()
    loss.backward()
    with counted() as rise:
        optim.SGD([p], lr=0.5).step()
    assert rise.flushes == 1
    assert pending() == 0
    assert report.explanation().startswith("flushed because of optimizer.step():")
    assert loss._node.buffer is not None
    assert loss.item() == 5.0  # the loss before the step


def test_forward_then_read_then_backward_recomputes_little():
    x = lg.tensor(np.ones((4, 5), np.float32), requires_grad=True)
    y = F.softmax(x * 2, -1)
    y.sum().item()
    y.backward(lg.ones(4, 5))
    x.grad.tolist()
    ops = [op for step in report.last_steps() for op in step.ops]
    assert "exp" not in ops  # the softmax itself was kept


def test_view_of_a_computed_value_is_right_after_writes():
    x = lg.zeros(4)
    v = x[1:3]
    x += 1
    assert v.tolist() == [1.0, 1.0]
    v *= 5
    assert x.tolist() == [1.0, 5.0, 5.0, 1.0]
    assert x.sum().item() == 12.0


def test_zero_size_values():
    x = lg.zeros(0, 3)
    assert (x + 1).tolist() == []
    assert x.sum(0).tolist() == [0.0] * 3
    assert (x @ lg.ones(3, 2)).shape == (0, 2)
    assert (lg.ones(2, 0) @ lg.ones(0, 2)).tolist() == [[0.0, 0.0]] * 2


@pytest.mark.usefixtures("whole_plans")
def test_plan_depends_on_who_is_alive(counted):
    def run(keep):
        x = lg.tensor([1.0, 2.0])
        a = x + 1
        b = a * 2
        kept = a if keep else None
        del a
        assert b.tolist() == [4.0, 6.0]
        return kept

    run(True), run(False)
    with counted() as rise:
        assert run(True).tolist() == [2.0, 3.0]
        run(False)
    assert (rise.plan_hits, rise.plan_misses) == (2, 0)


def test_fault_leaves_earlier_and_later_values():
    x = lg.tensor([1.0, 2.0])
    before = x + 1
    bad = x[lg.tensor([9]) + 0]
    after = x * 4
    with pytest.raises(IndexError, match="test_flush.py"):
        after.tolist()
    del bad
    assert before.tolist() == [2.0, 3.0]
    assert after.tolist() == [4.0, 8.0]


def test_gradient_shape_is_checked_before_memory_is_touched():
    p = lg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="2"):
        p.grad = lg.ones(2)
        optim.SGD([p], lr=0.5).step()
    assert p.tolist() == [1.0, 2.0, 3.0]


def test_a_missing_root_may_depend_on_what_is_pending():
    w = lg.ones(3)

    def f(x):
        return x * 2 if (w * 2).sum() > 0 else x

    assert lg.vmap(f)(lg.ones(2, 3)).tolist() == [[2.0] * 3] * 2


@pytest.mark.parametrize(
    "make", [optim.Adam, optim.RMSprop, lambda p: optim.SGD(p, lr=0.1, momentum=0.9)]
)
def test_a_first_step_is_one_flush_as_those_after_it(make, counted):
    p = lg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    optimizer = make([p])

    def step():
        optimizer.zero_grad()
        (p * p).sum().backward()
        with counted() as c:
            optimizer.step()
        return c.flushes

    assert [step(), step(), step()] == [1, 1, 1]
