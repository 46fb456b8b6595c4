"""Packs of what a program looks up in a cache: tests of single entries do without."""

from __future__ import annotations

import struct
from pathlib import Path

_BEFORE = 40  # what says that an entry is intact


def remove_packs(directory: Path) -> None:
    """Leaves the entries of a cache, one file for each."""
    for path in Path(directory).rglob("*.o"):
        if _is_pack(path.read_bytes()[_BEFORE:]):
            path.unlink()


def _is_pack(data: bytes) -> bool:
    count = int.from_bytes(data[:8], "little")
    if len(data) < 8 + 40 * count:
        return False
    lengths = [length for _, length in struct.iter_unpack("<32sQ", data[8 : 8 + 40 * count])]
    return 8 + 40 * count + sum(lengths) == len(data)
