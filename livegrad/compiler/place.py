"""Pass 8, place: where stored values live.

Outputs get buffers of their own, since the program keeps them. Everything else lives in the arena:
each value from the step that writes it to the last step that reads it, largest first, at the lowest
offset that is free for that long.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from livegrad.compiler import store
from livegrad.compiler.draft import Draft
from livegrad.compiler.plan import Life, Where
from livegrad.graph.node import Node
from livegrad.graph.symbol import Session

Ints = npt.NDArray[np.int64]

ALIGN = 64
# While sizes are symbols, nothing has an offset in the arena: value k there has this slot + k.
ARENA_SLOTS = 1 << 40


def place(draft: Draft) -> None:
    """Fills in the lives of values in the arena, and where each is."""
    lives = _lives(draft)
    draft.lives = list(lives.values())
    symbolic = Session.current is not None
    draft.arena = 0 if symbolic else arrange(draft.lives)
    for number, (node, life) in enumerate(lives.items()):
        draft.wheres[node] = Where(ARENA_SLOTS + number) if symbolic else Where(0, life.offset)


def _lives(draft: Draft) -> dict[Node, Life]:
    """The values in the arena."""
    lives: dict[Node, Life] = {}
    for number, group in zip(draft.step_numbers, draft.groups, strict=True):
        for node in store.touched(draft, group):
            home = draft.stored.get(node)
            node = draft.graph.home(home[0] if home else node)
            if node in draft.wheres or node.op.kind == "update" or store.in_no_group(draft, node):
                continue
            life = lives.get(node)
            if life is None:
                lives[node] = Life(node.meta.nbytes, number, number)
            else:
                life.last = number
    return lives


def arrange(lives: list[Life]) -> int:
    """Gives every value its offset; returns the arena's bytes."""
    first, last, start, end = np.zeros((4, len(lives)), np.int64)
    total = 0
    for n, life in enumerate(sorted(lives, key=lambda v: (-v.nbytes, v.first))):
        size = (life.nbytes + ALIGN - 1) // ALIGN * ALIGN
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
