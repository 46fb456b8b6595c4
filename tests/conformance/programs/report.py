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


def row(result: dict[str, Any]) -> str:
    """One line of the table."""
    name = f"{result['name']} {result['args']}".strip()
    cells = [outcome(result["torch"]), outcome(result["livegrad"]), equal(result["losses"])]
    return "| " + " | ".join([name, *[c.replace("|", "/") for c in cells], ratio(result)]) + " |"


def ran(run: dict[str, Any]) -> bool:
    """Whether a run ended well, or was running well when its time was over."""
    return not run["code"]


def summary(results: Sequence[dict[str, Any]]) -> list[str]:
    """The counts, in words."""
    good = [r for r in results if ran(r["torch"])]
    here = [r for r in good if ran(r["livegrad"])]
    counts = [equal(r["losses"]).split(" of ") for r in results if equal(r["losses"])]
    same = [count for count in counts if count[0] == count[1]]
    full = [count for count in same if int(count[1]) == 20]
    ratios = [float(ratio(r)) for r in results if ratio(r)]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 1.0
    return [
        f"- {len(results)} programs; {len(good)} run under torch, {len(here)} of these here too.",
        f"- Losses were written by {len(counts)}: all that were compared are equal in {len(same)}, "
        f"in {len(full)} of them 20.",
        f"- Time, where both came to their end ({len(ratios)}): the geometric mean is {mean:.2f}.",
    ]


def page(results: Sequence[dict[str, Any]]) -> str:
    """The whole document."""
    latest = list({(r["name"], r["args"]): r for r in results}.values())
    return "\n".join([HEAD.read_text(encoding="utf-8"), *summary(latest), "", *table(latest), ""])


def table(results: Sequence[dict[str, Any]]) -> list[str]:
    """All lines; later results of a program replace earlier ones."""
    latest = {(r["name"], r["args"]): r for r in results}
    head = ["| program | torch | livegrad | equal losses | time |", "|---|---|---|---|---|"]
    return head + [row(result) for result in latest.values()]
