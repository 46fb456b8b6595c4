"""Compression: a trained LeNet in int8, pruned, in thin factors, and distilled into a small one.

One table has accuracy, size on disk and time of each. The digits come with livegrad, enlarged to
28×28.
"""

from common import arguments, pyplot, result, save

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, compress, nn, optim, train
from livegrad.datasets import digits_split
from livegrad.utils.data import DataLoader, TensorDataset
from livegrad.vision import models

args = arguments(__doc__)
images, labels, test_images, test_labels = [lg.tensor(part) for part in digits_split()]
images, test_images = [
    F.interpolate(x[:, None], (28, 28), mode="bilinear") for x in (images, test_images)
]
loader = DataLoader(TensorDataset(images, labels), batch_size=64, shuffle=True)
print("data: 8×8 digits that come with livegrad, enlarged")


@lg.no_grad()
def accuracy(model: nn.Module) -> float:
    model.eval()
    return (model(test_images).argmax(1) == test_labels).float().mean().item()


def learn(title: str, model: nn.Module, epochs: int, lr: float) -> nn.Module:
    optimizer = optim.Adam(model.parameters(), lr=lr)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader))
    for epoch in range(epochs):
        model.train()
        for x, y in (bar := train.progress(loader, f"{title}, epoch {epoch + 1}/{epochs}")):
            moved = lg.roll(x, lg.randint(-1, 2, (2,)).tolist(), dims=(2, 3))
            optimizer.zero_grad()
            loss = F.cross_entropy(model(moved), y)
            loss.backward()
            optimizer.step()
            scheduler.step()
            bar.set(loss=loss)
    return model.eval()


def in_int8(model: nn.Module, examples: Tensor) -> nn.Module:
    """Weights and what flows between layers as bytes; examples show which range values have."""
    model.qconfig = compress.get_default_qconfig()
    prepared = compress.prepare(model)
    prepared(examples)
    return compress.convert(prepared)


epochs = 8 if args.quick else 30
found: dict[str, nn.Module] = {}
found["float32"] = original = learn("LeNet", models.lenet(), epochs, 4e-3)

# int8: a quarter of the bytes, and products of bytes.
found["int8"] = in_int8(original, images[:256])

# Pruning: the weakest half of the channels is taken out, then the rest learns to do without.
pruned = compress.prune_structured(original, 0.5)
before = accuracy(pruned)
found["pruned"] = learn("pruned", pruned, epochs // 2, 1e-3)
print(f"half of the channels taken out: {before:.3f} right, {accuracy(pruned):.3f} after learning")

# Factors: large matrices as products of two thin ones.
factors = compress.factorize(original, rank=0.4)
found["factors"] = learn("factors", factors, epochs // 2, 2e-3)

# Distillation: a small network learns what the large one says about each image.
student = nn.Sequential(
    nn.Conv2d(1, 4, 5, stride=2), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(144, 32), nn.ReLU(), nn.Linear(32, 10),
)  # fmt: skip
optimizer = optim.Adam(student.parameters(), lr=3e-3)
compress.distill(student, original, loader, optimizer, epochs=epochs)
found["distilled"] = student
found["distilled, int8"] = in_int8(student, images[:256])

report = compress.compare(found, test_images[:64], score=accuracy, repeats=10 if args.quick else 50)
print(report)

if plt := pyplot():
    plt.figure(figsize=(9, 3.5))
    names = [entry.name for entry in report.entries]
    columns = {
        "accuracy": [entry.score for entry in report.entries],
        "times smaller": [report.smaller(name) for name in names],
        "times faster": [report.faster(name) for name in names],
    }
    for i, (title, values) in enumerate(columns.items()):
        plt.subplot(1, 3, i + 1, title=title)
        plt.barh(names[::-1], values[::-1])
        if title == "accuracy":
            plt.xlim(min(values) - 0.02, 1)
        else:
            plt.tick_params(labelleft=False)
    save(plt, args)

first = report["float32"].score
result("accuracy in float32", first, at_least=0.93 if args.quick else 0.98)
result("accuracy lost by int8", first - report["int8"].score, at_most=0.01)
result("int8: times smaller", report.smaller("int8"), at_least=3.5)
packed = report["float32"].nbytes / report["int8"].packed  # saved as NAME.safetensors.gz
result(
    "int8, packed: times smaller than float32 as it is", packed, at_least=3.9 if args.quick else 4
)
result("int8: times faster", report.faster("int8"))
result("accuracy lost by pruning", first - report["pruned"].score, at_most=0.03)
result("distilled: times smaller", report.smaller("distilled"), at_least=5)
result("accuracy lost by distilling", first - report["distilled"].score, at_most=0.06)
