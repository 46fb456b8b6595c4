"""Objects that are no tensors, but answer for functions: those with `__torch_function__`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from livegrad.graph.above import Above
from livegrad.graph.handle import Handle


class Asking:
    """Whether public functions ask their arguments: `livegrad.overrides` has made them do so.

    `callers` are packages that call functions of ops with the user's tensors; `exchanges` have one
    call public functions instead.
    """

    installed = False
    callers: ClassVar[list[str]] = []
    exchanges: ClassVar[list[Callable[[str], None]]] = []

    @classmethod
    def add(cls, exchange: Callable[[str], None]) -> None:
        """Has a function exchange functions in all such packages, also in those to come."""
        cls.exchanges.append(exchange)
        for package in cls.callers:
            exchange(package)


def asks(package: str) -> None:
    """Has a package call the public functions, once these ask, in the place of those of ops."""
    Asking.callers.append(package)
    for exchange in Asking.exchanges:
        exchange(package)


def strangers(values: Iterable[Any]) -> bool:
    """Whether a call failed because public functions do not ask yet; from now on they do.

    It did if one of its arguments, or of their items, has `__torch_function__`.
    """
    if Asking.installed:
        return False
    for x in values:
        if any(map(_is_stranger, x if isinstance(x, tuple | list) else (x,))):
            Above.overrides().install()
            return True
    return False


def _is_stranger(x: Any) -> bool:
    return hasattr(type(x), "__torch_function__") and not isinstance(x, Handle)
