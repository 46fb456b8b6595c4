"""What is kept of plans, outlines and kernels, in bytes, and what goes when it is too much.

    plans       one per structure and sizes that was recorded: objects of Python
    outlines    plans without sizes
    kernels     native code, shared by plans; unloaded when the last plan that runs it is gone

All share one budget. What was used least recently goes first. Sizes in memory are estimates: a
plan's grows with its nodes and steps.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

# Measured: bytes of Python objects per recorded node, per step and per slot of its arguments.
_PER_NODE = 1600
_PER_STEP = 3700
_PER_SLOT = 32


class Entry(NamedTuple):
    """Something that can be let go of."""

    nbytes: int
    drop: Callable[[], None]


class Kept:
    """A budget, and what it is spent on, the least recently used first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.entries: OrderedDict[Any, Entry] = OrderedDict()
        self.planned = 0
        # Native code that is loaded; it goes by itself, with the plans.
        self.loaded = 0

    @property
    def nbytes(self) -> int:
        """Bytes of everything."""
        return self.planned + self.loaded

    def put(self, key: Any, nbytes: int, drop: Callable[[], None]) -> None:
        """Notes that `key` takes `nbytes`, and how to let go of it."""
        self.forget(key)
        self.entries[key] = Entry(nbytes, drop)
        self.planned += nbytes

    def use(self, key: Any) -> None:
        """Notes that `key` was needed just now."""
        if key in self.entries:
            self.entries.move_to_end(key)

    def forget(self, key: Any) -> None:
        """Takes `key`, which is gone, off the list."""
        entry = self.entries.pop(key, None)
        if entry is not None:
            self.planned -= entry.nbytes

    def shrink(self, needed: Collection[Any]) -> None:
        """Lets go of what was used least recently until the rest fits; not of what is `needed`."""
        for key in list(self.entries):
            if self.nbytes <= self.limit:
                return
            if key not in needed:
                drop = self.entries[key].drop
                self.forget(key)
                drop()

    def clear(self) -> None:
        """Forgets what is kept; the code of kernels is counted where it is loaded."""
        self.entries.clear()
        self.planned = 0


KEPT = Kept(128 << 20)


def size_of_plan(nodes: int, steps: int, slots: int) -> int:
    """An estimate of the bytes that a plan takes."""
    return _PER_NODE * nodes + _PER_STEP * steps + _PER_SLOT * slots
