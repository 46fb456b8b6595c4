"""Memory of tensors that somebody else sees, too: whose it is, and for how long: see shared.py."""

from __future__ import annotations

import mmap
import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from livegrad.graph.node import Node
from livegrad.runtime.memory import Buffer
from livegrad.runtime.values import array_of

Array = np.ndarray[Any, Any]

_refs = sys.getrefcount


class Memory:
    """The bytes of a storage. `array` is all of them, in the order they have in memory.

    `readers` are leaves that were read in place: a graph may want the value they had.
    """

    __slots__ = ("__weakref__", "array", "readers")

    def __init__(self, array: Array) -> None:
        self.array = array
        self.readers: list[weakref.ref[Node]] = []

    def keep_for_readers(self) -> None:
        """Gives leaves that somebody still refers to a copy of what they have read."""
        for reader in self.readers:
            node = reader()
            if node is not None:
                node.buffer = Buffer.from_array(np.array(array_of(node)))
        self.readers.clear()

    def is_shared(self) -> bool:
        """Whether anybody else can still write to it."""
        return True


class Borrowed(Memory):
    """Memory of a NumPy array that was given to us: `nbytes` from its first element on."""

    __slots__ = ("owner",)

    def __init__(self, array: Array, nbytes: int) -> None:
        # The array that owns the memory is what we hold: all others that show a part of it do too.
        self.owner = array
        while isinstance(self.owner.base, np.ndarray):
            self.owner = self.owner.base
        address, read_only = array.__array_interface__["data"]
        super().__init__(np.asarray(_Span(address, nbytes, read_only)))

    def is_shared(self) -> bool:
        """Not if we hold the only reference to an array that owns its memory."""
        return not self.owner.flags.owndata or _refs(self.owner) > _HELD


class Lent(Memory):
    """Memory of ours that NumPy arrays were made of: shared as long as one of them lives.

    It is a copy of the value of the node `origin`. Others can only write to the `windows` that they
    were given; `written` says that we have.
    """

    __slots__ = ("exports", "origin", "windows", "written")

    def __init__(self, array: Array, origin: Node, when_gone: Callable[[Any], None]) -> None:
        super().__init__(array)
        self.exports: list[weakref.ref[Any]] = []
        self.origin = weakref.ref(origin, when_gone)
        self.windows: list[Array] = []
        self.written = False

    def holds(self, values: Array) -> bool:
        """Whether it holds the bytes `values` of its origin still, to which it was equal."""
        start = self.array.__array_interface__["data"][0]
        for window in self.windows:
            if not window.size:  # and so without a place
                continue
            place = window.__array_interface__["data"][0] - start
            before = np.ndarray(window.shape, window.dtype, values, place, window.strides)
            # As bytes: a NaN equals itself, and -0 is not 0.
            if before.tobytes() != window.tobytes():
                return False
        return not self.written

    def is_shared(self) -> bool:
        """Whether an array made of it still lives."""
        return any([export() is not None for export in self.exports])


class Spread(Memory):
    """Memory that other processes map as well: a file that has no name."""

    __slots__ = ("file",)

    def __init__(self, file: int, nbytes: int) -> None:
        self.file = file
        room = mmap.mmap(file, max(nbytes, 1))
        super().__init__(np.frombuffer(room, np.uint8, nbytes))

    @staticmethod
    def holding(data: Array) -> Spread:
        """Memory with a copy of `data`."""
        if hasattr(os, "memfd_create"):
            file = os.memfd_create("livegrad")
        else:
            import tempfile

            file, name = tempfile.mkstemp(prefix="livegrad-")
            os.unlink(name)
        os.ftruncate(file, max(data.nbytes, 1))
        memory = Spread(file, data.nbytes)
        memory.array[...] = data
        return memory

    def __del__(self) -> None:
        os.close(self.file)


def _count_held() -> int:
    """What `_refs` says of an array that only a `Borrowed` refers to."""
    memory = Borrowed(np.zeros(1), 8)
    return _refs(memory.owner)


class _Span:
    """Bytes at an address, for NumPy; whoever makes an array of it keeps them alive."""

    __slots__ = ("__array_interface__",)

    def __init__(self, address: int, nbytes: int, read_only: bool) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (address, read_only),
            "shape": (nbytes,),
            "typestr": "|u1",
        }


class Export:
    """The base of an array that was lent: while it lives, the memory is shared."""

    __slots__ = ("__array_interface__", "__weakref__", "memory")

    def __init__(self, window: Array, memory: Memory) -> None:
        self.memory = memory
        # Strides too, which NumPy leaves out where they do not matter to it.
        self.__array_interface__ = {**window.__array_interface__, "strides": window.strides}


class Loan:
    """Somebody who is about to make an array of memory."""

    __slots__ = ("__weakref__",)


_HELD = _count_held()
# Held while memory is taken back, or kept from it: two threads may use one tensor.
LOANS = threading.RLock()
