"""What memory is used for, and what a step will need: exactly what it then takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import livegrad as lg
import livegrad.nn as nn
import livegrad.nn.functional as F
from livegrad.runtime.memory import memory_in_use, memory_peak, reset_peak
from livegrad.runtime.sight import Policy


def test_what_is_in_memory() -> None:
    model = nn.Linear(100, 50)
    optimizer = lg.optim.Adam(model.parameters())
    model(lg.ones(3, 100)).sum().backward()
    optimizer.step()
    kept = lg.ones(64, 1000) + 1
    kept.sum().item()
    report = lg.memory_report()
    of = {(each.kind, name): each for each in report.held for name in each.names}
    assert of["parameter", "weight"].nbytes >= 100 * 50 * 4
    assert of["gradient", "weight"].values == 2
    assert of["optimiser", "exp_avg of weight"].values == 5  # and one count of steps
    mine = [each for each in report.held if (64, 1000) in each.shapes]
    assert len(mine) == 1
    assert mine[0].line.startswith("test_memory_report.py:")
    assert report.in_use == memory_in_use()
    assert report.tensors <= report.in_use <= report.peak
    assert "exp_avg of weight" in str(report)


def test_which_plans_need_the_arena(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Policy, "whole", True)
    x = lg.ones(300, 500)
    x.sum().item()
    (x.exp() @ x.T).softmax(1).sum().item()
    report = lg.memory_report()
    nbytes, plan, kernels = report.arena_users[0]
    assert nbytes >= 300 * 500 * 4
    assert kernels > 1
    assert f"of the arena for plan {plan}" in str(report)
    assert nbytes <= report.arenas["plans"]


def test_values_kept_for_backward() -> None:
    x = lg.ones(200, 300, requires_grad=True)
    loss = (x.exp() * x).sin().sum()
    loss.item()
    kept = [each for each in lg.memory_report().held if each.kind == "backward"]
    assert sum([each.nbytes for each in kept]) >= 200 * 300 * 4
    loss.backward()


class Lenet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(1, 4, 5), nn.Conv2d(4, 8, 5)
        self.c = nn.Linear(8 * 4 * 4, 10)

    def forward(self, x: Any) -> Any:
        x = F.max_pool2d(self.a(x).relu(), 2)
        return self.c(F.max_pool2d(self.b(x).relu(), 2).flatten(1))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 16), nn.Linear(16, 10)

    def forward(self, x: Any) -> Any:
        return self.head(self.lstm(x)[0][-1])


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(32, 10)

    def forward(self, x: Any) -> Any:
        return self.head(self.blocks(self.words(x)).mean(1))


class Halves(nn.Module):
    """A U-Net of two levels."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.deep = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.up, self.head = nn.ConvTranspose2d(16, 8, 2, 2), nn.Linear(16 * 14 * 14, 10)

    def forward(self, x: Any) -> Any:
        wide = F.max_pool2d(self.down(x).relu(), 2)
        deep = self.deep(F.max_pool2d(wide, 2)).relu()
        return self.head(lg.cat([self.up(deep), wide], 1).flatten(1))


class Tree(nn.Module):
    """Adds up a tree, node by node."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.join = nn.Embedding(20, 32), nn.Linear(64, 32)
        self.head = nn.Linear(32, 10)

    def node(self, x: Any) -> Any:
        if len(x) == 1:
            return self.words(x)[0]
        half = len(x) // 2 + 1 if len(x) > 3 else 1
        return self.join(lg.cat([self.node(x[:half]), self.node(x[half:])])).tanh()

    def forward(self, x: Any) -> Any:
        return lg.stack([self.head(self.node(each)) for each in x])


NETWORKS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10)),
            lambda: lg.randn(16, 64)),
    "lenet": (Lenet, lambda: lg.randn(6, 1, 28, 28)),
    "lstm": (Recurrent, lambda: lg.randn(7, 6, 8)),
    "gpt": (Attending, lambda: lg.randint(0, 20, (4, 12))),
    "unet": (Halves, lambda: lg.randn(6, 1, 28, 28)),
    "tree": (Tree, lambda: lg.randint(0, 20, (4, 9))),
}  # fmt: skip


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_predicted_peak_is_the_one_that_comes(
    name: str, first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of steps that are planned, as all are before long; or from the first on."""
    monkeypatch.setattr(Policy, "whole", not first)
    make, data = NETWORKS[name]
    model, x = make(), data()
    optimizer = lg.optim.Adam(model.parameters())
    target = lg.zeros(6 if name in ("lenet", "lstm", "unet") else x.shape[0], dtype=lg.int64)

    def step() -> float:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.item()

    before = [p.detach().clone().numpy().tobytes() for p in model.parameters()]
    predicted = lg.predict_peak(step)
    after = [p.detach().clone().numpy().tobytes() for p in model.parameters()]
    assert before == after  # nothing has happened
    assert not optimizer.state
    reset_peak()
    step()
    Policy.whole = True
    for _ in range(3):
        step()
    assert predicted == pytest.approx(memory_peak(), rel=0.05)


def test_a_step_that_raises() -> None:
    with pytest.raises(RuntimeError, match="could not be rehearsed(?s:.*)no such thing"):
        lg.predict_peak(lambda: lg.ones("no such thing"))


def test_data_that_is_pending_is_data_in_a_rehearsal() -> None:
    """Values that are checked when a line runs must not be arbitrary there."""
    model = lg.nn.Linear(6, 4)
    x, target = lg.randn(8, 6), lg.randint(0, 4, (8,))  # not computed yet

    def step() -> None:
        F.cross_entropy(model(x), target).backward()
        model.weight.grad.sum().item()  # type: ignore[union-attr]

    assert lg.predict_peak(step) > 0
