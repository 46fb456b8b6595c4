"""Kernels on buffers between pages that nobody may touch: for processes of their own, since a read
or write out of bounds ends them."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from livegrad.compiler.templates import kernel_builder
from livegrad.runtime.cpu import jit, machine

PAGE = 4096
READ_WRITE, PRIVATE_ANONYMOUS = 3, 0x22
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Pages:
    """Buffers that end (or begin) where memory does; all are given back by `free`."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.mapped: list[tuple[int, int]] = []

    def address(self, values: np.ndarray[Any, Any]) -> int:
        """Where a copy of `values` lies."""
        pages = max(1, -(-values.nbytes // PAGE))
        whole = (pages + 2) * PAGE
        start = libc.mmap(None, whole, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0)
        for guard in (start, start + whole - PAGE):
            libc.mprotect(guard, PAGE, 0)
        self.mapped.append((start, whole))
        at_end = self.chance.random() < 0.7
        found = start + whole - PAGE - values.nbytes if at_end else start + PAGE
        ctypes.memmove(found, values.ctypes.data, values.nbytes)
        return int(found)

    def read(self, address: int, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """What lies at an address, in the shape and dtype of `like`."""
        found = np.empty_like(like)
        ctypes.memmove(found.ctypes.data, address, like.nbytes)
        return found

    def free(self) -> None:
        for start, nbytes in self.mapped:
            libc.munmap(start, nbytes)
        self.mapped.clear()


@cache
def kernel(generate: Callable[..., None], *told: Any) -> Any:
    b = kernel_builder(machine.MACHINE)
    generate(b, *told)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    return kind(jit.compile_kernel(b.ir(), "kernel"))


def run(function: Any, slots: list[int], scratch: int = 0) -> None:
    block, ctx = np.array(slots, np.int64), np.zeros(8, np.int64)
    ctx[3] = scratch
    function(block.ctypes.data, 0, slots[0], ctx.ctypes.data)
