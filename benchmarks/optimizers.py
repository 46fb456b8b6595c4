"""`python -m benchmarks.optimizers`: an optimiser's step over 100 small parameters.

With parameters this small, a step is what Python and the dispatch of operations cost. For livegrad
the part outside the plan's run is shown too: recording the update, and finding its plan's inputs.
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

OPTIMIZERS = {
    "SGD": {"lr": 1e-3, "momentum": 0.9},
    "Adam": {"lr": 1e-3},
    "AdamW": {"lr": 1e-3},
    "RMSprop": {"lr": 1e-3},
}
PARAMETERS, SIZE, STEPS = 100, 8, 100


class Flushes:
    """The time that livegrad spends running plans, to be taken off that of a step."""

    def __init__(self) -> None:
        from livegrad.graph.state import Runtime

        self.seconds = 0.0
        self.flush = Runtime.flush
        Runtime.flush = self.timed

    def timed(self, reason: str, roots: Any) -> None:
        begin = time.perf_counter()
        self.flush(reason, roots)
        self.seconds += time.perf_counter() - begin


class Stepping:
    """The optimisers of one framework, each with parameters of its own."""

    def __init__(self, package: str) -> None:
        framework = import_module(package)
        optim = import_module(f"{package}.optim")
        self.flushes = Flushes() if package == "livegrad" else None
        self.runs: dict[str, tuple[Any, list[Any], list[Any]]] = {}
        for name, options in OPTIMIZERS.items():
            values = np.ones((PARAMETERS, SIZE), np.float32)
            parameters = [framework.tensor(row, requires_grad=True) for row in values]
            gradients = [framework.tensor(row * 0.1) for row in values]
            self.runs[name] = (
                getattr(optim, name)(parameters, **options), parameters, gradients
            )  # fmt: skip

    def measure(self, name: str) -> Answer:
        """Microseconds of a step, and of its part outside the flush."""
        optimizer, parameters, gradients = self.runs[name]
        if self.flushes is not None:
            self.flushes.seconds = 0.0
        total = 0.0
        for _ in range(STEPS):
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            begin = time.perf_counter()
            optimizer.step()
            total += time.perf_counter() - begin
        flushed = total if self.flushes is None else self.flushes.seconds
        return {"step": total / STEPS * 1e6, "python": (total - flushed) / STEPS * 1e6}


def measure(names: list[str], rounds: int) -> dict[str, dict[str, list[Answer]]]:
    """Answers by optimiser and framework, the frameworks taking turns."""
    answers: dict[str, dict[str, list[Answer]]] = {o: {n: [] for n in names} for o in OPTIMIZERS}
    children: dict[str, Child] = {}
    try:
        for name in names:
            environment = frameworks.environment(1)
            children[name] = Child(
                "benchmarks.optimizers", "--child", name, environment=environment
            )
        for number in range(-2, rounds):  # two to warm up
            for optimizer, by_name in answers.items():
                for name, child in children.items():
                    answer = child.ask("measure", name=optimizer)
                    if number >= 0:
                        by_name[name].append(answer)
    finally:
        for child in children.values():
            child.close()
    return answers


def column(answers: list[Answer], what: str) -> list[float]:
    return [answer[what] for answer in answers]


def print_answers(console: Console, answers: dict[str, dict[str, list[Answer]]]) -> None:
    names = list(next(iter(answers.values())))
    compared = frameworks.TORCH in names and frameworks.LIVEGRAD in names
    title = f"µs per step over {PARAMETERS} parameters of {SIZE}: median, quartiles"
    table = Table(title=title, title_justify="left")
    headings = ["", *names, "livegrad, outside the plan", *["torch / livegrad"] * compared]
    for heading in headings:
        table.add_column(heading, justify="left" if not heading else "right")
    for optimizer, by_name in answers.items():
        cells = [spread(column(by_name[name], "step")).format("{:.0f}") for name in names]
        ours = by_name.get(frameworks.LIVEGRAD, [])
        cells.append(spread(column(ours, "python")).format("{:.0f}") if ours else "")
        if compared:
            theirs = column(by_name[frameworks.TORCH], "step")
            cells.append(paired_ratio(theirs, column(ours, "step")).format("{:.2f}"))
        table.add_row(optimizer, *cells)
    console.print(table)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--rounds", default=15, type=click.IntRange(min=2), help="Turns of each framework.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Where to write the figures.")
def main(rounds: int, path: Path | None) -> None:
    """What an optimiser's step over many small parameters costs."""
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    names = [n for n in (frameworks.LIVEGRAD, frameworks.TORCH) if frameworks.installed(n)]
    try:
        answers = measure(names, rounds)
    except ChildFailed as failure:
        raise click.ClickException(str(failure)) from failure
    print_answers(console, answers)
    figures = {
        optimizer: {
            name: {what: asdict(spread(column(each, what))) for what in ("step", "python")}
            for name, each in by_name.items()
        }
        for optimizer, by_name in answers.items()
    }
    written = report.write_json(
        {"machine": report.machine(), "microseconds": figures}, path, "optimizers"
    )
    console.print(f"written to {written}", soft_wrap=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        pipe = answer_pipe()
        serve({"measure": Stepping(frameworks.PACKAGE[sys.argv[2]]).measure}, pipe)
    else:
        main()
