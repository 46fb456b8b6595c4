"""Transfer learning: what was learnt on many images helps where there are few.

A network learns digits from many good images. Then it is to read those of another camera, whose
images are dim, noisy and lit from one side, and of which only three of each digit have labels. It
goes on from what it knows, with all weights or with the last layer alone, which is compared with a
network that begins anew. The digits come with livegrad; the other camera is simulated.
"""

import copy

from common import arguments, pyplot, result, save

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn, optim, train
from livegrad.datasets import digits_split

args = arguments(__doc__)
EACH = 3  # labelled images of each digit, of the other camera


def network() -> nn.Sequential:
    """Features of images (N, 1, 8, 8), and a last layer for ten classes."""
    features = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 16, 64), nn.ReLU(),
    )  # fmt: skip
    return nn.Sequential(features, nn.Linear(64, 10))


def learn(
    title: str, model: nn.Module, images: Tensor, labels: Tensor, steps: int, lr: float = 2e-3
) -> list[float]:
    """Trains the parameters that are to be trained; the accuracy on test images on the way."""
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = optim.AdamW(trained, lr=lr, weight_decay=0.01)
    curve = []
    for step in (bar := train.progress(range(steps), title)):
        rows = lg.randint(0, len(images), (min(64, len(images)),))
        # Moved by up to a pixel, so that few images go further.
        across, down = lg.randint(-1, 2, (2,)).tolist()
        batch = lg.roll(images[rows], (down, across), dims=(2, 3))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch), labels[rows])
        loss.backward()
        optimizer.step()
        bar.set(loss=loss)
        if step % 10 == 9:
            curve.append(accuracy(model))
    return curve


@lg.no_grad()
def accuracy(model: nn.Module) -> float:
    return (model(test_images).argmax(1) == test_labels).float().mean().item()


def other_camera(images: Tensor) -> Tensor:
    light = lg.linspace(0, 0.6, 8)[:, None] * lg.ones(8)
    return 0.4 * images + light + 0.12 * lg.randn_like(images)


images, labels, test_images, test_labels = [lg.tensor(part) for part in digits_split()]
images, test_images = images[:, None], test_images[:, None]
teacher = network()
steps = 200 if args.quick else 1000
learn("many images", teacher, images, labels, steps)
print(f"from {len(images)} good images: {accuracy(teacher):.3f} right")

images, test_images = other_camera(images), other_camera(test_images)
unchanged = accuracy(teacher)
print(f"the same network on images of the other camera: {unchanged:.3f} right")
few = lg.cat([(labels == k).nonzero()[:EACH, 0] for k in range(10)])

curves, tested = {}, {}
frozen, tuned = copy.deepcopy(teacher), copy.deepcopy(teacher)
frozen[0].requires_grad_(False)  # what it sees stays as it is
for name, model, lr in (
    ("anew", network(), 2e-3),
    ("last layer only", frozen, 1e-2),
    ("all weights, in small steps", tuned, 1e-3),
):
    curves[name] = learn(name, model, images[few], labels[few], steps, lr)
    tested[name] = sum(curves[name][-5:]) / 5
    print(f"from {len(few)} images of the other camera, {name}: {tested[name]:.3f} right")

if plt := pyplot():
    plt.figure(figsize=(6, 3.5))
    for name, curve in curves.items():
        plt.plot(range(10, steps + 1, 10), curve, label=f"{name}: {tested[name]:.1%}")
    plt.axhline(unchanged, color="k", ls=":", label=f"not adapted: {unchanged:.1%}")
    plt.title(f"digits of another camera, from {EACH} images each")
    plt.xlabel("step")
    plt.legend()
    save(plt, args)

result("accuracy without adaptation", unchanged)
result("accuracy of beginning anew", tested["anew"])
result("accuracy with a new last layer", tested["last layer only"])
goal = max(unchanged, tested["anew"]) + 0.02
result("accuracy of all weights, adapted", tested["all weights, in small steps"], at_least=goal)
