"""The lines that programs are made of, by kind, and how often each comes in a sort of program."""

from __future__ import annotations

from collections.abc import Callable

from . import arithmetic, autograd, creation, habits, inplace, sharing, training, views, wider
from .pen import Pen

# A maker gives one line, or raises `Stuck`.
KINDS: dict[str, Callable[[Pen], str]] = {
    "creation": creation.statement,
    "view": views.statement,
    "write": inplace.statement,
    "arithmetic": arithmetic.statement,
    "autograd": autograd.statement,
    "training": training.statement,
    "sharing": sharing.statement,
    "wider": wider.statement,
    "habits": habits.statement,
}

SORTS: dict[str, dict[str, int]] = {
    "mixed": {
        "creation": 10,
        "view": 20,
        "write": 22,
        "arithmetic": 22,
        "autograd": 18,
        "training": 4,
        "sharing": 2,
    },
    "aliasing": {
        "creation": 6,
        "view": 35,
        "write": 40,
        "arithmetic": 6,
        "autograd": 6,
        "sharing": 4,
    },
    "gradients": {"creation": 6, "view": 14, "write": 18, "arithmetic": 28, "autograd": 32},
    "values": {"creation": 16, "view": 12, "write": 16, "arithmetic": 55},
    "training": {
        "creation": 6,
        "view": 8,
        "write": 12,
        "arithmetic": 10,
        "autograd": 14,
        "training": 45,
    },
    "wide": {"creation": 8, "view": 12, "write": 12, "arithmetic": 8, "autograd": 10, "wider": 50},
}

# Sorts that came later: some programs are of these instead, the others stay what they were.
LATER: dict[str, dict[str, int]] = {
    "habits": {
        "creation": 6,
        "view": 8,
        "write": 10,
        "arithmetic": 6,
        "autograd": 10,
        "training": 10,
        "habits": 50,
    },
}
SHARE = 0.15  # of programs that are of a later sort


def weights_of(sort: str) -> dict[str, int]:
    """How often each kind of line comes in a sort of program."""
    return SORTS[sort] if sort in SORTS else LATER[sort]


def opening(sort: str, pen: Pen) -> list[str]:
    """What a program of a sort begins with, so that there is something to go on with."""
    if sort == "training":
        return training.opening(pen)
    if sort == "habits":
        return habits.opening(pen)
    if sort in ("gradients", "mixed") or pen.chance(0.5):
        return [creation.leaf(pen), creation.plain(pen)]
    return [creation.plain(pen)]
