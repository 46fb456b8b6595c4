"""Pass 5, place: where stored values live.

Outputs get buffers of their own, since the program keeps them. Everything else lives in the arena:
each value from the step that writes it to the last step that reads it, largest first, at the lowest
offset that is free for that long.
"""

from __future__ import annotations

from dataclasses import dataclass

from livegrad.graph.node import Node

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
    placed: list[Life] = []
    total = 0
    for life in sorted(lives, key=lambda v: (-v.nbytes, v.first)):
        size = _rounded(life.nbytes)
        rivals = [o for o in placed if o.first <= life.last and life.first <= o.last]
        offset = 0
        for other in sorted(rivals, key=lambda v: v.offset):
            if offset + size <= other.offset:
                break
            offset = max(offset, other.offset + _rounded(other.nbytes))
        life.offset = offset
        placed.append(life)
        total = max(total, offset + size)
    return total


def _rounded(nbytes: int) -> int:
    return (nbytes + ALIGN - 1) // ALIGN * ALIGN
