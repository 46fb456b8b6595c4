"""The tables in which a module keeps its parameters, buffers and submodules."""

from __future__ import annotations

import weakref
from typing import Any


class Members(dict[str, Any]):
    """Parameters, buffers or submodules of one module, by name.

    Every entry is also an ordinary attribute of the module, so that reading `self.weight` costs no
    more than reading any attribute; writing here keeps both in step.
    """

    __slots__ = ("__weakref__", "_owner")

    def __init__(self, owner: Any) -> None:
        self._owner = weakref.ref(owner)

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        owner = self._owner()
        if owner is not None:
            owner.__dict__[name] = value

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        owner = self._owner()
        if owner is not None:
            owner.__dict__.pop(name, None)

    def pop(self, name: str, *default: Any) -> Any:
        """Takes an entry out and returns it."""
        if name not in self and default:
            return default[0]
        value = self[name]
        del self[name]
        return value

    def update(self, *others: Any, **more: Any) -> None:
        """Sets entries from a mapping or pairs."""
        for name, value in dict(*others, **more).items():
            self[name] = value

    def clear(self) -> None:
        """Takes all entries out."""
        for name in list(self):
            del self[name]
