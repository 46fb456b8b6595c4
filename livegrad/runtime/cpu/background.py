"""LLVM in another process: the program goes on meanwhile.

In a thread of this process it would hold llvmlite's lock, which new kernels wait for, and could
neither be forked nor left behind when the program ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import asdict
from typing import Any

from livegrad.runtime.cpu import jit
from livegrad.runtime.cpu.target import Target

_SOURCE = "from livegrad.runtime.cpu.background import main; main()"
_DIGEST_BYTES = 32


def is_possible() -> bool:
    """Whether another interpreter can be started: not in a program that embeds this one."""
    name = os.path.basename(sys.executable or "").lower()
    return hasattr(os, "posix_spawn") and "python" in name and not getattr(sys, "frozen", False)


class Compilation:
    """Object code that a process of low priority makes of `ir`, and puts into the disk cache.

    It is left to itself: if this program ends first, the next one finds the code.
    """

    def __init__(self, ir: str) -> None:
        import tempfile  # with what compresses files

        self.ir = ir
        # Files without a name: whoever is left last removes them.
        self._out = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process runs
        given = json.dumps(asdict(jit.host_target())).encode() + b"\n" + ir.encode()
        out = (os.POSIX_SPAWN_DUP2, self._out.fileno(), 1)
        self._process = _begun(_SOURCE, given, out, _environment())

    def result(self) -> bytes | None:
        """The object code, or None as long as there is none; OSError if there never will be."""
        with contextlib.suppress(ChildProcessError):  # somebody else waited for it
            ended, _ = os.waitpid(self._process, os.WNOHANG)
            if not ended:
                return None
        self._out.seek(0)
        written = self._out.read()
        code = written[_DIGEST_BYTES:]
        if _digest(code) != written[:_DIGEST_BYTES]:
            raise OSError("compiling in the background failed")
        return code

    def __del__(self) -> None:
        if hasattr(self, "_out"):  # Ctrl-C may have come before
            self._out.close()


def _begun(source: str, given: bytes, out: tuple[Any, ...], environment: dict[str, str]) -> int:
    """A process that reads what is `given`."""
    import tempfile

    with tempfile.TemporaryFile() as file:
        file.write(given)
        file.seek(0)
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-c", source],
            environment,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, file.fileno(), 0),
                out,
                (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            ],
        )


class Task:
    """A process of low priority that reads what it is given, puts something into the disk cache,
    and ends: for this program, or for the next if that ends first."""

    def __init__(self, source: str, given: bytes) -> None:
        out = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
        self._process = _begun(_polite(source), given, out, _without_mode())
        self._has_ended = False

    def is_over(self) -> bool:
        """Whether it has ended, however."""
        self._has_ended = self._has_ended or _has_ended(self._process)
        return self._has_ended


def _has_ended(process: int) -> bool:
    try:
        ended, _ = os.waitpid(process, os.WNOHANG)
    except ChildProcessError:  # somebody else waited for it, or this is a fork
        return True
    return bool(ended)


class Making:
    """A process of low priority that puts something into the disk cache, and ends.

    Programs that start together on a new machine have one made, and all wait for that: it holds a
    lock on a file in the cache, as long as it lives.
    """

    def __init__(self, source: str) -> None:
        self._process: int | None = None
        self._lock = _lock_file(source)
        if self._lock is None or _is_locked_now(self._lock):
            self._begin(source)

    def _begin(self, source: str) -> None:
        null = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0)
        held = null if self._lock is None else (os.POSIX_SPAWN_DUP2, self._lock, 0)
        self._process = os.posix_spawn(
            sys.executable,
            [sys.executable, "-c", _polite(source)],
            _without_mode(),
            file_actions=[
                held,
                *[(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (1, 2)],
            ],
        )
        self._let_go()  # the process has it

    def is_over(self) -> bool:
        """Whether it has ended, however: what it was to make is there, or has to be made here."""
        if self._process is None:  # another program's
            if self._lock is not None and not _is_locked_now(self._lock):
                return False
            self._let_go()
            return True
        return _has_ended(self._process)

    def _let_go(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self._let_go()


def _lock_file(source: str) -> int | None:
    """A file in the disk cache that stands for making this, from this package's sources."""
    directory = jit.disk_cache().directory
    if directory is None:
        return None
    name = _digest(f"{__file__} {source}".encode()).hex()
    try:
        os.makedirs(directory, exist_ok=True)
        return os.open(os.path.join(directory, name + ".lock"), os.O_CREAT | os.O_RDWR, 0o600)
    except OSError:
        return None


def _is_locked_now(file: int) -> bool:
    """Locks a file; False if another process has. True where there are no locks."""
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _polite(source: str) -> str:
    """Ctrl-C is for the program; and behind the program, but not so far that a machine which is
    never idle keeps it for minutes."""
    return f"import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN); os.nice(5); {source}"


def _without_mode() -> dict[str, str]:
    return {**_environment(), "LIVEGRAD_MODE": ""}


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([p or os.getcwd() for p in sys.path])}


def _digest(code: bytes) -> bytes:
    from hashlib import sha256

    return sha256(code).digest()


def main() -> None:
    """The other process: compiles what stands on standard input."""
    import signal  # whose names become enums when it is imported

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program
    # Behind the program, but not so far that a machine which is never idle keeps it for minutes.
    os.nice(5)
    target = Target(**json.loads(sys.stdin.buffer.readline()))
    code = jit.object_code(sys.stdin.buffer.read().decode(), target, inline=True)
    sys.stdout.buffer.write(_digest(code) + code)
