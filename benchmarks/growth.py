"""`python -m benchmarks.growth`: time of training steps against batch, width, length and threads.

A line per size: the least time of a step, and how much longer it took than its work says, judged by
the size before: 1 is in proportion, below 1 is what large steps save, above 1 is a cliff.
"""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import frameworks

# Growth beyond the work's that is marked, and seconds that a size is measured for, at least.
CLIFF, SECONDS = 1.3, 0.3
WORDS = 500

Make = Callable[[Any, int], tuple[Callable[[], Any], float]]


@dataclass(frozen=True)
class Series:
    """`make(package, size)` gives a step, and its work: multiplications, about."""

    name: str
    sizes: Sequence[int]
    make: Make


def perceptron(package: Any, batch: int, width: int) -> tuple[Callable[[], Any], float]:
    nn = package.nn
    model = nn.Sequential(
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
    )
    x, y = drawn(package, batch, width), package.tensor(np.arange(batch) % 10)
    return trained(package, model, x, y), 6.0 * batch * (2 * width * width + 10 * width)


def transformer(package: Any, batch: int, length: int) -> tuple[Callable[[], Any], float]:
    nn, width = package.nn, 64
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True)
    model = nn.Sequential(nn.Embedding(WORDS, width), layer, nn.Linear(width, WORDS))
    x = package.tensor(np.arange(batch * length).reshape(batch, length) % WORDS)
    y = package.tensor(np.arange(batch * length) % WORDS)
    each = 12 * width * width + WORDS * width + 2 * length * width
    return trained(package, model, x, y), 6.0 * batch * length * each


def recurrent(package: Any, batch: int, length: int) -> tuple[Callable[[], Any], float]:
    nn, width = package.nn, 64

    class Last(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.cells, self.out = nn.LSTM(width, width, batch_first=True), nn.Linear(width, 10)

        def forward(self, x: Any) -> Any:
            return self.out(self.cells(x)[0][:, -1])

    x, y = drawn(package, batch, length, width), package.tensor(np.arange(batch) % 10)
    return trained(package, Last(), x, y), 6.0 * batch * length * 8 * width * width


def drawn(package: Any, *shape: int) -> Any:
    return package.tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def trained(package: Any, model: Any, x: Any, y: Any) -> Callable[[], Any]:
    optimizer = package.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step() -> Any:
        optimizer.zero_grad()
        given = model(x)
        loss = package.nn.functional.cross_entropy(given.reshape(-1, given.shape[-1]), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def on_threads(package: Any, threads: int) -> tuple[Callable[[], Any], float]:
    """The same step; what each thread has to do is its work."""
    package.set_num_threads(threads)
    step, work = transformer(package, 8, 64)
    return step, work / threads


POWERS = [1, 2, 4, 8, 16, 32, 64, 128, 256]
SERIES = {
    "batch": Series("MLP of width 128, by batch", POWERS, lambda p, n: perceptron(p, n, 128)),
    "width": Series(
        "MLP of batch 32, by width",
        [16, 24, 32, 33, 48, 64, 65, 96, 128, 192, 255, 256, 257, 384, 512, 768],
        lambda p, n: perceptron(p, 32, n),
    ),
    "length": Series(
        "transformer of batch 4, by length",
        [8, 16, 31, 32, 33, 64, 100, 128, 129, 256, 512],
        lambda p, n: transformer(p, 4, n),
    ),
    "steps": Series(
        "LSTM of batch 16, by length",
        [4, 8, 16, 32, 64, 128, 256],
        lambda p, n: recurrent(p, 16, n),
    ),
    "threads": Series("transformer of 8×64, by threads", [1, 2, 4, 8, 16], on_threads),
}


def least_seconds(step: Callable[[], Any], clock: Callable[[], float]) -> float:
    """Of one step, its loss read; the first ones plan, and are not counted."""
    for _ in range(6):
        step().item()
    began, found = time.perf_counter(), []
    while time.perf_counter() - began < SECONDS or len(found) < 5:
        start = clock()
        step().item()
        found.append(clock() - start)
    return min(found)


def measure(package: Any, series: Series, threads: int) -> list[tuple[int, float, float]]:
    """Per size: seconds, and growth beyond that of the work since the size before."""
    rows: list[tuple[int, float, float]] = []
    package.set_num_threads(threads)
    clock = (
        time.thread_time if threads == 1 and series is not SERIES["threads"] else time.perf_counter
    )
    last = None
    for size in series.sizes:
        step, work = series.make(package, size)
        seconds = least_seconds(step, clock)
        growth = 1.0 if last is None else (seconds / last[0]) / (work / last[1])
        rows.append((size, seconds, growth))
        last = seconds, work
    return rows


def table_of(series: Series, found: dict[str, list[tuple[int, float, float]]]) -> Table:
    table = Table(title=series.name, title_justify="left")
    table.add_column("size", justify="right")
    for name in found:
        table.add_column(f"{name} ms", justify="right")
        table.add_column("growth", justify="right")
    for lines in zip(*found.values(), strict=True):
        cells = [str(lines[0][0])]
        for _, seconds, growth in lines:
            mark = " !" if growth > CLIFF else ""
            cells += [f"{seconds * 1e3:.3f}", f"{growth:.2f}{mark}"]
        table.add_row(*cells)
    return table


def plot(path: Path, results: dict[str, dict[str, list[tuple[int, float, float]]]]) -> None:
    """All series, by logarithms, if matplotlib is installed."""
    pyplot = import_module("matplotlib.pyplot")
    figure, axes = pyplot.subplots(1, len(results), figsize=(4 * len(results), 3.5), squeeze=False)
    for ax, (name, found) in zip(axes[0], results.items(), strict=True):
        for framework, rows in found.items():
            ax.loglog([r[0] for r in rows], [r[1] * 1e3 for r in rows], marker="o", label=framework)
        ax.set_title(SERIES[name].name, fontsize=9)
        ax.set_ylabel("ms")
        ax.legend()
    figure.tight_layout()
    figure.savefig(path)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--series", "chosen", type=click.Choice(list(SERIES)), multiple=True)
@click.option("--threads", default=1, type=click.IntRange(min=1), help="Thread time if 1.")
@click.option("--torch/--alone", default=True, help="torch beside it, if it is installed.")
@click.option("--plot", "path", type=click.Path(path_type=Path), help="A picture, by matplotlib.")
def main(chosen: Sequence[str], threads: int, torch: bool, path: Path | None) -> None:
    """Time of training steps against their size."""
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    names = [frameworks.LIVEGRAD]
    if torch and frameworks.installed(frameworks.TORCH):
        names.append(frameworks.TORCH)
    results: dict[str, dict[str, list[tuple[int, float, float]]]] = {}
    for name in chosen or SERIES:
        results[name] = {
            each: measure(import_module(frameworks.PACKAGE[each]), SERIES[name], threads)
            for each in names
        }
        console.print(table_of(SERIES[name], results[name]))
    if path is not None:
        plot(path, results)


if __name__ == "__main__":
    main()
