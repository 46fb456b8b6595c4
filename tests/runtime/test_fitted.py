"""Plans that serve every size: one for a structure, whatever length a sequence has."""

from __future__ import annotations

import numpy as np
import pytest

import livegrad as lg
from livegrad.runtime import alone, plans, sight
from livegrad.runtime.counters import counters
from livegrad.runtime.cpu import fitting
from livegrad.runtime.fitted import FITTED


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """What has cost anything is planned for all sizes."""
    monkeypatch.setattr(sight.Policy, "patience", 0.0)
    monkeypatch.setattr(alone, "ENOUGH", 1 << 60)
    sight.forget()
    plans.forget_plans()
    alone.forget()
    yield
    plans.forget_plans()


def in_whole_plans(program, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(sight.Policy, "whole", True)
        patched.setattr(sight.Runtime, "by_pieces", False)
        plans.forget_plans()
        return program()


def decoded(lengths, width=6, heads=2, room=64):
    """What attention over a cache gives, token by token, for some lengths one after the other."""
    rng = np.random.default_rng(0)
    inner = lg.tensor(rng.normal(size=(width, 3 * width)).astype(np.float32))
    found = []
    with lg.no_grad():
        for length in lengths:
            keys, values = (lg.zeros(heads, room, width // heads) for _ in range(2))
            x = lg.tensor(rng.normal(size=width).astype(np.float32))
            for n in range(length):
                q, k, v = (x @ inner).view(3, heads, width // heads)
                keys[:, n], values[:, n] = k, v
                scores = keys[:, : n + 1] @ q.unsqueeze(2) * 0.25
                x = x + (lg.softmax(scores, 1) * values[:, : n + 1]).sum(1).reshape(width) * 0.1
                found.append(x.numpy().tobytes())
    return found


def test_a_cache_that_grows_is_soon_one_plan(monkeypatch):
    decoded([20])
    assert any(FITTED.values())
    before = counters.plan_misses, counters.listed, counters.compiles, counters.flushes
    found = decoded([60])
    flushes = counters.flushes - before[3]
    assert flushes == 60
    # Where the length equals another size the structure is another one: 1, 2, 3, 6, 64.
    assert counters.plan_misses - before[0] + counters.listed - before[1] <= 8
    assert counters.compiles == before[2]
    assert found == in_whole_plans(lambda: decoded([60]), monkeypatch)


def test_sizes_come_and_go_in_any_order(monkeypatch):
    lengths = [9, 17, 5, 23, 31, 8, 12, 29, 4, 40, 11, 7, 30, 50, 13, 37, 9, 26]

    def run():
        found = []
        for n in lengths:
            x = lg.arange(n * 3, dtype=lg.float32).reshape(n, 3)
            y = (x.sin() @ lg.ones(3, 5)).softmax(0)
            found.append((y * n).sum(1).numpy().tobytes())
        return found

    found = run()
    before = counters.plan_misses
    assert run() == found
    assert counters.plan_misses <= before + 1
    assert in_whole_plans(run, monkeypatch) == found


def test_what_is_kept_and_linked_tells_structures_apart():
    held = []
    for n in range(4, 40):
        x = lg.full((n, 2), 0.5)
        a, b = x * 2, x * 3
        if n % 3 == 0:
            held.append(a)
        y = a + b if n % 2 else b + a * b
        assert y.sum().item() == pytest.approx(5 * n if n % 2 else 6 * n)
    assert [h.sum().item() for h in held] == [2 * n for n in range(4, 40) if n % 3 == 0]


def trained(widths, is_frozen=lambda n: False):
    """Losses, gradients and weights of small networks, each of other widths, after one step."""
    rng = np.random.default_rng(0)
    x = lg.tensor(rng.normal(size=(6, 5)).astype(np.float32))
    pool = lg.tensor(rng.normal(size=6000).astype(np.float32))
    found = []
    for n in widths:
        first = pool[: 5 * n].reshape(5, n).clone().requires_grad_(not is_frozen(n))
        second, bias = pool[:n].clone().requires_grad_(), lg.zeros(n, requires_grad=True)
        loss = ((lg.relu(x @ first + bias) * second).sum(1) ** 2).mean()
        loss.backward()
        leaves = [p for p in (first, second, bias) if p.requires_grad]
        with lg.no_grad():
            for p in leaves:
                p -= 0.01 * p.grad
        values = [loss, *leaves, *[p.grad for p in leaves]]
        found.append([value.detach().numpy().tobytes() for value in values])
    return found


def test_steps_with_a_backward_pass_are_soon_one_plan(monkeypatch):
    trained(range(11, 25))
    before = counters.plan_misses + counters.listed
    widths = [40, 31, 77, 12, 9, 150, 31, 1000, 8]
    found = trained(widths)
    assert counters.plan_misses + counters.listed == before
    assert found == in_whole_plans(lambda: trained(widths), monkeypatch)


def test_backward_passes_that_go_other_ways_are_told_apart(monkeypatch):
    def run():
        return trained(range(11, 45), lambda n: n % 3 == 0)

    found = run()
    assert sum(len(alike) for alike in FITTED.values()) >= 2
    assert found == in_whole_plans(run, monkeypatch)


def test_a_graph_that_is_kept_has_its_values(monkeypatch):
    """Backward once more, after a step of a new size."""

    def run():
        found, w = [], lg.linspace(0.1, 1.0, 4).requires_grad_()
        for n in range(11, 40):
            x = lg.arange(n * 4, dtype=lg.float32).reshape(n, 4) / n
            loss = (x * w).exp().mean()
            loss.backward(retain_graph=True)
            found.append((loss.item(), w.grad.numpy().tobytes()))
            loss.backward()
            found.append(w.grad.numpy().tobytes())
            w.grad = None
        return found

    assert run() == in_whole_plans(run, monkeypatch)


def test_what_needs_much_memory_side_by_side_is_planned_for_its_sizes(monkeypatch):
    trained(range(11, 25))
    monkeypatch.setattr(fitting, "_MOST_SCRATCH", 2000)
    hits = counters.plan_hits
    found = trained([90, 91])
    assert counters.plan_hits == hits
    assert found == in_whole_plans(lambda: trained([90, 91]), monkeypatch)


def test_a_refused_value_of_a_new_size_names_its_line():
    table = lg.arange(12.0).reshape(6, 2)

    def rows(n, last):
        index = lg.arange(n) * 1
        index[-1] = last
        return table[index * 1].sum().item()

    for n in range(7, 30):
        with pytest.raises(IndexError):
            rows(n, 6 + n)
    for n in range(3, 6):
        assert rows(n, 0) == sum(2 * 2 * i + 1 for i in range(n - 1)) + 1


def test_what_is_said_of_a_run_has_its_sizes(capsys):
    decoded([24])
    lg.explain()
    report = capsys.readouterr().out
    assert "plan for any size found" in report
    assert "[2, 24, 1]: amax exp sub sum div" in report


PROGRAM = """
import time
import livegrad as lg
from livegrad.runtime import alone, aside, sight
from livegrad.runtime.counters import counters
from livegrad.runtime.fitted import FITTED
sight.Policy.patience = {patience}
alone.ENOUGH = 1 << 60
sight.pieces.is_ready(True)
w, total = lg.ones(3, 7), 0.0
for n in range(8, 40):
    if n == 20:
        while any(not task.is_over() for task in aside._BEGUN):
            time.sleep(0.01)
    x = lg.arange(n * 3, dtype=lg.float32).reshape(n, 3)
    total += (x.sin() @ w).softmax(0).sum().item()
print(counters.plan_misses, counters.listed, counters.plans_loaded, len(FITTED), total)
"""


@pytest.mark.slow
def test_the_next_process_finds_it_on_disk(python, tmp_path):
    cache = {"LIVEGRAD_CACHE_DIR": str(tmp_path)}
    # Another process makes it, and this one finds it, too, without planning anything.
    first = python(PROGRAM.format(patience=0.0), **cache).stdout.split()
    assert first[0] == "0", "something was planned"
    assert int(first[1]) <= 14, "sizes are still listed one by one"
    assert first[2:4] == ["1", "1"]
    again = python(PROGRAM.format(patience=1 << 40), **cache).stdout.split()
    assert again[0] == "0", "something was planned"
    assert int(again[1]) <= 4, "sizes are still listed one by one"
    assert again[2:] == first[2:]


TRAINED = """
import hashlib
import time
import livegrad as lg
from livegrad.runtime import aside, sight
from livegrad.runtime.counters import counters
from livegrad.runtime.fitted import FITTED
sight.Policy.patience = {patience}
sight.pieces.is_ready(True)
lg.manual_seed(0)
model = lg.nn.Sequential(lg.nn.Linear(7, 24), lg.nn.Tanh(), lg.nn.Linear(24, 5))
optimiser = lg.optim.Adam(model.parameters(), lr=0.01)
seen, before = hashlib.sha256(), 0
for step in range(30):
    if step == 15:
        while any(not task.is_over() for task in aside._BEGUN):
            time.sleep(0.01)
    if step == 25:
        before = counters.donations
    x = lg.rand(30 + 3 * step, 7)
    loss = lg.nn.functional.cross_entropy(model(x), lg.arange(len(x)) % 5)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    seen.update(loss.detach().numpy().tobytes())
for p in model.parameters():
    seen.update(p.detach().numpy().tobytes())
lg.explain()
print(counters.listed, len(FITTED), counters.donations - before, seen.hexdigest())
"""


@pytest.mark.slow
def test_a_step_with_updates_is_one_plan_for_any_size_up_to_these(python, tmp_path):
    def run(patience, **mode):
        cache = {"LIVEGRAD_CACHE_DIR": str(tmp_path), **mode}
        return python(TRAINED.format(patience=patience), **cache).stdout

    first = run(0.0)
    assert "plan for any size found" in first
    listed, fitted, donations, bits = first.split()[-4:]
    assert int(listed) <= 18
    assert fitted == "1"
    assert int(donations) > 0, "updates do not write in place"
    again = run(1 << 40).split()[-4:]
    assert int(again[0]) <= 5, "sizes are still listed one by one"
    assert again[1:] == [fitted, donations, bits]
    whole = run(1 << 40, LIVEGRAD_MODE="whole").split()
    assert whole[-2:] == [donations, bits]
