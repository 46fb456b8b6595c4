"""The debugger, or what stands for it, is called at the line that records what is looked for."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import livegrad as lg
import livegrad.nn as nn
from livegrad.debug import Hit
from livegrad.graph.events import NOTED, RECORDED


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return self.fc(x).relu()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Block(), Block()

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x)).exp()


def hits(program: Any, *args: Any, **conditions: Any) -> list[Hit]:
    found: list[Hit] = []
    with lg.breakpoint_on(*args, **conditions, action=found.append) as point:
        program()
    assert point.hits == len(found)
    assert not NOTED
    assert not RECORDED
    return found


def test_ops_shapes_and_lines() -> None:
    net, x = Net(), lg.ones(2, 3)
    (hit,) = hits(lambda: net(x), "exp")
    line = inspect.getsourcelines(Net.forward)[1] + 1
    assert (hit.op, hit.shape, hit.line, hit.file) == ("exp", (2, 3), line, __file__)
    assert hit.frame.f_locals["self"] is net
    assert len(hits(lambda: net(x), shape=(None, 3))) == 5
    assert not hits(lambda: net(x), shape=(3,))
    assert [h.op for h in hits(lambda: net(x), line=line)] == ["exp"]
    assert [h.op for h in hits(lambda: net(x), line=f"test_breakpoints.py:{line}")] == ["exp"]
    assert not hits(lambda: net(x), "exp", line=line + 1)


def test_modules() -> None:
    net, x = Net(), lg.ones(2, 3)
    for which in (net.second, "second"):
        assert [h.op for h in hits(lambda: net(x), module=which)] == ["linear", "relu"]
    for each in (Block, "Block"):
        assert len(hits(lambda: net(x), module=each)) == 4


def test_the_first_that_is_not_finite() -> None:
    def program() -> Any:
        x = lg.tensor([1.0, 0.0])
        y = x + 1
        z = x.log()  # -inf
        return (z * 0 + y).sum()

    (first, second) = hits(program, nan=True)[:1] * 2
    assert first is second
    assert (first.op, first.values.below) == ("log", 1)
    assert not hits(lambda: lg.ones(3).log().sum(), nan=True)


def test_not_finite_of_what_was_pending_before() -> None:
    """As the weights of a model are that was made just now."""
    model = lg.nn.Linear(3, 2)
    hits: list[Any] = []
    with lg.breakpoint_on(nan=True, action=hits.append):
        model(lg.ones(1, 3)) / 0
    assert [hit.op for hit in hits] == ["div"]


def test_the_programs_own_breakpoint_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    monkeypatch.setattr("sys.breakpointhook", lambda: called.append(1))
    with lg.breakpoint_on("exp"):
        lg.ones(3).exp()
    assert called == [1]
    with pytest.raises(TypeError, match="at least one"):
        lg.breakpoint_on()
