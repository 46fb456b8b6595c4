"""Aligned memory with a known address, reused through size-class free lists.

A training step asks for the same sizes again and again, so a freed block goes to the list of
its size class and the next request takes it from there: no malloc, no page faults.

NumPy provides the raw blocks; it already asks the kernel for huge pages from 4 MB on.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from livegrad.native.calls import untrack
from livegrad.native.hot import hot, hot_slots
from livegrad.native.layout import is_known

ALIGNMENT = 64
# Free lists may hold this much, or a quarter of what is in use if that is more.
KEEP_BYTES = 256 << 20
# An arena that large takes the place of blocks in the free lists, and returns to them.
TRIM_BYTES = 16 << 20


_new = object.__new__
_array: Any = np.ndarray
# A raw block: its address, a multiple of 64, and the bytes from there on.
Block = tuple[int, npt.NDArray[np.uint8]]


@hot_slots
class _SizeClass:
    """Free blocks of one size."""

    __slots__ = ("blocks", "capacity")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.blocks: list[Block] = []


@hot_slots
class _Pool:
    """The size classes, and the counts: bytes `in_use` by Buffers, as many as they were asked for,
    and `held` in free blocks.

    Plain updates of the counts are safe: CPython switches threads and starts the collector only
    at calls and backward jumps, and there is neither between the load and the store of a count.
    """

    __slots__ = ("by_capacity", "by_request", "held", "in_use", "limit", "peak")

    def __init__(self) -> None:
        self.by_capacity: dict[int, _SizeClass] = {}
        # Requests repeat, so the class of a request is looked up rather than worked out.
        self.by_request: dict[int, _SizeClass] = {}
        self.held = 0
        self.in_use = 0
        self.limit = KEEP_BYTES
        self.peak = 0


_pool = _Pool()


class OutOfMemory(RuntimeError):
    """The system has no block that large; PyTorch's class for that is RuntimeError."""


# What arrays of memory that others own have as their base, by the powers of two that many bytes fit
# into: NumPy asks a base for its memory, and then reads what its shape says.
_BASES: dict[int, Any] = {}


def array_at(
    address: int,
    nbytes: int,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    offset: int,
    strides: tuple[int, ...] | None,
    owner: Any,
) -> tuple[npt.NDArray[Any], Any]:
    """An array on `nbytes` bytes at an address, and its base, which keeps their owner alive.

    `offset` is the first element's place among the bytes: behind others if strides are negative.

    The base dies with the last array that shows a part of them. NumPy is told of memory by a buffer
    in a third of the time that `__array_interface__` takes.
    """
    power = (nbytes - 1).bit_length() if nbytes else 0
    kind = _BASES.get(power)
    if kind is None:
        kind = _BASES[power] = ctypes.c_char * (1 << power)
    base: Any = kind.from_address(address)
    base.owner = owner
    return _array(shape, dtype, base, offset, strides), base


@hot_slots
class Buffer:
    """`nbytes` bytes at address `ptr`, a multiple of 64 when they come from `allocate`.

    `memory` owns the bytes. `exported` becomes true once NumPy has seen them, after which
    writes through `ptr` are visible to the user. `home` is the size class the memory returns
    to, None for memory that belongs to somebody else.
    """

    __slots__ = ("__weakref__", "exported", "home", "memory", "nbytes", "ptr")

    # Reached through the class, because module globals may be gone when the last Buffer dies.
    _pool = _pool

    def __init__(self, ptr: int, nbytes: int, memory: Any, home: _SizeClass | None = None) -> None:
        self.ptr = ptr
        self.nbytes = nbytes
        self.memory = memory
        self.home = home
        self.exported = False

    @hot
    def __del__(self) -> None:
        # Ctrl-C may come before `__init__` has set anything.
        try:
            home = self.home
        except AttributeError:
            return
        if home is None:
            return
        pool = self._pool
        pool.in_use -= self.nbytes
        held = pool.held + home.capacity
        if held <= pool.limit:
            pool.held = held
            home.blocks.append(self.memory)

    def __repr__(self) -> str:
        return f"Buffer({self.nbytes} bytes at {self.ptr:#x})"

    @staticmethod
    def from_array(array: npt.NDArray[Any]) -> Buffer:
        """The memory of a C-contiguous array, without a copy; the array stays alive with it."""
        if not array.flags.c_contiguous:
            raise ValueError(
                f"Buffer.from_array: array is not C-contiguous; got shape {array.shape},"
                f" strides {array.strides}. Pass np.ascontiguousarray(array)."
            )
        buffer = Buffer(address_of(array), array.nbytes, array)
        buffer.exported = True
        return buffer

    def view(
        self,
        dtype: npt.DTypeLike,
        shape: tuple[int, ...],
        writeable: bool = True,
        offset: int = 0,
    ) -> npt.NDArray[Any]:
        """An ndarray on these bytes, from byte `offset`; it keeps the Buffer alive."""
        dtype = np.dtype(dtype)
        end = offset + math.prod(shape) * dtype.itemsize
        assert end <= self.nbytes, f"{shape=} {dtype=} {self}"
        self.exported = True
        array, _ = array_at(self.ptr, self.nbytes, shape, dtype, offset, None, self)
        if not writeable:
            array.flags.writeable = False
        return array


def copied(stored: npt.NDArray[Any]) -> Buffer:
    """A Buffer with a copy of the bytes of an array."""
    buffer = allocate(stored.nbytes)
    _array(stored.shape, stored.dtype, buffer.memory[1])[...] = stored
    return buffer


@hot
def allocate(nbytes: int) -> Buffer:
    """A 64-byte aligned Buffer with undefined contents."""
    home = _pool.by_request.get(nbytes)
    if home is None:
        home = home_of(nbytes)
    return allocate_from(home, nbytes)


@hot
def allocate_from(home: _SizeClass, nbytes: int) -> Buffer:
    """`allocate` for who knows the size class."""
    pool = _pool
    try:
        block = home.blocks.pop()
        pool.held -= home.capacity
    except IndexError:
        block = _new_block(home.capacity)
    in_use = pool.in_use + nbytes
    pool.in_use = in_use
    if in_use > pool.peak:
        pool.peak = in_use
    buffer = _new(Buffer)
    buffer.ptr = block[0]
    buffer.nbytes = nbytes
    buffer.memory = block
    buffer.home = home
    buffer.exported = False
    untrack(buffer)  # it refers to nothing that could refer to it
    return buffer


def allocate_zeros(nbytes: int) -> Buffer:
    """An aligned Buffer of zeros: new memory has them, and costs nothing until it is used."""
    home = home_of(nbytes)
    if nbytes < _LARGE or home.blocks:
        buffer = allocate_from(home, nbytes)
        _array((nbytes,), _BYTE, buffer.memory[1])[...] = 0
        return buffer
    block = _new_block(home.capacity, np.zeros)
    _pool.in_use += nbytes
    _pool.peak = max(_pool.peak, _pool.in_use)
    return Buffer(block[0], nbytes, block, home)


# From here on the system gives new pages, rather than what was let go of before.
_LARGE = 1 << 20
_BYTE = np.dtype("u1")


def home_of(nbytes: int) -> _SizeClass:
    """Four classes per octave, in steps of 64 bytes up to 512: at most a quarter is waste."""
    last = max(nbytes, 1) - 1
    shift = max(last.bit_length() - 3, 6)
    capacity = ((last >> shift) + 1) << shift
    home = _pool.by_capacity.setdefault(capacity, _SizeClass(capacity))
    if len(_pool.by_request) >= 4096:
        _pool.by_request.clear()
    _pool.by_request[nbytes] = home
    return home


def _new_block(capacity: int, made: Callable[..., npt.NDArray[Any]] = np.empty) -> Block:
    _pool.limit = max(KEEP_BYTES, _pool.in_use >> 2)
    try:
        memory = made(capacity + ALIGNMENT, np.uint8)
    except (MemoryError, ValueError):
        memory = _last_try(capacity, made)
    address = address_of(memory)
    skip = -address % ALIGNMENT
    return address + skip, memory[skip : skip + capacity]


def _last_try(
    capacity: int, made: Callable[..., npt.NDArray[Any]] = np.empty
) -> npt.NDArray[np.uint8]:
    """A block once the free lists, which may hold what is missing, have been emptied."""
    trim()
    try:
        return made(capacity + ALIGNMENT, np.uint8)
    except (MemoryError, ValueError):
        raise OutOfMemory(
            f"can't allocate memory: you tried to allocate {capacity} bytes"
        ) from None


def address_told(array: npt.NDArray[Any]) -> int:
    """Address of the first element, as NumPy tells it."""
    address: int = array.__array_interface__["data"][0]
    return address


def address_read(array: npt.NDArray[Any]) -> int:
    """The same, read where arrays have it: in an eighth of the time."""
    return _WORD(id(array) + _DATA).value


# Behind the head of any object: a count of references and a type.
_DATA = 16
_WORD = ctypes.c_int64.from_address


def _is_where_expected() -> bool:
    """Whether this NumPy, on this Python, keeps addresses where all have so far."""
    tried = np.arange(6), np.zeros(()), np.ones((3, 2))[1:, ::-1]
    if not is_known():
        return False
    return all([address_read(array) == address_told(array) for array in tried])


address_of = address_read if _is_where_expected() else address_told


def aligned_zeros(count: int) -> tuple[npt.NDArray[np.int64], int]:
    """A zeroed 64-byte aligned int64 array outside the pool, and its address."""
    raw = np.zeros(count + ALIGNMENT // 8, np.int64)
    skip = -address_of(raw) % ALIGNMENT // 8
    array = raw[skip : skip + count]
    return array, address_of(array)


def memory_in_use() -> int:
    """Bytes that live Buffers were asked for; what their blocks have beyond is never touched."""
    return _pool.in_use


def memory_peak() -> int:
    """Highest `memory_in_use` since the start or the last `reset_peak`."""
    return _pool.peak


def memory_held() -> int:
    """Bytes in the free lists, ready for reuse."""
    # Counted, not derived: Ctrl-C inside an allocation may leave the totals a block apart.
    return sum([len(home.blocks) * home.capacity for home in _pool.by_capacity.values()])


def reset_peak() -> None:
    """Let `memory_peak` start again from what is in use now."""
    _pool.peak = _pool.in_use


def trim() -> None:
    """Give everything in the free lists back to the system."""
    for home in list(_pool.by_capacity.values()):
        while home.blocks:
            home.blocks.pop()
            _pool.held -= home.capacity


@hot_slots
class Arena:
    """One block of scratch memory that every run uses again; it only grows."""

    __slots__ = ("buffer",)

    def __init__(self) -> None:
        self.buffer = allocate(0)

    @property
    def nbytes(self) -> int:
        """Current size."""
        return self.buffer.nbytes

    @hot
    def reserve(self, nbytes: int) -> int:
        """Address of at least `nbytes` bytes; a larger request later may move the block."""
        if nbytes > self.buffer.nbytes:
            # Dropping the old block first lets its memory serve the new request. What was computed
            # in blocks of its own before a large plan is made is computed in this one from now on.
            self.buffer = allocate(0)
            if nbytes >= TRIM_BYTES and not home_of(nbytes).blocks:
                trim()
            self.buffer = allocate(nbytes)
        return self.buffer.ptr

    def give_back(self) -> None:
        """Leaves a large block to the free lists: nothing in it is needed any more."""
        if self.buffer.nbytes >= TRIM_BYTES:
            self.buffer = allocate(0)
