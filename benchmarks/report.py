"""What the comparison prints, and the JSON it writes."""

import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.child import Answer
from benchmarks.compare import Result, Settings, reference_of
from benchmarks.spread import paired_ratio, spread
from benchmarks.workloads.base import Workload

Comparison = tuple[Workload, dict[str, Result]]


def print_comparison(console: Console, workload: Workload, results: dict[str, Result]) -> None:
    """One table: a row for each framework that ran, a line for each that did not."""
    reference = reference_of(results)
    cold = any(result.cold_starts for result in results.values())
    headings = ["framework", "µs per step", f"speed, {reference} = 1", "import ms", "first step ms"]
    if cold:
        headings.append("first step ms, cold cache")
    headings += ["start to first loss ms", "peak MB", "loss"]
    table = Table(title=workload.title, title_justify="left")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "framework" else "right")
    for name, result in results.items():
        if result.us and reference is not None:
            table.add_row(*row(name, result, results[reference], cold))
    console.print(table)
    for name, result in results.items():
        if result.error is not None:
            console.print(f"{name} did not run: {result.error}", markup=False)


def row(name: str, result: Result, reference: Result, cold: bool) -> list[str]:
    cells = [
        f"{name} {result.version}",
        spread(result.us).format("{:.1f}"),
        paired_ratio(reference.us, result.us).format("{:.2f}"),
        milliseconds(result.starts, "import"),
        milliseconds(result.starts, "first_step"),
    ]
    if cold:
        cells.append(milliseconds(result.cold_starts, "first_step"))
    verdict = "agrees" if result.agrees else "DIFFERS"
    return [
        *cells,
        milliseconds(result.starts, "from_start"),
        f"{result.peak_bytes / 1e6:.0f}",
        verdict,
    ]


def milliseconds(starts: Sequence[Answer], what: str) -> str:
    """Seconds as milliseconds, with the spread when there are several."""
    values = [start[what] * 1e3 for start in starts]
    return spread(values).format() if len(values) > 1 else f"{values[0]:.1f}"


def as_json(comparisons: Sequence[Comparison], settings: Settings) -> dict[str, Any]:
    """All that was measured, with the machine and the settings it was measured with."""
    return {
        "machine": machine(),
        "settings": asdict(settings),
        "workloads": {
            workload.name: {
                "title": workload.title,
                "steps_per_burst": settings.steps or workload.steps,
                "frameworks": {name: summary(results, name) for name in results},
            }
            for workload, results in comparisons
        },
    }


def summary(results: dict[str, Result], name: str) -> dict[str, Any]:
    result, reference = results[name], reference_of(results)
    values: dict[str, Any] = asdict(result)
    if result.us and reference is not None:
        ratio = paired_ratio(results[reference].us, result.us)
        values["us_per_step"] = asdict(spread(result.us))
        values["speed"] = {"reference": reference, **asdict(ratio)}
    return values


def machine() -> dict[str, Any]:
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "processor": processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [line.split(":", 1)[1].strip() for line in lines if "model name" in line]
        return names[0]
    except (OSError, IndexError):
        return platform.processor() or platform.machine()


def write_json(values: dict[str, Any], path: Path | None, name: str) -> Path:
    """Write to `path`, or to a new file in `benchmarks/results`; returns where."""
    if path is None:
        stamp = time.strftime("%Y%m%d-%H%M%S")
        path = Path(__file__).parent / "results" / f"{name}-{stamp}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
