"""What is recorded of a run: steps, nodes with lines and modules, kernels, times, values."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import livegrad as lg
from livegrad import nn
from livegrad.graph import events
from livegrad.nn.module import Module
from livegrad.runtime.sight import Policy
from livegrad.utils.data import DataLoader, TensorDataset
from livegrad.view import calls
from livegrad.view.document import chrome_trace
from livegrad.view.record import Recorder
from tests.view.networks import Net, train, watched


def test_a_step_has_modules_lines_and_both_directions() -> None:
    g = watched().graph()
    (first,) = g.find(op="linear", module="Net.first")
    assert first.phase == "forward"
    assert first.where.startswith("networks.py:")
    assert first.function == "Net.forward"
    assert first.shape == (16, 8)
    (backward,) = [n for n in g if n.of == first.number]
    assert backward.module == "Net.first"
    assert backward.number == -first.number
    assert [n.module for n in g.find(op="relu")] == ["Net"]
    assert {n.name for n in g.find(op="parameter")} == {
        f"Net.{layer}.{name}" for layer in ("first", "second") for name in ("weight", "bias")
    }
    gradients = {(n.module, n.name) for n in g.find(op="gradient")}
    assert ("Net.first", "weight gradient") in gradients
    assert [n.module for n in g.find(phase="update")] == ["SGD"]


@pytest.mark.parametrize("read_first", [False, True])
def test_what_is_made_of_gradients_is_part_of_the_update(read_first: bool) -> None:
    net = Net()
    optimizer = lg.optim.SGD(net.parameters(), lr=0.1)
    x = lg.randn(4, 6, requires_grad=True)
    with lg.watch() as watching:
        loss = net(x).square().mean()
        (slope,) = lg.autograd.grad(loss, x, create_graph=True)
        (loss + slope.square().sum()).backward()
        if read_first:
            loss.item()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    g = watching.graph(0)
    clipping = [n for n in g.find(op="norm") if n.shape == ()]
    assert len(clipping) == 5
    assert {n.phase for n in clipping} == {"update"}
    penalty = [n for n in g.find(op="square") if n.shape == (4, 6)]
    assert {n.phase for n in penalty} == {"forward"}


def test_kernels_tell_which_nodes_they_compute() -> None:
    watching = watched(steps=40)
    g = watching.graph()
    assert g.kernels
    assert {k.tier for k in g.kernels} <= {"plan", "piece", "NumPy"}
    (first,) = g.find(op="linear", module="Net.first")
    assert first.kernels
    for kernel in g.kernels:
        assert all(number in g.nodes for number in kernel.nodes)
        assert len(kernel.op_nodes) == len(kernel.ops) or kernel.tier == "piece"
    if g.kernels[0].tier == "plan":
        backward = g[-first.number]
        assert backward.kernels
        assert not set(backward.kernels) & set(first.kernels)
        assert any(k.seconds for k in g.kernels)


def test_times_add_up() -> None:
    watching = watched(steps=40)
    for step in watching.steps:
        whole = step.ended - step.started
        assert sum(f.ended - f.started for f in step.flushes) <= whole
        data = watching.document.step(step.number)
        lanes = {"python", "flush"}
        told = sum(took for lane, _, _, took, _, _ in data["timeline"] if lane in lanes)
        assert told == pytest.approx(whole / 1e3, rel=0.05)


def test_curves_are_the_numbers_that_were_read() -> None:
    watching = watched(steps=5)
    (points,) = watching.recorder.curves.values()
    assert [step for step, _ in points] == [0, 1, 2, 3, 4]
    watching.log("accuracy", 0.5)
    assert watching.recorder.curves["accuracy"][0][1] == 0.5


def test_weights_and_gradients_are_looked_at() -> None:
    looks = watched(steps=3).recorder.training.looks
    step, look = looks[0]
    assert step == 0
    found = look["Net.first.weight"]
    assert found["weight"]["count"] == 48
    assert found["gradient"]["nan"] == 0
    assert 0 < found["ratio"] < 1


def test_values_when_asked() -> None:
    with lg.watch(values=True) as watching:
        x = lg.tensor([0.0, 1.0, float("nan"), -1.0]) * 2
        x.sum().item()
    g = watching.graph()
    (node,) = g.find(op="mul")
    assert node.stats is not None
    assert node.stats["zeros"] == 0.25
    assert node.stats["nan"] == 0.25
    assert (node.stats["min"], node.stats["max"]) == (-2.0, 2.0)


def test_values_change_no_result() -> None:
    def losses(values: bool) -> list[float]:
        lg.manual_seed(3)
        net = Net()
        optimizer = lg.optim.Adam(net.parameters())
        found = []
        with lg.watch(values=values):
            for _ in range(6):
                loss = net(lg.randn(4, 6)).square().sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                found.append(loss.item())
        return found

    assert losses(True) == losses(False)


def test_nothing_is_left_when_it_is_off() -> None:
    lists = (*events.KINDS.values(), events.FLUSHING, events.WALKED, events.BACKWARD, events.STEP)
    net = Net()
    optimizer = lg.optim.SGD(net.parameters(), lr=0.1)
    train(net, 1, optimizer)  # the lint listens from the first step of an optimiser on
    plain, listeners = Module.__dict__["__call__"], [len(x) for x in lists]
    with lg.watch():
        train(net, 2, optimizer)
    assert Module.__dict__["__call__"] is plain
    assert [len(x) for x in lists] == listeners
    assert not events.RECORDED
    assert not events.FLUSHING
    assert not Recorder.running_now


def test_a_record_keeps_no_value_alive() -> None:
    with lg.watch() as watching:
        x = lg.ones(1000).exp()
        node = weakref.ref(x._node)
        x.sum().item()
        del x
        gc.collect()
        assert node() is None
    assert len(watching.graph()) == 3


def test_without_an_optimiser_each_flush_is_a_step() -> None:
    with lg.watch() as watching:
        for _ in range(3):
            lg.ones(4).sum().item()
    assert [step.number for step in watching.steps] == [0, 1, 2]


def test_what_comes_before_the_first_step_of_an_optimiser_is_part_of_it() -> None:
    with lg.watch() as watching:
        net = Net()
        for x in lg.randn(5, 2):
            x.sum().item()
        train(net, 4)
        net(lg.ones(1, 6)).sum().item()
    assert [step.number for step in watching.steps] == [0, 1, 2, 3, 4]
    first = watching.graph(0)
    assert first.find(phase="setup")
    assert first.find(op="cross_entropy")
    assert len(watching.steps[0].flushes) > len(watching.steps[1].flushes) + 4
    before, loss, after = watching.recorder.curves.values()
    assert [step for step, _ in before] == [0] * 5
    assert [step for step, _ in loss] == [0, 1, 2, 3]
    assert [step for step, _ in after] == [4]


def test_steps_that_were_said_stay_apart() -> None:
    with lg.watch() as watching:
        for _ in range(2):
            lg.ones(3).sum().item()
        watching.step()
        lg.ones(4).sum().item()
        train(Net(), 2)
    numbers = [step.number for step in watching.steps]
    assert numbers == list(range(numbers[-1] + 1))
    assert len(numbers) == 3 + 2  # two flushes and what was said; two steps
    assert watching.graph(3).find(op="cross_entropy")


def test_what_is_listed_first_and_planned_later_is_always_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, y = lg.randn(7, 5), lg.randn(7, 5)
    with lg.watch() as watching:
        for turn in range(6):
            monkeypatch.setattr(Policy, "whole", turn >= 3)
            monkeypatch.setattr(Policy, "pieces", turn < 3)
            ((x * y).tanh() + turn).sum().item()
    flushes = [flush for step in watching.steps for flush in step.flushes]
    assert {"pieces", "plan"} == {flush.tier for flush in flushes}
    assert all(flush.known is not None for flush in flushes)
    for step in watching.steps:
        tiers = {kernel.tier for kernel in watching.graph(step.number).kernels}
        assert tiers == {"piece" if step.flushes[0].tier == "pieces" else "plan"}


def test_the_same_operations_connected_in_another_way_are_another_graph() -> None:
    x, y = lg.randn(3), lg.randn(3)
    with lg.watch() as watching:
        for _ in range(2):
            a, b = x.exp(), y.exp()
            ((a - b) * a).sum().item()
            a, b = x.exp(), y.exp()
            ((a - b) * b).sum().item()
    reads = []
    for step in watching.steps:
        graph = watching.graph(step.number)
        first, second = graph.find(op="exp")
        (product,) = graph.find(op="mul")
        reads.append(
            "first" if first.number in product.inputs else "second"
            if second.number in product.inputs else "neither"
        )  # fmt: skip
    assert reads == ["first", "second"] * 2


def test_a_structure_is_taken_once() -> None:
    watching = watched(steps=30)
    taken = {id(f.known.captured.nodes) for step in watching.steps for f in step.flushes if f.known}
    assert len(taken) <= 3


def test_backward_rule_by_rule() -> None:
    net = Net()
    with lg.watch() as watching:
        loss = net(lg.randn(2, 6)).sum()
        (g,) = lg.autograd.grad(loss, [net.first.weight], create_graph=True)
        g.sum().item()
    assert watching.graph().find(phase="forward", module="Net.second")


class Failing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 5)
        self.outer = nn.Linear(4, 2)

    def forward(self, x: lg.Tensor) -> lg.Tensor:
        hidden = self.inner(x).relu()
        return self.outer(hidden)


def test_a_forward_that_raises_is_drawn_as_far_as_it_came() -> None:
    watching = lg.watch()
    with pytest.raises(RuntimeError), watching:
        Failing()(lg.randn(3, 4))
    g = watching.graph()
    assert [n.op for n in g if n.module.startswith("Failing")][:2] == ["linear", "relu"]
    (failed,) = [n for n in g if n.failed]
    assert failed.module == "Failing.outer"
    assert g.error is not None
    assert g.error["shapes"] == {"x": "[3, 4] float32", "hidden": "[3, 5] float32"}
    assert g[failed.inputs[0]].op == "relu"
    assert "✗" in str(g)


def test_an_error_leaves_the_program_as_it_was() -> None:
    with pytest.raises(ZeroDivisionError), lg.watch():
        x = lg.ones(3).exp()
        1 / 0
    assert x.sum().item() == pytest.approx(3 * 2.718281828)


def test_wrong_uses() -> None:
    with lg.watch() as watching, pytest.raises(RuntimeError, match="already"):
        watching.start()
    with pytest.raises(ValueError, match="at least 1"):
        lg.watch(steps=0)


def test_one_within_another() -> None:
    """Both have all that ran while they watched, whichever ends first."""
    net = Net()
    outer = lg.watch().start()
    train(net, 2)
    inner = lg.watch().start()
    train(net, 3)
    outer.stop()
    train(net, 1)
    inner.stop()
    assert [len(w.steps) for w in (outer, inner)] == [5, 4]
    graphs = [outer.graph(4), inner.graph(2)]
    for g in graphs:
        assert {n.module for n in g.find(op="linear")} == {"Net.first", "Net.second"}
        assert [n.module for n in g.find(phase="update")] == ["SGD"]
        assert any(k.seconds for k in g.kernels)
    assert not graphs[0].diff(graphs[1])
    assert [len(points) for points in inner.recorder.curves.values()] == [4]


def test_two_threads() -> None:
    """Each has its own; a third, which nobody watches, notes nothing."""
    made: dict[str, lg.view.Watch] = {}
    together = threading.Barrier(3, timeout=60)
    marks = []

    def run(name: str, deep: bool) -> None:
        net = Net()
        net.deep = deep
        together.wait()
        with lg.watch() as made[name]:
            train(net, 4)
            together.wait()

    def unwatched() -> None:
        net = Net()
        together.wait()
        train(net, 4)
        marks.append(list(calls.HERE.marks.list))
        together.wait()

    threads = [
        threading.Thread(target=run, args=("a", False)),
        threading.Thread(target=run, args=("b", True)),
        threading.Thread(target=unwatched),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made["a"].steps) == len(made["b"].steps) == 4
    assert not made["a"].graph().find(op="tanh")
    assert made["b"].graph().find(op="tanh")
    assert marks == [[]]
    assert not Recorder.running_now


def test_old_steps_are_forgotten() -> None:
    net = Net()
    with lg.watch(steps=3) as watching:
        train(net, 7)
    assert [step.number for step in watching.steps] == [4, 5, 6]
    with pytest.raises(LookupError, match="4 to 6"):
        watching.graph(1)


def test_nothing_watched() -> None:
    with lg.watch() as watching:
        pass
    with pytest.raises(LookupError, match="nothing has been computed"):
        watching.graph()


def test_modules_of_one_kind_have_names_of_their_own() -> None:
    one, two = Net(), Net()
    with lg.watch() as watching:
        (one(lg.ones(1, 6)) + two(lg.ones(1, 6))).sum().item()
    tops = {n.module.split(".")[0] for n in watching.graph().find(op="linear")}
    assert len(tops) == 2


def test_waiting_for_data_is_told() -> None:
    loader = DataLoader(TensorDataset(lg.randn(8, 6)), batch_size=2)
    with lg.watch() as watching:
        for (batch,) in loader:
            batch.sum().item()
    spans = [span.what for step in watching.steps for span in step.spans]
    assert spans.count("data") == 4


def test_what_modules_make_of_themselves_is_setup() -> None:
    with lg.watch() as watching:
        Net()(lg.ones(1, 6)).sum().item()
    g = watching.graph(0)
    assert {n.function for n in g.find(phase="setup")} == {"Net.__init__"}
    assert "setup" not in {n.phase for n in g.find(op="linear")}


def test_other_threads_are_left_alone() -> None:
    with lg.watch() as watching:
        thread = threading.Thread(target=lambda: lg.ones(7).sum().item())
        thread.start()
        thread.join()
        lg.ones(3).sum().item()
    shapes = {n.shape for step in watching.steps for n in watching.graph(step.number)}
    assert (7,) not in shapes
    assert (3,) in shapes


def test_what_each_thread_did_of_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Policy, "whole", True)
    watching = watched(steps=3)
    step = watching.steps[-1]
    (flush,) = [f for f in step.flushes if len(f.rows) > 1]
    count = len(flush.rows)
    rows = np.zeros((count, 6), np.int64)
    rows[:, 0] = flush.started + 1000 * np.arange(count)
    rows[:, 1] = rows[:, 0] + 800
    rows[0, 2:] = rows[0, 0] + 100, rows[0, 1], rows[0, 0] + 200, rows[0, 1] - 200
    flush.stamps = [(count, rows)]
    first = next(k for k in watching.graph().kernels if k.started == rows[0, 0])
    assert [thread for thread, _, _ in first.threads] == [0, 1]
    assert first.seconds == 800e-9
    assert first.busy == pytest.approx((700 + 400) / 1600)
    timeline = watching.document.step(step.number)["timeline"]
    lanes = [event for event in timeline if event[0].startswith("thread ")]
    assert len([event for event in lanes if event[0] == "thread 0"]) == count
    assert [event[3] for event in lanes if event[0] == "thread 1"] == [0.4]
    trace = chrome_trace(watching.document, [step.number])["traceEvents"]
    assert {"thread 0", "thread 1"} <= {e["args"].get("name") for e in trace}


def test_updates_behind_pieces_have_their_kernels() -> None:
    net = Net()
    optimizer = lg.optim.Adam(net.parameters())
    with lg.watch() as watching:
        for width in range(3, 9):  # ever new structures
            optimizer.zero_grad()
            net(lg.randn(width, 6)).square().mean().backward()
            optimizer.step()
    for step in watching.steps:
        if {flush.tier for flush in step.flushes} == {"pieces", "plan"}:
            g = watching.graph(step.number)
            assert not g.left_out
            assert all(node.kernels for node in g.find(op="adam"))
            break
    else:
        pytest.fail("no step was run piece by piece")
