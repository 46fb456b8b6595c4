"""A residual network learns to see: CIFAR-10 with ResNet-18, or digits with a small one.

    livegrad data get cifar10 && python 07_resnet.py

Blocks add to what they are given (x + f(x)), so that gradients reach the first layer of a deep
network. Beside it, the same network without these short cuts is trained: it learns later.
"""

from common import arguments, fetched, pyplot, result, save

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn, optim, train
from livegrad.datasets import digits_split
from livegrad.utils.data import DataLoader, TensorDataset
from livegrad.vision import datasets, models, transforms

args = arguments(__doc__)


class Block(nn.Module):
    """x + f(x), f being two convolutions; without `short_cut` f(x) alone."""

    def __init__(self, before: int, after: int, stride: int, short_cut: bool) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.second = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(after), nn.BatchNorm2d(after)])
        self.short_cut = short_cut
        resized = short_cut and before != after
        self.fit = nn.Conv2d(before, after, 1, stride) if resized else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        inner = F.relu(self.norms[0](self.first(x)))
        inner = self.norms[1](self.second(inner))
        return F.relu(inner + self.fit(x)) if self.short_cut else F.relu(inner)


def small_resnet(width: int, blocks: int, short_cut: bool = True) -> nn.Module:
    """For images (N, 1, 8, 8): two sizes, `blocks` blocks of each."""
    layers: list[nn.Module] = [nn.Conv2d(1, width, 3, padding=1)]
    for i in range(2 * blocks):
        smaller = i == blocks
        before = width if i <= blocks else 2 * width
        after = width if i < blocks else 2 * width
        layers.append(Block(before, after, 2 if smaller else 1, short_cut))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 10))


def learn(
    title: str,
    model: nn.Module,
    loader: DataLoader,
    test_loader: DataLoader,
    epochs: int,
    lr: float,
) -> list[float]:
    """The accuracy on test images after each epoch."""
    optimizer = optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=5e-4, nesterov=True)
    total = epochs * len(loader)
    scheduler = optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=total)
    history = []
    for epoch in range(epochs):
        model.train()
        bar = train.progress(loader, f"{title}, epoch {epoch + 1}/{epochs}")
        for images, labels in bar:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            scheduler.step()
            bar.set(loss=loss)
        tested = train.evaluate(model, test_loader, F.cross_entropy, {"accuracy": train.Accuracy()})
        history.append(tested["accuracy"])
        print(f"{title}: accuracy after epoch {epoch + 1}: {history[-1]:.4f}")
    return history


root = fetched("cifar10", "8×8 digits that come with livegrad", args.quick)
curves: dict[str, list[float]] = {}
if root is None:
    images, labels, test_images, test_labels = [lg.tensor(part) for part in digits_split()]
    loader = DataLoader(TensorDataset(images[:, None], labels), batch_size=64, shuffle=True)
    test_loader = DataLoader(TensorDataset(test_images[:, None], test_labels), batch_size=360)
    epochs, goal = (6, 0.95) if args.quick else (15, 0.98)
    for title, short_cut in (("ResNet", True), ("without short cuts", False)):
        model = small_resnet(8 if args.quick else 16, blocks=4, short_cut=short_cut)
        curves[title] = learn(title, model, loader, test_loader, epochs, lr=0.05)
else:
    scale = transforms.Normalize((0.491, 0.482, 0.447), (0.247, 0.243, 0.262))
    augment = transforms.Compose(
        [transforms.RandomCrop(32, padding=2), transforms.RandomHorizontalFlip()]
    )
    parts = [datasets.CIFAR10(root.parent, training, download=True) for training in (True, False)]
    both = []
    for part in parts:
        pixels = lg.tensor(part.data).permute(0, 3, 1, 2).float() / 255
        both.append(TensorDataset(scale(pixels), lg.tensor(part.targets)))

    def collate(samples: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        return augment(lg.stack([x for x, _ in samples])), lg.stack([y for _, y in samples])

    loader = DataLoader(both[0], batch_size=128, shuffle=True, collate_fn=collate)
    test_loader = DataLoader(both[1], batch_size=500)
    model = models.resnet18(num_classes=10)
    # Images are small: the first convolution, made for large ones, keeps their size here. Without
    # the pooling behind it (nn.Identity) it would see more, and take four times as long.
    model.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    goal = 0.70
    curves["ResNet-18"] = learn("ResNet-18", model, loader, test_loader, epochs=3, lr=0.1)

if plt := pyplot():
    plt.figure(figsize=(6, 3.5))
    for title, curve in curves.items():
        plt.plot(range(1, len(curve) + 1), curve, "o-", label=title)
    plt.xlabel("epoch")
    plt.title("accuracy on test images")
    plt.legend()
    save(plt, args)

title, curve = next(iter(curves.items()))
if plain := curves.get("without short cuts"):
    gained = (sum(curve) - sum(plain)) / len(curve)
    result("accuracy gained by short cuts, mean over epochs", gained, at_least=0.0)
result(f"accuracy of {title}", curve[-1], at_least=goal)
