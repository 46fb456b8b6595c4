"""How much of PyTorch's OpInfo database livegrad gets right: `python -m tests.conformance.opinfo`.

    --only add,linalg.svd     these names
    --family nn.functional    names that start so
    --dtypes float32,int64    these dtypes of the forward check
    --checks forward,errors   these checks: forward, gradient, inplace, out, errors by default, and
                              complex, the gradients in complex128
    --quick                   at most 40 samples per op and check (--samples says how many)
    --jobs 2                  processes
    --write                   raise the floor, write docs/coverage.md

Everything runs compiled, against PyTorch on the CPU. The exit code is 1 if a sample fails that the
floor (`opinfo_floor.json`) has as passing.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any

os.environ.setdefault("LIVEGRAD_NUM_THREADS", "1")


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance.opinfo",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", type=_names, default=[])
    parser.add_argument("--family", default="")
    parser.add_argument("--dtypes", type=_names, default=[])
    parser.add_argument("--checks", type=_names, default=[])
    parser.add_argument("--samples", type=int, default=1_000_000, help="at most, per op and check")
    parser.add_argument("--quick", action="store_const", const=40, dest="samples")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds per sample")
    parser.add_argument("--failures", type=int, default=8, help="kinds listed per op")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--lower", action="store_true", help="let --write lower the floor")
    return parser.parse_args(argv)


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def selected(op: Any, options: argparse.Namespace) -> bool:
    """Whether the options ask for this op."""
    if options.only and not {op.name, op.full_name} & set(options.only):
        return False
    return op.name.startswith(options.family)


def units(op: Any, options: argparse.Namespace) -> list[str]:
    """The checks of an op that the options ask for."""
    from tests.conformance.opinfo_checks import units_of

    found = units_of(op)
    checks = options.checks or ("forward", "gradient", "inplace", "out", "errors")
    found = [u for u in found if u.split()[0] in checks]
    if options.dtypes:
        found = [u for u in found if " " not in u or u.split()[1] in options.dtypes]
    return found


def main(argv: list[str] | None = None) -> int:
    options = arguments(argv)
    from torch.testing._internal.common_methods_invocations import op_db

    from tests.conformance import opinfo_bridge as bridge, opinfo_report as report
    from tests.conformance.opinfo_workers import Result, run_all

    chosen = [(i, op) for i, op in enumerate(op_db) if selected(op, options)]
    missing = sorted({op.name for _, op in chosen if bridge.counterpart(op) is None})
    jobs = [
        (op, i, units(op, options)) for i, op in chosen if op.name not in missing
    ]  # fmt: skip
    began = time.monotonic()
    results: dict[str, Result] = {}

    def finished(name: str, result: Result) -> None:
        results[name] = result
        print(report.row(name, result), flush=True)
        if len(results) % 50 == 0:
            seconds = time.monotonic() - began
            print(f"... {len(results)} of {len(jobs)} after {seconds:.0f} s", flush=True)

    print(report.header())
    ended = run_all(jobs, options.jobs, options.timeout, options.samples, finished)
    names = sorted({op.name for _, op in chosen})
    print(report.failures(results, options.failures))
    print(report.totals(names, missing, results))
    print(f"{time.monotonic() - began:.0f} s")
    if ended is not None:
        raise ended
    floor = report.Floor.read()
    worse = floor.worse(results, [op.full_name for _, op in chosen if op.name in missing])
    for line in worse:
        print(f"below the floor: {line}")
    if options.write and (options.lower or not worse):
        if options.samples < 1_000_000:
            print("--write wants all samples: leave --quick and --samples out", file=sys.stderr)
            return 2
        floor.update(results, names, missing)
        floor.write()
        report.COVERAGE.write_text(report.coverage(floor))
        return 0
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
