"""What all examples share: arguments, pictures, and how a result is said and checked."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import Tensor, train
from livegrad.datasets import fetching


def arguments(about: str | None, **choices: Sequence[str]) -> argparse.Namespace:
    """`quick`, `out` and `seed`, as the command line says; random numbers begin with the seed.

    `arguments(about, data=["mnist", "digits"])` adds `--data`, the first being the default.
    """
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a run of seconds, on little data")
    parser.add_argument("--out", default=".", help="the folder for the picture (default: here)")
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers (default: 0)")
    for name, values in choices.items():
        about = f"what it takes (default: {values[0]})"
        parser.add_argument(f"--{name}", choices=values, default=values[0], help=about)
    args = parser.parse_args()
    try:  # now rather than after the training
        Path(args.out).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"argument --out: {error}")
    train.seed_everything(args.seed)
    return args


def fetched(name: str, otherwise: str, quick: bool) -> Path | None:
    """Where a data set is, if `livegrad data get` has fetched it; `otherwise` is used instead."""
    if quick:
        print(f"data: {otherwise}")
        return None
    path = fetching.data_dir() / name
    if not fetching.is_whole(path):
        print(f"data: {otherwise}; for {name} run `livegrad data get {name}` first")
        return None
    print(f"data: {name}, from {path}")
    return path


def pyplot() -> Any:
    """matplotlib's pyplot, which needs no display here; None where it is not installed."""
    try:
        import matplotlib
    except ImportError:
        print("no picture: `pip install matplotlib` gives one")
        return None
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    return plt


def save(plt: Any, args: argparse.Namespace) -> None:
    """Writes the current figure to NAME.png, NAME being that of the example."""
    path = Path(args.out) / f"{Path(sys.argv[0]).stem}.png"
    plt.tight_layout()
    plt.savefig(path, dpi=110)
    plt.close()
    print(f"picture: {path}")


def show_images(plt: Any, images: Any, columns: int = 10, title: str = "") -> None:
    """A grid of grey images (n, height, width), drawn into the current axes."""
    images = F.pad(images.detach(), (1, 1, 1, 1), value=images.min().item())
    rows = -(-len(images) // columns)
    height, width = images.shape[-2:]
    grid = images.new_zeros(rows * columns, height, width)
    grid[: len(images)] = images
    grid = grid.view(rows, columns, height, width).permute(0, 2, 1, 3)
    plt.imshow(grid.reshape(rows * height, columns * width).numpy(), cmap="gray")
    plt.title(title)
    plt.axis("off")


def result(
    what: str, value: float, at_least: float | None = None, at_most: float | None = None
) -> None:
    """Prints a result; a program that misses what it should reach ends with exit code 1."""
    limit = f" (at least {at_least:g})" if at_least is not None else ""
    limit = f" (at most {at_most:g})" if at_most is not None else limit
    print(f"result: {what}: {value:.4g}{limit}")
    missed = at_least is not None and not value >= at_least
    if missed or (at_most is not None and not value <= at_most):
        sys.exit("the result was missed")


def distance(found: Tensor, wanted: Tensor) -> float:
    """How far two sets of samples are apart: the maximum mean discrepancy, 0 if they are alike.

    Samples (n, ...) are compared pair by pair: those of one set are as like each other as they are
    like those of the other set, or they are not.
    """
    a, b = found.detach().flatten(1), wanted.flatten(1)
    width = lg.cdist(b, b).median()

    def likeness(x: Tensor, y: Tensor) -> Tensor:
        return lg.exp(-((lg.cdist(x, y) / width) ** 2))

    def among(x: Tensor) -> Tensor:  # without each one's likeness to itself
        return (likeness(x, x).sum() - len(x)) / (len(x) * (len(x) - 1))

    return (among(a) + among(b) - 2 * likeness(a, b).mean()).item()
