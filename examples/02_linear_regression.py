"""A complete training loop: a straight line through noisy points, with its plot.

The points are generated, from y = 3 x + 2 and noise. The line that gradients find is compared with
the one that the normal equations give at once.
"""

from common import arguments, pyplot, result, save

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim, train

args = arguments(__doc__)
x = lg.randn(200, 1)
y = 3 * x + 2 + 0.5 * lg.randn(200, 1)

model = nn.Linear(1, 1)
optimizer = optim.SGD(model.parameters(), lr=0.1)

losses, lines = [], []
for step in (bar := train.progress(range(101), "fitting")):
    if step in (0, 2, 5, 10, 20):
        lines.append((step, model.weight.item(), model.bias.item()))
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    bar.set(loss=loss)

slope, offset = model.weight.item(), model.bias.item()
print(f"y = {slope:.3f} x + {offset:.3f}   (the points were drawn from y = 3 x + 2)")

# The best line in one step: least squares of [x 1] against y.
columns = lg.cat([x, lg.ones_like(x)], dim=1)
best_slope, best_offset = lg.linalg.lstsq(columns, y).solution.flatten().tolist()
print(f"y = {best_slope:.3f} x + {best_offset:.3f}   (least squares)")

if plt := pyplot():
    plt.figure(figsize=(9, 3.5))
    plt.subplot(121, title="the line after some steps")
    plt.scatter(x.numpy(), y.numpy(), s=8, color="silver")
    ends = lg.tensor([-3.0, 3.0])
    for step, a, b in lines:
        plt.plot(ends.numpy(), (a * ends + b).numpy(), alpha=0.4, label=f"step {step}")
    plt.plot(ends.numpy(), (slope * ends + offset).numpy(), "k", label=f"step {len(losses) - 1}")
    plt.legend(fontsize=8)
    plt.subplot(122, title="mean squared error", xlabel="step")
    plt.semilogy(losses)
    save(plt, args)

result("slope, away from least squares", abs(slope - best_slope), at_most=1e-3)
result("offset, away from least squares", abs(offset - best_offset), at_most=1e-3)
result("slope, away from that of the points", abs(slope - 3), at_most=0.15)
