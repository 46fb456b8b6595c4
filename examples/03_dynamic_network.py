"""A network whose path depends on a counter: every step may have another graph.

The middle layer is used 0, 1, 2 or 3 times, one more at each call. It learns handwritten digits
(they come with livegrad) along all four paths at once. Nothing is declared: it is a `for` loop.
"""

from common import arguments, pyplot, result, save

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn, optim, train
from livegrad.datasets import digits_split

args = arguments(__doc__)


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


data = [lg.tensor(part) for part in digits_split()]
images, labels, test_images, test_labels = data
images, test_images = images.flatten(1), test_images.flatten(1)

model = CounterNet(64, 64, 10)
steps = 600 if args.quick else 2000
optimizer = optim.Adam(model.parameters(), lr=3e-3)
scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)

losses = []
for step in (bar := train.progress(range(steps), "training")):
    batch = lg.randint(0, len(images), (64,))
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images[batch]), labels[batch])
    loss.backward()
    optimizer.step()
    scheduler.step()
    losses.append(loss.item())
    bar.set(loss=loss)
    if step % 100 < 4:  # the four paths
        bar.write(f"step {step:3d}  middle layer used {step % 4} times  loss {losses[-1]:.4f}")

stats = lg.stats()
print(f"plans found again: {stats.plan_hits}, plans made: {stats.plan_misses}")

accuracies = []
with lg.no_grad():
    for repeats in range(4):
        model.counter = repeats
        right = model(test_images).argmax(1) == test_labels
        accuracies.append(right.float().mean().item())
        print(f"middle layer used {repeats} times: {accuracies[-1]:.1%} of the test digits right")

if plt := pyplot():
    plt.figure(figsize=(9, 3.5))
    plt.subplot(121, title="loss along each path", xlabel="step")
    for repeats in range(4):
        plt.semilogy(range(repeats, len(losses), 4), losses[repeats::4], label=f"{repeats} times")
    plt.legend()
    plt.subplot(122, title="accuracy by path", ylim=(0.8, 1))
    plt.bar(["0", "1", "2", "3"], accuracies)
    save(plt, args)

result("accuracy along the worst path", min(accuracies), at_least=0.9 if args.quick else 0.95)
