"""Memory of tensors that somebody else sees, too: whose it is, and for how long: see shared.py."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from livegrad.graph.meta import Shape
from livegrad.graph.node import Node
from livegrad.runtime.memory import Buffer, address_of, allocate, array_at
from livegrad.runtime.values import array_of

Array = np.ndarray[Any, Any]

_refs = sys.getrefcount


class Memory:
    """The bytes of a storage. `readers` are leaves that were read in place: a graph may
    want the value they had. `exports` are the bases of arrays that were made of it.
    """

    __slots__ = ("__weakref__", "_array", "exports", "readers")

    def __init__(self, array: Array | None) -> None:
        self._array = array
        self.readers: list[weakref.ref[Node]] = []
        self.exports: list[weakref.ref[Any]] = []

    @property
    def array(self) -> Array:
        """All bytes, in the order they have in memory."""
        assert self._array is not None
        return self._array

    @property
    def nbytes(self) -> int:
        """How many there are."""
        return self.array.nbytes

    def window(self, shape: Shape, dtype: Any, offset: int, strides: tuple[int, ...]) -> Array:
        """A part of it, from byte `offset` on; written to if the memory may be."""
        window = np.ndarray(shape, dtype, self.array, offset, strides)
        if self.array.flags.writeable:
            window.flags.writeable = True
        return window

    def keep_for_readers(self) -> None:
        """Gives leaves that somebody still refers to a copy of what they have read."""
        for reader in self.readers:
            node = reader()
            if node is not None:
                node.buffer = Buffer.from_array(np.array(array_of(node)))
        self.readers.clear()

    def lend(self, window: Array, export: Any) -> None:
        """Notes that somebody has an array of a part of it, whose base is `export`."""
        self.exports = [x for x in self.exports if x() is not None]
        self.exports.append(weakref.ref(export))

    def is_lent(self) -> bool:
        """Whether an array that was made of it still lives."""
        return any([export() is not None for export in self.exports])

    def is_shared(self) -> bool:
        """Whether anybody else can still write to it."""
        return True


class Borrowed(Memory):
    """Memory of a NumPy array that was given to us: `nbytes` from its first element on."""

    __slots__ = ("_nbytes", "address", "is_writable", "owner")

    def __init__(self, array: Array, nbytes: int) -> None:
        super().__init__(None)  # most often nobody asks for all of it
        # The array that owns the memory is what we hold: all others that show a part of it do too.
        self.owner = array
        while isinstance(self.owner.base, np.ndarray):
            self.owner = self.owner.base
        self.address, self._nbytes = address_of(array), nbytes
        self.is_writable = array.flags.writeable

    @property
    def array(self) -> Array:
        """All bytes; no reference to the array that they belong to."""
        if self._array is None:
            self._array = np.asarray(_Span(self.address, self._nbytes, not self.is_writable))
        return self._array

    @property
    def nbytes(self) -> int:
        """How many there are."""
        return self._nbytes

    def window(self, shape: Shape, dtype: Any, offset: int, strides: tuple[int, ...]) -> Array:
        """A part of it: on a short way, unless NumPy must know that nobody may write to it."""
        if not self.is_writable:
            return super().window(shape, dtype, offset, strides)
        return array_at(self.address, self._nbytes, shape, dtype, offset, strides, None)[0]

    def equals(self, buffer: Buffer) -> bool:
        """Whether a buffer as long as it holds the same."""
        count = self._nbytes
        return ctypes.string_at(self.address, count) == ctypes.string_at(buffer.ptr, count)

    def copied(self) -> Buffer:
        """A buffer with what it holds now."""
        buffer = allocate(self._nbytes)
        ctypes.memmove(buffer.ptr, self.address, self._nbytes)
        return buffer

    def is_shared(self) -> bool:
        """Not if we alone refer to an array that owns its memory, and have lent it to nobody."""
        if not self.owner.flags.owndata or _refs(self.owner) > _HELD:
            return True
        return bool(self.exports) and self.is_lent()


class Lent(Memory):
    """Memory of ours that NumPy arrays were made of: shared as long as one of them lives.

    It is a copy of the value of the node `origin`. Others can only write to the `windows` that they
    were given; `written` says that we have.
    """

    __slots__ = ("buffer", "origin", "windows", "written")

    def __init__(self, buffer: Buffer, origin: Node, when_gone: Callable[[Any], None]) -> None:
        super().__init__(buffer.view(np.uint8, (buffer.nbytes,)))
        self.buffer = buffer
        self.origin = weakref.ref(origin, when_gone)
        self.windows: list[Array] = []
        self.written = False

    def holds(self, values: Array) -> bool:
        """Whether it holds the bytes `values` of its origin still, to which it was equal."""
        start = address_of(self.array)
        for window in self.windows:
            if not window.size:  # which lies nowhere
                continue
            place = address_of(window) - start
            before = np.ndarray(window.shape, window.dtype, values, place, window.strides)
            # As bytes: a NaN equals itself, and -0 is not 0.
            if before.tobytes() != window.tobytes():
                return False
        return not self.written

    def lend(self, window: Array, export: Any) -> None:
        """Notes which part of it somebody has, too."""
        super().lend(window, export)
        if not self.windows or self.windows[-1] is not window:
            self.windows.append(window)

    def is_shared(self) -> bool:
        """Whether an array made of it still lives."""
        return self.is_lent()


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


class _Export:
    """The base of an array that shows what nobody may write to."""

    __slots__ = ("__array_interface__", "__weakref__", "memory")

    def __init__(self, window: Array, memory: Memory) -> None:
        self.memory = memory
        # Strides too, which NumPy leaves out where they do not matter to it.
        self.__array_interface__ = {**window.__array_interface__, "strides": window.strides}


def exported(window: Array, memory: Memory) -> tuple[Array, Any]:
    """An array to give away that shows a part of memory, and its base: while that lives, the memory
    is shared."""
    if not window.flags.writeable or not window.size:
        export = _Export(window, memory)
        return np.asarray(export), export
    reaches = [(n - 1) * step for n, step in zip(window.shape, window.strides, strict=True)]
    before = -sum([reach for reach in reaches if reach < 0])
    nbytes = sum(map(abs, reaches)) + window.itemsize
    where = window.shape, window.dtype, before, window.strides
    return array_at(address_of(window) - before, nbytes, *where, memory)


_HELD = _count_held()
# Held while memory is taken back, or kept from it: two threads may use one tensor.
LOANS = threading.RLock()
