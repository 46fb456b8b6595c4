"""Object code as LLVM writes it, laid out for memory: what loading.py puts there.

Kernels are simple: they refer to their own constants, and to a few functions of libc and libm.
Whatever is not as expected is `Strange`, and left to LLVM's linker (`jit.Linker`): other formats
and processors, and other ways of referring to something.
"""

from __future__ import annotations

import mmap
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from livegrad.runtime.cpu.loading import JUMP_BYTES, Missing, function_address, image_of

_Array = np.ndarray[Any, Any]

# ELF: 64 bits, little-endian; a relocatable file for x86-64.
_MAGIC = b"\x7fELF\x02\x01\x01"
_KIND = (1).to_bytes(2, "little") + (62).to_bytes(2, "little")


class _Section(NamedTuple):
    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


class _Symbol(NamedTuple):
    name: int
    info: int
    other: int
    section: int
    value: int
    size: int


_SECTION, _SYMBOL = Struct("<IIQQQQIIQQ"), Struct("<IBBHQQ")
_RELOCATION = np.dtype([("offset", "<i8"), ("type", "<i4"), ("symbol", "<i4"), ("addend", "<i8")])
_BYTES = np.arange(4)
# Types of sections; of those that take memory, others mean that something is run when it is loaded.
_BITS, _SYMBOLS, _RELOCATIONS, _ZEROS, _UNWINDING = 1, 2, 4, 8, 0x70000001
_PLAIN_FLAGS = 0x1 | 0x2 | 0x4 | 0x10 | 0x20  # writable, in memory, code, mergeable, strings
_WRITABLE, _IN_MEMORY = 0x1, 0x2
# Relocations: the distance to something, which may be a function of the process.
_DISTANCE, _DISTANCE_TO_FUNCTION = 2, 4
_LOCAL = 0  # a symbol's binding
# What parts the names of an image.
_SEPARATORS = set(" =;")


class Strange(Exception):
    """Object code that is for LLVM's linker."""


def laid_out(code: bytes) -> bytes:
    """Object code as the image that it becomes in memory; as it is, if that is for LLVM."""
    if not code.startswith(_MAGIC) or code[16:20] != _KIND:
        return code
    try:
        layout = _Layout(code)
        outside = [layout.name(layout.symbols[i]) for i in layout.outside]
        for name in outside:
            function_address(name)
        defined = layout.defined()
        if any([not _SEPARATORS.isdisjoint(name) for name in [*outside, *defined]]):
            return code
        memory = bytes(layout.filled())
    except (Strange, Missing):
        return code
    return image_of(layout.fixed, layout.jumps, defined, outside, memory)


class _Layout:
    """What is to be in memory, and where: offsets from its beginning."""

    def __init__(self, code: bytes) -> None:
        self.code = code
        start, count = int.from_bytes(code[40:48], "little"), int.from_bytes(code[60:62], "little")
        table = code[start : start + _SECTION.size * count]
        self.sections = [_Section(*x) for x in _SECTION.iter_unpack(table)]
        table_of_symbols = next(x for x in self.sections if x.type == _SYMBOLS)
        self.names = self.sections[table_of_symbols.link].offset
        self.symbols = [_Symbol(*x) for x in _SYMBOL.iter_unpack(self._bytes(table_of_symbols))]
        # The first symbol is none.
        self.outside = [i for i, x in enumerate(self.symbols) if i and not x.section]
        self._lay_out()

    def _bytes(self, section: _Section) -> bytes:
        return self.code[section.offset : section.offset + section.size]

    def name(self, symbol: _Symbol) -> str:
        """What a symbol is called."""
        start = self.names + symbol.name
        return self.code[start : self.code.index(b"\0", start)].decode()

    def _lay_out(self) -> None:
        """What is fixed first, then jumps; variables begin with a new page."""
        self.places = [-1] * len(self.sections)
        self._place([not x.flags & _WRITABLE for x in self.sections], 0)
        self.jumps = -(-self.end // JUMP_BYTES) * JUMP_BYTES
        self.fixed = self.jumps + JUMP_BYTES * len(self.outside)
        page = -(-self.fixed // mmap.PAGESIZE) * mmap.PAGESIZE
        self._place([bool(x.flags & _WRITABLE) for x in self.sections], page)
        self.size = max(self.end, 1)

    def _place(self, chosen: list[bool], at: int) -> None:
        for number, (section, wanted) in enumerate(zip(self.sections, chosen, strict=True)):
            in_memory = section.flags & _IN_MEMORY and section.type != _UNWINDING
            if not wanted or not in_memory or not section.size:
                continue
            if section.type not in (_BITS, _ZEROS) or section.flags & ~_PLAIN_FLAGS:
                raise Strange
            align = max(section.align, 1)
            self.places[number] = -(-at // align) * align
            at = self.places[number] + section.size
        self.end = at

    def defined(self) -> dict[str, int]:
        """Where the functions are that others may call."""
        return {
            self.name(x): self.places[x.section] + x.value
            for x in self.symbols
            if x.info >> 4 != _LOCAL and 0 < x.section < len(self.places)
        }

    def filled(self) -> bytearray:
        """What is in memory; not yet where the functions of the process are."""
        memory = bytearray(self.size)
        for section, place in zip(self.sections, self.places, strict=True):
            if place >= 0 and section.type == _BITS:
                memory[place : place + section.size] = self._bytes(section)
        targets = self._targets()
        written = np.frombuffer(memory, np.uint8)
        for section in self.sections:
            place = self.places[section.info] if section.type == _RELOCATIONS else -1
            if place >= 0:
                table = np.frombuffer(self._bytes(section), _RELOCATION)
                _relocate(written, place, table, targets, (self.jumps, self.fixed))
        return memory

    def _targets(self) -> _Array:
        """By symbol: where it is, or the jump to it; -1 if it is nowhere."""
        places = {i: place for i, place in enumerate(self.places) if place >= 0}
        found = [places[x.section] + x.value if x.section in places else -1 for x in self.symbols]
        for number, symbol in enumerate(self.outside):
            found[symbol] = self.jumps + JUMP_BYTES * number
        return np.array(found)


def _relocate(
    memory: _Array, place: int, table: _Array, targets: _Array, jumps: tuple[int, int]
) -> None:
    """Writes distances: those between places in memory do not depend on where it begins."""
    types, reached = table["type"], targets[table["symbol"]]
    is_jump = (reached >= jumps[0]) & (reached < jumps[1])
    known = (types == _DISTANCE_TO_FUNCTION) | (types == _DISTANCE) & ~is_jump
    if not known.all() or (reached < 0).any():
        raise Strange
    offsets = table["offset"] + place
    distances = (reached + table["addend"] - offsets).astype("<i4")
    memory[offsets[:, None] + _BYTES] = distances.view(np.uint8).reshape(-1, 4)
