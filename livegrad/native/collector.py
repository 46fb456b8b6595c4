"""Python's garbage collector, while things are made that stay as long as the process.

It looks at what was made lately, again and again, until that has become old. Modules, tables of
native functions and pieces are many objects at once: looking at them takes longer than making them,
and none of them is garbage.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def lasting() -> Iterator[None]:
    """Within it things are made that stay. The collector rests, and counts them as old after it."""
    was_on = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if was_on:
            gc.enable()
            grow_old()


def grow_old() -> None:
    """All that lives counts as old: as if the collector had looked at it several times.

    For a few occasions in the life of a process: a cycle that is garbage already goes with the
    next full collection, which is put off.
    """
    if not gc.get_freeze_count():  # else the program has frozen what it wants to stay so
        gc.freeze()
        gc.unfreeze()
