"""Names in generated code: each stands for one thing, and is no word of Python's."""

from __future__ import annotations

import builtins
import keyword
import math
import re
import sys
from types import ModuleType
from typing import Any

_ILLEGAL = re.compile(r"[^0-9a-zA-Z_]+")
_NUMBERED = re.compile(r"(.*)_(\d+)$")


def custom_builtins() -> dict[str, Any]:
    """What generated code may say besides Python's own builtins, and what it means there."""
    livegrad: ModuleType = sys.modules["livegrad"]
    return {
        "inf": math.inf,
        "nan": math.nan,
        "NoneType": type(None),
        "livegrad": livegrad,
        "device": livegrad.device,
    }


class Namespace:
    """Gives names that nothing else has."""

    def __init__(self) -> None:
        self._named: dict[Any, str] = {}
        self._used: set[str] = set()
        self._counts: dict[str, int] = {}
        self._reserved = custom_builtins()

    def create_name(self, candidate: str, obj: Any | None) -> str:
        """A name like `candidate`; the one that `obj` has already, if it has one."""
        if obj is not None and obj in self._named:
            return self._named[obj]
        candidate = _ILLEGAL.sub("_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
        base, number = candidate, None
        numbered = _NUMBERED.match(candidate)
        if numbered is not None:
            base, number = numbered.group(1), int(numbered.group(2))
            candidate = f"{base}_{number}"  # without leading zeros
        if number is None:
            number = self._counts.get(candidate, 0)
            candidate = f"{base}_{number}" if number else base
        while candidate in self._used or self._is_illegal(candidate, obj):
            number += 1
            candidate = f"{base}_{number}"
        self._used.add(candidate)
        self._counts[candidate] = 0
        self._counts[base] = max(number, self._counts.get(base, 0))
        if obj is not None:
            self._named[obj] = candidate
        return candidate

    def associate(self, name: str, obj: Any) -> None:
        """Notes that a name stands for an object."""
        self._named[obj] = name
        self._used.add(name)

    def _is_illegal(self, name: str, obj: Any) -> bool:
        if name in keyword.kwlist:
            return True
        if hasattr(builtins, name):
            return obj is not getattr(builtins, name)
        return name in self._reserved and obj is not self._reserved[name]


def snake_case(name: str) -> str:
    """`MyLayer` as `my_layer`."""
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()
