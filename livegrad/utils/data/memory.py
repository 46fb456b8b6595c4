"""Memory shared between a worker and its parent, in which batches travel.

    worker                                            parent
    ──────                                            ──────
    Slots: segments, reused one batch after another   segments by number
      │ begin                                           ▲ the file of a new segment, once
      ▼                                                 │
    Page: the batch being made ── number, places ──►  Lease: one reference per array of the batch
      ▲                                                 │ the last one dies
      └──────────────────── number ─────────────────────┘ with the next task

Arrays are collated straight into a page, and the parent's tensors lie on the same bytes: a batch
is written once. Segments have no names, so nothing can be left behind, whoever is killed.

A page is written again only when the parent has given it back and nothing in the worker refers to
it either (somebody's `collate_fn` may keep what it made). A process forked from the parent sees the
memory too and cannot be asked, so what is leased at a fork is never used again.
"""

from __future__ import annotations

import functools
import mmap
import os
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from livegrad.dtypes import DType
from livegrad.graph.handle import leaf
from livegrad.graph.meta import Shape, meta_of
from livegrad.runtime.memory import ALIGNMENT, Buffer, address_of, allocate

Array = np.ndarray[Any, Any]

# Smaller arrays are sent through the socket: cheaper than the bookkeeping of a segment.
INLINE_BYTES = 16 << 10
_LEAST_SEGMENT = 64 << 10


class Segment:
    """A stretch of shared memory, given by its file, which may be closed afterwards."""

    def __init__(self, file: int, nbytes: int) -> None:
        self.nbytes = nbytes
        # The array keeps the mapping alive, and unmaps it when it goes.
        self.bytes: Array = np.frombuffer(mmap.mmap(file, nbytes), np.uint8)
        self.ptr = address_of(self.bytes)


def anonymous_file(nbytes: int) -> int:
    """A file in memory that has no name."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("livegrad-batch")
    else:
        import tempfile

        with tempfile.TemporaryFile() as temporary:
            file = os.dup(temporary.fileno())
    os.ftruncate(file, nbytes)
    return file


@functools.cache
def keep_freed_memory() -> None:
    """Has the C library keep what samples free for the next samples.

    glibc gives the end of its heap back to the system when 128 KB of it are free: the samples of
    every batch would be page faults again. It raises that to twice the largest block ever freed.
    """
    np.empty(16 << 20, np.uint8)


# ------------------------------------------------------------------------------------- worker


class Page:
    """A segment while one batch is written to it; arrays on it refer to the page."""

    __slots__ = ("__weakref__", "number", "segment", "used")

    def __init__(self, number: int, segment: Segment) -> None:
        self.number = number
        self.segment = segment
        self.used = 0

    def take(self, nbytes: int) -> Buffer | None:
        """The next `nbytes` bytes; None if there is not that much left."""
        start = padded(self.used)
        if start + nbytes > self.segment.nbytes:
            return None
        self.used = start + nbytes
        return Buffer(self.segment.ptr + start, nbytes, self)

    def place_of(self, address: int, nbytes: int) -> int | None:
        """Where in the segment these bytes are; None if they are elsewhere."""
        start = address - self.segment.ptr
        return start if start >= 0 and start + nbytes <= self.used else None


def padded(nbytes: int) -> int:
    """`nbytes` and what is lost to alignment after them."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


class Slots:
    """The segments of a worker.

    `expected` is the size of the largest batch so far. `made` and `dropped` are what the parent has
    not been told yet: numbers of segments, with open files of those made.
    """

    def __init__(self) -> None:
        self.segments: dict[int, Segment] = {}
        self.expected = 0
        self.made: list[tuple[int, int, int]] = []
        self.dropped: list[int] = []
        self._free: list[int] = []
        self._pages: dict[int, weakref.ref[Page]] = {}
        self._next = 0

    def page(self) -> Page | None:
        """A page for the next batch; None while batches are small."""
        return self._new_page(self.expected) if self.expected else None

    def larger_page(self, nbytes: int) -> Page:
        """A page for a batch that turned out to need `nbytes`."""
        self.expected = max(self.expected, nbytes)
        return self._new_page(self.expected)

    def _new_page(self, nbytes: int) -> Page:
        number = self._reusable(nbytes)
        page = Page(number, self.segments[number])
        self._pages[number] = weakref.ref(page)
        return page

    def _reusable(self, nbytes: int) -> int:
        """A free segment that is large enough, a new one if there is none."""
        # The last one given back is most likely to be in a cache.
        for number in reversed(self._free):
            if self._pages[number]() is not None:
                continue
            self._free.remove(number)
            if self.segments[number].nbytes >= nbytes:
                return number
            self.drop(number)
        return self._make(nbytes)

    def _make(self, nbytes: int) -> int:
        # Pages that are never touched take no memory, so room for larger batches costs nothing.
        capacity = max(_LEAST_SEGMENT, 1 << (nbytes - 1).bit_length())
        number, self._next = self._next, self._next + 1
        file = anonymous_file(capacity)
        self.made.append((number, capacity, file))
        self.segments[number] = Segment(file, capacity)
        return number

    def give_back(self, number: int) -> None:
        """The segment may be written again."""
        self._free.append(number)

    def drop(self, number: int) -> None:
        """The segment is not used any more."""
        del self.segments[number], self._pages[number]
        self.dropped.append(number)


class Writing:
    """Where this process puts the batch it collates; None outside workers."""

    page: Page | None = None


def batch_buffer(nbytes: int) -> Buffer:
    """Memory for an array of a batch: shared if this is a worker and the array is large."""
    page = Writing.page
    if page is not None and nbytes >= INLINE_BYTES:
        buffer = page.take(nbytes)
        if buffer is not None:
            return buffer
    return allocate(nbytes)


def leaf_of(shape: Shape, dtype: DType, fill: Callable[[Array], Any]) -> Any:
    """A tensor whose values (as stored) `fill` writes to the array it is given."""
    meta = meta_of(shape, dtype)
    buffer = batch_buffer(meta.nbytes)
    fill(buffer.view(dtype.storage, shape))
    buffer.exported = False  # the view is gone, nobody else sees these bytes
    return leaf(meta, buffer)


# ------------------------------------------------------------------------------------- parent

_leases: weakref.WeakSet[Lease] = weakref.WeakSet()


class Lease:
    """The parent's claim on a segment: it ends when no array of the batch is left."""

    __slots__ = ("__weakref__", "forked", "number", "retired", "returned", "segment")

    def __init__(
        self, number: int, segment: Segment, returned: list[int], retired: list[int]
    ) -> None:
        self.number = number
        self.segment = segment
        self.returned = returned
        self.retired = retired
        self.forked = False
        _leases.add(self)

    def view(self, start: int, nbytes: int) -> Array:
        """Bytes of the segment; the array keeps the lease."""
        return Buffer(self.segment.ptr + start, nbytes, self).view(np.uint8, (nbytes,))

    def __del__(self) -> None:
        (self.retired if self.forked else self.returned).append(self.number)


def private_copy(view: Array) -> Array:
    """The same bytes in memory of this process."""
    copy = allocate(view.nbytes).view(np.uint8, view.shape)
    copy[...] = view
    return copy


def _keep_leased() -> None:
    for lease in list(_leases):
        lease.forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_keep_leased)
