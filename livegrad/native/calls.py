"""Native code and memory by address. Translated functions do each of these with one instruction."""

from __future__ import annotations

import ctypes
import gc
import struct
from collections.abc import Callable
from functools import cache
from typing import Any


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


def word_at(address: int) -> int:
    """The 64 bits at `address`."""
    return ctypes.c_int64.from_address(address).value


def half_at(address: int) -> int:
    """The 32 bits at `address`, from 0 on."""
    return ctypes.c_uint32.from_address(address).value


def single_at(address: int) -> float:
    """The number that a float of 32 bits at `address` is."""
    return ctypes.c_float.from_address(address).value


def double_at(address: int) -> float:
    """The float at `address`."""
    return ctypes.c_double.from_address(address).value


def put_word(address: int, word: int) -> None:
    """Stores 64 bits at `address`."""
    ctypes.c_int64.from_address(address).value = word


def put_half(address: int, bits: int) -> None:
    """Stores 32 bits at `address`."""
    ctypes.c_uint32.from_address(address).value = bits


def put_single(address: int, number: float) -> None:
    """Stores a float at `address`, rounded to 32 bits."""
    ctypes.c_float.from_address(address).value = number


def quotient(a: int, b: int) -> int:
    """`a // b` of words that are not negative; b is not 0."""
    return a // b


def remainder(a: int, b: int) -> int:
    """`a % b` of words that are not negative; b is not 0."""
    return a % b


def double_bits(a: int) -> int:
    """The bits of `float(a)`."""
    return bits_of(float(a))


def ratio_bits(a: int, b: int) -> int:
    """The bits of `a / b`; b is not 0."""
    return bits_of(float(a) / float(b))


def bits_of(number: float) -> int:
    """The bits of a float."""
    word: int = struct.unpack("<q", struct.pack("<d", number))[0]
    return word


# Who goes through a list of nodes has those fetched that come so many places later.
AHEAD = 8


def fetch(address: int) -> None:
    """Has the processor fetch memory that is read soon; as Python, nothing is done."""


def fetch_item(things: list[Any], place: int) -> None:
    """The same for an object on a list, without a look at it; there is one at this place."""


def fetch_slot(x: Any, offset: int) -> None:
    """The same for the object in a slot of `x`."""


def fetch_items(x: Any, offset: int) -> None:
    """The same for the objects of the tuple in a slot of `x`."""


def untrack(x: Any) -> None:
    """Tells Python's garbage collector that `x` is part of no cycle; as Python, nothing is told."""


def track(x: Any) -> None:
    """Has Python's garbage collector look at `x` again. For Python only."""
    if not gc.is_tracked(x):
        ctypes.pythonapi.PyObject_GC_Track(ctypes.py_object(x))


def object_at(address: int) -> Any:
    """The object that is referred to at `address`."""
    return ctypes.py_object.from_address(address).value


def int_at(address: int) -> int:
    """The number that the int object at `address` is."""
    number: int = ctypes.cast(address, ctypes.py_object).value
    return number
