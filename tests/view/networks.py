"""Small networks that are watched."""

from __future__ import annotations

import livegrad as lg
from livegrad import Tensor, nn
from livegrad.view import Watch


class Net(nn.Module):
    """Two layers; with `deep`, one operation more."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.second = nn.Linear(8, 3)
        self.deep = False

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x).relu()
        if self.deep:
            h = h.tanh()
        return self.second(h)


def train(net: nn.Module, steps: int, optimizer: lg.optim.Optimizer | None = None) -> None:
    """Some steps on random data."""
    optimizer = optimizer or lg.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(steps):
        x, y = lg.randn(16, 6), lg.randint(0, 3, (16,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        loss.item()


def watched(steps: int = 8, **options: bool) -> Watch:
    """A record of some steps."""
    net = Net()
    with lg.watch(**options) as watching:
        train(net, steps)
    return watching
