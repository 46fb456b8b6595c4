"""U-Net: every pixel gets a class. Rings and discs in noisy images, which are generated.

A pixel alone says little, as all have the same brightness on average; the network has to see the
shape around it. Beside it, the best threshold of the brightness is measured.
"""

import numpy as np
from common import arguments, pyplot, result, save

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, optim, train
from livegrad.vision import models, utils

args = arguments(__doc__)
SIZE, CLASSES = 32, ("background", "disc", "ring")
random = np.random.default_rng(args.seed)


def scene() -> tuple[np.ndarray, np.ndarray]:
    """An image (1, 32, 32) with some shapes, and the class of every pixel (32, 32)."""
    down, across = np.mgrid[:SIZE, :SIZE]
    image = random.uniform(0, 0.3) + np.zeros((SIZE, SIZE))
    classes = np.zeros((SIZE, SIZE), np.int64)
    for _ in range(random.integers(1, 4)):
        y, x = random.uniform(5, SIZE - 5, 2)
        radius = random.uniform(4, 8)
        far = np.hypot(down - y, across - x)
        kind = random.integers(1, 3)
        inside = (far < radius) & ((far > 0.55 * radius) | (kind == 1))
        image[inside] = random.uniform(0.5, 1.0)
        classes[inside] = kind
    noisy = image + 0.2 * random.standard_normal(image.shape)
    return noisy[None].astype(np.float32), classes


def scenes(count: int) -> tuple[Tensor, Tensor]:
    rows = [scene() for _ in range(count)]
    return lg.tensor(np.stack([x for x, _ in rows])), lg.tensor(np.stack([y for _, y in rows]))


def overlap(found: Tensor, wanted: Tensor) -> list[float]:
    """For each class, how many of the pixels that were found or wanted are both."""
    both = [((found == i) & (wanted == i)).sum() for i in range(len(CLASSES))]
    any_ = [((found == i) | (wanted == i)).sum() for i in range(len(CLASSES))]
    return [(a / b.clamp(min=1)).item() for a, b in zip(both, any_, strict=True)]


images, classes = scenes(300 if args.quick else 2000)
test_images, test_classes = scenes(100 if args.quick else 400)
print(f"data: {len(images)} + {len(test_images)} generated scenes")

model = models.unet(in_channels=1, num_classes=3, features=(8, 16, 32))
steps = 250 if args.quick else 1500
optimizer = optim.AdamW(model.parameters(), lr=5e-3)
scheduler = optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=steps)
losses = []
for _ in (bar := train.progress(range(steps), "training")):
    rows = lg.randint(0, len(images), (16,))
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images[rows]), classes[rows])
    loss.backward()
    optimizer.step()
    scheduler.step()
    losses.append(loss)
    bar.set(loss=loss)

model.eval()
with lg.no_grad():
    found = lg.cat([model(x).argmax(1) for x in test_images.split(50)])
scores = overlap(found, test_classes)
# The baseline knows brightness only: background below a threshold, discs above it.
guesses = [(test_images[:, 0] > limit).long() for limit in (0.3, 0.4, 0.5, 0.6)]
baseline = max(sum(overlap(guess, test_classes)) / 3 for guess in guesses)
for name, score in zip(CLASSES, scores, strict=True):
    print(f"{name}: overlap (IoU) {score:.3f}")

if plt := pyplot():
    plt.figure(figsize=(10, 4))
    plt.subplot(141, title="loss", xlabel="step")
    plt.semilogy(lg.stack(losses).detach().numpy())
    pictures = ((test_images[:6] + 0.5) / 2).clamp(0, 1).expand(-1, 3, -1, -1)
    colours = lg.tensor([[40.0, 40, 40], [230, 120, 20], [40, 130, 220]]) / 255
    columns = {"image": pictures}
    for name, each in (("true", test_classes), ("found", found)):
        columns[name] = colours[each[:6]].permute(0, 3, 1, 2)
    for i, (name, each) in enumerate(columns.items()):
        plt.subplot(1, 4, i + 2, xticks=[], yticks=[], title=name)
        plt.imshow(utils.make_grid(each, nrow=2).permute(1, 2, 0).numpy())
    save(plt, args)

result("mean overlap of the best threshold", baseline)
result("mean overlap of the U-Net", sum(scores) / 3, at_least=0.6 if args.quick else 0.85)
