"""A network whose path depends on a counter: every step may have another graph."""

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn, optim


class CounterNet(nn.Module):
    """Uses its middle layer 0, 1, 2 or 3 times, one more at each call, then begins again."""

    def __init__(self, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        self.inner = nn.Linear(inputs, hidden)
        self.middle = nn.Linear(hidden, hidden)
        self.outer = nn.Linear(hidden, outputs)
        self.counter = 0

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.relu(self.inner(x))
        for _ in range(self.counter % 4):
            hidden = self.middle(hidden).clamp(min=0)
        self.counter += 1
        return self.outer(hidden)


lg.manual_seed(0)
x, y = lg.randn(16, 64), lg.randn(16, 10)
model = CounterNet(64, 32, 10)
optimizer = optim.Adam(model.parameters(), lr=3e-3)

losses = []
for step in range(400):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if step % 100 < 4:  # the four paths
        print(f"step {step:3d}  middle layer used {step % 4} times  loss {losses[-1]:.4f}")

first, last = sum(losses[:4]) / 4, sum(losses[-4:]) / 4
print(f"mean loss over the four paths: {first:.3f} at first, {last:.3f} at last")
assert last < first / 5

stats = lg.stats()
print(f"plans found again: {stats.plan_hits}, plans made: {stats.plan_misses}")
