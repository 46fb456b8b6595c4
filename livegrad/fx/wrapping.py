"""`wrap`: functions of the user's own whose calls are recorded as one step, not traced into."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from typing import Any, NamedTuple


class Wrapped(NamedTuple):
    """A name in a module's globals whose calls are recorded."""

    names: dict[str, Any]
    name: str
    function: Any


# By module and name, so that a module that is loaded anew takes the place of the old one.
_WRAPPED: dict[tuple[int, str], Wrapped] = {}


def wrap(fn_or_name: str | Callable[..., Any]) -> str | Callable[..., Any]:
    """Has calls of a function recorded as they are; said at the top level of a module.

    `wrap("name")`, also for builtins such as "len", or `@wrap` before a definition.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    function = fn_or_name
    if isinstance(fn_or_name, str):
        function = frame.f_globals.get(name, getattr(builtins, name, None))  # type: ignore[assignment]
    _WRAPPED[id(frame.f_globals), name] = Wrapped(frame.f_globals, name, function)
    return fn_or_name


def wrapped_names() -> list[Wrapped]:
    """All that was wrapped."""
    return list(_WRAPPED.values())


def is_wrapped(function: Any) -> bool:
    """Whether calls of a function are recorded because of `wrap`."""
    return any(_function_of(entry) is function for entry in _WRAPPED.values())


def _function_of(entry: Wrapped) -> Any:
    found = entry.names.get(entry.name, getattr(builtins, entry.name, None))
    return getattr(found, "_recorded", found)  # while a trace runs, the name leads to a recorder


__all__ = ["wrap"]
