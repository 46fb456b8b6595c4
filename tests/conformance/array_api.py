"""How much of the Array API standard's suite passes: `python -m tests.conformance.array_api`.

    --max-examples 20         examples per test
    --only test_linalg,...    these files of the suite
    --numpy                   the same for NumPy, to compare
    --random                  other examples each time, instead of always the same
    --write                   raise the floor, write docs/array_api.md

ARRAY_API_TESTS names a checkout of github.com/data-apis/array-api-tests, with its submodule. The
exit code is 1 if fewer tests pass than the floor (`array_api_floor.json`) says, or with other
examples than its own if a failure is unexplained; 2 if the suite could not run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.array_api_reasons import REASONS, reason_for

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FLOOR = HERE / "array_api_floor.json"
PAGE = ROOT / "docs" / "array_api.md"
VARIABLE = "ARRAY_API_TESTS"
VERSION = "2024.12"
EXAMPLES = 20
STATES = ("passed", "failed", "skipped")


class CannotRunError(Exception):
    """The suite is not there, or ended before it had results."""


@dataclass
class Outcome:
    """What one test of the suite came to."""

    file: str
    name: str
    state: str
    message: str = ""

    @property
    def id(self) -> str:
        return f"{self.file}.py::{self.name}"


# -------------------------------------------------------------------------------- running it


def checkout() -> Path:
    """Where the suite is."""
    given = os.environ.get(VARIABLE)
    if not given:
        raise CannotRunError(
            f"{VARIABLE} is not set: it names a checkout of the suite, made with\n"
            "    git clone --recurse-submodules https://github.com/data-apis/array-api-tests"
        )
    path = Path(given).expanduser().resolve()
    if not (path / "array_api_tests").is_dir():
        raise CannotRunError(f"{VARIABLE}={given}: no folder array_api_tests in it")
    return path


def run(module: str, suite: Path, options: argparse.Namespace) -> list[Outcome]:
    """All tests for a namespace, in a process of its own."""
    tests = [f"array_api_tests/{name.removesuffix('.py')}.py" for name in options.only]
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        # How long a test takes depends on the machine, so it has no deadline.
        command = [
            sys.executable, "-m", "pytest", *(tests or ["array_api_tests"]), "-q",
            "-p", "no:cacheprovider", "--tb=short", "--disable-deadline",
            "--max-examples", str(options.max_examples), f"--junitxml={report}",
        ]  # fmt: skip
        if not options.random:
            command.append("--derandomize")
        environment = os.environ | {
            "ARRAY_API_TESTS_MODULE": module,
            "ARRAY_API_TESTS_VERSION": VERSION,
            "HYPOTHESIS_STORAGE_DIRECTORY": scratch,
            "LIVEGRAD_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([str(suite), str(ROOT), *_python_path()]),
        }
        done = subprocess.run(command, cwd=suite, env=environment, capture_output=True, text=True)
        if done.returncode not in (0, 1) or not report.exists():
            raise CannotRunError(
                f"the suite ended with code {done.returncode}:\n"
                f"{done.stdout[-3000:]}{done.stderr[-3000:]}"
            )
        return parse(report)


def _python_path() -> list[str]:
    return [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]


def parse(report: Path) -> list[Outcome]:
    """The outcomes in a report in JUnit's form."""
    found = []
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        state, message = "passed", ""
        for child in case:
            if child.tag in ("failure", "error"):
                state, message = "failed", child.get("message", "") + "\n" + (child.text or "")
            elif child.tag == "skipped":
                state, message = "skipped", child.get("message", "")
        file = case.get("classname", "").split(".")[1]  # of the folder, the file, maybe a class
        found.append(Outcome(file, case.get("name", ""), state, message))
    return found


# ----------------------------------------------------------------------------- saying what was


def summary(outcomes: list[Outcome]) -> dict[str, Any]:
    """Numbers by file, and the failures with their reasons."""
    files: dict[str, Counter[str]] = {}
    for o in outcomes:
        files.setdefault(o.file, Counter())[o.state] += 1
    return {
        "passed": sum([o.state == "passed" for o in outcomes]),
        "files": {f: [files[f][s] for s in STATES] for f in sorted(files)},
        "failures": {o.id: reason_for(o.id, o.message) for o in outcomes if o.state == "failed"},
        "skips": dict(Counter([o.message for o in outcomes if o.state == "skipped"])),
    }


def totals(found: dict[str, Any]) -> list[int]:
    """How many passed, failed and were skipped."""
    return [sum(column) for column in zip(*found["files"].values(), strict=True)]


def table(found: dict[str, Any], numpy: dict[str, Any] | None) -> list[list[str]]:
    """Rows of file, passed, failed, skipped, and the same for NumPy."""
    rows = [["file", *STATES]]
    for file, counts in [*found["files"].items(), ("all", totals(found))]:
        rows.append([file, *map(str, counts)])
    if numpy is not None:
        rows[0] += [f"NumPy {state}" for state in STATES]
        for row in rows[1:]:
            counts = totals(numpy) if row[0] == "all" else numpy["files"].get(row[0], [0, 0, 0])
            row += map(str, counts)
    return rows


def screen(found: dict[str, Any], numpy: dict[str, Any] | None) -> str:
    """What is printed."""
    lines = [
        f"{row[0]:42}" + "".join(f"{cell:>15}" for cell in row[1:]) for row in table(found, numpy)
    ]
    lines += [f"skipped {n}: {message}" for message, n in found["skips"].items()]
    for test, reason in sorted(found["failures"].items()):
        lines.append(f"FAIL {test}\n     {reason or 'UNEXPLAINED'}")
    return "\n".join(lines)


def page(floor: dict[str, Any]) -> str:
    """docs/array_api.md."""
    numpy = floor.get("numpy")
    rows = table(floor, numpy)
    passed, failed, skipped = totals(floor)
    compared = f" NumPy {numpy['version']} passes {numpy['passed']}." if numpy else ""
    lines = [
        "# The Array API standard",
        "",
        "Written by `python -m tests.conformance.array_api --numpy --write`; not by hand.",
        "",
        f"`livegrad.array_api`, which is `x.__array_namespace__()` of every tensor, is version "
        f"{VERSION} of the standard with its extensions `linalg` and `fft`. Of the "
        f"{passed + failed + skipped} tests of the standard's own suite, with "
        f"{floor['max_examples']} examples each, {passed} pass, {failed} fail and {skipped} are "
        f"skipped by the suite itself.{compared}",
        "",
        "## Running it",
        "",
        "```sh",
        "git clone --recurse-submodules https://github.com/data-apis/array-api-tests",
        "pip install -r array-api-tests/requirements.txt",
        f"{VARIABLE}=array-api-tests python -m tests.conformance.array_api --numpy",
        "```",
        "",
        "It prints this page's numbers and each failure with its reason, and ends with code 1 if "
        "fewer pass than `tests/conformance/array_api_floor.json` says. The same examples are "
        "tried each time, except in a few of the special cases, where NumPy's number moves by two "
        "or three; with `--random` others, and then only an unexplained failure is an error.",
        "",
        "## By file",
        "",
        "| " + " | ".join(rows[0]) + " |",
        "|---|" + "---:|" * (len(rows[0]) - 1),
        *["| " + " | ".join(row) + " |" for row in rows[1:]],
        "",
        "Skipped: "
        + "; ".join([f"{n} “{message}”" for message, n in floor["skips"].items()])
        + ".",
        "",
        "## Failures",
    ]
    by_reason: dict[str, list[str]] = {}
    for test, reason in sorted(floor["failures"].items()):
        by_reason.setdefault(reason or "unexplained", []).append(test)
    for reason, tests in by_reason.items():
        lines += ["", f"{reason[0].upper()}{reason[1:]}:", "", *[f"- `{test}`" for test in tests]]
    others = [reason for _, _, reason in REASONS if reason not in by_reason]
    if others:
        lines += ["", "Other examples also meet this:", "", *[f"- {reason}" for reason in others]]
    return "\n".join(lines) + "\n"


# --------------------------------------------------------------------------------- the command


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance.array_api",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--max-examples", type=int, default=EXAMPLES)
    parser.add_argument("--only", type=lambda text: text.split(","), default=[])
    parser.add_argument("--numpy", action="store_true")
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--lower", action="store_true", help="let --write lower the floor")
    return parser.parse_args(argv)


def read_floor() -> dict[str, Any]:
    """What may not be fallen below."""
    found: dict[str, Any] = json.loads(FLOOR.read_text())
    return found


def below(found: dict[str, Any], floor: dict[str, Any], same: bool) -> list[str]:
    """What is worse than the floor, in the files that ran, with the `same` examples or others."""
    if not same:
        return [f"unexplained: {t}" for t, reason in found["failures"].items() if reason is None]
    wanted = sum([counts[0] for file, counts in floor["files"].items() if file in found["files"]])
    if found["passed"] >= wanted:
        return []
    new = [test for test in found["failures"] if test not in floor["failures"]]
    return [f"{found['passed']} pass, and {wanted} did", *[f"new: {test}" for test in sorted(new)]]


def main(argv: list[str] | None = None) -> int:
    options = arguments(argv)
    same = not options.random and options.max_examples == EXAMPLES
    if options.write and (options.only or not same):
        print("--write wants the whole run: leave --only, --random, --max-examples out")
        return 2
    try:
        suite = checkout()
        found = summary(run("livegrad.array_api", suite, options))
        numpy = summary(run("numpy", suite, options)) if options.numpy else None
    except CannotRunError as error:
        print(error, file=sys.stderr)
        return 2
    print(screen(found, numpy))
    floor = read_floor() if FLOOR.exists() else {"files": {}, "failures": {}}
    worse = below(found, floor, same)
    for line in worse:
        print(f"below the floor: {line}")
    if options.write and (options.lower or not worse):
        found["max_examples"] = options.max_examples
        found["numpy"] = _compared(numpy) if numpy else floor.get("numpy")
        FLOOR.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        PAGE.write_text(page(read_floor()))
        return 0
    return 1 if worse else 0


def _compared(found: dict[str, Any]) -> dict[str, Any]:
    import numpy

    return {"version": numpy.__version__, "passed": found["passed"], "files": found["files"]}


if __name__ == "__main__":
    sys.exit(main())
