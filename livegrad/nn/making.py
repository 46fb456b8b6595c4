"""What modules of a program were made with, so that they can be made anew: see `livegrad.live`.

Numbers, texts and the like are noted when a module is made, lists of them, and objects that consist
of them, such as configurations. Nothing else is kept alive for it.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable
from enum import Enum
from types import FunctionType
from typing import Any, NamedTuple
from weakref import ref

from livegrad.graph.handle import Handle

_PLAIN = (int, float, complex, str, bytes, type(None), Enum)
_MOST = 256  # elements of a list


# Stands for an argument that is not kept.
UNKNOWN = object()


class _Noted(NamedTuple):
    module: ref[Any]  # forgets it with the module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


# By address, because modules need not be hashable.
_NOTED: dict[int, _Noted] = {}


def note(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Notes what a module is made with."""
    number = id(module)
    kept = {key: _kept(x) for key, x in kwargs.items()} if kwargs else kwargs
    _NOTED[number] = _Noted(
        ref(module, lambda _: _NOTED.pop(number, None)), tuple([_kept(x) for x in args]), kept
    )


def note_as(module: Any, other: Any) -> Callable[[], None]:
    """Notes that a module is now what another is; gives what takes that back."""
    before, now = _NOTED.get(id(module)), _NOTED.get(id(other))
    if now is not None:
        note(module, now.args, now.kwargs)

    def put_back() -> None:
        if before is not None:
            _NOTED[id(module)] = before

    return put_back


def arguments_of(module: Any) -> dict[str, Any] | None:
    """What a module was made with, by name; UNKNOWN stands for what is not kept."""
    found = _NOTED.get(id(module))
    if found is None:
        return None
    try:
        bound = inspect.signature(type(module).__init__).bind(module, *found.args, **found.kwargs)
    except (TypeError, ValueError):
        return None
    given = {name: x for name, x in bound.arguments.items() if x is not module}
    return {name: UNKNOWN if _has_unknown(x) else x for name, x in given.items()}


def _has_unknown(x: Any) -> bool:
    """Whether one of `*args` and `**kwargs` is not known."""
    inner: Iterable[Any] = x.values() if isinstance(x, dict) else x if isinstance(x, tuple) else ()
    return any([value is UNKNOWN for value in inner])


def _kept(x: Any) -> Any:
    if isinstance(x, _PLAIN):
        return x
    try:
        return _copied(x)
    except TypeError:
        pass
    try:
        is_configuration = [_copied(value) for value in vars(x).values()]
    except TypeError:
        return UNKNOWN
    if not is_configuration or isinstance(x, Handle | type | FunctionType):
        return UNKNOWN
    try:
        return copy.copy(x)  # the program may put more into its own
    except Exception:
        return UNKNOWN


def _copied(x: Any) -> Any:
    """A plain value as it is now, if the program changes a list of them; else TypeError."""
    if isinstance(x, _PLAIN) or _is_of_a_module(x):
        return x
    if type(x) not in (list, tuple, dict) or len(x) > _MOST:
        raise TypeError
    if isinstance(x, dict):
        return {key: _copied(value) for key, value in x.items()}
    return type(x)([_copied(value) for value in x])


def _is_of_a_module(x: Any) -> bool:
    """Whether it is a class or function that holds nothing, as those within functions may."""
    return isinstance(x, type | FunctionType) and "<locals>" not in x.__qualname__


__all__ = ["UNKNOWN", "arguments_of", "note", "note_as"]
