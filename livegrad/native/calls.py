"""Calling native code by address. Translated functions do so with one instruction."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


@cache
def _type(arguments: int, holds_lock: bool) -> Callable[[int], Callable[..., int]]:
    make = ctypes.PYFUNCTYPE if holds_lock else ctypes.CFUNCTYPE
    kind: Callable[[int], Callable[..., int]] = make(ctypes.c_int64, *[ctypes.c_int64] * arguments)
    return kind


def call_native(address: int, *numbers: int) -> int:
    """Calls the function at `address`; no other Python thread runs meanwhile."""
    return _type(len(numbers), True)(address)(*numbers)


def call_native_freely(address: int, *numbers: int) -> int:
    """The same, while other Python threads run."""
    return _type(len(numbers), False)(address)(*numbers)
