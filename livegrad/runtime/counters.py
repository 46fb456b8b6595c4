"""How often the runtime did what: read by tests, `explain()` and the curious."""

from __future__ import annotations

from dataclasses import dataclass, fields

from livegrad.compiler import debug
from livegrad.native.hot import hot_slots


@hot_slots
@dataclass(slots=True)
class Counters:
    """Plain event counts since the start of the process (or the last `reset`)."""

    compiles: int = 0
    disk_hits: int = 0
    disk_misses: int = 0
    kernels_run: int = 0
    plans_run: int = 0
    # Kernels asked for the first time in this process: compiled, or loaded from disk.
    kernels_made: int = 0
    host_steps: int = 0
    flushes: int = 0
    plan_hits: int = 0
    plan_misses: int = 0
    # Of these, plans for new sizes of a known structure that no pass had to run for.
    plans_filled: int = 0
    # Of these, plans that an earlier process has made.
    plans_loaded: int = 0
    # Flushes that were run piece by piece; pieces made for that, and those that were on disk.
    listed: int = 0
    pieces_made: int = 0
    pieces_loaded: int = 0
    # Uses of weights, there, whose gradients were added up several at a time.
    united: int = 0
    nodes_recorded: int = 0
    donations: int = 0

    def reset(self) -> None:
        """Set every count to zero."""
        for field in fields(self):
            setattr(self, field.name, 0)


counters = Counters()


@hot_slots
class Timing:
    """Whether the steps of plans are timed: from the first explain() on, or by LIVEGRAD_DEBUG."""

    __slots__ = ("enabled",)

    def __init__(self) -> None:
        self.enabled = debug.wants("times")


TIMING = Timing()


class Clocks:
    """Steps are timed from `start` to `stop`, which may be nested or overlap in any way."""

    _users = 0
    _before = False

    @classmethod
    def start(cls) -> None:
        """Has steps timed."""
        if not cls._users:
            cls._before, TIMING.enabled = TIMING.enabled, True
        cls._users += 1

    @classmethod
    def stop(cls) -> None:
        """No longer, unless somebody else has them timed."""
        cls._users -= 1
        if not cls._users:
            TIMING.enabled = cls._before
