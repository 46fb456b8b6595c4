"""`python -m benchmarks.recording`: what one recorded operation costs, and what `import` costs.

livegrad only records in the timed part: values are computed after the clock has stopped. torch
computes as it goes, on tensors so small that its own cost per operation is all there is.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks import frameworks, report
from benchmarks.child import Answer, Child, ChildFailed, answer_pipe, keep_to_cores, serve
from benchmarks.spread import Spread, paired_ratio, spread

OPS = 200  # in one chain: fewer than any limit on what may be pending
SIZE = 8
Chain = Callable[[Any, int], Any]
KINDS = {
    "x * y + z": "elementwise chain, differentiable",
    "x * y": "binary",
    "x.tanh()": "unary",
    "x * 1.01": "tensor and number",
    "linear(x, w, b)": "linear layer",
    "x * y, no grad": "binary under no_grad",
    "backward of x * y": "backward",
    "backward of linear": "backward of a linear layer",
}


class Recorder:
    """The child process of one framework: times chains of operations."""

    def __init__(self, namespace: frameworks.Namespace) -> None:
        xp = self.xp = namespace.xp
        self.functional = namespace.F
        xp.manual_seed(0)
        # Values that stay of ordinary size in long chains: denormal numbers would be slow.
        self.x = xp.rand(SIZE, SIZE, requires_grad=True)
        self.y = xp.ones(SIZE, SIZE, requires_grad=True)
        self.z = xp.zeros(SIZE, SIZE, requires_grad=True)
        self.w = xp.full((SIZE, SIZE), 1 / SIZE, requires_grad=True)
        self.b = xp.zeros(SIZE, requires_grad=True)
        self.leaves = (self.x, self.y, self.z, self.w, self.b)

    def measure(self, kind: str) -> Answer:
        """Microseconds per operation of one chain; `flushed` if values were computed meanwhile."""
        chain = self.chain(kind)
        if kind.startswith("backward"):
            seconds, flushed = self.time_backward(chain)
        elif kind.endswith("no grad"):
            with self.xp.no_grad():
                seconds, flushed = self.time_forward(chain)
        else:
            seconds, flushed = self.time_forward(chain)
        return {"us": seconds / OPS * 1e6, "flushed": flushed}

    def chain(self, kind: str) -> Chain:
        y, z, w, b, linear = self.y, self.z, self.w, self.b, self.functional.linear

        def multiply_add(x: Any, count: int) -> Any:
            for _ in range(count // 2):
                x = x * y + z
            return x

        def multiply(x: Any, count: int) -> Any:
            for _ in range(count):
                x = x * y
            return x

        def tanh(x: Any, count: int) -> Any:
            for _ in range(count):
                x = x.tanh()
            return x

        def scale(x: Any, count: int) -> Any:
            for _ in range(count):
                x = x * 1.01
            return x

        def dense(x: Any, count: int) -> Any:
            for _ in range(count):
                x = linear(x, w, b)
            return x

        chains = (multiply_add, multiply, tanh, scale, dense, multiply, multiply, dense)
        return dict(zip(KINDS, chains, strict=True))[kind]

    def time_forward(self, chain: Chain) -> tuple[float, bool]:
        flushes = self.flushes()
        begin = time.perf_counter()
        x = chain(self.x, OPS)
        seconds = time.perf_counter() - begin
        flushed = self.flushes() != flushes
        x.sum().item()
        return seconds, flushed

    def time_backward(self, chain: Chain) -> tuple[float, bool]:
        loss = chain(self.x, OPS).sum()
        flushes = self.flushes()
        begin = time.perf_counter()
        loss.backward()
        seconds = time.perf_counter() - begin
        flushed = self.flushes() != flushes
        for leaf in self.leaves:
            if leaf.grad is not None:
                leaf.grad.sum().item()
                leaf.grad = None
        return seconds, flushed

    def flushes(self) -> int:
        """How often livegrad has computed values so far; torch has no such count."""
        return int(self.xp.stats().flushes) if hasattr(self.xp, "stats") else 0


def measure_kinds(
    names: list[str], rounds: int, threads: int
) -> dict[str, dict[str, list[Answer]]]:
    """Answers by kind and framework, the frameworks taking turns."""
    environment = frameworks.environment(threads)
    children = {
        name: Child("benchmarks.recording", "--child", name, str(threads), environment=environment)
        for name in names
    }
    answers: dict[str, dict[str, list[Answer]]] = {k: {n: [] for n in names} for k in KINDS}
    try:
        for kind in KINDS:
            for number in range(-3, rounds):  # three to warm up
                for child_name, child in children.items():
                    answer = child.ask("measure", kind=kind)
                    if number >= 0:
                        answers[kind][child_name].append(answer)
    finally:
        for child in children.values():
            child.close()
    return answers


def measure_imports(names: list[str], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of `import` in fresh processes, taking turns; the first round fills caches."""
    packages = ["numpy", *names]
    found: dict[str, list[float]] = {package: [] for package in packages}
    for number in range(rounds + 1):
        for package in packages:
            code = (
                "import time; begin = time.perf_counter()\n"
                f"import {package}\n"
                "print(time.perf_counter() - begin)"
            )
            run = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True
            )
            if number > 0:
                found[package].append(float(run.stdout) * 1e3)
    return found


def print_kinds(console: Console, answers: dict[str, dict[str, list[Answer]]]) -> None:
    names = list(next(iter(answers.values())))
    table = Table(title=f"µs per operation, chains of {OPS}", title_justify="left")
    table.add_column("operation")
    for name in names:
        table.add_column(name, justify="right")
    for kind, by_name in answers.items():
        cells = [
            us_of(by_name[name]).format("{:.2f}") + flush_mark(by_name[name]) for name in names
        ]
        table.add_row(f"{kind}  ({KINDS[kind]})", *cells)
    console.print(table)
    if any(flush_mark(by_name[name]) for by_name in answers.values() for name in names):
        console.print("* values were computed inside the timed part: not recording alone")


def us_of(answers: list[Answer]) -> Spread:
    return spread([answer["us"] for answer in answers])


def flush_mark(answers: list[Answer]) -> str:
    return " *" if any(answer["flushed"] for answer in answers) else ""


def print_imports(console: Console, found: dict[str, list[float]]) -> None:
    table = Table(title="import, in fresh processes", title_justify="left")
    for heading in ("package", "ms", "numpy = 1"):
        table.add_column(heading, justify="left" if heading == "package" else "right")
    for package, values in found.items():
        ratio = paired_ratio(values, found["numpy"])
        table.add_row(package, spread(values).format("{:.1f}"), ratio.format("{:.2f}"))
    console.print(table)


def serve_child(name: str, threads: str) -> None:
    """The other end of `Child`."""
    answers = answer_pipe()
    keep_to_cores(int(threads))
    namespace = frameworks.load(name)
    assert namespace is not None
    frameworks.limit_threads(namespace, int(threads))
    recorder = Recorder(namespace)
    serve({"measure": recorder.measure}, answers)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option(
    "--framework",
    "names",
    multiple=True,
    type=click.Choice([frameworks.LIVEGRAD, frameworks.TORCH]),
    help="Only this one; may be repeated.",
)
@click.option("--rounds", default=60, type=click.IntRange(min=2), help="Chains of each kind.")
@click.option("--imports", default=15, type=click.IntRange(min=0), help="Processes per package.")
@click.option("--threads", default=1, type=click.IntRange(min=1), help="For both frameworks.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Where to write the figures.")
def main(
    names: tuple[str, ...], rounds: int, imports: int, threads: int, path: Path | None
) -> None:
    """What recording costs per operation, and what importing costs."""
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    both = (frameworks.LIVEGRAD, frameworks.TORCH)
    selected = list(names) or [name for name in both if frameworks.installed(name)]
    try:
        answers = measure_kinds(selected, rounds, threads)
    except ChildFailed as failure:
        raise click.ClickException(str(failure)) from failure
    print_kinds(console, answers)
    found = measure_imports(selected, imports) if imports else {}
    if found:
        print_imports(console, found)
    figures = {
        kind: {name: statistics.median(a["us"] for a in each) for name, each in by_name.items()}
        for kind, by_name in answers.items()
    }
    values = {"machine": report.machine(), "us_per_op": figures, "import_ms": found}
    written = report.write_json(values, path, "recording")
    console.print(f"written to {written}", soft_wrap=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        serve_child(*sys.argv[2:4])
    else:
        main()
