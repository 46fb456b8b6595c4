"""What is scripted or traced runs as it is."""

from __future__ import annotations

from typing import Any

import pytest

import livegrad as lg
from livegrad import jit, nn


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.calls = 0

    def forward(self, x: Any) -> Any:
        return self.inner(x) if x.sum() > 0 else -x

    @jit.export
    def twice(self, x: Any) -> Any:
        return 2 * x

    @jit.ignore
    def noted(self) -> str:
        return "noted"

    @jit.unused
    def other(self) -> str:
        return "other"


def test_a_scripted_module_shares_its_parameters_and_keeps_its_branches() -> None:
    net = Gate()
    scripted = jit.script(net)
    assert isinstance(scripted, jit.ScriptModule)
    assert isinstance(scripted, Gate)
    assert not isinstance(net, jit.ScriptModule)
    assert list(scripted.state_dict()) == ["inner.weight", "inner.bias"]
    with lg.no_grad():
        net.inner.weight.fill_(1.0)
        net.inner.bias.fill_(0.5)
    assert scripted(lg.ones(2)).tolist() == [2.5, 2.5]
    assert scripted(-lg.ones(2)).tolist() == [1.0, 1.0]
    assert (scripted.twice(3), scripted.noted(), scripted.other()) == (6, "noted", "other")
    assert scripted.original_name == "Gate"
    assert "self.inner(x)" in scripted.code
    assert jit.script(scripted)(lg.ones(2)).tolist() == [2.5, 2.5]


def test_scripted_modules_train() -> None:
    net = jit.script(nn.Linear(1, 1))
    optimizer = lg.optim.SGD(net.parameters(), lr=0.1)
    x = lg.tensor([[1.0], [2.0]])
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = ((net(x) - 3 * x) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 10


def test_functions_and_methods() -> None:
    @jit.script
    def relu(x: Any, slope: float = 0.0) -> Any:
        if jit.is_scripting():
            return None
        return lg.where(x > 0, x, slope * x)

    assert relu(lg.tensor([-2.0, 1.0]), slope=0.5).tolist() == [-1.0, 1.0]
    assert (relu.__name__, "slope" in relu.code) == ("relu", True)

    class Holder:
        value = 3

        @jit.script
        def get(self) -> int:
            return self.value

    assert Holder().get() == 3
    assert jit.script(relu) is relu
    assert jit.script(Holder) is Holder


def test_classes_that_are_meant_to_be_scripted() -> None:
    class Cell(jit.ScriptModule):
        __constants__ = ("size",)

        def __init__(self) -> None:
            super().__init__()
            self.size = 2
            self.weight = nn.Parameter(lg.ones(2))

        @jit.script_method
        def forward(self, x: Any) -> Any:
            return x * self.weight * self.size

    assert Cell()(lg.ones(2)).tolist() == [2.0, 2.0]


def test_tracing_calls_once_and_keeps_branches() -> None:
    calls = []

    def f(x: Any, y: Any) -> Any:
        calls.append(1)
        return x + y if x.sum() > 0 else x - y

    traced = jit.trace(f, (lg.ones(2), lg.ones(2)))
    assert len(calls) == 1
    assert traced(-lg.ones(2), lg.ones(2)).tolist() == [-2.0, -2.0]
    net = jit.trace(Gate(), lg.ones(2))
    assert isinstance(net, jit.ScriptModule)
    named = jit.trace_module(Gate(), {"forward": lg.ones(2), "twice": lg.ones(1)})
    assert named.twice(2) == 4


@pytest.mark.parametrize(
    "call",
    [
        lambda: jit.save(nn.Linear(1, 1), "x.pt"),
        lambda: jit.load("x.pt"),
        lambda: jit.script(nn.Linear(1, 1)).save("x.pt"),
        lambda: jit.script(len).save("x.pt"),
    ],
)
def test_files_are_refused_with_what_to_use(call: Any) -> None:
    with pytest.raises(RuntimeError, match=r"state_dict\(\)"):
        call()


def test_the_rest() -> None:
    net = nn.Linear(1, 1)
    with pytest.raises(RuntimeError, match=r"eval\(\)"):
        jit.freeze(net)
    assert jit.freeze(net.eval()) is net
    assert jit.optimize_for_inference(net) is net
    assert jit.wait(jit.fork(lambda a, b: a + b, 1, b=2)) == 3
    assert jit.annotate(list[int], []) == []
    assert jit.Attribute(3, int) == 3
    with jit.fuser("fuser2"), jit.optimized_execution(False), jit.strict_fusion():
        assert not jit.is_tracing()

    @jit.ignore(drop=True)
    def dropped() -> int:
        return 1

    assert dropped() == 1


def test_what_is_scripted_shows_its_source_as_its_graph() -> None:
    assert "return x * 2" in jit.script(straight).graph
    assert "if x.sum() > 0" in jit.script(Gate()).graph


def straight(x: Any) -> Any:
    return x * 2
