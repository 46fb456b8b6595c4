"""The disk cache may save time and must never cost correctness."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest

from livegrad.runtime.cpu import diskcache
from livegrad.runtime.cpu.diskcache import DiskCache, default_directory, entry_key
from livegrad.temporary import temporary_name

KEY = "ab" + "0" * 62


def entry(directory: Path) -> Path:
    (path,) = directory.rglob("*.o")
    return path


def test_round_trip(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "deep" / "cache")
    assert cache.get(KEY) is None
    cache.put(KEY, b"object code")
    assert DiskCache(cache.directory).get(KEY) == b"object code"


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:10],
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: b"\x7fELF" + data[4:],
    ],
)
def test_damaged_entry_is_ignored_and_replaced(tmp_path: Path, damage) -> None:
    cache = DiskCache(tmp_path)
    cache.put(KEY, b"object code")
    path = entry(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    assert cache.get(KEY) is None
    cache.put(KEY, b"object code")
    assert cache.get(KEY) == b"object code"


def test_no_temporary_files_remain(tmp_path: Path) -> None:
    DiskCache(tmp_path).put(KEY, b"x")
    files = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(files) == [f"{KEY}.o", "writes"]


def test_file_in_place_of_directory_warns_once(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("not a directory")
    cache = DiskCache(tmp_path / "cache")
    with pytest.warns(RuntimeWarning, match="LIVEGRAD_CACHE_DIR"):
        cache.put(KEY, b"x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(KEY, b"x")
        assert cache.get(KEY) is None


def test_full_disk_warns_once_and_leaves_nothing(tmp_path: Path, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    cache = DiskCache(tmp_path)
    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(RuntimeWarning, match="No space left"):
        cache.put(KEY, b"x")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(KEY, b"x")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes anywhere")
def test_read_only_directory_warns(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.warns(RuntimeWarning):
        DiskCache(tmp_path).put(KEY, b"x")


def test_prune_removes_the_oldest(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, max_bytes=2500)
    keys = [f"{i:02x}" + "0" * 62 for i in range(4)]
    for age, key in enumerate(keys):
        cache.put(key, bytes(1000))
        os.utime(tmp_path / key[:2] / f"{key}.o", (1000 + age, 1000 + age))
    cache.prune()
    assert [cache.get(key) is not None for key in keys] == [False, False, True, True]


def test_the_directory_is_walked_once_per_many_writes_of_all_processes(
    tmp_path: Path, monkeypatch
) -> None:
    walked: list[int] = []
    monkeypatch.setattr(diskcache, "WRITES_BETWEEN_PRUNES", 10)
    monkeypatch.setattr(DiskCache, "prune", lambda self: walked.append(1))
    for _ in range(5):  # processes
        cache = DiskCache(tmp_path)
        for _ in range(5):
            cache.put(KEY, b"x")
    assert len(walked) == 2


def test_key_depends_on_every_part() -> None:
    parts = ("ir", "cpu", "features", "22.1.0")
    keys = {entry_key(*parts)}
    for i in range(4):
        keys.add(entry_key(*[part + "x" * (i == j) for j, part in enumerate(parts)]))
    keys.add(entry_key("irc", "pu", "features", "22.1.0"))
    assert len(keys) == 6


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"LIVEGRAD_CACHE_DIR": "/a/b"}, "/a/b"),
        ({"LIVEGRAD_CACHE_DIR": "off"}, None),
        ({"LIVEGRAD_CACHE_DIR": ""}, None),
        ({"XDG_CACHE_HOME": "/x"}, "/x/livegrad"),
        ({"HOME": "/home/me"}, "/home/me/.cache/livegrad"),
    ],
)
def test_directory_from_environment(monkeypatch, variables, expected) -> None:
    for name in ("LIVEGRAD_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert default_directory() == expected


def test_switched_off_cache_does_nothing() -> None:
    cache = DiskCache(None)
    cache.put(KEY, b"x")
    cache.prune()
    assert cache.get(KEY) is None


def test_left_overs_of_killed_processes_go(tmp_path):
    cache = DiskCache(tmp_path)
    cache.put("ab" * 32, b"kernel")
    (entry,) = tmp_path.glob("*/*")
    own = temporary_name(entry.name)
    gone = entry.with_name(own.replace(f"-{os.getpid()}-", "-4194300-"))
    for path in (entry.with_name(own), gone):
        path.write_bytes(b"half")
    cache.prune()
    assert not gone.exists()
    assert entry.with_name(own).exists()
    assert cache.get("ab" * 32) == b"kernel"
