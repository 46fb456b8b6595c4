"""Graphs of very many nodes are summarised: by lines, with counts, in little memory."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

import livegrad as lg
from livegrad import nn
from livegrad.view import summary
from livegrad.view.files import bundle

ROUNDS = 60_000


class Loop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(lg.tensor([0.5, 0.2]))

    def forward(self, x: lg.Tensor, rounds: int) -> lg.Tensor:
        for _ in range(rounds):
            x = (x * self.weight).tanh()
        return x.sum()


def test_a_long_loop_and_its_gradient_are_a_few_nodes_with_counts(tmp_path: Path) -> None:
    net = Loop()
    with lg.watch() as w:
        loss = net(lg.ones(2), ROUNDS)
        loss.backward()
        assert net.weight.grad is not None
        net.weight.grad.sum().item()
    g = w.graph()
    assert len(g) < 40
    assert len(g.kernels) < 80
    [backward] = [n for n in g if n.op == "tanh backward"]
    assert backward.count == ROUNDS
    assert backward.module == "Loop"
    assert f"×{ROUNDS:,}" in str(g)
    assert backward.seconds > 0
    data = bundle(w.document)
    assert len(json.dumps(data["steps"][str(w.steps[-1].number)])) < 200_000
    w.save(tmp_path / "loop.html")


def test_counts_bytes_and_edges_of_a_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "MOST_NODES", 100)
    net = Loop()
    optimizer = lg.optim.SGD(net.parameters(), lr=0.1)
    with lg.watch() as w:
        for _ in range(3):
            optimizer.zero_grad()
            net(lg.ones(2), 200).backward()
            optimizer.step()
    g = w.graph()
    [tanh], [mul] = g.find(op="tanh"), g.find(op="mul")
    assert (tanh.count, tanh.nbytes, tanh.module) == (200, 200 * 8, "Loop")
    assert mul.number in tanh.inputs
    assert tanh.number in mul.inputs  # a loop
    [slope] = g.find(op="tanh backward")
    assert (slope.count, slope.of) == (200, tanh.number)
    assert g.find("weight", phase="leaf")
    assert g.path(mul, g.find(op="sum")[0])
    assert sum([k.count for k in g.kernels]) > 0
    assert not w.graph(1).diff(w.graph(2))


def test_many_shapes_are_few_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "MOST_NODES", 100)
    monkeypatch.setattr(summary, "_MOST_GROUPS", 20)
    y = lg.ones(1)
    for _ in range(300):
        y = lg.cat([y, lg.ones(1)])
    g = lg.graph(y)
    assert len(g) < 40
    assert sum([n.count for n in g.find(op="cat")]) == 300


def test_what_a_flush_takes_up_is_in_the_graph() -> None:
    """A value that another thread has recorded: places of nodes are others than were told."""
    x = lg.ones(2, 3)
    recorded: list[lg.Tensor] = []
    thread = threading.Thread(target=lambda: recorded.append(x.exp()))
    with lg.watch() as w:
        y = x.sin()
        thread.start()
        thread.join()
        (y * recorded[0].cos()).sum().item()
    g = w.graph()
    assert {n.op for n in g if n.phase == "forward"} == {"exp", "sin", "cos", "mul", "sum"}
    computed = [(kernel.ops, tuple(g[n].op for n in kernel.op_nodes)) for kernel in g.kernels]
    assert computed
    assert all([ops == nodes for ops, nodes in computed]), computed
