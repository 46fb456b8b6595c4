"""Object code into memory, without LLVM: that takes longer to import than most first steps take.

Kernels are simple: they refer to their own constants, and to a few functions of libc and libm.

    memory   code │ constants │ a jump to each function of the process ║ variables
             read and run                                              ║ read and written

Whatever is not as expected is left to LLVM's linker (`jit.Linker`): other formats and processors,
and other ways of referring to something.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from functools import cache
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

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
# `jmp *(%rip)`, and after that the address.
_JUMP, _JUMP_BYTES = b"\xff\x25\0\0\0\0", 16


class Strange(Exception):
    """Object code that is for LLVM's linker."""


class Library:
    """Object code in memory, as long as this lives: the addresses of what it defines by name."""

    base = 0

    def __init__(self, code: bytes) -> None:
        image = _Image(code)
        self.size = image.size
        self.base = _map()(None, self.size, _READ_AND_WRITE, _OWN, -1, 0)
        if self.base == _FAILED:
            raise OSError("no memory for a kernel")
        ctypes.memmove(self.base, bytes(image.filled()), self.size)
        if _protect()(self.base, image.fixed, mmap.PROT_READ | mmap.PROT_EXEC):
            raise OSError("memory cannot be made to hold code")
        self.addresses = {name: self.base + at for name, at in image.defined().items()}

    def __getitem__(self, name: str) -> int:
        return self.addresses[name]

    def __del__(self, is_finalizing: Any = sys.is_finalizing) -> None:
        # While the interpreter ends, native functions are still called.
        if self.base and not is_finalizing():
            _unmap()(self.base, self.size)


def load(code: bytes, name: str) -> Library | None:
    """Object code in memory; None if that is for LLVM, which also tells what is wrong with it."""
    if not _is_possible() or not code.startswith(_MAGIC) or code[16:20] != _KIND:
        return None
    try:
        library = Library(code)
    except (Strange, OSError):
        return None
    return library if name in library.addresses else None


@cache
def _is_possible() -> bool:
    return sys.platform == "linux" and os.uname().machine == "x86_64" and sys.maxsize > 1 << 32


_READ_AND_WRITE = mmap.PROT_READ | mmap.PROT_WRITE
_OWN = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_FAILED = (1 << 64) - 1


@cache
def _map() -> Any:
    found = ctypes.CDLL(None).mmap
    place, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    found.restype, found.argtypes = place, [place, size, number, number, number, ctypes.c_long]
    return found


@cache
def _unmap() -> Any:
    found = ctypes.CDLL(None).munmap
    found.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return found


@cache
def _protect() -> Any:
    found = ctypes.CDLL(None).mprotect
    found.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return found


@cache
def _function(name: str) -> int:
    """The address of a function of this process."""
    try:
        found = ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value
    except AttributeError:
        found = None
    if found is None:
        raise Strange
    return found


class _Image:
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

    def _name(self, symbol: _Symbol) -> str:
        start = self.names + symbol.name
        return self.code[start : self.code.index(b"\0", start)].decode()

    def _lay_out(self) -> None:
        """What is fixed first, then jumps; variables begin with a new page."""
        self.places = [-1] * len(self.sections)
        self._place([not x.flags & _WRITABLE for x in self.sections], 0)
        self.jumps = -(-self.end // _JUMP_BYTES) * _JUMP_BYTES
        self.fixed = self.jumps + _JUMP_BYTES * len(self.outside)
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
            self._name(x): self.places[x.section] + x.value
            for x in self.symbols
            if x.info >> 4 != _LOCAL and 0 < x.section < len(self.places)
        }

    def filled(self) -> bytearray:
        """What is in memory."""
        memory = bytearray(self.size)
        for section, place in zip(self.sections, self.places, strict=True):
            if place >= 0 and section.type == _BITS:
                memory[place : place + section.size] = self._bytes(section)
        for number, symbol in enumerate(self.outside):
            address = _function(self._name(self.symbols[symbol]))
            start = self.jumps + _JUMP_BYTES * number
            memory[start : start + _JUMP_BYTES - 2] = _JUMP + address.to_bytes(8, "little")
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
            found[symbol] = self.jumps + _JUMP_BYTES * number
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
