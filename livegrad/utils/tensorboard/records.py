"""Record files (TFRecord): each record with its length and two checksums.

length (8 bytes)   masked CRC of the length (4)   the record   masked CRC of the record (4)
"""

from __future__ import annotations

import os
import struct
from functools import cache
from typing import Any

import numpy as np

_POLYNOMIAL = 0x82F63B78  # CRC-32C (Castagnoli), bits reversed
_LANES_FROM = 4096  # bytes; from here on lanes are worth their preparation

Table = np.ndarray[Any, Any]


@cache
def _table() -> Table:
    """The remainder of every byte."""
    entries: Table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        entries = (entries >> 1) ^ np.where(entries & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    return entries


@cache
def _numbers() -> list[int]:
    return _table().tolist()  # type: ignore[no-any-return]


def _plain(data: bytes, crc: int) -> int:
    table = _numbers()
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc


def crc32c(data: bytes) -> int:
    """The CRC-32C of `data`."""
    crc = 0xFFFFFFFF
    if len(data) >= _LANES_FROM:
        # Equal parts side by side, each from zero, then put together from left to right.
        length = 1 << (len(data).bit_length() // 2)
        lanes = len(data) // length
        parts = np.frombuffer(data, np.uint8, lanes * length).reshape(lanes, length)
        remainders = np.zeros(lanes, np.uint32)
        table = _table()
        for column in parts.T:
            remainders = table[(remainders ^ column) & 0xFF] ^ (remainders >> 8)
        shift = _shift(length)
        for remainder in remainders.tolist():
            crc = _moved(crc, shift) ^ remainder
        data = data[lanes * length :]
    return _plain(data, crc) ^ 0xFFFFFFFF


@cache
def _shift(length: int) -> tuple[tuple[int, ...], ...]:
    """What `length` zero bytes make of a remainder, for each of its four bytes."""
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    table = _table()
    for _ in range(length):
        bits = table[bits & 0xFF] ^ (bits >> 8)
    found = []
    for place in range(4):
        entries = np.zeros(256, np.uint32)
        for bit in range(8):
            has = (np.arange(256) >> bit) & 1 == 1
            entries[has] ^= bits[8 * place + bit]
        found.append(tuple(entries.tolist()))
    return tuple(found)


def _moved(crc: int, shift: tuple[tuple[int, ...], ...]) -> int:
    a, b, c, d = shift
    return a[crc & 0xFF] ^ b[crc >> 8 & 0xFF] ^ c[crc >> 16 & 0xFF] ^ d[crc >> 24]


def masked_crc(data: bytes) -> int:
    """The checksum as files hold it: rotated and shifted, so that CRCs of CRCs are no problem."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def framed(record: bytes) -> bytes:
    """A record with its length and checksums."""
    length = struct.pack("<Q", len(record))
    return b"".join(
        (
            length,
            struct.pack("<I", masked_crc(length)),
            record,
            struct.pack("<I", masked_crc(record)),
        )
    )


class RecordFile:
    """A file that records are added to.

    What is not yet written is kept here and not in a file object, whose buffer a forked worker
    would write a second time.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        binary = getattr(os, "O_BINARY", 0)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | binary, 0o666)
        self._waiting: list[bytes] = []

    def add(self, record: bytes) -> None:
        """Adds a record, to be written by `flush`."""
        self._waiting.append(framed(record))

    @property
    def waiting(self) -> int:
        """How many records are not yet written."""
        return len(self._waiting)

    def flush(self) -> None:
        """Writes what waits."""
        waiting, self._waiting = b"".join(self._waiting), []
        view = memoryview(waiting)
        while view:
            view = view[os.write(self._file, view) :]

    def close(self) -> None:
        """Writes what waits, and closes the file."""
        self.flush()
        os.close(self._file)
