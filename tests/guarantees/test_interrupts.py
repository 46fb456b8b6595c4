"""Ctrl-C at any moment: it stops what runs, every value stays readable, later work is right."""

from __future__ import annotations

import json
import linecache
import os
import random
import re
import select
import signal
import subprocess
import sys
import time
from inspect import CO_GENERATOR

import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import optim
from livegrad.graph.state import LOCAL
from livegrad.runtime import flush
from livegrad.runtime.plans import FOUND, LAST, forget_plans

pytestmark = pytest.mark.usefixtures("whole_plans")

PACKAGE = os.path.dirname(lg.__file__) + os.sep
RUNTIME = (PACKAGE + "runtime" + os.sep, PACKAGE + "compiler" + os.sep, PACKAGE + "graph" + os.sep)


class Interrupt:
    """Raises KeyboardInterrupt at the `number`-th moment at which a signal can stop the runtime.

    CPython looks for signals when a Python function starts, after a C function returns, and when a
    loop starts over; so at these moments in livegrad's code, one after the other.
    """

    def __init__(self, number):
        self.left = number
        self.where = None

    def __enter__(self):
        self.outer = sys.gettrace(), sys.getprofile()
        sys.settrace(self.on_call)
        sys.setprofile(self.on_profile)

    def __exit__(self, kind, error, traceback):
        sys.settrace(self.outer[0])
        sys.setprofile(self.outer[1])
        return kind is KeyboardInterrupt

    def on_profile(self, frame, event, argument):
        if event in ("call", "c_return") and ours(frame) and not is_resumed(frame, event):
            self.moment(frame)

    def on_call(self, frame, event, argument):
        if not ours(frame):
            return None
        lines = [frame.f_lineno]

        def on_line(frame, event, argument):
            if event == "line":
                again = frame.f_lineno < lines[0] and is_loop(frame)
                lines[0] = frame.f_lineno
                if again:
                    self.moment(frame)
            return on_line

        return on_line

    def moment(self, frame):
        if self.where is None:
            if self.left == 0:
                name = os.path.basename(frame.f_code.co_filename)
                self.where = f"{name}:{frame.f_lineno} in {frame.f_code.co_name}"
                raise KeyboardInterrupt
            self.left -= 1


def ours(frame):
    return frame.f_code.co_filename.startswith(RUNTIME) and not in_destructor(frame)


def in_destructor(frame):
    """Whether a destructor is on the way here: it would swallow the exception, whoever wrote it."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


def is_resumed(frame, event):
    """Whether a generator goes on, or is closed: what is raised in one that is closed is lost.

    The profiler does not tell these apart; a signal does not stop one that is being closed.
    """
    started = 4  # where the first instructions of a generator's code, which only make it, end
    return event == "call" and frame.f_code.co_flags & CO_GENERATOR and frame.f_lasti > started


def is_loop(frame):
    text = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    return text.lstrip().startswith(("for ", "while "))


def everywhere(trial, least=20, most=2000):
    """Runs `trial(interrupt)` with an interrupt at each moment in turn; the complaints."""
    complaints = []
    for number in range(most):
        interrupt = Interrupt(number)
        complaint = trial(interrupt)
        if interrupt.where is None:
            assert number > least, "nothing was interrupted"
            return complaints
        if complaint:
            complaints.append(f"interrupted at {interrupt.where}: {complaint}")
    raise AssertionError(f"more than {most} moments")


# Moments of a flush whose plan native code finds, and of one whose plan Python looks for.
MOMENTS = {"followed": 5, "looked for": 20}


def look_for_plans(way):
    """Whether the next flush looks for its plan in Python."""
    if way == "looked for":
        FOUND.clear()
        LAST.executable = None


def attempt(function, wanted, what):
    """A complaint unless `function` gives `wanted`."""
    try:
        got = function()
    except Exception as error:
        return f"{what}: {type(error).__name__}: {error}"
    return None if got == wanted else f"{what}: got {got}, expected {wanted}"


# `item()` is native as a whole where its plan is followed: no moment of it is Python's.
@pytest.mark.parametrize(
    ("way", "read"), [("followed", "tolist"), ("looked for", "tolist"), ("looked for", "item")]
)
def test_interrupted_read_can_be_repeated(way, read):
    def trial(interrupt):
        x = lg.tensor([1.0, 2.0, 3.0])
        y, z = x * 2, x + 1
        s = (y * z).sum()
        look_for_plans(way)
        with interrupt:
            getattr(s, read)()
        w = z * 10  # recorded after the interrupt, from a value that may be pending
        if "unlocked" not in repr(flush._lock):
            return "the lock was kept: other threads would wait for ever"
        return (
            attempt(w.tolist, [20.0, 30.0, 40.0], "a later value")
            or attempt(s.item, 4.0 + 12.0 + 24.0, "the value that was being read")
            or attempt(y.tolist, [2.0, 4.0, 6.0], "another pending value")
            or attempt((x - y).tolist, [-1.0, -2.0, -3.0], "new work")
        )

    for _ in range(2):  # so that plans exist, also if other threads recorded before
        trial(Interrupt(10**9))
    assert everywhere(trial, MOMENTS[way]) == []


def test_interrupted_planning_leaves_the_state_of_the_thread():
    state = LOCAL.state

    def trial(interrupt):
        forget_plans()
        before = state.grad, state.held, state.site, state.outer
        x = lg.tensor([1.0, 2.0, 3.0])
        y = F.softmax(x * 2, 0).sum()
        with interrupt:
            y.item()
        after = state.grad, state.held, state.site, state.outer
        return None if after == before else f"{before} became {after}"

    assert not [c for number in range(0, 2500, 3) if (c := trial(Interrupt(number))) is not None]


def test_interrupted_first_read():
    # The same with compilation in between: a structure that is new each time.
    count = iter(range(1, 10**6))

    def trial(interrupt):
        x = lg.tensor([1.0, 2.0, 3.0])
        y = x
        n = next(count) % 40 + 1
        for _ in range(n):
            y = y + 1
        with interrupt:
            y.tolist()
        return attempt(y.tolist, [1.0 + n, 2.0 + n, 3.0 + n], "the value that was being read")

    complaints = []
    for number in range(0, 600, 7):
        complaint = trial(Interrupt(number))
        if complaint:
            complaints.append(complaint)
    assert complaints == []


@pytest.mark.parametrize("make", ["sgd", "adam"])
@pytest.mark.parametrize("way", MOMENTS)
def test_interrupted_step_happens_or_does_not(make, way):
    check_interrupted_steps(make, way)


def test_interrupted_step_of_python_functions(untranslated):
    check_interrupted_steps("sgd", "followed")


def check_interrupted_steps(make, way):
    def trial(interrupt):
        p = lg.tensor([1.0, 2.0], requires_grad=True)
        q = lg.tensor([4.0], requires_grad=True)
        if make == "sgd":
            optimizer = optim.SGD([p, q], lr=0.25)
        else:
            optimizer = optim.Adam([p, q], lr=0.5, betas=(0.0, 0.0), eps=0.0)
        ((p * p).sum() + (q * q).sum()).backward()
        before = [[1.0, 2.0], [4.0]]
        after = [[0.5, 1.0], [2.0]] if make == "sgd" else [[0.5, 1.5], [3.5]]
        look_for_plans(way)
        with interrupt:
            optimizer.step()
        try:
            got = [p.tolist(), q.tolist()]
        except Exception as error:
            return f"parameters: {type(error).__name__}: {error}"
        if got not in (before, after):
            return f"parameters are {got}, neither {before} nor {after}"
        if [p.grad.tolist(), q.grad.tolist()] != [[2.0, 4.0], [8.0]]:
            return f"gradients are {p.grad.tolist()}, {q.grad.tolist()}"
        # What follows starts from what can be read.
        optimizer = optim.SGD([p, q], lr=0.25)
        optimizer.zero_grad()
        ((p * p).sum() + (q * q).sum()).backward()
        wanted = [[v / 2 for v in values] for values in got]
        optimizer.step()
        return attempt(lambda: [p.tolist(), q.tolist()], wanted, "the next step")

    trial(Interrupt(10**9))
    assert everywhere(trial, MOMENTS[way]) == []


def test_interrupted_backward(untranslated):
    def trial(interrupt):
        p = lg.tensor([1.0, 2.0], requires_grad=True)
        loss = F.softmax(p * p, -1)[0]
        loss.item()
        with interrupt:
            loss.backward()
        p.grad = None
        q = lg.tensor([3.0], requires_grad=True)
        (q * q).sum().backward()
        return attempt(q.grad.tolist, [6.0], "a later backward") or attempt(
            lambda: lg.is_grad_enabled(), True, "gradient mode"
        )

    trial(Interrupt(10**9))
    assert everywhere(trial) == []


# -------------------------------------------------------------------------------- real signals

TRAINING = """
import sys, time, numpy as np, livegrad as lg, livegrad.nn.functional as F
from livegrad import nn, optim
lg.manual_seed(0)
rng = np.random.default_rng(0)
x = lg.tensor(rng.normal(size=(64, 30)).astype(np.float32))
t = lg.tensor(rng.integers(0, 5, 64))
def build():
    return nn.Sequential(nn.Linear(30, 40), nn.Tanh(), nn.Linear(40, 5))
model = build()
optimizer = optim.SGD(model.parameters(), lr=0.05)
def step(model, optimizer):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), t)
    loss.backward()
    optimizer.step()
    return loss
for _ in range(3):
    step(model, optimizer)
print("ready", flush=True)
"""

ENDLESS = (
    TRAINING
    + """
while True:
    step(model, optimizer)
"""
)

CATCHING = (
    TRAINING
    + """
caught, problems = 0, []
while caught < 20:
    try:
        while True:
            step(model, optimizer)
    except KeyboardInterrupt:
        caught += 1
        values = [p.detach().numpy() for p in model.parameters()]
        if not all(np.isfinite(v).all() for v in values):
            problems.append(f"interrupt {caught}: a parameter is not finite")
        # From here a model that was never interrupted goes the same way.
        twin = build()
        with lg.no_grad():
            for p, v in zip(twin.parameters(), values):
                p.copy_(lg.tensor(v))
        other = optim.SGD(twin.parameters(), lr=0.05)
        for _ in range(3):
            a, b = step(model, optimizer).item(), step(twin, other).item()
            if a != b:
                problems.append(f"interrupt {caught}: loss {a}, without an interrupt {b}")
        for p, q in zip(model.parameters(), twin.parameters()):
            if p.detach().numpy().tobytes() != q.detach().numpy().tobytes():
                problems.append(f"interrupt {caught}: parameters differ")
        print("caught", flush=True)
import json
print(json.dumps(problems), flush=True)
"""
)


class Child:
    """A running program that is sent SIGINT."""

    def __init__(self, source, env):
        self.process = subprocess.Popen(
            [sys.executable, "-c", source],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.line()

    def line(self):
        return self.process.stdout.readline().strip()

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def answer(self):
        """The next line; a signal that came inside a destructor is lost, and sent again."""
        for _ in range(5):
            if select.select([self.process.stdout], [], [], 5)[0]:
                return self.line()
            self.interrupt()
        self.process.kill()
        raise AssertionError("no answer to SIGINT")

    def end(self):
        """Return code and standard error; a signal that came inside a destructor is sent again."""
        for _ in range(10):
            try:
                _, errors = self.process.communicate(timeout=3)
                return self.process.returncode, errors
            except subprocess.TimeoutExpired:
                self.interrupt()
        self.process.kill()
        raise AssertionError("SIGINT does not end the program")


@pytest.mark.slow
def test_sigint_ends_a_training_loop(child_environment):
    rng = random.Random(20)
    for _ in range(20):
        child = Child(ENDLESS, child_environment())
        time.sleep(rng.uniform(0.0, 0.1))
        child.interrupt()
        code, errors = child.end()
        assert code == -signal.SIGINT, errors
        assert errors.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.slow
def test_sigint_caught_and_training_goes_on(child_environment):
    rng = random.Random(0)
    child = Child(CATCHING, child_environment())
    for _ in range(20):
        time.sleep(rng.uniform(0.003, 0.02))
        child.interrupt()
        assert child.answer() == "caught", child.process.stderr.read()
    assert json.loads(child.line()) == []
    code, errors = child.end()
    # Python itself reports, and swallows, a signal that comes inside a destructor.
    wording = "(in:|while calling deallocator)"  # until 3.13, and since
    ignored = rf"Exception ignored {wording} <function \w+\.__del__ .*?\nKeyboardInterrupt: ?\n"
    assert (code, re.sub(ignored, "", errors, flags=re.DOTALL)) == (0, "")


def test_interrupt_during_a_long_run_of_kernels(child_environment):
    # Ctrl-C waits for the native call, not for the program.
    source = """
import livegrad as lg
x = lg.ones(1 << 22)
try:
    print("ready", flush=True)
    while True:
        x = (x * 1.0001).sin().exp()
        x.sum().item()
except KeyboardInterrupt:
    print(bool((x == x).all()) and (lg.ones(3) + 1).tolist() == [2.0] * 3, flush=True)
"""
    child = Child(source, child_environment())
    time.sleep(0.3)
    child.interrupt()
    assert child.answer() == "True"
    assert child.end()[0] == 0
