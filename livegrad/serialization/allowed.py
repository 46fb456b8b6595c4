"""`safe_globals`: what a program allows PyTorch's `load` to call.

Our `load` calls nothing that a file names, allowed or not; so the list is kept, for programs that
ask for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_allowed: list[Any] = []


def add_safe_globals(safe_globals: Sequence[Any]) -> None:
    """Adds functions and classes to the list."""
    _allowed.extend(x for x in safe_globals if x not in _allowed)


def get_safe_globals() -> list[Any]:
    """The list."""
    return list(_allowed)


def clear_safe_globals() -> None:
    """Empties the list."""
    _allowed.clear()


class safe_globals:
    """Has functions and classes on the list for a while."""

    def __init__(self, safe_globals: Sequence[Any]) -> None:
        self._more = safe_globals

    def __enter__(self) -> None:
        self._before = get_safe_globals()
        add_safe_globals(self._more)

    def __exit__(self, *error: object) -> None:
        _allowed[:] = self._before
