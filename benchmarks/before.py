"""`python -m benchmarks.before ../other`: this tree against another checkout, the two in turns.

Two processes with the same code differ by 10 % and more for as long as they live. So every figure
is of several pairs of fresh processes, one of each tree, that take turns; the ratio is of the two
that ran side by side.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks import frameworks, report, workloads
from benchmarks.child import Answer, Child, ChildFailed, answer_pipe, serve
from benchmarks.optimizers import OPTIMIZERS
from benchmarks.recording import KINDS
from benchmarks.spread import paired_ratio, spread

ROOT = Path(__file__).resolve().parent.parent
BEFORE, NOW = "before", "now"
Environments = dict[str, dict[str, str]]
# What a pair of processes measured, by what was measured: the figures of each tree.
Figures = dict[str, dict[str, list[float]]]


@contextmanager
def both_trees(before: Path, threads: int) -> Iterator[Environments]:
    """The environments in which `import livegrad` finds one tree or the other.

    The benchmarks themselves are this tree's. Each has a cache of its own, with nothing in it but
    the hot functions, which would otherwise be compiled at some time during the first figures.
    """
    with tempfile.TemporaryDirectory(prefix="livegrad-before-", ignore_cleanup_errors=True) as root:
        found = {}
        for name, tree in ((BEFORE, before.resolve()), (NOW, ROOT)):
            folder = Path(root, name)
            folder.mkdir()
            folder.joinpath("livegrad").symlink_to(tree / "livegrad", target_is_directory=True)
            found[name] = {
                **frameworks.environment(threads),
                "PYTHONSAFEPATH": "1",  # or the current folder's livegrad would come first
                "PYTHONPATH": f"{folder}:{ROOT}",
                "LIVEGRAD_CACHE_DIR": f"{folder}/cache",
                "PYTHONDONTWRITEBYTECODE": "",  # an installed package has its bytecode
                "PYTHONPYCACHEPREFIX": f"{folder}/bytecode",
            }
            for beginning in BEGINNINGS:
                run_code(HOT.format(beginning), found[name])
        yield found


# Which functions are hot depends on what a program imports.
BEGINNINGS = (
    *[f"worker.Worker('livegrad', '{name}', 0, 2).losses(20)" for name in workloads.ALL],
    "recording.Recorder(frameworks.load('livegrad')).measure('x * y')",
    "optimizers.Stepping('livegrad').measure('SGD')",
)
HOT = """
from benchmarks import frameworks, optimizers, recording, worker
from livegrad.runtime.speedup import speed_up
{}
speed_up()
"""


def run_code(code: str, environment: dict[str, str]) -> str:
    """What a fresh process prints."""
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout


@contextmanager
def pair(trees: Environments, module: str, *arguments: str) -> Iterator[dict[str, Child]]:
    """One child process in each tree."""
    with ExitStack() as ends:
        children = {}
        for name, environment in trees.items():
            children[name] = Child(module, *arguments, environment=environment)
            ends.callback(children[name].close)
        yield children


def take_turns(
    children: dict[str, Child], rounds: int, figures: dict[str, list[float]], ask: Any
) -> None:
    for number in range(rounds):
        for name in list(children)[:: 1 if number % 2 else -1]:
            figures[name].append(ask(children[name]))


def blank() -> dict[str, list[float]]:
    return {BEFORE: [], NOW: []}


def steps(trees: Environments, groups: int, rounds: int) -> Figures:
    """Training steps of the workloads, in µs."""
    found: Figures = {}
    for workload in workloads.ALL.values():
        ask = _burst(workload.steps)
        figures = found[f"step: {workload.name}"] = blank()
        for _ in range(groups):
            with pair(trees, "benchmarks.worker", "livegrad", workload.name, "0", "2") as children:
                for child in children.values():
                    child.ask("first")
                    for _ in range(3):
                        ask(child)
                take_turns(children, rounds, figures, ask)
    return found


def _burst(count: int) -> Callable[[Child], float]:
    def ask(child: Child) -> float:
        time.sleep(0.005)
        return float(child.ask("burst", count=count, read_every=1)["us"])

    return ask


def recording(trees: Environments, groups: int, rounds: int) -> Figures:
    """The cost of recording one operation, in µs."""
    found: Figures = {f"record: {kind}": blank() for kind in KINDS}
    for _ in range(groups):
        with pair(trees, "benchmarks.recording", "--child", "livegrad", "1") as children:
            for kind in KINDS:
                ask = _asking("us", "measure", kind=kind)
                take_turns(children, 60, blank(), ask)  # to warm up
                take_turns(children, rounds, found[f"record: {kind}"], ask)
    return found


def optimizers(trees: Environments, groups: int, rounds: int) -> Figures:
    """An optimiser's step over 100 small parameters, in µs."""
    found: Figures = {f"optimiser: {name}": blank() for name in OPTIMIZERS}
    for _ in range(groups):
        with pair(trees, "benchmarks.optimizers", "--child", "livegrad") as children:
            for name in OPTIMIZERS:
                ask = _asking("step", "measure", name=name)
                take_turns(children, 2, blank(), ask)
                take_turns(children, rounds, found[f"optimiser: {name}"], ask)
    return found


def starts(trees: Environments, groups: int, rounds: int) -> Figures:
    """The first step of models in fresh processes whose kernels are on disk, in µs."""
    found: Figures = {}
    for model in MODELS:
        figures = found[f"first step: {model}"] = blank()
        for number in range(groups + 1):
            with pair(trees, "benchmarks.before", "--child", model) as children:
                ask = _asking("us", "first")
                take_turns(children, 1, figures if number else blank(), ask)
    return found


def _asking(what: str, command: str, **arguments: Any) -> Callable[[Child], float]:
    return lambda child: float(child.ask(command, **arguments)[what])


def imports(trees: Environments, groups: int, rounds: int) -> Figures:
    """`import livegrad` in fresh processes, in µs."""
    code = (
        "import time; begin = time.perf_counter(); import livegrad\n"
        "print((time.perf_counter() - begin) * 1e6)"
    )
    figures = blank()
    for _ in range(groups * rounds):
        for name, environment in trees.items():
            figures[name].append(float(run_code(code, environment)))
    return {"import": figures}


# -------------------------------------------------------------------------------------- models


def gpt() -> Callable[[], Any]:
    """A training step of a transformer of six layers."""
    import livegrad as lg

    layer = lg.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    model = lg.nn.Sequential(
        lg.nn.Embedding(100, 64), lg.nn.TransformerEncoder(layer, 6), lg.nn.Linear(64, 100)
    )
    tokens = lg.arange(64).reshape(4, 16)
    return _step_of(model, tokens, tokens)


def resnet() -> Callable[[], Any]:
    """A training step of a residual network of eight blocks."""
    import livegrad as lg

    class Block(lg.nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.body = lg.nn.Sequential(
                lg.nn.Conv2d(width, width, 3, padding=1), lg.nn.BatchNorm2d(width), lg.nn.ReLU(),
                lg.nn.Conv2d(width, width, 3, padding=1), lg.nn.BatchNorm2d(width),
            )  # fmt: skip

        def forward(self, x: Any) -> Any:
            return (self.body(x) + x).relu()

    model = lg.nn.Sequential(
        lg.nn.Conv2d(3, 8, 3), *[Block(8) for _ in range(8)],
        lg.nn.AdaptiveAvgPool2d(1), lg.nn.Flatten(), lg.nn.Linear(8, 10),
    )  # fmt: skip
    return _step_of(model, lg.ones(4, 3, 10, 10), lg.arange(4))


def _step_of(model: Any, inputs: Any, labels: Any) -> Callable[[], Any]:
    import livegrad as lg

    optimizer = lg.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> Any:
        scores = model(inputs)
        loss = lg.nn.functional.cross_entropy(scores.flatten(0, -2), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


MODELS = {"GPT": gpt, "ResNet": resnet}


def serve_model(name: str) -> None:
    answers = answer_pipe()
    step = MODELS[name]()

    def first() -> Answer:
        begin = time.process_time()
        step()
        return {"us": (time.process_time() - begin) * 1e6}

    serve({"first": first}, answers)


# ------------------------------------------------------------------------------------- command

PARTS = {
    "steps": steps,
    "recording": recording,
    "optimizers": optimizers,
    "starts": starts,
    "imports": imports,
}


def print_figures(console: Console, figures: Figures) -> None:
    table = Table(title="µs: median, quartiles", title_justify="left")
    for heading in ("", BEFORE, NOW, "now / before"):
        table.add_column(heading, justify="left" if not heading else "right")
    for what, by_tree in figures.items():
        before, now = by_tree[BEFORE], by_tree[NOW]
        table.add_row(
            what,
            spread(before).format("{:.2f}"),
            spread(now).format("{:.2f}"),
            paired_ratio(now, before).format("{:.3f}"),
        )
    console.print(table)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.argument("before", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--part", "chosen", multiple=True, type=click.Choice(list(PARTS)), help="Only this.")
@click.option("--groups", default=5, type=click.IntRange(min=1), help="Pairs of processes.")
@click.option("--rounds", default=4, type=click.IntRange(min=1), help="Turns of each pair.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Where to write the figures.")
def main(
    before: Path, chosen: tuple[str, ...], groups: int, rounds: int, path: Path | None
) -> None:
    """This tree against the livegrad in the folder BEFORE (another checkout's root)."""
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    if not (before / "livegrad" / "__init__.py").is_file():
        raise click.ClickException(f"there is no livegrad in {before}: give a checkout's root")
    figures: Figures = {}
    try:
        with both_trees(before, threads=2) as trees:
            for name in chosen or PARTS:
                figures |= PARTS[name](trees, groups, rounds)
    except ChildFailed as failure:
        raise click.ClickException(str(failure)) from failure
    print_figures(console, figures)
    summary = {
        what: {name: asdict(spread(values)) for name, values in by_tree.items()}
        for what, by_tree in figures.items()
    }
    values = {"machine": report.machine(), "microseconds": summary}
    console.print(f"written to {report.write_json(values, path, 'before')}", soft_wrap=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        serve_model(sys.argv[2])
    else:
        main()
