"""Protocol buffers on the wire: a message is its fields one after the other, as bytes.

Each function gives one field: its number and kind, then its value. Field numbers are those of
TensorFlow's event.proto, summary.proto and their like, given where they are used.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5


def varint(number: int) -> bytes:
    """An integer in groups of 7 bits; negative ones as 64 bits of two's complement."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _key(field: int, kind: int) -> bytes:
    return varint(field << 3 | kind)


def integer(field: int, value: int) -> bytes:
    """An int32, int64, uint32, bool or enum."""
    return _key(field, _VARINT) + varint(int(value))


def double(field: int, value: float) -> bytes:
    """A double."""
    return _key(field, _DOUBLE) + struct.pack("<d", value)


def single(field: int, value: float) -> bytes:
    """A float; what is too large becomes infinite."""
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        packed = struct.pack("<f", float("inf") if value > 0 else float("-inf"))
    return _key(field, _FLOAT) + packed


def block(field: int, value: bytes | str) -> bytes:
    """Bytes, a string, or a message within a message."""
    raw = value.encode() if isinstance(value, str) else value
    return _key(field, _BYTES) + varint(len(raw)) + raw


def doubles(field: int, values: Iterable[float]) -> bytes:
    """Repeated doubles, packed."""
    listed = list(values)
    return block(field, struct.pack(f"<{len(listed)}d", *listed))


def pair(field: int, key: str, value: bytes) -> bytes:
    """An entry of a map from strings to messages."""
    return block(field, block(1, key) + block(2, value))
