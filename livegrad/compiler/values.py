"""LLVM types as strings, and the values instructions take and give."""

from __future__ import annotations

import math
import struct
from functools import cache
from typing import NamedTuple


class Machine(NamedTuple):
    """What code is written for: how many elements lie side by side in a vector, what LLVM is told
    about its functions, how many vectors of sixteen floats the registers hold, and of how many
    bytes one instruction adds up products in fours, if there is one."""

    lanes: int
    attributes: str
    vectors: int = 8
    byte_dots: int = 0


_FLOAT_BITS = {"half": 16, "float": 32}
_MANGLED = {"half": "f16", "float": "f32", "double": "f64", "ptr": "p0"}


@cache
def vector(element: str, lanes: int) -> str:
    """The vector type of `element`: `vector("float", 16)` is `"<16 x float>"`."""
    return f"<{lanes} x {element}>"


@cache
def element_of(type: str) -> str:
    """The element type of a vector type; a scalar type is its own element."""
    return type.split(" x ")[1][:-1] if type[0] == "<" else type


@cache
def lanes_of(type: str) -> int:
    """How many lanes `type` has; 0 for a scalar."""
    return int(type[1:].split(" x ")[0]) if type[0] == "<" else 0


@cache
def with_element(type: str, element: str) -> str:
    """`type` with another element and the same number of lanes."""
    return vector(element, lanes_of(type)) if type[0] == "<" else element


@cache
def bits_of(type: str) -> int:
    """Width in bits of one element of `type` (a pointer has 64)."""
    element = element_of(type)
    return int(element[1:]) if element[0] == "i" else _FLOAT_BITS.get(element, 64)


@cache
def bytes_of(type: str) -> int:
    """Bytes one element of `type` takes in memory (a bool takes one)."""
    return (bits_of(type) + 7) // 8


@cache
def mangled(type: str) -> str:
    """The suffix LLVM gives `type` in the name of an overloaded intrinsic."""
    element = element_of(type)
    name = _MANGLED.get(element, element)
    return f"v{lanes_of(type)}{name}" if type[0] == "<" else name


def float_text(element: str, number: float) -> str:
    """How IR spells the float nearest to `number`."""
    # Hexadecimal bit patterns are the only spelling that is exact for inf, nan and denormals.
    if element == "half":
        try:
            return f"0xH{struct.unpack('<H', struct.pack('<e', number))[0]:04X}"
        except OverflowError:
            return "0xH7C00" if number > 0 else "0xHFC00"
    if element == "float":
        try:
            number = struct.unpack("<f", struct.pack("<f", number))[0]
        except OverflowError:
            number = math.copysign(math.inf, number)
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"


def int_text(element: str, number: int) -> str:
    """How IR spells the integer `number`, wrapped to the element's width."""
    bits = bits_of(element)
    number &= (1 << bits) - 1
    if bits == 1:
        return "true" if number else "false"
    return str(number - (1 << bits) if number >> (bits - 1) else number)


class Value:
    """An SSA value or an inline constant: its spelling as an operand, and its LLVM type."""

    __slots__ = ("name", "type")

    def __init__(self, name: str, type: str) -> None:
        self.name = name
        self.type = type

    @property
    def element(self) -> str:
        """The element type, `"float"` for `<16 x float>` and for `float`."""
        return element_of(self.type)

    def __repr__(self) -> str:
        return f"{self.type} {self.name}"


class Choice(Value):
    """One of two values, where a mask says which."""

    __slots__ = ("left", "mask", "right")

    def __init__(self, value: Value, mask: Value, left: Value, right: Value) -> None:
        super().__init__(value.name, value.type)
        self.mask, self.left, self.right = mask, left, right


Operand = Value | float
"""What instructions accept: a Value, or a Python number that takes the other operand's type."""
