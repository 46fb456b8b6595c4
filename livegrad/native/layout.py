"""Where CPython keeps what: slots of objects in memory.

Every object begins with its count of references, 32 bits of it: what lies beside them is zero, or
flags since Python 3.14. An immortal object has the highest of the 32 set. Then, at 8, its type. A
list or tuple has its size at 16; a list's items are behind the pointer at 24.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable

# Since Python 3.14 a tuple has its hash before its items.
TUPLE_ITEMS = 32 if sys.version_info >= (3, 14) else 24


def slot_offset(cls: type, name: str) -> int:
    """Bytes from the start of an instance to the slot `name` of its class."""
    # A member descriptor: object head, type, name, qualified name, then its definition, in
    # which the offset comes after a pointer and an int.
    definition = ctypes.c_void_p.from_address(id(cls.__dict__[name]) + 40).value
    assert definition is not None
    return ctypes.c_ssize_t.from_address(definition + 16).value


def slots_of(classes: Iterable[type]) -> dict[str, list[tuple[type, int]]]:
    """By slot name, the classes that have it (inherited too), and where."""
    found: dict[str, list[tuple[type, int]]] = {}
    for cls in classes:
        for owner in cls.__mro__:
            for name in owner.__dict__.get("__slots__", ()):
                if not name.startswith("__"):
                    found.setdefault(name, []).append((cls, slot_offset(owner, name)))
    return found
