"""The training kit: a loop of your own with progress, metrics, checkpoints and exact resume.

Try `python 05_training_kit.py --model.width=32 --epochs=3`, or `--help`. Started again with the
same folder, it goes on where it was. The digits come with livegrad.
"""

from dataclasses import dataclass, field

from common import pyplot, result, save

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim, train
from livegrad.datasets import digits_split
from livegrad.utils.data import DataLoader, TensorDataset
from livegrad.utils.tensorboard import SummaryWriter


@dataclass
class Model:
    width: int = 64
    dropout: float = 0.1


@dataclass
class Config:
    model: Model = field(default_factory=Model)
    epochs: int = 6
    lr: float | None = field(default=None, metadata={"help": "none: found by a range test"})
    seed: int = 0
    out: str = field(default="run", metadata={"help": "the folder for checkpoints and pictures"})
    quick: bool = field(default=False, metadata={"help": "three epochs"})


config = train.load_config(Config)
train.seed_everything(config.seed)
epochs = min(config.epochs, 3) if config.quick else config.epochs

data = digits_split()
train_set = TensorDataset(lg.tensor(data.train_images), lg.tensor(data.train_labels))
test_set = TensorDataset(lg.tensor(data.test_images), lg.tensor(data.test_labels))
loader = DataLoader(train_set, batch_size=32, shuffle=True)
test_loader = DataLoader(test_set, batch_size=256)

width = config.model.width
model = nn.Sequential(
    nn.Flatten(),
    nn.Linear(64, width),
    nn.ReLU(),
    nn.Dropout(config.model.dropout),
    nn.Linear(width, 10),
)
print(train.summary(model, (32, 8, 8)))

optimizer = optim.Adam(model.parameters(), lr=1e-3)
found = train.lr_find(model, optimizer, loader, F.cross_entropy)  # leaves everything as it was
found.plot(f"{config.out}/lr.svg")
optimizer.param_groups[0]["lr"] = config.lr or min(found.suggestion or 1e-3, 1e-2)
print(f"learning rate {optimizer.param_groups[0]['lr']:.2g}, see {config.out}/lr.svg")

metrics = train.Metrics(accuracy=train.Accuracy(), top2=train.Accuracy(k=2))
stopping = train.EarlyStopping(patience=3, mode="max")
keeper = train.Checkpointer(
    config.out, mode="max", model=model, optimizer=optimizer, loader=loader, stopping=stopping
)
first = keeper.load("last")["epoch"] + 1 if keeper.last else 0  # killed before? go on exactly

writer = SummaryWriter(config.out)
for epoch in range(first, epochs):
    metrics.reset()
    for images, labels in (bar := train.progress(loader, f"epoch {epoch + 1}/{epochs}")):
        optimizer.zero_grad()
        logits = model(images)
        loss = F.cross_entropy(logits, labels)
        metrics.update(logits, labels)
        loss.backward()
        optimizer.step()
        bar.set(loss=loss)
    tested = train.evaluate(model, test_loader, F.cross_entropy, {"accuracy": train.Accuracy()})
    writer.add_scalars(
        "accuracy", {"train": metrics.compute()["accuracy"], "test": tested["accuracy"]}, epoch
    )
    stop = stopping(tested["accuracy"])
    keeper.save(epoch, value=tested["accuracy"], epoch=epoch)
    print(f"epoch {epoch + 1}: {metrics.compute()}  test {tested['accuracy']:.3f}")
    if stop:
        break
writer.add_graph(model, train_set.tensors[0][:1])
writer.close()

best = keeper.load("best")
print(f"best: epoch {best['epoch'] + 1} with accuracy {best['value']:.3f}, saved in {config.out}/")
if plt := pyplot():
    images, labels = next(iter(test_loader))
    guesses = model(images).argmax(1)
    plt.figure(figsize=(7, 3.5))
    for i in range(24):
        plt.subplot(3, 8, i + 1, xticks=[], yticks=[], title=f"{guesses[i].item()}")
        plt.imshow(images[i].numpy(), cmap="gray" if guesses[i] == labels[i] else "Reds")
    save(plt, config)
result("accuracy on test digits", best["value"], at_least=0.85 if config.quick else 0.93)
