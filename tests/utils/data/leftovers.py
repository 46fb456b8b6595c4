"""What loaders could leave behind: processes, shared memory, mapped segments."""

from __future__ import annotations

import gc
import os
from pathlib import Path


def processes(field: int, value: int) -> set[int]:
    """Living processes whose field in /proc/*/stat (4: parent, 6: session) has the value."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
            command = (path.parent / "cmdline").read_text()
        except OSError:
            continue
        # Python's own helpers for spawned processes stay until the program ends.
        helper = "resource_tracker" in command or "multiprocessing.forkserver" in command
        if helper or fields[0] == "Z":
            continue
        if int(fields[field - 3]) == value:
            found.add(int(path.parent.name))
    return found


def shared_memory() -> set[str]:
    """Names in /dev/shm that are ours; other programs have theirs there."""
    names = os.listdir("/dev/shm") if os.path.isdir("/dev/shm") else []
    return {name for name in names if "livegrad" in name}


def segments() -> int:
    """Segments of loaders that this process has mapped."""
    return Path("/proc/self/maps").read_text().count("livegrad-batch")


def leftovers(before: tuple[set[int], set[str], int]) -> list[str]:
    """What is there now and was not before."""
    gc.collect()
    children, names, mapped = before
    return [
        *[f"process {pid}" for pid in processes(4, os.getpid()) - children],
        *[f"/dev/shm/{name}" for name in shared_memory() - names],
        *["a mapped segment"] * (segments() - mapped),
    ]
