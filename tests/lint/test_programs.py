"""Correct programs: training in many ways gives no warning.

Nor do the examples and the demo, which run with warnings as errors: see `tests/examples`.
"""

from __future__ import annotations

from typing import Any

import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import lint, nn, optim
from livegrad.utils.checkpoint import checkpoint_sequential


@pytest.fixture
def watching() -> Any:
    lint.reset()
    yield
    lint.reset()


@pytest.mark.usefixtures("watching")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("way", ["plain", "closure", "accumulating", "mixed", "checkpoint"])
def test_a_whole_training_with_evaluation(way: str) -> None:
    lg.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3)
    )
    x, y = lg.randn(64, 4), lg.randint(0, 3, (64,))
    optimizer = optim.AdamW(net.parameters(), lr=1e-2)
    schedule = optim.lr_scheduler.StepLR(optimizer, 1)
    scaler = lg.amp.GradScaler(enabled=way == "mixed")

    def loss_of(part: slice) -> Any:
        with lg.autocast("cpu", dtype=lg.float16, enabled=way == "mixed"):
            run = net if way != "checkpoint" else lambda t: checkpoint_sequential(net, 2, t)
            return F.cross_entropy(run(x[part]), y[part])

    for _ in range(2):
        net.train()
        for start in range(0, 64, 2):
            part = slice(start, start + 2)
            if way == "closure":

                def closure(part: slice = part) -> Any:
                    optimizer.zero_grad()
                    loss = loss_of(part)
                    loss.backward()
                    return loss

                optimizer.step(closure)
                continue
            loss = loss_of(part)
            scaler.scale(loss).backward()
            if way == "accumulating" and start % 8 != 6:
                continue
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            loss.item()
        schedule.step()
        net.eval()
        with lg.no_grad():
            for start in range(0, 64, 16):
                loss_of(slice(start, start + 16)).item()
