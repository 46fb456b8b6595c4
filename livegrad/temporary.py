"""Files that are written under a temporary name, to take their place when they are complete.

A process that is killed leaves its temporary file behind. The name says whose it is, so that a
later process can tell that nobody writes to it any more, and remove it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
from contextlib import suppress
from functools import cache

# The name of the file, then: host, process, run, number.
_NAME = re.compile(r"\..*\.([0-9a-f]{8})-(\d+)-([0-9a-f]{8})-[0-9a-f]{8}\.livegrad\.tmp", re.DOTALL)
# Tells this process from an earlier one of the same number, as in a container that starts again.
_RUN = os.urandom(4).hex()


def temporary_name(name: str) -> str:
    """A name for the file `name` until it is complete, like no other's."""
    own = f"{_host()}-{os.getpid()}-{_RUN}-{os.urandom(4).hex()}"
    return f".{name[:100]}.{own}.livegrad.tmp"


@cache
def _host() -> str:
    """Where process numbers mean what they mean here: this machine, and this container of it."""
    try:
        numbers = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        numbers = 0
    return hashlib.sha256(f"{platform.node()} {numbers}".encode()).hexdigest()[:8]


# Directories that this process has looked through.
_seen: set[str] = set()


def remove_left_overs(folder: str, again: bool = False) -> None:
    """Removes what processes of this machine that are gone have left in `folder`.

    Once per process, unless `again`: a directory may hold very many files.
    """
    if folder in _seen and not again:
        return
    _seen.add(folder)
    with suppress(OSError):
        for name in os.listdir(folder):
            match = _NAME.fullmatch(name)
            if match and match[1] == _host() and not _is_running(int(match[2]), match[3]):
                with suppress(OSError):
                    os.unlink(os.path.join(folder, name))


def _is_running(process: int, run: str) -> bool:
    """Whether the process of this number may be the one that wrote `run` into a name."""
    if process == os.getpid():
        return run == _RUN
    if os.name == "nt":
        return True  # asking would end it there
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
