"""Contrastive learning (SimCLR): images without labels, known by what stays when they are changed.

Two changed copies of one image should get similar codes, those of different images different ones.
How good the codes are is measured by a linear layer that gets ten labelled images of each digit, on
codes and, beside it, on pixels. The digits come with livegrad.
"""

from common import arguments, pyplot, result, save

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn, optim, train
from livegrad.datasets import digits_split

args = arguments(__doc__)
TEMPERATURE = 0.2


def changed(images: Tensor) -> Tensor:
    """Each image turned, stretched, sheared and moved a little in its own way."""
    count = len(images)
    turn = 0.25 * lg.randn(count)
    stretch = 1 + 0.15 * lg.randn(count, 2)
    shear = 0.15 * lg.randn(count)
    cos, sin = turn.cos(), turn.sin()
    rows = [
        lg.stack([cos * stretch[:, 0], -sin + shear, 0.15 * lg.randn(count)], dim=1),
        lg.stack([sin, cos * stretch[:, 1], 0.15 * lg.randn(count)], dim=1),
    ]
    grid = F.affine_grid(lg.stack(rows, dim=1), list(images.shape), align_corners=False)
    moved = F.grid_sample(images, grid, align_corners=False)
    return (moved * (1 + 0.2 * lg.randn(count, 1, 1, 1)) + 0.05 * lg.randn_like(moved)).clamp(0, 1)


class Encoder(nn.Module):
    """Images (N, 1, 8, 8) to codes (N, 64); for training these go through a small head."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(32 * 16, 64),
        )  # fmt: skip
        self.head = nn.Sequential(nn.ReLU(), nn.Linear(64, 32))

    def forward(self, images: Tensor) -> Tensor:
        return F.normalize(self.head(self.body(images)), dim=1)


def contrast(first: Tensor, second: Tensor) -> Tensor:
    """Each code has to find its partner among all others (NT-Xent)."""
    codes = lg.cat([first, second])
    likeness = codes @ codes.T / TEMPERATURE
    likeness = likeness.masked_fill(lg.eye(len(codes)).bool(), -1e9)  # not itself
    half = lg.arange(len(first))
    return F.cross_entropy(likeness, lg.cat([half + len(first), half]))


def probe(features: Tensor, labels: Tensor, test: Tensor, test_labels: Tensor) -> float:
    """The accuracy of a linear layer on features that stay as they are."""
    mean, scale = features.mean(0), features.std(0) + 1e-3
    features, test = (features - mean) / scale, (test - mean) / scale
    layer = nn.Linear(features.shape[1], 10)
    optimizer = optim.Adam(layer.parameters(), lr=0.02, weight_decay=1e-3)
    for _ in range(200):
        optimizer.zero_grad()
        F.cross_entropy(layer(features), labels).backward()
        optimizer.step()
    return (layer(test).argmax(1) == test_labels).float().mean().item()


images, labels, test_images, test_labels = [lg.tensor(part) for part in digits_split()]
images, test_images = images[:, None], test_images[:, None]
model = Encoder()
steps = 250 if args.quick else 2000
optimizer = optim.AdamW(model.parameters(), lr=3e-3)
scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
losses = []
for _ in (bar := train.progress(range(steps), "without labels")):
    batch = images[lg.randint(0, len(images), (128,))]
    optimizer.zero_grad()
    loss = contrast(model(changed(batch)), model(changed(batch)))
    loss.backward()
    optimizer.step()
    scheduler.step()
    losses.append(loss)
    bar.set(loss=loss)

few = lg.cat([(labels == k).nonzero()[:10, 0] for k in range(10)])
with lg.no_grad():
    codes, test_codes = model.body(images), model.body(test_images)
on_pixels = probe(images[few].flatten(1), labels[few], test_images.flatten(1), test_labels)
on_codes = probe(codes[few], labels[few], test_codes, test_labels)
# Without any label: is the nearest other image the same digit?
apart = lg.cdist(F.normalize(test_codes, dim=1), F.normalize(codes, dim=1))
neighbours = (labels[apart.argmin(1)] == test_labels).float().mean().item()
print(f"the nearest image by code is the same digit for {neighbours:.1%} of test digits")

if plt := pyplot():
    _, _, directions = lg.linalg.svd(test_codes - test_codes.mean(0), full_matrices=False)
    flat = (test_codes - test_codes.mean(0)) @ directions[:2].T
    plt.figure(figsize=(9, 3.5))
    plt.subplot(121, title="loss", xlabel="step")
    plt.plot(lg.stack(losses).detach().numpy())
    plt.subplot(122, title="codes of test digits, two directions")
    plt.scatter(*flat.T.numpy(), c=test_labels.numpy(), cmap="tab10", s=8)
    save(plt, args)

result("linear layer on pixels, 100 labels", on_pixels)
result("linear layer on codes, 100 labels", on_codes, at_least=on_pixels)
