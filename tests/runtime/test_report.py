"""`livegrad.stats()` and `livegrad.explain()`: what they say is what happened."""

from __future__ import annotations

import dataclasses
import io
import re

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import optim
from livegrad.graph.state import flush
from livegrad.runtime.report import last_steps


def rise(before):
    after = dataclasses.asdict(lg.stats())
    return {name: after[name] - value for name, value in dataclasses.asdict(before).items()}


@pytest.mark.usefixtures("whole_plans")
def test_stats_count_a_flush():
    flush("a test begins")  # what others have left pending would be in the first plan
    x = lg.tensor(np.ones((3, 5), np.float32))
    (x * 2).softmax(-1).tolist()
    before = lg.stats()
    (x * 2).softmax(-1).tolist()
    got = rise(before)
    assert (got["flushes"], got["plan_hits"], got["plan_misses"]) == (1, 1, 0)
    assert (got["kernels_run"], got["kernels_compiled"], got["host_steps"]) == (1, 0, 0)
    assert got["nodes"] == 2


def test_stats_are_a_snapshot():
    before = lg.stats()
    (lg.ones(3) + 1).tolist()
    assert lg.stats().flushes == before.flushes + 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        before.flushes = 0


def test_donations_are_counted():
    p = lg.tensor([1.0, 2.0], requires_grad=True)
    optimizer = optim.SGD([p], lr=0.5)
    before = lg.stats()
    for _ in range(3):
        optimizer.zero_grad()
        (p * p).sum().backward()
        optimizer.step()
    assert rise(before)["donations"] == 3


def explained():
    out = io.StringIO()
    lg.explain(out)
    return out.getvalue()


def test_explain_names_reason_kernels_ops_and_lines(whole_plans):
    x, w = lg.tensor(np.ones((4, 6), np.float32)), lg.tensor(np.ones((6, 4), np.float32))
    y = F.softmax(x @ w, -1)
    y.tolist()
    text = explained()
    first, second, *rest = text.splitlines()
    kernels = [line for line in rest if re.match(r"  \d+\. ", line)]
    assert first.startswith("flushed because of tolist(): ")
    assert " nodes in 2 kernels, " in first
    assert re.search(r"\d+ kernels compiled", second)
    assert re.search(r"[\d,]+ bytes of results, [\d,]+ bytes of arena", second)
    assert len(kernels) == 2 == len(last_steps())
    line = test_explain_names_reason_kernels_ops_and_lines.__code__.co_firstlineno + 2
    assert "product" in kernels[0]
    assert "matmul" in kernels[0]
    assert f"test_report.py:{line}" in kernels[0]
    assert "exp" in kernels[1]


@pytest.mark.usefixtures("whole_plans")
def test_explain_says_whether_the_plan_was_known():
    x = lg.tensor(np.ones((4, 7), np.float32))
    for _ in range(2):
        (x.sin() + x.cos()).tolist()
    assert "plan found, 0 kernels compiled" in explained()


@pytest.mark.usefixtures("whole_plans")
def test_last_steps_are_those_of_the_last_flush():
    x, w = lg.tensor(np.ones((4, 6), np.float32)), lg.tensor(np.ones((6, 4), np.float32))
    (x @ w).tolist()
    (step,) = last_steps()
    assert (step.kind, step.ops) == ("product", ("matmul",))
    (x + 1).tolist()
    (step,) = last_steps()
    assert (step.kind, step.ops) == ("loops", ("add",))


def test_explain_before_anything(python):
    program = "import livegrad as lg; lg.explain()"
    assert python(program).stdout == "nothing has been computed yet\n"


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        ("graph", "add("),
        ("plan", "fuse:"),
        ("kernels", "kernel 1"),
        ("ir", "define"),
        ("misses", "plan miss"),
    ],
)
def test_debug_flags_print_to_standard_error(python, flag, expected):
    program = "import livegrad as lg; print((lg.tensor([1.0]) + 1).tolist())"
    done = python(program, LIVEGRAD_DEBUG=flag, LIVEGRAD_MODE="whole")
    assert done.stdout == "[2.0]\n"
    assert expected in done.stderr
    assert python(program).stderr == ""


@pytest.mark.parametrize(
    ("flag", "expected"),
    [("graph", "add("), ("tiers", "tiers: 1 nodes piece by piece: its structure is new")],
)
def test_debug_flags_of_what_is_run_piece_by_piece(python, flag, expected):
    # No other test plans this: a plan on disk would be taken.
    program = "import livegrad as lg; print((lg.tensor([[[[1.0] * 7]]]) + 1).tolist())"
    assert expected in python(program, LIVEGRAD_DEBUG=flag, LIVEGRAD_MODE="").stderr


def test_reference_mode(python):
    program = (
        "import livegrad as lg; x = lg.tensor([1.0, 2.0], requires_grad=True);"
        "(x.exp() * x).sum().backward(); print(x.grad.tolist(), lg.stats().kernels_run)"
    )
    reference = python(program, LIVEGRAD_MODE="reference").stdout
    values, kernels = reference.rsplit(" ", 1)
    assert int(kernels) == 0
    np.testing.assert_allclose(eval(values), [2 * np.e, 3 * np.e**2], rtol=1e-6)
