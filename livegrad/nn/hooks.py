"""Tables of hooks: functions that users attach to modules and optimisers."""

from __future__ import annotations

from typing import Any

from livegrad.autograd.hooks import RemovableHandle


class Hooks(dict[int, Any]):
    """Hooks by number, in the order in which they are called."""

    def add(self, hook: Any, *, first: bool = False) -> RemovableHandle:
        """Adds `hook`, in front of the others if `first`."""
        others = dict(self) if first else {}
        if first:
            self.clear()
        handle = RemovableHandle(self, hook)
        self.update(others)
        return handle
