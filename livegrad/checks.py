"""`torch._check`: assertions that PyTorch's tracers can see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _fail(error: type[Exception], message: Any) -> None:
    default = "Expected cond to be True, but got False."
    raise error(str(message()) if callable(message) else default)


def _check(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """RuntimeError with what `message` returns, unless `cond`."""
    if not cond:
        _fail(RuntimeError, message)


def _check_index(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """IndexError with what `message` returns, unless `cond`."""
    if not cond:
        _fail(IndexError, message)


def _check_value(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """ValueError with what `message` returns, unless `cond`."""
    if not cond:
        _fail(ValueError, message)


def _check_type(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """TypeError with what `message` returns, unless `cond`."""
    if not cond:
        _fail(TypeError, message)


def _check_is_size(i: Any, message: Callable[[], Any] | None = None) -> None:
    """RuntimeError unless `i` can be a size."""
    _check(i >= 0, message)
