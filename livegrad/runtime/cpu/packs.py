"""What a program looks up on disk, in one file for its next process.

First steps need a hundred small entries, the same ones every time. To open and read a file for each
takes longer than what is done with it.

    pack = how many (8 bytes) + key and length of each (32 + 8 bytes) + the entries, end to end
"""

from __future__ import annotations

import os
import sys
from struct import Struct

_HEAD, _ENTRY = Struct("<Q"), Struct("<32sQ")
# All of a pack is read, and its checksum made, before its first entry is used.
MOST_BYTES = 1 << 20
# What is larger does not gain by it.
_LARGEST = 1 << 16


def program() -> str:
    """What tells this program from others: its file. Programs without one have a pack together."""
    name = sys.argv[0] if getattr(sys, "argv", None) else ""
    try:
        return os.path.abspath(name)
    except OSError:  # the current folder is gone
        return name


class Pack:
    """Entries by key: those of the last process, and those that this one has looked up or stored.

    An entry here may be older than its file, when programs that share it run at the same time; as
    a file may be older than what another process is about to write.
    """

    def __init__(self, data: bytes = b"") -> None:
        self._data = data
        self._places: dict[str, tuple[int, int]] = {}
        self._used: dict[str, bytes] = {}
        self._nbytes = 0
        self.is_new = False  # it differs from what it was read from
        if data:
            self._read_places()

    def _read_places(self) -> None:
        (count,) = _HEAD.unpack_from(self._data)
        at = _HEAD.size + count * _ENTRY.size
        for key, length in _ENTRY.iter_unpack(self._data[_HEAD.size : at]):
            self._places[key.hex()] = at, at + length
            at += length

    def get(self, key: str) -> bytes | None:
        """An entry, if it is here."""
        found = self._used.get(key)
        if found is None and key in self._places:
            begin, end = self._places.pop(key)
            found = self._used[key] = self._data[begin:end]
            self._nbytes += end - begin
        return found

    def add(self, key: str, entry: bytes) -> None:
        """Takes up an entry that was looked up elsewhere or is stored anew, if there is room."""
        was_here = self._places.pop(key, None) is not None or key in self._used
        self._nbytes -= len(self._used.pop(key, b""))
        fits = len(entry) <= _LARGEST and self._nbytes + len(entry) <= MOST_BYTES
        self.is_new = self.is_new or was_here or fits
        if fits:
            self._used[key] = entry
            self._nbytes += len(entry)

    def written(self) -> bytes:
        """The pack for the next process: what this one used, and what there is room for besides."""
        entries, room = dict(self._used), MOST_BYTES - self._nbytes
        for key, (begin, end) in self._places.items():
            room -= end - begin
            if room >= 0:
                entries[key] = self._data[begin:end]
        heads = [_ENTRY.pack(bytes.fromhex(key), len(x)) for key, x in entries.items()]
        return b"".join([_HEAD.pack(len(entries)), *heads, *entries.values()])
