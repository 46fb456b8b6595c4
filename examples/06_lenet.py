"""LeNet learns handwritten digits: MNIST, or the 8×8 digits that come with livegrad.

    livegrad data get mnist && python 06_lenet.py
    livegrad data get fashion-mnist && python 06_lenet.py --data fashion-mnist

`--data digits` takes those that come with livegrad, as `--quick` does.
"""

from common import arguments, fetched, pyplot, result, save

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import optim, train
from livegrad.datasets import digits_split
from livegrad.utils.data import DataLoader, TensorDataset
from livegrad.vision import datasets, models

READERS = {"mnist": datasets.MNIST, "fashion-mnist": datasets.FashionMNIST}
args = arguments(__doc__, data=[*READERS, "digits"])


def load(name: str) -> tuple[TensorDataset, TensorDataset, int, str]:
    """Images (N, 1, size, size) from 0 to 1 with labels: for training, for testing."""
    embedded = "8×8 digits that come with livegrad, enlarged to 16×16"
    if name == "digits":
        print(f"data: {embedded}")
    root = None if name == "digits" else fetched(name, embedded, args.quick)
    if root is None:
        images, labels, test_images, test_labels = [lg.tensor(part) for part in digits_split()]
        large = [F.interpolate(x[:, None], scale_factor=2) for x in (images, test_images)]
        return TensorDataset(large[0], labels), TensorDataset(large[1], test_labels), 16, "digits"
    parts = [READERS[name](root.parent, training, download=True) for training in (True, False)]
    first, second = [TensorDataset(x.data[:, None].float() / 255, x.targets) for x in parts]
    return first, second, 28, name


train_set, test_set, size, name = load(args.data)
goals = {"digits": (40, 0.985), "mnist": (3, 0.99), "fashion-mnist": (8, 0.90)}
epochs, goal = (10, 0.95) if args.quick else goals[name]
loader = DataLoader(train_set, batch_size=32 if name == "digits" else 64, shuffle=True)
test_loader = DataLoader(test_set, batch_size=500)

model = models.lenet(image_size=size)
print(train.summary(model, (1, 1, size, size)))
optimizer = optim.Adam(model.parameters(), lr=2e-3)
scheduler = optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, total_steps=epochs * len(loader))


def augment(images: lg.Tensor) -> lg.Tensor:
    """The batch moved by up to a pixel to each side, another way each time."""
    across, down = lg.randint(-1, 2, (2,)).tolist()
    return lg.roll(images, (down, across), dims=(2, 3))


history = []
for epoch in range(epochs):
    model.train()
    for images, labels in (bar := train.progress(loader, f"epoch {epoch + 1}/{epochs}")):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(augment(images)), labels)
        loss.backward()
        optimizer.step()
        scheduler.step()
        bar.set(loss=loss)
    tested = train.evaluate(model, test_loader, F.cross_entropy, {"accuracy": train.Accuracy()})
    history.append(tested["accuracy"])
    print(f"epoch {epoch + 1}: accuracy on test images {history[-1]:.4f}")

if plt := pyplot():
    images, labels = next(iter(test_loader))
    with lg.no_grad():
        guesses = model(images).argmax(1)
    wrong = (guesses != labels).nonzero().flatten().tolist()
    plt.figure(figsize=(9, 4))
    plt.subplot(121, title=f"accuracy on {name}", xlabel="epoch")
    plt.plot(range(1, epochs + 1), history, "o-")
    for i, j in enumerate(wrong[:12]):
        plt.subplot(3, 8, 8 * (i // 4) + i % 4 + 5, xticks=[], yticks=[])
        plt.imshow(images[j, 0].numpy(), cmap="gray")
        plt.title(f"{labels[j].item()} as {guesses[j].item()}", fontsize=7, pad=2)
    save(plt, args)

result(f"accuracy of LeNet on {name}", history[-1], at_least=goal)
