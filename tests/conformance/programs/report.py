"""The table of what was run."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HEAD = Path(__file__).with_name("head.md")

_PATH = re.compile(r"(?<![\w/:])(/[\w.+-]+)+/")  # of the copy that was run

# Losses are equal if they differ by no more than rounding makes of it in so many steps.
CLOSE = 1e-4


def outcome(run: dict[str, Any]) -> str:
    """How a run went, in a word."""
    if run["code"] is None:
        return "ran to the limit"
    return "ran" if run["code"] == 0 else f"no: {_PATH.sub('', run['last'])[:160]}"


def equal(losses: dict[str, Sequence[float]]) -> str:
    """How many of the first losses agree."""
    pairs = list(zip(losses.get("torch", ()), losses.get("livegrad", ()), strict=False))
    same = 0
    for a, b in pairs:
        if abs(a - b) > CLOSE * max(abs(a), abs(b), 1e-3):
            break
        same += 1
    return f"{same} of {len(pairs)}" if pairs else ""


def ratio(result: dict[str, Any]) -> str:
    """Processor time here by that under torch, where both came to their end."""
    ours, theirs = result["livegrad"], result["torch"]
    done = ours["code"] == 0 and theirs["code"] == 0
    return f"{ours['seconds'] / theirs['seconds']:.2f}" if done and theirs["seconds"] else ""


def cells(result: dict[str, Any]) -> list[str]:
    """One line of the table, in parts."""
    name = f"{result['name']} {result['args']}".strip()
    found = [outcome(result["torch"]), outcome(result["livegrad"]), equal(result["losses"])]
    return [name, *[c.replace("|", "/") for c in found], ratio(result)]


def lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """A table."""
    head = ["| program | torch | livegrad | equal losses | time |", "|---|---|---|---|---|"]
    return head + ["| " + " | ".join(row) + " |" for row in rows]


def table(results: Sequence[dict[str, Any]]) -> list[str]:
    """All lines; later results of a program replace earlier ones."""
    return lines(list({(row := cells(r))[0]: row for r in results}.values()))


def rows_of(text: str) -> list[list[str]]:
    """The lines of the tables of a page, in parts."""
    found = [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [row for row in found if len(row) == 5 and row[0] != "program"]


def summary(rows: Sequence[Sequence[str]]) -> list[str]:
    """The counts, in words."""
    good = [row for row in rows if row[1].startswith("ran")]
    here = [row for row in good if row[2].startswith("ran")]
    counts = [row[3].split(" of ") for row in rows if row[3]]
    same = [count for count in counts if count[0] == count[1]]
    full = [count for count in same if int(count[1]) == 20]
    ratios = [float(row[4]) for row in rows if row[4]]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 1.0
    return [
        f"- {len(rows)} programs; {len(good)} run under torch, {len(here)} of these here too.",
        f"- Losses were written by {len(counts)}: all that were compared are equal in {len(same)}, "
        f"in {len(full)} of them 20.",
        f"- Time, where both came to their end ({len(ratios)}): the geometric mean is {mean:.2f}.",
    ]


def page(results: Sequence[dict[str, Any]], before: str = "") -> str:
    """The whole document; programs of the page before that did not run now stay as older ones."""
    now = rows_of("\n".join(table(results)))
    names = {row[0] for row in now}
    older = [row for row in rows_of(before) if row[0] not in names]
    text = [HEAD.read_text(encoding="utf-8"), *summary([*now, *older]), "", "## Run now", ""]
    text += [*summary(now), "", *lines(now), ""]
    if older:
        text += ["## Run earlier", "", *summary(older), "", *lines(older), ""]
    return "\n".join(text)
