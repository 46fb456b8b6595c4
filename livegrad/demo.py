"""`livegrad demo`: a network whose path changes from step to step learns to read digits.

`DigitNet.forward` is ordinary Python: a loop whose length is drawn anew at each training step, and
a branch on a value that was just computed. Nothing is decorated and nothing is compiled by hand.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, nn, optim
from livegrad.datasets import Images, Labels, Split, digits_split

BATCH = 64
LEARNING_RATE = 2e-3
PLAIN_LINES = 10  # progress lines when the output is not a terminal


class Residual(nn.Module):
    """x + dropout(linear(relu(linear(x))))."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.outer = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x + self.dropout(self.outer(F.relu(self.inner(x))))
        return result


class DigitNet(nn.Module):
    """Residual blocks, as many as needed: it answers as soon as it is sure.

    While training, the number of blocks allowed is drawn for every batch, so that each block learns
    to leave a state from which the head can read the digit.
    """

    def __init__(
        self, width: int = 256, blocks: int = 4, dropout: float = 0.2, seed: int = 0
    ) -> None:
        super().__init__()
        self.stem = nn.Linear(64, width)
        self.blocks = nn.ModuleList([Residual(width, dropout) for _ in range(blocks)])
        self.head = nn.Linear(width, 10)
        self.draw = Random(seed)
        self.sure = 0.995

    def forward(self, images: Tensor) -> Tensor:
        hidden = F.relu(self.stem(images.flatten(1)))  # (batch, width)
        logits: Tensor = self.head(hidden)
        depth = self.draw.randint(1, len(self.blocks)) if self.training else len(self.blocks)
        for index in range(depth):
            if mean_confidence(logits) > self.sure:  # a branch on a value
                break
            hidden = self.blocks[index](hidden)
            logits = self.head(hidden)
        return logits


def mean_confidence(logits: Tensor) -> float:
    """The probability of the favourite class, on average over the batch."""
    return float(F.softmax(logits.detach(), dim=1).amax(dim=1).mean().item())


def batches(
    images: Images, labels: Labels, random: np.random.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """The data in a new order, a little disturbed, in batches; the last one is smaller."""
    order = random.permutation(len(labels))
    for start in range(0, len(labels), BATCH):
        chosen = order[start : start + BATCH]
        yield lg.tensor(disturb(images[chosen], random)), lg.tensor(labels[chosen])


def disturb(images: Images, random: np.random.Generator) -> Images:
    """Add noise, and shift two images in five by up to a pixel: more shapes to learn from."""
    noisy: Images = images + 0.1 * random.standard_normal(images.shape, dtype=np.float32)
    moved = random.random(len(images)) < 0.4
    noisy[moved] = np.roll(noisy[moved], random.integers(-1, 2, size=2), axis=(1, 2))
    return noisy


def accuracy(net: nn.Module, images: Images, labels: Labels) -> float:
    """The share of `images` that `net` reads correctly."""
    net.eval()
    with lg.no_grad():
        answers = net(lg.tensor(images)).argmax(dim=1).numpy()
    return float(np.mean(answers == labels))


@dataclass
class History:
    """What a training run saw."""

    losses: list[float] = field(default_factory=list)
    accuracy: float = 0.0
    images: int = 0
    seconds: float = 0.0


def train(
    net: DigitNet, data: Split, epochs: int, seed: int, report: Callable[[int, float], None]
) -> History:
    """Train with Adam and a falling learning rate; `report(epoch, mean loss)` after each epoch."""
    optimizer = optim.Adam(net.parameters(), lr=LEARNING_RATE)
    random = np.random.default_rng(seed)
    history = History()
    start = time.perf_counter()
    for epoch in range(epochs):
        net.train()
        for group in optimizer.param_groups:
            group["lr"] = LEARNING_RATE * (1 - epoch / epochs)
        first = len(history.losses)
        for images, labels in batches(data.train_images, data.train_labels, random):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(images), labels)
            loss.backward()
            optimizer.step()
            history.losses.append(float(loss.item()))
            history.images += len(labels)
        report(epoch, float(np.mean(history.losses[first:])))
    history.seconds = time.perf_counter() - start
    history.accuracy = accuracy(net, data.test_images, data.test_labels)
    return history


def run(epochs: int, seed: int, out: Path) -> History:
    """Train, print what happened, save the loss curve to `out`."""
    console = Console(highlight=False)
    data = digits_split()
    lg.manual_seed(seed)
    net = DigitNet(seed=seed)
    with progress(console, epochs) as report:
        history = train(net, data, epochs, seed, report)
    console.print(summary(history))
    out.write_text(loss_curve(history.losses), encoding="utf-8")
    console.print(f"loss curve saved to {out}", soft_wrap=True)
    return history


@contextmanager
def progress(console: Console, epochs: int) -> Iterator[Callable[[int, float], None]]:
    """A function to report epochs to: a bar on a terminal, a few plain lines elsewhere."""
    if not console.is_terminal:
        yield partial(print_epoch, console, epochs)
        return
    columns = (TextColumn("training"), BarColumn(), TextColumn("{task.description}"))
    with Progress(*columns, TimeElapsedColumn(), console=console) as bar:
        task = bar.add_task("", total=epochs)

        def advance(epoch: int, loss: float) -> None:
            bar.update(task, advance=1, description=f"epoch {epoch + 1}/{epochs}  loss {loss:.4f}")

        yield advance


def print_epoch(console: Console, epochs: int, epoch: int, loss: float) -> None:
    """One line per epoch, thinned out to about `PLAIN_LINES` lines."""
    if (epoch + 1) % max(1, epochs // PLAIN_LINES) == 0 or epoch + 1 == epochs:
        console.print(f"epoch {epoch + 1:3d}/{epochs}  loss {loss:.4f}")


def summary(history: History) -> Table:
    """The result, and what the machinery underneath did for it."""
    stats = lg.stats()
    table = Table.grid(padding=(0, 2))
    rows = {
        "test accuracy": f"{history.accuracy:.2%}",
        "images per second": f"{history.images / history.seconds:,.0f}",
        "kernels compiled": f"{stats.kernels_compiled:,}",
        "kernels from disk cache": f"{stats.kernels_loaded:,}",
        "plan hits / misses": f"{stats.plan_hits:,} / {stats.plan_misses:,}",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def loss_curve(losses: Sequence[float]) -> str:
    """An SVG drawing of `losses` over the steps, logarithmic: each step faint, their trend bold."""
    width, height, left, bottom, top = 640, 360, 56, 40, 28
    logs = np.log10(np.maximum(losses, 1e-6))
    low, high = float(np.floor(logs.min())), max(float(np.ceil(logs.max())), 1.0)

    def point(step: float, log: float) -> tuple[float, float]:
        x = left + (width - left - 16) * step / max(len(logs) - 1, 1)
        y = top + (height - top - bottom) * (high - log) / (high - low)
        return round(x, 1), round(y, 1)

    def line(values: Iterable[float], style: str) -> str:
        points = " ".join("{},{}".format(*point(step, log)) for step, log in enumerate(values))
        return f'<polyline points="{points}" fill="none" {style}/>'

    def text(x: float, y: float, words: str, anchor: str = "middle") -> str:
        return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{words}</text>'

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12" fill="#444">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        text(width / 2, 18, "livegrad demo: training loss"),
        text(width / 2, height - 8, "step"),
    ]
    for power in range(int(low), int(high) + 1):
        x, y = point(0, power)
        parts.append(f'<path d="M{x} {y}H{width - 16}" stroke="#ddd"/>')
        parts.append(text(x - 8, y + 4, f"{10.0**power:g}", "end"))
    ticks = range(0, len(logs), round_step(len(logs)))
    parts += [text(point(step, low)[0], height - bottom + 16, str(step)) for step in ticks]
    parts += [
        line(logs, 'stroke="#9ecae1"'),
        line(trend(logs), 'stroke="#08519c" stroke-width="2"'),
    ]
    return "\n".join([*parts, "</svg>\n"])


def round_step(count: int, most: int = 6) -> int:
    """The least of 1, 2, 5, 10, 20, 50, … that divides `count` steps into at most `most` parts."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if count <= most * step * factor:
                return step * factor
        step *= 10


def trend(values: Iterable[float], keep: float = 0.95) -> Iterator[float]:
    """An exponential moving average, corrected for its start from nothing."""
    total = weight = 0.0
    for value in values:
        total = keep * total + (1 - keep) * value
        weight = keep * weight + (1 - keep)
        yield total / weight
