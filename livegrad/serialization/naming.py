"""Classes and functions by name, among what the program has imported. Nothing is imported here."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


def name_of(x: Any) -> str:
    """The name under which a class or a function is written; ours have their shortest one.

    Where one of ours is defined may change from version to version, so a file should not say it.
    """
    module, qualified = getattr(x, "__module__", None) or "", x.__qualname__
    if module.partition(".")[0] == "livegrad":
        parts = module.split(".")
        for count in range(1, len(parts)):
            name = f"{'.'.join(parts[:count])}.{qualified}"
            if find(name) is x:
                return name
    return f"{module}.{qualified}"


def find(name: str) -> Any:
    """What is called `name` in the modules that are imported, or None."""
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        module = sys.modules.get(".".join(parts[:count]))
        if module is not None:
            return _within(module, parts[count:])
    return None


def _within(owner: Any, parts: list[str]) -> Any:
    """An attribute of an attribute, found without running a `__getattr__` of the program's."""
    for part in parts:
        if not isinstance(owner, ModuleType | type):
            return None
        ours = getattr(owner, "__name__", "").partition(".")[0] == "livegrad"
        # Some of our modules find their names when they are asked for.
        owner = getattr(owner, part, None) if ours else vars(owner).get(part)
    return owner


def is_standard(x: Any) -> bool:
    """Whether a class or a function belongs to Python itself."""
    module = getattr(x, "__module__", None) or "builtins"
    return module.partition(".")[0] in sys.stdlib_module_names and module != "__main__"
