"""`python -m benchmarks.loader`: batches per second of livegrad's DataLoader and of PyTorch's.

Both load the same image-like dataset: 3 × 64 × 64 bytes per sample, made floats, scaled, shifted
and mirrored at random with NumPy. Each framework has a process with a loader whose workers persist;
they take turns, one epoch each, so that both see the same noise. "iterate" only takes the batches,
"read" also sums every value, which makes the process touch the memory they came in.
"""

import sys
import time
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import frameworks, report
from benchmarks.child import Answer, Child, ChildFailed, answer_pipe, serve
from benchmarks.spread import paired_ratio, spread

KINDS = ("iterate", "read")
STORED = 512  # images in memory; the dataset shows them again and again


class Images:
    """A dataset by key of plain NumPy code, the same for both frameworks."""

    def __init__(self, count: int) -> None:
        rng = np.random.default_rng(0)
        self.count = count
        self.pixels = rng.integers(0, 256, (STORED, 3, 64, 64), dtype=np.uint8)
        self.mean = np.array([0.485, 0.456, 0.406], np.float32)[:, None, None]
        self.scale = np.float32(1) / np.array([0.229, 0.224, 0.225], np.float32)[:, None, None]

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> tuple[np.ndarray[Any, Any], int]:
        image = self.pixels[i % STORED].astype(np.float32)
        image *= np.float32(1 / 255)
        image -= self.mean
        image *= self.scale
        if np.random.random() < 0.5:  # noqa: NPY002 - what augmentations use
            image = np.ascontiguousarray(image[:, :, ::-1])
        return image, i % 10


class Loading:
    """A loader of one framework, and epochs over it."""

    def __init__(self, package: str, workers: int, batch: int, batches: int) -> None:
        data = import_module(f"{package}.utils.data")
        self.batch = batch
        self.batches = batches
        self.loader = data.DataLoader(
            Images(batch * batches),
            batch,
            shuffle=True,
            num_workers=workers,
            persistent_workers=workers > 0,
        )

    def measure(self, kind: str) -> Answer:
        """Samples per second of one epoch, from its start to its last batch."""
        begin = time.perf_counter()
        count, total = 0, 0.0
        for images, labels in self.loader:
            count += len(labels)
            if kind == "read":
                total += float(np.add.reduce(np.asarray(images), None))
        seconds = time.perf_counter() - begin
        assert count == self.batch * self.batches
        return {"samples": count / seconds, "total": total}


def measure(
    names: list[str], rounds: int, workers: int, batch: int, batches: int
) -> dict[str, dict[str, list[Answer]]]:
    """Answers by kind and framework, the frameworks taking turns."""
    arguments = [str(workers), str(batch), str(batches)]
    environment = frameworks.environment(1)
    answers: dict[str, dict[str, list[Answer]]] = {k: {n: [] for n in names} for k in KINDS}
    children: dict[str, Child] = {}
    try:
        for name in names:
            children[name] = Child(
                "benchmarks.loader", "--child", name, *arguments, environment=environment
            )
        for number in range(-1, rounds):  # one to warm up
            for kind in KINDS:
                # Who goes first changes, so that nobody always follows the other's cache misses.
                order = list(children)[:: 1 if number % 2 else -1]
                for name in order:
                    answer = children[name].ask("measure", kind=kind)
                    if number >= 0:
                        answers[kind][name].append(answer)
    finally:
        for child in children.values():
            child.close()
    return answers


def samples_of(answers: list[Answer]) -> list[float]:
    return [answer["samples"] for answer in answers]


def print_answers(console: Console, answers: dict[str, dict[str, list[Answer]]]) -> None:
    names = list(next(iter(answers.values())))
    table = Table(title="samples per second: median, quartiles", title_justify="left")
    for heading in ("", *names):
        table.add_column(heading, justify="left" if not heading else "right")
    compared = frameworks.TORCH in names and frameworks.LIVEGRAD in names
    if compared:
        table.add_column("livegrad / torch", justify="right")
    for kind, by_name in answers.items():
        cells = [spread(samples_of(by_name[name])).format("{:.0f}") for name in names]
        if compared:
            ours, theirs = by_name[frameworks.LIVEGRAD], by_name[frameworks.TORCH]
            cells.append(paired_ratio(samples_of(ours), samples_of(theirs)).format("{:.2f}"))
        table.add_row(kind, *cells)
    console.print(table)


def figures_of(answers: dict[str, dict[str, list[Answer]]]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for kind, by_name in answers.items():
        figures[kind] = {name: asdict(spread(samples_of(each))) for name, each in by_name.items()}
        if frameworks.TORCH in by_name and frameworks.LIVEGRAD in by_name:
            ours, theirs = by_name[frameworks.LIVEGRAD], by_name[frameworks.TORCH]
            ratio = paired_ratio(samples_of(ours), samples_of(theirs))
            figures[kind]["livegrad/torch"] = asdict(ratio)
    return figures


def serve_child(name: str, workers: str, batch: str, batches: str) -> None:
    """The other end of `Child`."""
    answers = answer_pipe()
    loading = Loading(frameworks.PACKAGE[name], int(workers), int(batch), int(batches))
    serve({"measure": loading.measure}, answers)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option(
    "--framework",
    "names",
    multiple=True,
    type=click.Choice([frameworks.LIVEGRAD, frameworks.TORCH, frameworks.CONTROL]),
    help="Only this one; may be repeated.",
)
@click.option("--rounds", default=15, type=click.IntRange(min=2), help="Epochs of each kind.")
@click.option("--workers", default=2, type=click.IntRange(min=0), help="Processes per loader.")
@click.option("--batch", default=64, type=click.IntRange(min=1), help="Samples per batch.")
@click.option("--batches", default=60, type=click.IntRange(min=1), help="Batches per epoch.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Where to write the figures.")
def main(
    names: tuple[str, ...], rounds: int, workers: int, batch: int, batches: int, path: Path | None
) -> None:
    """Throughput of data loaders."""
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    both = (frameworks.LIVEGRAD, frameworks.TORCH)
    selected = list(names) or [name for name in both if frameworks.installed(name)]
    try:
        answers = measure(selected, rounds, workers, batch, batches)
    except ChildFailed as failure:
        raise click.ClickException(str(failure)) from failure
    console.print(f"{workers} workers, batches of {batch}, {batches} batches per epoch")
    print_answers(console, answers)
    values = {
        "machine": report.machine(),
        "settings": {"workers": workers, "batch": batch, "batches": batches, "rounds": rounds},
        "samples_per_second": figures_of(answers),
    }
    written = report.write_json(values, path, "loader")
    console.print(f"written to {written}", soft_wrap=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        serve_child(*sys.argv[2:6])
    else:
        main()
