"""What translated functions leave to Python: the rare cases, whose meaning has many parts."""

from __future__ import annotations

from itertools import islice
from typing import Any


def unpack(x: Any, count: int) -> tuple[Any, ...]:
    """The `count` values of `x` that are assigned to as many names."""
    try:
        values = iter(x)
    except TypeError:
        if hasattr(type(x), "__iter__"):
            raise
        raise TypeError(f"cannot unpack non-iterable {type(x).__name__} object") from None
    found = tuple(islice(values, count))
    if len(found) < count:
        raise ValueError(f"not enough values to unpack (expected {count}, got {len(found)})")
    for _ in values:
        raise ValueError(f"too many values to unpack (expected {count})")
    return found


def error(x: Any) -> BaseException:
    """The exception that `raise x` raises."""
    if isinstance(x, type) and issubclass(x, BaseException):
        x = x()
    if not isinstance(x, BaseException):
        raise TypeError("exceptions must derive from BaseException")
    return x


def call_with(function: Any, arguments: Any) -> Any:
    """`function(*arguments)`."""
    return function(*arguments)
