"""A network whose depth depends on its input: it thinks until it is sure, as an `if` in Python.

Digits go through one small block after the other. After each, the network says what it would
answer; an image whose answer is sure enough leaves, the others go on. Harder images go deeper, and
the average cost falls. The digits come with livegrad.
"""

from common import arguments, pyplot, result, save, show_images

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn, optim, train
from livegrad.datasets import digits_split

args = arguments(__doc__)
DEPTH = 5


class EarlyExit(nn.Module):
    """Blocks in a row, with an answer after each."""

    def __init__(self, hidden: int = 24) -> None:
        super().__init__()
        self.inner = nn.Linear(64, hidden)
        self.blocks = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(DEPTH))
        self.heads = nn.ModuleList(nn.Linear(hidden, 10) for _ in range(DEPTH))

    def forward(self, x: Tensor) -> list[Tensor]:
        """The scores (N, 10) after each block, for training."""
        x = F.relu(self.inner(x))
        scores = []
        for block, head in zip(self.blocks, self.heads, strict=True):
            x = x + F.relu(block(x))
            scores.append(head(x))
        return scores

    def decide(self, image: Tensor, sure: float) -> tuple[int, int]:
        """The answer for one image (64,), and how many blocks it took."""
        x = F.relu(self.inner(image))
        depth = 0
        for block, head in zip(self.blocks, self.heads, strict=True):
            depth += 1
            x = x + F.relu(block(x))
            chances = F.softmax(head(x), dim=-1)
            if chances.max() > sure:  # a value decides which path is taken
                break
        return int(chances.argmax()), depth


images, labels, test_images, test_labels = [lg.tensor(part) for part in digits_split()]
images, test_images = images.flatten(1), test_images.flatten(1)
model = EarlyExit()
optimizer = optim.Adam(model.parameters(), lr=3e-3)
for _ in (bar := train.progress(range(400 if args.quick else 1500), "training")):
    batch = lg.randint(0, len(images), (64,))
    optimizer.zero_grad()
    answers = model(images[batch])
    loss = sum(F.cross_entropy(scores, labels[batch]) for scores in answers) / DEPTH
    loss.backward()
    optimizer.step()
    bar.set(loss=loss)

# How sure it must be is a dial between cost and accuracy.
some = 120 if args.quick else len(test_images)
table = []
with lg.no_grad():
    for sure in (0.0, 0.7, 0.95, 2.0):  # 2: never sure, so every image goes through all blocks
        decided = [model.decide(image, sure) for image in test_images[:some]]
        right = [a == b for (a, _), b in zip(decided, test_labels.tolist(), strict=False)]
        depths = [depth for _, depth in decided]
        accuracy, cost = sum(right) / some, sum(depths) / some
        table.append((sure, accuracy, cost))
        print(f"sure {sure:4.2f}: accuracy {accuracy:.3f}, {cost:.2f} blocks on average")
        if sure == 0.95:
            by_depth = sorted(range(some), key=lambda i: depths[i])

if plt := pyplot():
    plt.figure(figsize=(9, 3.5))
    plt.subplot(121, title="accuracy against cost", xlabel="blocks per image")
    plt.plot([row[2] for row in table], [row[1] for row in table], "o-")
    plt.subplot(122)
    shown = test_images[lg.tensor(by_depth[:20] + by_depth[-20:])].view(-1, 8, 8)
    show_images(plt, shown, title="quickest (above), slowest (below)")
    save(plt, args)

_, accuracy, cost = table[2]
result("blocks per image, of 5", cost, at_most=3.5)
result("accuracy with early exits", accuracy, at_least=0.92 if args.quick else 0.95)
result("lost against full depth", table[3][1] - accuracy, at_most=0.02)
