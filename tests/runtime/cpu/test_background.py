"""Processes that fill the disk cache: one for all programs that want the same."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from livegrad.runtime.cpu import background, jit
from livegrad.runtime.cpu.background import Making
from livegrad.runtime.cpu.diskcache import DiskCache


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """The processes that are started, with a cache of their own."""
    processes: list[int] = []
    spawn = os.posix_spawn

    def noted(*args: object, **options: object) -> int:
        processes.append(spawn(*args, **options))
        return processes[-1]

    monkeypatch.setattr(background.os, "posix_spawn", noted)
    monkeypatch.setattr(jit, "disk_cache", lambda: DiskCache(tmp_path / "cache"))
    return processes


def until(path: Path) -> str:
    """The source of a process that ends when there is a file."""
    is_there = f"lambda: os.path.exists({str(path)!r})"
    return f"import time; [time.sleep(0.01) for _ in iter({is_there}, True)]"


def wait_for(making: Making) -> None:
    end = time.monotonic() + 60
    while not making.is_over():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_one_is_made_for_all_who_want_it(started: list[int], tmp_path: Path) -> None:
    there = tmp_path / "there"
    first, second, other = Making(until(there)), Making(until(there)), Making(until(there) + " ")
    assert len(started) == 2
    assert not first.is_over()
    assert not second.is_over()
    there.touch()
    for making in (first, second, other):
        wait_for(making)
    again = Making(until(there))
    assert len(started) == 3
    wait_for(again)


def test_one_that_is_killed_keeps_nobody_waiting(started: list[int], tmp_path: Path) -> None:
    first, second = Making(until(tmp_path / "never")), Making(until(tmp_path / "never"))
    os.kill(started[0], signal.SIGKILL)
    wait_for(second)
    wait_for(first)


def test_without_locks_each_has_its_own(
    started: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "there"
    there.touch()
    monkeypatch.setattr(jit, "disk_cache", lambda: DiskCache(there / "not a folder"))
    for making in [Making(until(there)) for _ in range(2)]:
        wait_for(making)
    assert len(started) == 2
