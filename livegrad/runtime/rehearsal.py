"""A rehearsal: everything is recorded, planned and given memory, and nothing is computed.

For a process that ends afterwards: what its values are worth is whatever the memory holds.
"""

from __future__ import annotations

from typing import Any

from livegrad.graph.state import Runtime
from livegrad.runtime import flush
from livegrad.runtime.cpu.pieces.flushing import ARENA as OF_LISTS
from livegrad.runtime.cpu.segments import ARENA as OF_PLANS, Segments
from livegrad.runtime.memory import memory_peak, reset_peak
from livegrad.runtime.sight import Policy


def begin() -> None:
    """From now on, flushes take plans as wholes, and run none of their kernels."""
    Policy.whole, Runtime.by_pieces = True, False
    flush._flush_as_before = _never  # type: ignore[assignment]
    Segments.run = _reserve  # type: ignore[method-assign]
    reset_peak()


def _never(*_: Any) -> bool:
    return False


def _reserve(self: Segments, buffers: Any, ints: Any, floats: Any) -> None:
    OF_PLANS.reserve(self.arena)


def peak() -> int:
    """The most bytes that were in use at a time since the rehearsal began."""
    return memory_peak()


def arenas() -> dict[str, int]:
    """Bytes of scratch memory that plans, and lists of pieces, use again and again."""
    return {"plans": OF_PLANS.nbytes, "lists of pieces": OF_LISTS.nbytes}


__all__ = ["arenas", "begin", "peak"]
