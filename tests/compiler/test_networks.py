"""How many kernels a training step of a network takes: a lost fusion fails."""

from __future__ import annotations

import numpy as np

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim
from livegrad.runtime.report import last_steps


def test_lenet() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    rng = np.random.default_rng(0)
    x = lg.tensor(rng.standard_normal((16, 3, 32, 32)).astype("f4"))
    y = lg.tensor(rng.integers(0, 10, 16))
    for _ in range(2):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    kinds = [step.kind for step in last_steps()]
    assert len(kinds) <= 24, kinds
