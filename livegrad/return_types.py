"""The classes of results that have names, such as what `max(x, dim=0)` returns."""

from __future__ import annotations

from livegrad.ops.support.returned import RETURNED

globals().update(RETURNED)

__all__ = [*RETURNED]
