"""Attributions: which pixels does an answer come from? Five methods, and how often they are right.

A network reads digits that lie somewhere in a larger noisy image. As we know where, we can measure
how much of an attribution lies on the digit; blind guessing would put a quarter there. The digits
come with livegrad.
"""

import numpy as np
from common import arguments, pyplot, result, save

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn, optim, train
from livegrad.attr import (
    InputXGradient,
    IntegratedGradients,
    LayerAttribution,
    LayerGradCam,
    NoiseTunnel,
    Occlusion,
    Saliency,
)
from livegrad.datasets import digits_split

args = arguments(__doc__)
random = np.random.default_rng(args.seed)


def scattered(digits: np.ndarray) -> tuple[Tensor, Tensor]:
    """Digits in a corner each of noisy images (N, 1, 16, 16), and masks of where they are."""
    images = 0.35 * random.random((len(digits), 1, 16, 16)).astype(np.float32)
    masks = np.zeros_like(images)
    for i, digit in enumerate(digits):
        y, x = 8 * random.integers(0, 2, 2)
        images[i, 0, y : y + 8, x : x + 8] = np.maximum(images[i, 0, y : y + 8, x : x + 8], digit)
        masks[i, 0, y : y + 8, x : x + 8] = 1
    return lg.tensor(images), lg.tensor(masks)


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 32, 3, padding=1)
        self.inner, self.outer = nn.Linear(32 * 16, 64), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.first(x)), 2)
        x = F.max_pool2d(F.relu(self.second(x)), 2)
        return self.outer(F.relu(self.inner(x.flatten(1))))


data = digits_split()
labels, test_labels = lg.tensor(data.train_labels), lg.tensor(data.test_labels)
test_images, masks = scattered(data.test_images)
model = Reader()
epochs = 10 if args.quick else 50
steps = epochs * (len(labels) // 64)
optimizer = optim.AdamW(model.parameters(), lr=5e-3)
scheduler = optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=steps)
for epoch in range(epochs):
    images, _ = scattered(data.train_images)  # other places and noise in each epoch
    order = lg.randperm(len(labels)).split(64)[: len(labels) // 64]
    for rows in (bar := train.progress(order, f"epoch {epoch + 1}/{epochs}")):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images[rows]), labels[rows])
        loss.backward()
        optimizer.step()
        scheduler.step()
        bar.set(loss=loss)
right = model(test_images).argmax(1) == test_labels
accuracy = right.float().mean().item()
print(f"{accuracy:.1%} of the scattered test digits are read right; these are explained")

model.eval()
some = right.nonzero()[: 40 if args.quick else 200, 0]
x, y, where = test_images[some], test_labels[some], masks[some]
parts, delta = IntegratedGradients(model).attribute(x, target=y, return_convergence_delta=True)
coarse = LayerGradCam(model, model.second).attribute(x, y, relu_attributions=True)
smooth = NoiseTunnel(Saliency(model))
found = {
    "saliency": Saliency(model).attribute(x, target=y),
    "smoothed": smooth.attribute(x, nt_samples=8, stdevs=0.1, target=y),
    "input × gradient": InputXGradient(model).attribute(x, target=y),
    "integrated gradients": parts,
    "Grad-CAM": LayerAttribution.interpolate(coarse, (16, 16), "bilinear"),
    "occlusion": Occlusion(model).attribute(x, (1, 3, 3), target=y, strides=(1, 2, 2)),
}
shares = {}
for name, each in found.items():
    size = each.detach().abs()
    inside, all_ = (size * where).sum((1, 2, 3)), size.sum((1, 2, 3)).clamp(min=1e-9)
    shares[name] = (inside / all_).mean().item()
    print(f"{name:22} {shares[name]:.3f} of it lies on the digit")

if plt := pyplot():
    plt.figure(figsize=(10, 5))
    for row in range(3):
        columns = {"image": x, **found}
        for i, (name, each) in enumerate(columns.items()):
            plt.subplot(3, 7, 7 * row + i + 1, xticks=[], yticks=[])
            if row == 0:
                plt.title(name, fontsize=8)
            picture = each[row, 0].detach().abs()
            plt.imshow(picture.numpy(), cmap="hot" if i else "gray")
    save(plt, args)

result("accuracy of the network", accuracy, at_least=0.8 if args.quick else 0.95)
result("integrated gradients add up to the answer, within", delta.abs().max().item(), at_most=0.5)
result("share on the digit, blind", 0.25)
result("share on the digit, integrated gradients", shares["integrated gradients"], at_least=0.6)
result("share on the digit, worst method", min(shares.values()), at_least=0.35)
