"""Calls of native code from Python code that is none: translated, each is one call of a function
that is there already; `call_native` by itself makes one first."""

from __future__ import annotations

from livegrad.native.calls import call_native, call_native_freely
from livegrad.native.hot import hot


@hot
def call_with_1(address: int, a: int) -> int:
    """`call_native` with one word."""
    return call_native(address, a)


@hot
def call_with_2(address: int, a: int, b: int) -> int:
    """`call_native` with two words."""
    return call_native(address, a, b)


@hot
def call_with_3(address: int, a: int, b: int, c: int) -> int:
    """`call_native` with three words."""
    return call_native(address, a, b, c)


@hot
def call_with_4(address: int, a: int, b: int, c: int, d: int) -> int:
    """`call_native` with four words."""
    return call_native(address, a, b, c, d)


@hot
def call_freely_with_5(address: int, a: int, b: int, c: int, d: int, e: int) -> int:
    """`call_native_freely` with five words."""
    return call_native_freely(address, a, b, c, d, e)
