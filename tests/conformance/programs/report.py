"""The table of what was run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# Losses are equal if they differ by no more than rounding makes of it in so many steps.
CLOSE = 1e-3


def outcome(run: dict[str, Any]) -> str:
    """How a run went, in a word."""
    if run["code"] is None:
        return "ran to the limit"
    return "ran" if run["code"] == 0 else f"no: {run['last']}"


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


def table(results: Sequence[dict[str, Any]]) -> list[str]:
    """All lines; later results of a program replace earlier ones."""
    latest = {(r["name"], r["args"]): r for r in results}
    head = ["| program | torch | livegrad | equal losses | time |", "|---|---|---|---|---|"]
    return head + [row(result) for result in latest.values()]
