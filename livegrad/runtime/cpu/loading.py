"""Kernels into memory, without LLVM: that takes longer to import than most first steps take.

    image    fixed: code │ constants │ a jump to each function of the process ║ variables
             read and run                                                     ║ read and written

An image is what elf.py makes of object code, once: distances between its parts are in it already,
so that all that is left to do is to say where the functions of the process are.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from functools import cache
from struct import Struct
from typing import Any

# An image: how long its names are, what is fixed, where its jumps are. Names, and memory, follow.
_MAGIC = b"LVGIMG\0\1"
_HEAD = Struct("<8sQQQ")
# `jmp *(%rip)`, and after that the address.
_JUMP, JUMP_BYTES = b"\xff\x25\0\0\0\0", 16


class Missing(Exception):
    """A function that the process does not have."""


def image_of(
    fixed: int, jumps: int, defined: dict[str, int], outside: list[str], memory: bytes
) -> bytes:
    """An image as bytes: `defined` are places by name, `outside` who is jumped to, in order."""
    places = " ".join([f"{name}={place}" for name, place in defined.items()])
    names = f"{places};{' '.join(outside)}".encode()
    return _HEAD.pack(_MAGIC, len(names), fixed, jumps) + names + memory


def is_image(code: bytes) -> bool:
    """Whether code is an image; object code otherwise."""
    return code.startswith(_MAGIC)


class Library:
    """An image in memory, as long as this lives: the addresses of what it defines by name."""

    base = 0

    def __init__(self, image: bytes) -> None:
        _, length, fixed, jumps = _HEAD.unpack_from(image)
        start = _HEAD.size + length
        defined, _, outside = image[_HEAD.size : start].decode().partition(";")
        functions = [function_address(name) for name in outside.split()]
        memory = image[start:]
        self.size = len(memory)
        self.base = _map()(None, self.size, _READ_AND_WRITE, _OWN, -1, 0)
        if self.base == _FAILED:
            raise OSError("no memory for a kernel")
        ctypes.memmove(self.base, memory, self.size)
        if functions:
            written = b"".join([_JUMP + x.to_bytes(10, "little") for x in functions])
            ctypes.memmove(self.base + jumps, written, len(written))
        if _protect()(self.base, fixed, mmap.PROT_READ | mmap.PROT_EXEC):
            raise OSError("memory cannot be made to hold code")
        self.addresses = {}
        for each in defined.split():
            name, _, place = each.partition("=")
            self.addresses[name] = self.base + int(place)

    def __getitem__(self, name: str) -> int:
        return self.addresses[name]

    def __del__(self, is_finalizing: Any = sys.is_finalizing) -> None:
        # While the interpreter ends, native functions are still called.
        if self.base and not is_finalizing():
            _unmap()(self.base, self.size)


def load(code: bytes, name: str) -> Library | None:
    """An image in memory; None if that is not possible, or it is none."""
    if not is_image(code) or not is_possible():
        return None
    try:
        library = Library(code)
    except (Missing, OSError):
        return None
    return library if name in library.addresses else None


@cache
def is_possible() -> bool:
    """Whether images can be made and run here: some processes may not run what they wrote."""
    known = sys.platform == "linux" and os.uname().machine == "x86_64" and sys.maxsize > 1 << 32
    return known and _may_run_what_it_wrote()


def _may_run_what_it_wrote() -> bool:
    base = _map()(None, mmap.PAGESIZE, _READ_AND_WRITE, _OWN, -1, 0)
    if base == _FAILED:
        return False
    refused = _protect()(base, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC)
    _unmap()(base, mmap.PAGESIZE)
    return not refused


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
def function_address(name: str) -> int:
    """The address of a function of this process, or Missing."""
    try:
        found = ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value
    except AttributeError:
        found = None
    if found is None:
        raise Missing
    return found
