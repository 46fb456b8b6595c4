"""`safe_globals`: the classes and functions of its own that a program lets files name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from livegrad.serialization.naming import name_of

# Classes and functions, or pairs of one and the name that files have for it.
_allowed: list[Any] = []


def add_safe_globals(safe_globals: Sequence[Any]) -> None:
    """Lets files name functions and classes: each itself, or with the name that files have for it.

    add_safe_globals([Net, (Net, "oldmodule.Net")])
    """
    for x in safe_globals:
        if isinstance(x, tuple) and not (len(x) == 2 and isinstance(x[1], str)):
            raise ValueError(
                f"add_safe_globals: got {x!r}; expected a class, a function, or a pair of one and "
                "its name in files"
            )
        if x not in _allowed:
            _allowed.append(x)


def get_safe_globals() -> list[Callable[..., Any] | tuple[Callable[..., Any], str]]:
    """What files may name."""
    return list(_allowed)


def clear_safe_globals() -> None:
    """Lets files name nothing of the program's own."""
    _allowed.clear()


class safe_globals:
    """Lets files name functions and classes for a while."""

    def __init__(self, safe_globals: Sequence[Any]) -> None:
        self._more = safe_globals

    def __enter__(self) -> None:
        self._before = get_safe_globals()
        add_safe_globals(self._more)

    def __exit__(self, *error: object) -> None:
        _allowed[:] = self._before


def allowed_as(name: str) -> Any:
    """What a program lets files call `name`, or None."""
    for x in _allowed:
        if isinstance(x, tuple):
            if x[1] == name:
                return x[0]
        elif hasattr(x, "__qualname__") and name in (
            name_of(x),
            f"{x.__module__}.{x.__qualname__}",
        ):
            return x
    return None
