"""A pack saves a program the opening of files, and never changes what it finds."""

from __future__ import annotations

import os
import shutil
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from livegrad.runtime.cpu import packs
from livegrad.runtime.cpu.diskcache import DiskCache
from livegrad.runtime.cpu.packs import Pack

KEYS = [f"{i:02x}" + "0" * 62 for i in range(4)]


def cache_of(directory: Path, program: str | None = "train.py") -> DiskCache:
    return DiskCache(directory, program=program)


def only_packs_remain(directory: Path) -> None:
    for key in KEYS:
        shutil.rmtree(directory / key[:2], ignore_errors=True)


def test_the_next_process_has_what_was_stored_and_what_was_looked_up(tmp_path: Path) -> None:
    cache_of(tmp_path, None).put(KEYS[0], b"from another program")
    first = cache_of(tmp_path)
    assert first.get(KEYS[0]) == b"from another program"
    first.put(KEYS[1], b"own")
    assert first.get(KEYS[2]) is None
    first.store_pack()
    only_packs_remain(tmp_path)
    second = cache_of(tmp_path)
    assert [second.get(key) for key in KEYS[:3]] == [b"from another program", b"own", None]
    assert cache_of(tmp_path, "other.py").get(KEYS[1]) is None


def test_what_is_stored_anew_takes_the_place_of_what_was(tmp_path: Path) -> None:
    for payload in (b"old", b"new"):
        cache = cache_of(tmp_path)
        cache.get(KEYS[0])
        cache.put(KEYS[0], payload)
        assert cache.get(KEYS[0]) == payload
        cache.store_pack()
    assert cache_of(tmp_path).get(KEYS[0]) == b"new"


def test_what_this_process_did_not_use_stays_while_there_is_room(monkeypatch) -> None:
    monkeypatch.setattr(packs, "MOST_BYTES", 25)
    pack = Pack()
    for key in KEYS[:2]:
        pack.add(key, bytes(10))
    pack = Pack(pack.written())
    pack.add(KEYS[2], bytes(10))
    assert pack.get(KEYS[1]) == bytes(10)
    pack.add(KEYS[3], bytes(10))  # no room
    pack = Pack(pack.written())
    assert [pack.get(key) is not None for key in KEYS] == [False, True, True, False]


def test_a_pack_that_is_as_it_was_is_not_written(tmp_path: Path) -> None:
    cache = cache_of(tmp_path)
    cache.put(KEYS[0], b"x")
    cache.put(KEYS[1], bytes(1 << 17))  # too large for a pack
    cache.store_pack()
    cache = cache_of(tmp_path)
    assert [len(cache.get(key)) for key in KEYS[:2]] == [1, 1 << 17]
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    cache.store_pack()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    cache = cache_of(tmp_path / "cache")
    cache.put(KEYS[0], b"x")
    shutil.rmtree(tmp_path / "cache")
    cache.store_pack()
    assert not list(tmp_path.iterdir())


def test_a_program_may_have_any_name_and_no_folder(tmp_path: Path, monkeypatch) -> None:
    def gone() -> str:
        raise FileNotFoundError

    cache = cache_of(tmp_path, "\udcff.py")  # what is no UTF-8 comes so
    cache.put(KEYS[0], b"x")
    cache.store_pack()
    only_packs_remain(tmp_path)
    assert cache_of(tmp_path, "\udcff.py").get(KEYS[0]) == b"x"
    monkeypatch.setattr(sys, "argv", ["-c"])
    monkeypatch.setattr(os, "getcwd", gone)
    assert packs.program() == "-c"


@pytest.mark.parametrize("keep", [0, 10, -1])
def test_a_damaged_pack_counts_as_absent(tmp_path: Path, keep: int) -> None:
    cache = cache_of(tmp_path)
    cache.put(KEYS[0], b"x")
    cache.store_pack()
    for path in tmp_path.rglob("*.o"):
        path.write_bytes(path.read_bytes()[:keep])
    assert cache_of(tmp_path).get(KEYS[0]) is None


PROGRAM = """
import livegrad as lg
from livegrad.runtime.counters import counters

x = lg.ones(3, 4, requires_grad=True)
(x * 2).tanh().sum().backward()
print(x.grad.sum().item(), counters.compiles, counters.disk_misses)
"""


def test_a_program_finds_all_it_needs_in_its_pack(tmp_path: Path, python) -> None:
    found = []
    for _ in range(2):
        found.append(python(PROGRAM, LIVEGRAD_CACHE_DIR=str(tmp_path)).stdout.split())
        # All but the pack of programs without a file, and what is too large for any.
        for path in tmp_path.rglob("*.o"):
            if path.stat().st_size < 1 << 16 and path.stem != pack_key():
                path.unlink()
    assert int(found[0][1]) > 0
    assert found[1] == [found[0][0], "0", "0"]


def pack_key() -> str:
    """Of programs that are given by `python -c`."""
    return sha256(f"pack {Path('-c').absolute()}".encode()).hexdigest()
