"""Where CPython keeps what in memory: the one place that knows it.

    object   references (32 bits; an immortal's are negative) │ type │ …
    list     … │ size │ pointer to its items
    tuple    … │ size │ (since Python 3.14 its hash) │ items
    int      … │ sign and number of digits │ digits of 30 bits
    float    … │ the number
    slots    at the offsets that the descriptors of their class tell

Beside the 32 bits of references lie zeros, or flags since Python 3.14.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import sys
from collections.abc import Iterable
from string import Template
from typing import Any

REFERENCES, TYPE, SIZE, ITEMS = 0, 8, 16, 24
TUPLE_ITEMS = 32 if sys.version_info >= (3, 14) else 24
INT_TAG, INT_DIGITS, FLOAT_VALUE = 16, 24, 16
# From the tag of an int, whether it has at most two digits, as indices and addresses have, whether
# it has two, and its sign as a factor. Until Python 3.12 the tag is the number of digits, negative
# for a negative number.
_OLD_INT = """
  %moved = add i64 %tag, 2
  %is.small = icmp ult i64 %moved, 5
  %over.one = icmp sgt i64 %tag, 1
  %under.one = icmp slt i64 %tag, -1
  %has.two = or i1 %over.one, %under.one
  %over = call i64 @llvm.smin.i64(i64 %tag, i64 1)
  %sign = call i64 @llvm.smax.i64(i64 %over, i64 -1)
"""
_NEW_INT = """
  %is.small = icmp ult i64 %tag, 24
  %has.two = icmp uge i64 %tag, 16
  %below = and i64 %tag, 3
  %sign = sub i64 1, %below
"""
_DIGIT = (1 << 30) - 1
SMALL_INT = _NEW_INT if sys.version_info >= (3, 12) else _OLD_INT
# A member descriptor: object head, type, name, qualified name, then its definition, in which the
# offset of the slot comes after a pointer and an int.
_DEFINITION, _DEFINED_OFFSET = 40, 16

# CPython versions whose objects have been seen to lie in memory like this (with the GIL).
KNOWN = ((3, 11), (3, 12), (3, 13), (3, 14), (3, 15))


def filled(ir: str) -> str:
    """IR text with the offsets for `$TYPE` and the like."""
    return Template(ir).substitute(
        TYPE=TYPE, SIZE=SIZE, ITEMS=ITEMS, TUPLE_ITEMS=TUPLE_ITEMS, FLOAT_VALUE=FLOAT_VALUE,
        INT_TAG=INT_TAG, INT_DIGITS=INT_DIGITS, SMALL_INT=SMALL_INT,
    )  # fmt: skip


def slot_offset(cls: type, name: str) -> int:
    """Bytes from the start of an instance to the slot `name` of its class."""
    definition = ctypes.c_void_p.from_address(id(cls.__dict__[name]) + _DEFINITION).value
    assert definition is not None
    return ctypes.c_ssize_t.from_address(definition + _DEFINED_OFFSET).value


def slots_of(classes: Iterable[type]) -> dict[str, list[tuple[type, int]]]:
    """By slot name, the classes that have it (inherited too), and where."""
    found: dict[str, list[tuple[type, int]]] = {}
    for cls in classes:
        for owner in cls.__mro__:
            for name in owner.__dict__.get("__slots__", ()):
                if not name.startswith("__") and _is_plain_slot(cls, owner, name):
                    found.setdefault(name, []).append((cls, slot_offset(owner, name)))
    return found


def _is_plain_slot(cls: type, owner: type, name: str) -> bool:
    """Whether an instance's attribute is what lies in the slot, and nothing else."""
    plain = inspect.getattr_static(cls, name) is owner.__dict__[name]
    access: Any = (cls.__getattribute__, cls.__setattr__)
    return plain and access == (object.__getattribute__, object.__setattr__)


@functools.cache
def is_known() -> bool:
    """Whether this interpreter's objects lie in memory as said here."""
    if sys.implementation.name != "cpython" or sys.version_info[:2] not in KNOWN:
        return False
    if not getattr(sys, "_is_gil_enabled", lambda: True)() or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    return _is_as_said()


def _int_at(address: int) -> int:
    """An int of at most two digits, as native code reads it."""
    tag = ctypes.c_int64.from_address(address + INT_TAG).value
    is_new = SMALL_INT is _NEW_INT
    sign = 1 - (tag & 3) if is_new else min(max(tag, -1), 1)
    has_two = tag >= 16 if is_new else abs(tag) > 1
    digits = ctypes.c_uint64.from_address(address + INT_DIGITS).value
    return sign * ((digits & _DIGIT) + (digits >> 32 << 30) * has_two)


_NUMBERS = (0, 1, -1, 7, -300, _DIGIT, 1 << 30, -(5 << 40) - 3, (1 << 60) - 1)


class _Sample:
    __slots__ = ("one", "other")
    one: Any
    other: Any


def _is_as_said() -> bool:
    """Reads a few objects where they lie, and compares with what Python says of them."""
    sample = _Sample()
    sample.one, sample.other = one, other = object(), (sample,)
    number, things = 1.5, [one, other]
    word = ctypes.c_size_t.from_address
    known = (
        word(id(sample) + slot_offset(_Sample, "one")).value == id(one)
        and word(id(sample) + slot_offset(_Sample, "other")).value == id(other)
        and word(id(sample) + TYPE).value == id(_Sample)
        and word(id(other) + SIZE).value == 1
        and word(id(other) + TUPLE_ITEMS).value == id(sample)
        and word(id(things) + SIZE).value == 2
        and word(word(id(things) + ITEMS).value).value == id(one)
        and ctypes.c_uint32.from_address(id(things) + REFERENCES).value == 1
        and all([_int_at(id(n)) == n for n in _NUMBERS])
        and ctypes.c_double.from_address(id(number) + FLOAT_VALUE).value == number
    )
    del sample.other  # it held itself
    return known
