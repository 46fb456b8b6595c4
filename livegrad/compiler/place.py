"""Pass 5, place: where stored values live.

Outputs get buffers of their own, since the program keeps them. Everything else lives in the arena:
each value from the step that writes it to the last step that reads it, largest first, at the lowest
offset that is free for that long.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from livegrad.graph.node import Node

Ints = npt.NDArray[np.int64]

ALIGN = 64


@dataclass
class Life:
    """A value in the arena: its bytes, and the steps from the first write to the last read."""

    node: Node
    nbytes: int
    first: int
    last: int
    offset: int = 0


def place(lives: list[Life]) -> int:
    """Gives every value its offset; returns the arena's bytes."""
    first, last, start, end = np.zeros((4, len(lives)), np.int64)
    total = 0
    for n, life in enumerate(sorted(lives, key=lambda v: (-v.nbytes, v.first))):
        size = _rounded(life.nbytes)
        rivals = np.flatnonzero((first[:n] <= life.last) & (last[:n] >= life.first))
        life.offset = _lowest_gap(start[rivals], end[rivals], size)
        first[n], last[n] = life.first, life.last
        start[n], end[n] = life.offset, life.offset + size
        total = max(total, life.offset + size)
    return total


def _lowest_gap(start: Ints, end: Ints, size: int) -> int:
    """The lowest offset with `size` bytes that none of the ranges takes."""
    if not len(start):
        return 0
    order = np.argsort(start, kind="stable")
    free = np.maximum.accumulate(end[order])  # from here up to the next range, or for ever
    fits = start[order][1:] - free[:-1] >= size
    if start[order[0]] >= size:
        return 0
    return int(free[np.argmax(fits)] if fits.any() else free[-1])


def _rounded(nbytes: int) -> int:
    return (nbytes + ALIGN - 1) // ALIGN * ALIGN
