"""A rehearsal: everything is recorded, planned and given memory, and nothing is computed.

For a process that ends afterwards: what its values are worth is whatever the memory holds.
"""

from __future__ import annotations

from typing import Any

from livegrad.graph.node import Node
from livegrad.graph.state import Runtime, State
from livegrad.runtime import flush, plans
from livegrad.runtime.cpu.pieces import flushing
from livegrad.runtime.cpu.pieces.flushing import ARENA as OF_LISTS
from livegrad.runtime.cpu.segments import ARENA as OF_PLANS, Segments
from livegrad.runtime.memory import memory_peak, reset_peak
from livegrad.runtime.sight import Policy


def begin() -> None:
    """From now on, flushes run none of their kernels. They are as they would be: piece by piece at
    first sight, if there are pieces for it."""
    _Phase.wholes = Policy.whole
    flush._flush_as_before = _take_known_plan
    Segments.run = _reserve  # type: ignore[method-assign]
    setattr(flushing, "call_freely_with_5", _succeed)  # noqa: B010 - it is imported there
    reset_peak()


def plan_as_wholes() -> None:
    """From now on, flushes take plans as wholes, as they do once these have come often enough."""
    Policy.whole, Runtime.by_pieces, _Phase.wholes = True, False, True


class _Phase:
    """Whether all is planned as wholes by now."""

    wholes = False


def _succeed(*_: int) -> int:
    return 0


def _take_known_plan(state: State, roots: tuple[Node, ...]) -> bool:
    """Has what is pending planned as a whole if its plan is known; no, it has not run."""
    if not _Phase.wholes:
        Policy.whole = plans.find(flush._snapshot(state, roots)) is not None
    return False


def _reserve(self: Segments, buffers: Any, ints: Any, floats: Any) -> None:
    OF_PLANS.reserve(self.arena)


def peak() -> int:
    """The most bytes that were in use at a time since the rehearsal began."""
    return memory_peak()


def arenas() -> dict[str, int]:
    """Bytes of scratch memory that plans, and lists of pieces, use again and again."""
    return {"plans": OF_PLANS.nbytes, "lists of pieces": OF_LISTS.nbytes}


__all__ = ["arenas", "begin", "peak", "plan_as_wholes"]
