"""A complete training loop: fit a straight line to noisy points."""

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim

lg.manual_seed(0)
x = lg.randn(200, 1)
y = 3 * x + 2 + 0.1 * lg.randn(200, 1)

model = nn.Linear(1, 1)
optimizer = optim.SGD(model.parameters(), lr=0.1)

for step in range(101):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step:3d}  loss {loss.item():.4f}")

slope, offset = model.weight.item(), model.bias.item()
print(f"y = {slope:.2f} x + {offset:.2f}   (the points were drawn from y = 3 x + 2)")
assert abs(slope - 3) < 0.1
assert abs(offset - 2) < 0.1
