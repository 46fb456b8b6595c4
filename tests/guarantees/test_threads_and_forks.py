"""Python threads that record and read at the same time, and processes made by fork."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import lint, nn, optim
from livegrad.autograd import grad
from livegrad.graph.state import LOCAL, flush
from livegrad.ops.bookkeeping.update import update
from livegrad.optim.sgd import sgd_op
from livegrad.runtime import shared
from livegrad.runtime.speedup import original_functions


@pytest.fixture(autouse=True)
def switch_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def at_once(*functions):
    """Runs the functions in threads of their own, together; their results."""
    start = threading.Barrier(len(functions))

    def run(function):
        start.wait()
        return function()

    with ThreadPoolExecutor(len(functions)) as pool:
        return [f.result(timeout=60) for f in [pool.submit(run, g) for g in functions]]


def in_thread(function):
    return at_once(function)[0]


def chain(seed):
    rng = np.random.default_rng(seed)
    results = []
    for i in range(40):
        values = rng.normal(size=(7, 11 + i % 5)).astype(np.float32)
        x = lg.tensor(values)
        y = x * 2 + seed
        results.append(np.array_equal(y.numpy(), values * np.float32(2) + np.float32(seed)))
        results.append(bool((x.sum(1) == x.sum(1)).all()))
    return results


def test_recording_and_reading_at_the_same_time():
    for results in at_once(*[lambda s=s: chain(s) for s in range(4)]):
        assert all(results)


def train(seed):
    rng = np.random.default_rng(seed)
    p = [
        lg.tensor(rng.normal(size=s).astype(np.float32), requires_grad=True)
        for s in ((6, 9), (9, 4))
    ]
    x, t = lg.tensor(rng.normal(size=(20, 6)).astype(np.float32)), lg.tensor(np.arange(20) % 4)
    optimizer = optim.Adam(p, lr=0.01)
    for _ in range(15):
        optimizer.zero_grad()
        loss = F.cross_entropy(F.gelu(x @ p[0]) @ p[1], t)
        loss.backward()
        optimizer.step()
    return [v.detach().numpy().tobytes() for v in (loss, *p)]


def test_training_at_the_same_time():
    alone = [train(s) for s in range(3)]
    assert at_once(*[lambda s=s: train(s) for s in range(3)]) == alone


def test_lent_to_numpy_while_others_use_it():
    x = lg.tensor([1.0, 2.0, 3.0], requires_grad=True)

    def lend():
        for _ in range(300):
            lent = x.detach().numpy()
            lent[0] += 1
            del lent
        return x.tolist()

    def look():
        return {x.requires_grad for _ in range(2000)}, {x.tolist()[2] for _ in range(300)}

    results = at_once(lend, look, look)
    assert results == [[301.0, 2.0, 3.0], ({True}, {3.0}), ({True}, {3.0})]


def test_large_work_at_the_same_time():
    def work(seed):
        x = lg.tensor(np.random.default_rng(seed).normal(size=(512, 700)).astype(np.float32))
        return [F.softmax(x * i, -1).numpy().tobytes() for i in range(1, 6)]

    alone = [work(s) for s in range(2)]
    assert at_once(lambda: work(0), lambda: work(1)) == alone


@pytest.mark.parametrize("size", [3, 100_000])
def test_recorded_here_read_there(size):
    x = lg.arange(size).float()
    y = (x + 1) * 2
    got = in_thread(y.tolist)
    assert got == [2.0 * (i + 1) for i in range(size)]
    assert y.tolist() == got
    assert (y + 1).tolist() == [v + 1 for v in got]


def test_recorded_there_read_here():
    x = lg.tensor([1.0, 2.0])
    y = in_thread(lambda: (x + 1) * 2)
    assert (y * 10).tolist() == [40.0, 60.0]
    assert y.tolist() == [4.0, 6.0]


def test_recorded_there_by_a_thread_that_goes_on():
    ready, done = threading.Event(), threading.Event()
    made = []

    def other():
        x = lg.tensor([1.0, 2.0])
        made.append(x * 3)
        ready.set()
        assert done.wait(30)
        made.append(made[0] + x)
        return made[1].tolist()

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(other)
        assert ready.wait(30)
        assert made[0].tolist() == [3.0, 6.0]
        done.set()
        assert future.result(30) == [4.0, 8.0]


def test_backward_in_another_thread():
    p = lg.tensor([1.0, 2.0], requires_grad=True)
    loss = (p * p).sum()
    in_thread(loss.backward)
    assert p.grad.tolist() == [2.0, 4.0]


def test_one_tensor_read_by_many():
    x = lg.tensor(np.arange(50_000, dtype=np.float32))
    y = (x * 2).exp().log()
    results = at_once(*[lambda: y.numpy().tobytes()] * 4)
    assert len(set(results)) == 1


def test_what_a_tensor_shares_may_be_another_while_it_is_lent(monkeypatch):
    """Another thread that is done with an array lets go of the cell, which had no views."""
    x, calls = lg.tensor([1.0, 2.0]) * 3, []

    def to_lend(cell, reason):
        calls.append(cell)
        assert len(calls) < 5
        found = original(cell, reason)
        if len(calls) == 1:
            x._share = None
        return found

    original = shared._to_lend
    monkeypatch.setattr(shared, "_to_lend", to_lend)
    array = x.numpy()
    array[0] = 7
    assert x.tolist() == [7.0, 6.0]
    assert array.tolist() == [7.0, 6.0]


def test_modes_are_per_thread():
    with lg.no_grad():
        assert in_thread(lg.is_grad_enabled)
        assert not lg.is_grad_enabled()


def test_pending_values_are_per_thread():
    x = lg.ones(2) + 1
    assert in_thread(lambda: len(LOCAL.state.nodes)) == 0
    assert x.tolist() == [2.0, 2.0]


def test_module_shared_by_threads():
    model = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3))
    x = lg.ones(4, 5)
    want = model(x).tolist()
    assert at_once(*[lambda: model(x).tolist()] * 3) == [want] * 3


# ----------------------------------------------------------------------------------------- fork

FORK = """
import os, sys, numpy as np, livegrad as lg
lg.set_num_threads(2)
big = lg.tensor(np.arange(1 << 20, dtype=np.float32))
assert (big + 1).sum(0).item() > 0          # threads are running
assert (big * 2).numpy()[7] == 14.0
pending = big[:5] * 3                       # recorded before the fork
parameter = lg.tensor([1.0, 2.0], requires_grad=True)
def work():
    assert (big + 2).numpy()[-1] == float((1 << 20) + 1)
    assert pending.tolist() == [0.0, 3.0, 6.0, 9.0, 12.0]
    assert (lg.ones(1000, 1000) @ lg.ones(1000, 3)).sum().item() == 3e6
    assert lg.ones(37).cumsum(0)[-1].item() == 37.0 if hasattr(lg, "cumsum") else True
    (parameter * parameter).sum().backward()
    assert parameter.grad.tolist() == [2.0, 4.0]
    assert (big[:1000].reshape(10, 100).softmax(-1) * 7).sum().item() > 69  # compiles
children = []
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            import traceback; traceback.print_exc(); os._exit(1)
        os._exit(0)
    children.append(pid)
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
work()
assert codes == [0, 0], codes
print("ok")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_after_use(python):
    assert python(FORK, PYTHONWARNINGS="ignore").stdout.strip() == "ok"


MULTIPROCESSING = """
import multiprocessing, numpy as np, livegrad as lg
def work(n):
    x = lg.tensor(np.full(300_000, n, np.float32))
    return (x * 2).sum().item()
if __name__ == "__main__":
    assert work(1) == 600_000.0
    with multiprocessing.get_context("METHOD").Pool(2) as pool:
        print(pool.map(work, [1, 2, 3]))
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing(tmp_path, child_environment, method):
    import subprocess

    path = tmp_path / "program.py"
    path.write_text(MULTIPROCESSING.replace("METHOD", method))
    done = subprocess.run(
        [sys.executable, str(path)],
        env=child_environment(PYTHONWARNINGS="ignore"),
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.stdout.strip() == "[600000.0, 1200000.0, 1800000.0]", done.stderr


# ------------------------------------------------------------------- threads that share a model


def shared_model():
    lg.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
    rng = np.random.default_rng(0)
    x = lg.tensor(rng.normal(size=(64, 6)).astype(np.float32))
    return model, lambda: F.cross_entropy(model(x), lg.tensor(np.arange(64) % 3))


@pytest.fixture(params=["native", "python"])
def both_kinds_of_functions(request):
    """Translated functions do not let other threads in between; those of Python do."""
    if request.param == "native":
        yield
    else:
        with original_functions():
            yield


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("own_optimizer", [False, True])
def test_threads_train_one_model(both_kinds_of_functions, reads, own_optimizer):
    lint.reset()
    model, loss_of = shared_model()
    start = loss_of().item()
    common = optim.SGD(model.parameters(), lr=0.05)

    def work():
        optimizer = optim.Adam(model.parameters(), lr=1e-3) if own_optimizer else common
        for _ in range(30):
            optimizer.zero_grad()
            loss = loss_of()
            loss.backward()
            if reads:
                assert np.isfinite(loss.item())
            optimizer.step()

    at_once(work, work, work)
    assert lint.is_enabled()
    assert loss_of().item() < start


def test_no_gradient_is_lost_when_threads_add_to_one(both_kinds_of_functions):
    p = lg.zeros(5, requires_grad=True)
    rounds = 50

    def work():
        for i in range(rounds):
            (p * 2 + 1).sum().backward()
            if i % 7 == 0:
                p.grad.sum().item()

    at_once(work, work, work)
    assert p.grad.tolist() == [2.0 * rounds * 3] * 5


def test_no_update_is_lost_when_threads_step(both_kinds_of_functions):
    p = lg.zeros(5, requires_grad=True)
    rounds = 30

    def work():
        for _ in range(rounds):
            (gradient,) = grad((p * 2).sum(), p)
            update(sgd_op(()), ([p], [gradient]), (1.0, 0.0, 0.0, 1.0))
            flush("a step")

    at_once(work, work, work)
    assert p.tolist() == [-2.0 * rounds * 3] * 5


def test_backward_over_values_that_another_thread_computes_before_the_flush():
    for reads in (lambda h, y: h.sum().item(), lambda h, y: y.item(), lambda h, y: None):
        p = lg.tensor([1.0, 2.0], requires_grad=True)
        h = (p * 3).exp()
        y = h.sum()
        y.backward()
        in_thread(lambda h=h, y=y, reads=reads: reads(h, y))
        assert p.grad.tolist() == pytest.approx([3 * np.exp(3), 3 * np.exp(6)])


def test_plans_for_values_computed_elsewhere_are_told_apart():
    for function, derivative in ((lg.sin, np.cos), (lg.cos, lambda x: -np.sin(x))):
        p = lg.tensor([1.0, 2.0], requires_grad=True)
        y = function(p).sum()
        y.backward()
        in_thread(y.item)
        assert p.grad.tolist() == pytest.approx(derivative(np.array([1.0, 2.0])))


def test_what_a_thread_that_ended_has_added_is_there():
    p = lg.tensor([1.0, 2.0], requires_grad=True)
    optimizer = optim.SGD([p], lr=0.0)
    (p * 3).sum().backward()
    in_thread(lambda: (p * 5).sum().backward())
    (p * 2).sum().item()
    optimizer.step()
    assert p.grad.tolist() == [8.0, 8.0]


def test_gradients_after_a_flush_that_failed():
    p = lg.tensor([1.0, 2.0], requires_grad=True)
    loss = (p * p).sum()
    loss.backward()
    bad = F.embedding(lg.tensor([9]) * 1, lg.zeros(3, 2))
    with pytest.raises(IndexError):
        bad.tolist()
    assert loss.item() == 5.0
    assert p.grad.tolist() == [2.0, 4.0]


def test_threads_that_come_and_go_leave_updates_in_place(counted):
    """Only threads that record meanwhile keep an optimiser from writing in place."""
    in_thread(lambda: lg.ones(2).sum().item())
    model, loss_of = shared_model()
    optimizer = optim.SGD(model.parameters(), lr=0.05)
    idle, done = threading.Event(), threading.Event()

    def other():
        keep = lg.ones(3) * 2
        idle.set()
        done.wait(60)
        return keep.tolist()

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(other)
        idle.wait(60)
        for step in range(6):
            optimizer.zero_grad()
            loss_of().backward()
            with counted() as c:
                optimizer.step()
            if step > 1:
                assert c.donations == 4
        done.set()
        assert future.result(60) == [2.0] * 3
