"""Functions that answer calls later."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any


def async_execution(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose result is a future: who calls it from elsewhere gets what that will have."""

    @wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    called._is_async_execution = True  # type: ignore[attr-defined]
    return called
