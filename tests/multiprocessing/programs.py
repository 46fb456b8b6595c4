"""What the tests' processes do: in a file of its own, which children import without pytest."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim


def add_index(i: int, shared: Any) -> None:
    shared[i] += i + 1


def fail_in_one(i: int) -> None:
    if i == 1:
        raise ValueError("number one fails")
    time.sleep(60)


def leave(i: int) -> None:
    sys.exit(3)


def be_killed(i: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def sleep(i: int, seconds: float) -> None:
    time.sleep(seconds)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x: Any) -> Any:
        return self.second(F.relu(self.first(x)))


def examples() -> tuple[Any, Any]:
    x = lg.linspace(-1, 1, 128).reshape(32, 4)
    return x, (x.sum(1) > 0).long()


def hogwild(rank: int, model: Any, steps: int) -> None:
    """As the example of that name: each process trains the same parameters."""
    lg.manual_seed(rank)
    x, y = examples()
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def answer(questions: Any, answers: Any, done: Any) -> None:
    for x in iter(questions.get, None):
        x.mul_(2)
        answers.put({"sum": x.sum().item(), "same": x, "new": x + 1, "parameter": nn.Parameter(x)})
    done.wait()  # memory must be here until the other process has taken it


def doubled(x: Any) -> Any:
    return x * 2
