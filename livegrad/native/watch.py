"""Sees when a global name that translated functions took for a constant gets another value.

Reading a name costs nothing more. An assignment to an attribute of a module is seen, which is how
tests and tools patch one; what a module assigns to its own `global` names is not, nor builtins.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, NamedTuple


class Constant(NamedTuple):
    """A global name, and its value when it was taken for a constant."""

    namespace: dict[str, Any]
    name: str
    value: Any


class Watch:
    """The constants of one translation; `changed` are those that have another value now."""

    def __init__(self, constants: Iterable[Constant], originals: dict[int, Any]) -> None:
        # What stands for a function in its module is no other value; nor is what stood for it
        # before, which whoever patches a name may put back.
        self._originals = originals
        self._constants = {(id(c.namespace), c.name): c for c in constants}
        self.changed: set[tuple[int, str]] = set()

    def begin(self, notice: Callable[[], None]) -> None:
        """Calls `notice` from now on whenever `changed` has become empty, or no longer is."""
        self._notice = notice
        self.changed = {key for key in self._constants if self._is_other(key)}
        _Watched.watch = self
        watched = {namespace for namespace, _ in self._constants}
        for name, module in list(sys.modules.items()):
            ours = name.startswith("livegrad") and type(module) is ModuleType
            if ours and id(vars(module)) in watched:
                module.__class__ = _Watched

    def look(self, module: ModuleType, name: str) -> None:
        """Looks at a name that has been assigned to, or deleted."""
        key = id(vars(module)), name
        if key not in self._constants:
            return
        before = bool(self.changed)
        (self.changed.add if self._is_other(key) else self.changed.discard)(key)
        if bool(self.changed) != before:
            self._notice()

    def _is_other(self, key: tuple[int, str]) -> bool:
        namespace, name, value = self._constants[key]
        now = namespace.get(name, vars(builtins).get(name))
        return self._originals.get(id(now), now) is not value


class _Watched(ModuleType):
    """A module whose names somebody wants to hear of."""

    watch: Watch

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        _Watched.watch.look(self, name)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        _Watched.watch.look(self, name)
