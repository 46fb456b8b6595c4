"""Buffers: aligned, reused when dead, never while NumPy can see them."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading

import numpy as np
import pytest

from livegrad.runtime import memory
from livegrad.runtime.memory import Arena, Buffer, allocate, allocate_zeros


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 65, 511, 513, 1000, 4097, 5 << 20])
def test_aligned_and_large_enough(nbytes: int) -> None:
    buffer = allocate(nbytes)
    assert buffer.ptr % 64 == 0
    assert buffer.home is not None
    assert nbytes <= buffer.home.capacity <= max(64, nbytes * 5 // 4 + 64)
    view = buffer.view(np.uint8, (nbytes,))
    view[:] = 7
    assert view.sum() == 7 * nbytes


@pytest.mark.parametrize("nbytes", [0, 1, 1000, (1 << 20) + 1, 5 << 20])
def test_zeros_are_zeros_in_new_memory_and_in_old(nbytes: int) -> None:
    memory.trim()
    before = memory.memory_in_use()
    for _ in range(2):
        buffer = allocate_zeros(nbytes)
        assert buffer.ptr % 64 == 0
        assert buffer.home is not None
        assert memory.memory_in_use() - before == nbytes
        view = buffer.view(np.uint8, (nbytes,))
        assert not view.any()
        buffer.exported = False
        del view
        buffer.memory[1][:] = 7  # for who gets it next
        del buffer
        gc.collect()
        assert memory.memory_in_use() == before


def test_dead_buffer_is_reused() -> None:
    ptr = allocate(12345).ptr
    assert allocate(12345).ptr == ptr


def test_view_keeps_memory_from_reuse() -> None:
    buffer = allocate(4096)
    ptr = buffer.ptr
    view = buffer.view(np.float32, (32, 32))[4:, ::2]
    assert buffer.exported
    view[:] = 3
    del buffer
    gc.collect()
    others = [allocate(4096) for _ in range(4)]
    assert ptr not in [other.ptr for other in others]
    assert (view == 3).all()
    del view
    assert ptr in [allocate(4096).ptr]


def test_views_share_and_respect_writeable() -> None:
    buffer = allocate(64)
    write = buffer.view(np.int32, (2, 2), offset=16)
    read = buffer.view(np.int32, (2, 2), writeable=False, offset=16)
    write[1, 0] = 42
    assert read[1, 0] == 42
    with pytest.raises(ValueError, match="read-only"):
        read[0, 0] = 1


@pytest.mark.parametrize("dtype", ["f2", "f8", "?", "c8", "V2"])
def test_view_dtypes(dtype: str) -> None:
    array = allocate(64).view(dtype, (2, 3))
    assert array.dtype == np.dtype(dtype)
    assert array.shape == (2, 3)


def test_zero_dimensional_and_empty_views() -> None:
    assert allocate(8).view(np.float64, ()).shape == ()
    assert allocate(0).view(np.float64, (0, 5)).shape == (0, 5)


def test_from_array_shares_and_keeps_the_owner() -> None:
    array = np.arange(6.0).reshape(2, 3)
    buffer = Buffer.from_array(array)
    assert (buffer.ptr, buffer.nbytes) == (array.ctypes.data, 48)
    array[0, 0] = -1
    del array
    assert buffer.view(np.float64, (6,)).tolist() == [-1, 1, 2, 3, 4, 5]


def test_from_array_wants_contiguous_memory() -> None:
    with pytest.raises(ValueError, match="C-contiguous"):
        Buffer.from_array(np.zeros((4, 4))[:, ::2])


def test_counts() -> None:
    before = memory.memory_in_use()
    # What was asked for, not what their size classes have.
    a, b = allocate(1 << 16), allocate(70_001)
    assert memory.memory_in_use() - before == (1 << 16) + 70_001
    memory.reset_peak()
    del a
    assert memory.memory_peak() - before == (1 << 16) + 70_001
    memory.reset_peak()
    assert memory.memory_peak() - before == 70_001
    del b
    assert memory.memory_in_use() == before


def test_free_lists_are_bounded(monkeypatch) -> None:
    memory.trim()
    assert memory.memory_held() == 0
    # Earlier tests may have left an arena of any size.
    size = max(1 << 19, 1 << (memory.memory_in_use() // 8).bit_length())
    monkeypatch.setattr(memory, "KEEP_BYTES", 2 * size)
    blocks = [allocate(size) for _ in range(8)]
    bound = max(2 * size, memory.memory_in_use() >> 2)
    assert bound < 8 * size
    del blocks
    assert 0 < memory.memory_held() <= bound
    memory.trim()
    assert memory.memory_held() == 0


def test_limit_is_restored() -> None:
    memory.trim()
    allocate(100)
    assert memory._pool.limit >= memory.KEEP_BYTES


def test_threads_never_share_a_live_buffer() -> None:
    failures: list[str] = []

    def churn(tag: int) -> None:
        for _ in range(2000):
            buffer = allocate(256)
            view = buffer.view(np.int64, (32,))
            view[:] = tag
            if (view != tag).any():
                failures.append(f"thread {tag} saw another's bytes")

    workers = [threading.Thread(target=churn, args=(tag,)) for tag in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


def test_arena_grows_and_stays() -> None:
    arena = Arena()
    small = arena.reserve(1000)
    assert small % 64 == 0
    assert arena.reserve(500) == small
    big = arena.reserve(1 << 20)
    assert arena.nbytes >= 1 << 20
    assert arena.reserve(1000) == big


def test_a_large_arena_takes_the_place_of_what_is_free() -> None:
    large, arena = memory.TRIM_BYTES, Arena()
    blocks = [allocate(large // 2) for _ in range(3)]
    del blocks
    assert memory.memory_held() >= large
    arena.reserve(large)
    assert memory.memory_held() < large
    arena.give_back()
    assert memory.memory_held() >= large
    other = allocate(1 << 20).ptr
    arena.reserve(large)  # the same block again: nothing else is given up
    assert memory.memory_held() < large
    assert allocate(1 << 20).ptr == other
    small = Arena()
    place = small.reserve(1000)
    small.give_back()
    assert small.reserve(1000) == place


def test_shutdown_is_silent() -> None:
    code = (
        "from livegrad.runtime.memory import allocate\n"
        "import sys, builtins\n"
        "builtins.keep = [allocate(100), allocate(100).view('f4', (3,))]\n"
        "sys.keep = allocate(5000)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
