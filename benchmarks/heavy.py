"""`python -m benchmarks.heavy`: products, convolutions and attention by themselves, against torch.

Each case is run on several operands of its own, so that nothing is computed once for all of them;
results are kept, and all are there before the clock stops. `of peak` is the share of what one core
can multiply and add, times the threads: measured in the same process, by nothing but that.
"""

import ctypes
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import frameworks, report
from benchmarks.child import Answer, Child, ChildFailed, answer_pipe, serve
from benchmarks.spread import paired_ratio, spread

# Multiplications and additions of a turn, about; and elements of all its operands at most.
TURN, MOST = 4e8, 1 << 26


class Case(NamedTuple):
    """`run(package, *operands)` gives the result, for operands of these shapes."""

    name: str
    flops: float
    shapes: tuple[tuple[int, ...], ...]
    run: Callable[..., Any]


# --------------------------------------------------------------------------------------- products

# M, N, K, and how often side by side.
PRODUCTS = [
    *[(n, n, n, 0) for n in (16, 32, 64, 100, 128, 256, 384, 512, 1024, 2048)],
    (1, 256, 256, 0), (1, 4096, 1024, 0), (2, 1024, 1024, 0), (4, 512, 2048, 0),
    (8, 768, 768, 0), (16, 1000, 512, 0), (64, 256, 784, 0), (64, 10, 256, 0),
    (128, 512, 512, 0), (1024, 128, 128, 0), (1024, 512, 128, 0), (1024, 128, 512, 0),
    (1024, 1536, 384, 0), (1024, 384, 1536, 0), (1024, 1000, 128, 0), (4096, 64, 64, 0),
    (4096, 4, 4, 0), (37, 41, 43, 0), (101, 257, 513, 0), (333, 77, 1025, 0),
    (64, 576, 8192, 0), (128, 128, 4096, 0), (10, 84, 4096, 0), (1, 1, 4096, 0),
    (128, 128, 32, 32), (32, 32, 64, 64), (256, 64, 256, 24), (8, 8, 8, 256),
]  # fmt: skip


def product(m: int, n: int, k: int, batch: int, turned: str = "") -> Case:
    """`turned` names the operands that are transposed in memory."""
    left = (k, m) if "a" in turned else (m, k)
    right = (n, k) if "b" in turned else (k, n)
    lead = (batch,) if batch else ()

    def run(package: Any, a: Any, b: Any) -> Any:
        a = a.transpose(-1, -2) if "a" in turned else a
        return a @ (b.transpose(-1, -2) if "b" in turned else b)

    name = f"{m}×{n}×{k}" + (f", {batch} of them" if batch else "")
    name += {"": "", "a": ", left turned", "b": ", right turned", "ab": ", both turned"}[turned]
    flops = 2.0 * m * n * k * max(batch, 1)
    return Case(name, flops, ((*lead, *left), (*lead, *right)), run)


def products() -> list[Case]:
    turned = [
        product(*sizes, way)
        for sizes in ((64, 64, 64, 0), (256, 784, 64, 0), (512, 512, 512, 0), (384, 1536, 1024, 0))
        for way in ("a", "b", "ab")
    ]
    return [*[product(*sizes) for sizes in PRODUCTS], *turned]


# ----------------------------------------------------------------------------------- convolutions

# Batch, channels, size, outputs, taps, stride, padding, groups; where it is from.
CONVOLUTIONS = [
    ("LeNet 1", 64, 3, (32, 32), 6, 5, 1, 0, 1), ("LeNet 2", 64, 6, (14, 14), 16, 5, 1, 0, 1),
    ("ResNet stem 32²", 32, 3, (32, 32), 64, 3, 1, 1, 1),
    ("ResNet 64@32²", 32, 64, (32, 32), 64, 3, 1, 1, 1),
    ("ResNet 128@16²", 32, 128, (16, 16), 128, 3, 1, 1, 1),
    ("ResNet 256@8²", 32, 256, (8, 8), 256, 3, 1, 1, 1),
    ("ResNet 512@4²", 32, 512, (4, 4), 512, 3, 1, 1, 1),
    ("ResNet 64→128 /2", 32, 64, (32, 32), 128, 3, 2, 1, 1),
    ("ResNet 1×1 /2", 32, 64, (32, 32), 128, 1, 2, 0, 1),
    ("ResNet-50 stem 7×7 /2", 1, 3, (224, 224), 64, 7, 2, 3, 1),
    ("ResNet-50 1×1 256→64@56²", 1, 256, (56, 56), 64, 1, 1, 0, 1),
    ("ResNet-50 64@56²", 1, 64, (56, 56), 64, 3, 1, 1, 1),
    ("ResNet-50 1×1 512→2048@7²", 4, 512, (7, 7), 2048, 1, 1, 0, 1),
    ("MobileNet depthwise 32@56²", 4, 32, (56, 56), 32, 3, 1, 1, 32),
    ("MobileNet depthwise 192@14²", 16, 192, (14, 14), 192, 3, 1, 1, 192),
    ("MobileNet depthwise /2", 4, 96, (56, 56), 96, 3, 2, 1, 96),
    ("MobileNet 1×1 192→32@14²", 16, 192, (14, 14), 32, 1, 1, 0, 1),
    ("U-Net 16@64²", 4, 16, (64, 64), 16, 3, 1, 1, 1),
    ("U-Net 64@16²", 4, 64, (16, 16), 64, 3, 1, 1, 1),
    ("U-Net 128@8²", 4, 128, (8, 8), 128, 3, 1, 1, 1),
    ("ResNeXt 128@16², 32 groups", 8, 128, (16, 16), 128, 3, 1, 1, 32),
    ("TCN 64, 3 taps", 16, 64, (256,), 64, 3, 1, 2, 1),
    ("TCN 25, 7 taps", 32, 25, (400,), 25, 7, 1, 6, 1),
    ("waves 1→32, 80 taps /4", 16, 1, (4000,), 32, 80, 4, 0, 1),
    ("volumes 8@16³", 2, 8, (16, 16, 16), 16, 3, 1, 1, 1),
]  # fmt: skip


def convolution(
    name: str,
    batch: int,
    channels: int,
    size: Sequence[int],
    outputs: int,
    taps: int,
    stride: int,
    padding: int,
    groups: int,
) -> list[Case]:
    """Forward, and both gradients."""
    rank = len(size)
    x, weight = (batch, channels, *size), (outputs, channels // groups, *[taps] * rank)
    counts = [(s + 2 * padding - taps) // stride + 1 for s in size]
    y = (batch, outputs, *counts)
    flops = 2.0 * math.prod(y) * math.prod(weight[1:])
    options = {"stride": stride, "padding": padding, "groups": groups}
    function = f"conv{rank}d"

    def forward(package: Any, x: Any, w: Any) -> Any:
        return getattr(package.nn.functional, function)(x, w, **options)

    def for_input(package: Any, w: Any, g: Any) -> Any:
        return getattr(package.nn.grad, f"{function}_input")(x, w, g, **options)

    def for_weight(package: Any, x: Any, g: Any) -> Any:
        return getattr(package.nn.grad, f"{function}_weight")(x, weight, g, **options)

    return [
        Case(name, flops, (x, weight), forward),
        Case(f"{name}, gradient of the input", flops, (weight, y), for_input),
        Case(f"{name}, gradient of the weight", flops, (x, y), for_weight),
    ]


# -------------------------------------------------------------------------------------- attention


def attention(batch: int, heads: int, length: int, width: int, causal: bool) -> list[Case]:
    """Forward; and forward with all gradients."""
    shape = (batch, heads, length, width)
    flops = 4.0 * batch * heads * length * length * width * (0.5 if causal else 1)

    def forward(package: Any, q: Any, k: Any, v: Any) -> Any:
        return package.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    def gradients(package: Any, q: Any, k: Any, v: Any, g: Any) -> Any:
        with package.enable_grad():
            inputs = [x.detach().requires_grad_() for x in (q, k, v)]
            return package.autograd.grad(forward(package, *inputs), inputs, g)

    name = f"{batch}×{heads} heads of {length}×{width}" + (", causal" if causal else "")
    return [
        Case(name, flops, (shape,) * 3, forward),
        Case(f"{name}, with gradients", 3.5 * flops, (shape,) * 4, gradients),
    ]


ATTENTION = [
    (8, 4, 128, 32, True), (4, 6, 256, 64, True), (1, 12, 1024, 64, True),
    (16, 8, 50, 64, False), (2, 4, 512, 128, False), (1, 8, 2048, 64, True),
]  # fmt: skip

FAMILIES: dict[str, Callable[[], list[Case]]] = {
    "products": products,
    "convolutions": lambda: [case for told in CONVOLUTIONS for case in convolution(*told)],
    "attention": lambda: [case for told in ATTENTION for case in attention(*told)],
}

# -------------------------------------------------------------------------------------- measuring


def peak() -> float:
    """GFLOP/s of one core: sums of products in registers, as wide as they are."""
    from livegrad.compiler.templates import kernel_builder
    from livegrad.runtime.cpu import jit, machine

    b = kernel_builder(machine.MACHINE)
    kind, vectors, count = b.vector("float"), 12, 1 << 22
    place, factor = b.params[0], b.splat(b.load("float", b.params[0]))
    with b.loop(0, b.params[2], 1, [b.const(kind, 0)] * vectors) as loop:
        loop.update([b.fma(factor, factor, x) for x in loop.carried])
    total = loop.results[0]
    for x in loop.results[1:]:
        total = b.fadd(total, x)
    b.store(total, place)
    types = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    kernel = ctypes.CFUNCTYPE(None, *types)(jit.compile_kernel(b.ir(), "kernel"))
    memory = np.zeros(64, np.float32)
    best = 0.0
    for _ in range(5):
        begin = time.perf_counter()
        kernel(memory.ctypes.data, 0, count, None)
        best = max(best, 2.0 * count * vectors * b.lanes / (time.perf_counter() - begin))
    return best / 1e9


class Running:
    """The cases of one framework."""

    def __init__(self, package: str, threads: int) -> None:
        self.package = import_module(package)
        for name in ("nn", "nn.functional", "nn.grad", "autograd"):
            import_module(f"{package}.{name}")
        self.package.set_num_threads(threads)
        self.operands: dict[str, list[tuple[Any, ...]]] = {}

    def prepare(self, case: Case) -> list[tuple[Any, ...]]:
        elements = sum([math.prod(shape) for shape in case.shapes])
        count = max(1, min(int(TURN / case.flops), MOST // elements, 400))
        random = np.random.default_rng(0)
        return [
            tuple(
                [
                    self.package.tensor(random.standard_normal(shape).astype(np.float32))
                    for shape in case.shapes
                ]
            )
            for _ in range(count)
        ]

    def measure(self, family: str, number: int) -> Answer:
        """Seconds of one run of a case; and a sum, to compare."""
        case = FAMILIES[family]()[number]
        operands = self.operands.get(case.name)
        if operands is None:
            self.operands = {case.name: self.prepare(case)}  # one case at a time is in memory
            operands = self.operands[case.name]
        with self.package.no_grad():
            begin = time.perf_counter()
            results = [case.run(self.package, *given) for given in operands]
            first = results[-1][0] if isinstance(results[-1], tuple) else results[-1]
            first.reshape(-1)[0].item()
            seconds = time.perf_counter() - begin
            total = first.double().abs().mean().item()
        return {"seconds": seconds / len(operands), "sum": total}

    def peak(self) -> Answer:
        return {"gflops": peak()}


def measure(family: str, threads: int, rounds: int, only: str) -> list[dict[str, Any]]:
    """Per case: the seconds of both, round by round."""
    names = [n for n in (frameworks.LIVEGRAD, frameworks.TORCH) if frameworks.installed(n)]
    children: dict[str, Child] = {}
    rows = []
    try:
        for name in names:
            environment = frameworks.environment(threads)
            told = ("--child", name, str(threads))
            children[name] = Child("benchmarks.heavy", *told, environment=environment)
        limit = children[frameworks.LIVEGRAD].ask("peak")["gflops"] * threads
        for number, case in enumerate(FAMILIES[family]()):
            if only not in case.name:
                continue
            answers: dict[str, list[Answer]] = {name: [] for name in names}
            for turn in range(-2, rounds):  # two to warm up
                for name, child in children.items():
                    answer = child.ask("measure", family=family, number=number)
                    if turn >= 0:
                        answers[name].append(answer)
            sums = [each[0]["sum"] for each in answers.values()]
            if max(sums) - min(sums) > 1e-4 * max(sums):
                raise click.ClickException(f"{case.name}: results differ: {sums}")
            seconds = {name: [a["seconds"] for a in each] for name, each in answers.items()}
            rows.append({"case": case, "seconds": seconds, "limit": limit})
    finally:
        for child in children.values():
            child.close()
    return rows


def table_of(family: str, threads: int, rows: list[dict[str, Any]]) -> tuple[Table, list[float]]:
    title = f"{family}, {threads} thread{'s' * (threads > 1)}: median, quartiles"
    table = Table(title=title, title_justify="left")
    for heading in ("", "livegrad GFLOP/s", "of peak", "torch of peak", "torch / livegrad"):
        table.add_column(heading, justify="left" if not heading else "right")
    ratios = []
    for row in rows:
        case, seconds = row["case"], row["seconds"]
        rates = {n: case.flops / np.median(each) / 1e9 for n, each in seconds.items()}
        shares = {name: f"{rate / row['limit']:.0%}" for name, rate in rates.items()}
        cells = [f"{rates[frameworks.LIVEGRAD]:.1f}", shares[frameworks.LIVEGRAD]]
        if frameworks.TORCH in seconds:
            ratio = paired_ratio(seconds[frameworks.TORCH], seconds[frameworks.LIVEGRAD])
            ratios.append(ratio.median)
            cells += [shares[frameworks.TORCH], ratio.format("{:.2f}")]
        table.add_row(case.name, *cells)
    return table, ratios


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--family", "families", type=click.Choice(list(FAMILIES)), multiple=True)
@click.option("--only", default="", help="Cases whose names have this in them.")
@click.option("--threads", default=2, type=click.IntRange(min=1), help="For both.")
@click.option("--rounds", default=9, type=click.IntRange(min=2), help="Turns of each framework.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Where to write the figures.")
def main(families: Sequence[str], only: str, threads: int, rounds: int, path: Path | None) -> None:
    """Heavy operations by themselves, each framework in a process of its own, taking turns."""
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    figures: dict[str, Any] = {}
    for family in families or FAMILIES:
        try:
            rows = measure(family, threads, rounds, only)
        except ChildFailed as failure:
            raise click.ClickException(str(failure)) from failure
        table, ratios = table_of(family, threads, rows)
        console.print(table)
        if ratios:
            mean = math.exp(sum([math.log(x) for x in ratios]) / len(ratios))
            console.print(f"geometric mean {mean:.2f}, least {min(ratios):.2f}")
        figures[family] = {
            row["case"].name: {n: asdict(spread(each)) for n, each in row["seconds"].items()}
            for row in rows
        }
    written = report.write_json(
        {"machine": report.machine(), "threads": threads, "seconds": figures}, path, "heavy"
    )
    console.print(f"written to {written}", soft_wrap=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        pipe = answer_pipe()
        running = Running(frameworks.PACKAGE[sys.argv[2]], int(sys.argv[3]))
        serve({"measure": running.measure, "peak": running.peak}, pipe)
    else:
        main()
