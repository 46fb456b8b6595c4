"""Settings of parts of PyTorch that are not here: accepted, kept, and without effect."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


class Switches(ModuleType):
    """Settings by name. One that nobody has set is false, and has settings of its own below it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        below = Switches(f"{self.__name__}.{name}")
        setattr(self, name, below)
        return below

    def __bool__(self) -> bool:
        return False

    @contextmanager
    def patch(self, *args: Any, **changes: Any) -> Iterator[None]:
        """Sets some for a while: `patch(name=value)`, `patch("name", value)`, `patch({…})`."""
        if args:
            changes |= args[0] if isinstance(args[0], dict) else {args[0]: args[1]}
        before = {name: getattr(self, name) for name in changes}
        self.__dict__.update(changes)
        try:
            yield
        finally:
            self.__dict__.update(before)


def switches(name: str) -> Switches:
    """Settings that can be imported as a module."""
    sys.modules[name] = out = Switches(name, "Settings that are kept, and have no effect.")
    return out
