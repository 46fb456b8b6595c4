"""The training kit: a loop of your own with progress, metrics, checkpoints and exact resume.

Try `python 04_training_kit.py --model.width=32 --epochs=3`, or `--help`.
"""

from dataclasses import dataclass, field

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
    out: str = "run"


config = train.load_config(Config)
train.seed_everything(config.seed)

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
found.plot(f"{config.out}-lr.svg")
optimizer.param_groups[0]["lr"] = config.lr or min(found.suggestion or 1e-3, 1e-2)
print(f"learning rate {optimizer.param_groups[0]['lr']:.2g}, see {config.out}-lr.svg")

metrics = train.Metrics(accuracy=train.Accuracy(), top2=train.Accuracy(k=2))
stopping = train.EarlyStopping(patience=3, mode="max")
keeper = train.Checkpointer(
    config.out, mode="max", model=model, optimizer=optimizer, loader=loader, stopping=stopping
)
first = keeper.load("last")["epoch"] + 1 if keeper.last else 0  # killed before? go on exactly

writer = SummaryWriter(config.out)
for epoch in range(first, config.epochs):
    metrics.reset()
    for images, labels in (bar := train.progress(loader, f"epoch {epoch + 1}/{config.epochs}")):
        optimizer.zero_grad()
        logits = model(images)
        loss = F.cross_entropy(logits, labels)
        metrics.update(logits, labels)
        loss.backward()
        optimizer.step()
        bar.set(loss=loss)
    result = train.evaluate(model, test_loader, F.cross_entropy, {"accuracy": train.Accuracy()})
    writer.add_scalars(
        "accuracy", {"train": metrics.compute()["accuracy"], "test": result["accuracy"]}, epoch
    )
    stop = stopping(result["accuracy"])
    keeper.save(epoch, value=result["accuracy"], epoch=epoch)
    print(f"epoch {epoch + 1}: {metrics.compute()}  test {result['accuracy']:.3f}")
    if stop:
        break
writer.add_graph(model, train_set.tensors[0][:1])
writer.close()

best = keeper.load("best")
print(f"best: epoch {best['epoch'] + 1} with accuracy {best['value']:.3f}, saved in {config.out}/")
assert best["value"] > 0.85
