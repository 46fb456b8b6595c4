"""Tables of a conformance run, the floor it may not fall below, and docs/coverage.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.conformance.opinfo_reasons import MISSING, REASONS
from tests.conformance.opinfo_workers import Column, Result

HERE = Path(__file__).resolve().parent
FLOOR = HERE / "opinfo_floor.json"
COVERAGE = HERE.parent.parent / "docs" / "coverage.md"
FORWARD = ("float32", "float64", "int64", "bool", "complex64")
COLUMNS = (*FORWARD, "gradient", "second", "inplace", "out", "errors")
# What the project promises, in percent.
PROMISED = {"forward": 99, "gradient": 98, "second": 95, "errors": 90}

Table = dict[str, dict[str, tuple[int, int]]]  # op -> column -> passed, total


# --------------------------------------------------------------------------------- on the screen


def header() -> str:
    return f"{'op':44}" + "".join(f"{name:>11}" for name in COLUMNS)


def row(name: str, result: Result) -> str:
    cells = [_cell(result.columns.get(column)) for column in COLUMNS]
    return f"{name:44}" + "".join(f"{cell:>11}" for cell in cells)


def _cell(column: Column | None) -> str:
    if column is None or not column.total:
        return "-"
    mark = "" if column.passed == column.total else "!"
    return f"{mark}{column.passed}/{column.total}"


def failures(results: dict[str, Result], most: int) -> str:
    """The failing samples, alike ones together, at most some groups per op."""
    lines = []
    for name, result in sorted(results.items()):
        groups: dict[str, list[tuple[str, int, str]]] = {}
        for column in COLUMNS:
            for i, reason in sorted(result.columns.get(column, Column()).failed.items()):
                groups.setdefault(_alike(reason), []).append((column, i, reason))
        for members in list(groups.values())[:most]:
            columns = " ".join(dict.fromkeys(column for column, _, _ in members))
            _, i, reason = members[0]
            lines.append(f"FAIL {name} [{columns}: {len(members)}] #{i} {reason}")
        if len(groups) > most:
            lines.append(f"     ... {len(groups) - most} other kinds of failure of {name}")
    return "\n".join(lines)


def _alike(reason: str) -> str:
    """What failures of one cause have in common: the message without its numbers."""
    message = reason[reason.rfind(") ") + 1 :] or reason
    return re.sub(r"(torch\.)?(float|int|complex)\d+|bool|nan|inf|[-+]?\d[\d.e+-]*j?", "#", message)


def totals(names: list[str], missing: list[str], results: dict[str, Result]) -> str:
    table = {
        name: {column: (c.passed, c.total) for column, c in result.columns.items()}
        for name, result in results.items()
    }
    lines = [f"names supported: {len(names) - len(missing)} of {len(names)}"]
    for title, passed, total in sums(table):
        share = f"{100 * passed / total:.2f} %" if total else ""
        lines.append(f"{title:10} {passed:6} of {total:6}  {share}")
    return "\n".join(lines)


def sums(table: Table) -> Iterable[tuple[str, int, int]]:
    """(column, passed, total) over all ops, with the forward columns together first."""

    def over(columns: Iterable[str]) -> tuple[int, int]:
        cells = [cells[c] for cells in table.values() for c in columns if c in cells]
        return sum(p for p, _ in cells), sum(t for _, t in cells)

    yield ("forward", *over(FORWARD))
    for column in COLUMNS:
        yield (column, *over([column]))


# ------------------------------------------------------------------------------------- the floor


class Floor:
    """Which samples failed when the floor was last raised; all others must pass.

    {"torch": version, "missing": [names], "ops": {op: {
        "hosts": [host ops that ran], "columns": {column: [total, failing samples...]},
        "said": {column: the first failure}}}}
    """

    def __init__(self, content: dict[str, Any]) -> None:
        self.torch: str = content.get("torch", "")
        self.missing: list[str] = content.get("missing", [])
        self.ops: dict[str, Any] = content.get("ops", {})

    @classmethod
    def read(cls) -> Floor:
        return cls(json.loads(FLOOR.read_text()) if FLOOR.exists() else {})

    def write(self) -> None:
        """One op per line, so that a diff shows what changed."""
        lines = [
            f"  {json.dumps(name)}: {json.dumps(entry, sort_keys=True)}"
            for name, entry in sorted(self.ops.items())
        ]
        head = f'"torch": {json.dumps(self.torch)},\n"missing": {json.dumps(self.missing)}'
        body = ",\n".join(lines)
        FLOOR.write_text(f'{{{head},\n"ops": {{\n{body}\n}}}}\n')

    def worse(self, results: dict[str, Result], missing: list[str]) -> list[str]:
        """What passed when the floor was raised and does not now."""
        lines = [f"{name} is gone" for name in missing if name in self.ops]
        for name, result in results.items():
            known = self.ops.get(name, {"columns": {}})["columns"]
            for column, now in result.columns.items():
                if column not in known:
                    continue
                new = sorted(set(now.failed) - set(known[column][1:]))
                if new:
                    lines.append(f"{name} {column}: {now.failed[new[0]]} (samples {new[:8]})")
        return lines

    def update(self, results: dict[str, Result], names: list[str], missing: list[str]) -> None:
        """Takes a run over all samples of the ops `names` as their new floor."""
        import torch

        self.torch = torch.__version__.partition("+")[0]
        self.missing = sorted({*self.missing} - {*names} | {*missing})
        for name, result in results.items():
            entry = self.ops.setdefault(name, {"columns": {}, "hosts": [], "said": {}})
            entry["name"] = result.name
            if any(column in result.columns for column in FORWARD):
                entry["hosts"] = result.hosts
            for column, now in result.columns.items():
                entry["columns"][column] = [now.total, *sorted(now.failed)]
                entry["said"].pop(column, None)
                if now.failed:
                    entry["said"][column] = now.failed[min(now.failed)]

    def table(self) -> Table:
        return {
            name: {c: (cell[0] - len(cell) + 1, cell[0]) for c, cell in entry["columns"].items()}
            for name, entry in self.ops.items()
        }


# -------------------------------------------------------------------------------- docs/coverage.md


def coverage(floor: Floor) -> str:
    """The floor as a page: totals, a row per op, every failure with its reason."""
    table = floor.table()
    lines = [
        "# Coverage of PyTorch's operations",
        "",
        "Written by `python -m tests.conformance.opinfo --write`; not by hand.",
        f"Measured with the OpInfo database of torch {floor.torch}, compiled, on the CPU.",
        "",
        *_totals_section(floor, table),
        *_ops_section(floor, table),
        *_hosts_section(),
        *_failures_section(floor, table),
        *_missing_section(floor),
    ]
    return "\n".join(lines) + "\n"


def names_of(floor: Floor) -> set[str]:
    """The names that are there, variants of an op under the op's name."""
    return {entry["name"] for entry in floor.ops.values()}


def _totals_section(floor: Floor, table: Table) -> list[str]:
    there = len(names_of(floor))
    lines = [
        f"{there} of {there + len(floor.missing)} names are there. Of their samples are right:",
        "",
        "| | right | of | % | promised |",
        "|---|---:|---:|---:|---:|",
    ]
    for title, passed, total in sums(table):
        share = f"{100 * passed / total:.2f}" if total else ""
        promised = f"{PROMISED[title]}" if title in PROMISED else ""
        lines.append(f"| {title} | {passed} | {total} | {share} | {promised} |")
    return [*lines, ""]


def _ops_section(floor: Floor, table: Table) -> list[str]:
    lines = [
        "## By operation",
        "",
        "*kind*: native runs as compiled kernels only; host runs the NumPy or SciPy code named,",
        "inside the plan and on zero-copy views.",
        "",
        "| op | kind | " + " | ".join(COLUMNS) + " |",
        "|---|---|" + "---:|" * len(COLUMNS),
    ]
    for name, cells in sorted(table.items()):
        hosts = floor.ops[name]["hosts"]
        kind = f"host ({', '.join(hosts)})" if hosts else "native"
        shown = [_ratio(cells.get(column)) for column in COLUMNS]
        lines.append(f"| {name} | {kind} | " + " | ".join(shown) + " |")
    return [*lines, ""]


def _hosts_section() -> list[str]:
    """Every op without native code, from the registry."""
    import livegrad.fft
    import livegrad.linalg
    import livegrad.nn
    import livegrad.special  # noqa: F401
    from livegrad.graph.op import REGISTRY

    ours = [op for op in REGISTRY.values() if "::" not in op.name]  # not those of other tests
    hosts = sorted(op.name for op in ours if op.kind == "host")
    return [
        "## Ops without native code",
        "",
        "They run their NumPy or SciPy reference inside the plan. So does every op of complex",
        "numbers.",
        "",
        ", ".join(f"`{name}`" for name in hosts),
        "",
    ]


def _ratio(cell: tuple[int, int] | None) -> str:
    if cell is None or not cell[1]:
        return ""
    passed, total = cell
    return f"{passed}/{total}" if passed == total else f"**{passed}/{total}**"


def _failures_section(floor: Floor, table: Table) -> list[str]:
    lines = [
        "## What fails, and why",
        "",
        "| op | column | samples | reason |",
        "|---|---|---:|---|",
    ]
    for name, cells in sorted(table.items()):
        for column in COLUMNS:
            passed, total = cells.get(column, (0, 0))
            if passed < total:
                reason = reason_for(name, column) or floor.ops[name]["said"].get(column, "")
                lines.append(f"| {name} | {column} | {total - passed} | {_escaped(reason)} |")
    return [*lines, ""]


def reason_for(name: str, column: str) -> str | None:
    """The hand-written reason for a failure: of the op and column, the op, or the column."""
    for key in ((name, column), (name, "*"), ("*", column)):
        if key in REASONS:
            return REASONS[key]
    return None


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _missing_section(floor: Floor) -> list[str]:
    lines = ["## Names that are not there", "", "| name | reason |", "|---|---|"]
    for name in floor.missing:
        reason = next((why for start, why in MISSING.items() if name.startswith(start)), "")
        lines.append(f"| {name} | {_escaped(reason)} |")
    return lines
