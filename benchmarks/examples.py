"""Each example's step under livegrad and under torch: the same file, one thread, CPU time.

    python -m benchmarks.examples [06 24 …] [--rounds 1] [--quick]

Under torch, `livegrad` is torch (`benchmarks.reversed`). Loops are those of `train.progress`, each
ended after a while (`benchmarks.kit`), so that programs come to all of their models; a step's loss
is read at its end. A row is the median step of each loop, of later steps, summed over the loops.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
EXAMPLES = HERE / "examples"
# What these measure is livegrad.train itself: configurations, checkpoints; search.
WITHOUT_A_TWIN = ("05", "34")
FRAMEWORKS = ("livegrad", "torch")
MARK = "steps: "


# ---------------------------------------------------------------------------------- one program


def run_example(path: Path, framework: str, arguments: list[str]) -> None:
    """Runs an example in this process, and prints the CPU seconds of its steps."""
    from benchmarks import kit

    if framework == "torch":
        from benchmarks import reversed as reverse

        reverse.install()
        import torch as library
    else:
        import livegrad as library  # type: ignore[no-redef]
        import livegrad.train

        livegrad.train.progress = kit.progress  # type: ignore[assignment]
        livegrad.train.evaluate = kit.evaluate  # type: ignore[assignment]
    library.set_num_threads(1)
    sys.modules["matplotlib"] = None  # type: ignore[assignment]  # no pictures
    sys.path.insert(0, str(EXAMPLES))
    sys.argv = [str(path), *arguments]
    _count_worlds(kit)
    problem = ""
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit:
        pass  # a result is missed: training was cut short
    except Exception as error:  # what comes after the steps
        problem = f"{type(error).__name__}: {error}"
    print(MARK + json.dumps({"times": kit.times, "problem": problem}))


def _count_worlds(kit: Any) -> None:
    """Where a program acts in a world, a step's time is that of one action: episodes differ."""
    if "cartpole" not in (EXAMPLES / Path(sys.argv[0]).name).read_text():
        return
    import cartpole

    actions = 0
    true_step = cartpole.CartPole.step

    def step(self: Any, action: int) -> Any:
        nonlocal actions
        actions += 1
        return true_step(self, action)

    cartpole.CartPole.step = step
    cartpole.make = cartpole.CartPole
    kit.counted = lambda: actions


# ---------------------------------------------------------------------------------- all of them


def measured(path: Path, framework: str, arguments: list[str]) -> tuple[dict[str, float], str]:
    """The median of the later steps of each loop, in seconds; and what went wrong."""
    environment = {**os.environ, "PYTHONPATH": str(HERE), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "benchmarks.examples", "--child", framework, str(path)]
        done = subprocess.run(
            [*command, "--out", out, *arguments],
            cwd=EXAMPLES, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if not lines:
        return {}, (done.stderr.strip().splitlines() or ["nothing"])[-1]
    found = json.loads(lines[-1].removeprefix(MARK))
    loops = {k: statistics.median(v[len(v) // 2 :]) for k, v in found["times"].items() if v}
    return loops, found["problem"]


def compared(path: Path, rounds: int, arguments: list[str]) -> dict[str, float] | str:
    """Seconds of a step by framework, the least of all rounds; or what went wrong."""
    best: dict[str, dict[str, float]] = {name: {} for name in FRAMEWORKS}
    for _ in range(rounds):
        for name in FRAMEWORKS:
            loops, problem = measured(path, name, arguments)
            if problem:
                print(f"{path.stem}, {name}: {problem}", file=sys.stderr, flush=True)
            for loop, seconds in loops.items():
                best[name][loop] = min(seconds, best[name].get(loop, seconds))
    both = [loop for loop in best["livegrad"] if loop in best["torch"]]
    if not both:
        return "no loop that both ran"
    return {name: sum([best[name][loop] for loop in both]) for name in FRAMEWORKS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("numbers", nargs="*", help="of the examples; all without any")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="examples with --quick")
    options = parser.parse_args()
    extra = ["--quick"] if options.quick else []
    print("| example | livegrad, ms | torch, ms | torch ÷ livegrad |\n|---|---|---|---|")
    for path in sorted(EXAMPLES.glob("[0-9][0-9]_*.py")):
        number = path.name[:2]
        if number in WITHOUT_A_TWIN or (options.numbers and number not in options.numbers):
            continue
        found = compared(path, options.rounds, extra)
        if isinstance(found, str):
            print(f"| {path.stem} | {found} | | |", flush=True)
            continue
        ours, theirs = [1e3 * found[name] for name in FRAMEWORKS]
        print(f"| {path.stem} | {ours:.3g} | {theirs:.3g} | {theirs / ours:.2f} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        run_example(Path(sys.argv[3]), sys.argv[2], sys.argv[4:])
    else:
        main()
