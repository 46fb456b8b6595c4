"""Files: read by mapping them into memory, written so that nobody ever sees half of one."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

import numpy as np

from livegrad.serialization.errors import LoadError
from livegrad.temporary import remove_left_overs, temporary_name

Array = np.ndarray[Any, Any]


class Source:
    """The bytes of a file, and its name for messages.

    `array` holds the bytes. If `lazy`, it is a read-only mapping: what is never looked at is never
    read, and tensors may stay on it. If not, they get copies.
    """

    __slots__ = ("array", "lazy", "name")

    def __init__(self, name: str, array: Array, lazy: bool) -> None:
        self.name = name
        self.array = array
        self.lazy = lazy

    @property
    def size(self) -> int:
        """Length of the file."""
        return self.array.size

    def read(self, start: int, count: int) -> bytes:
        """`count` bytes from `start`; fewer where the file ends."""
        return self.array[start : start + count].tobytes()

    def error(self, text: str) -> LoadError:
        """The error that says `text` about this file."""
        return LoadError(f"load: {self.name}: {text}")


def open_source(f: Any, lazy: bool) -> Source:
    """The bytes of a path, or of what is left of an open file."""
    if isinstance(f, str | os.PathLike):
        return _map(os.fspath(f), lazy)
    read = getattr(f, "read", None)
    if read is None:
        raise TypeError(
            f"load: expected a path or a file opened for reading; got {type(f).__name__}"
        )
    data = read()
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError("load: the file is opened as text; expected binary mode. Open it with 'rb'")
    name = getattr(f, "name", None)
    label = name if isinstance(name, str) else f"<{type(f).__name__}>"
    return Source(label, np.frombuffer(data, np.uint8), False)


def _map(path: Any, lazy: bool) -> Source:
    name = os.fsdecode(path)
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise LoadError(f"load: {name}: not a regular file; expected a file that was saved")
        if status.st_size == 0:
            return Source(name, np.empty(0, np.uint8), lazy)
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return Source(name, np.frombuffer(mapping, np.uint8), lazy)


@contextmanager
def writing(f: Any) -> Iterator[IO[bytes]]:
    """A file to write to: the open file `f`, or one that takes the place of path `f` at the end.

    Until the end a path holds what it held before, whatever happens: an error, Ctrl-C, SIGKILL or
    a power cut.
    """
    if isinstance(f, str | os.PathLike):
        path = os.path.realpath(f)  # what a link points to is replaced, not the link
        replace = not os.path.exists(path) or os.path.isfile(path)
        with _replacing(path) if replace else open(path, "wb") as file:
            yield file
    elif hasattr(f, "write"):
        yield f
    else:
        raise AttributeError(
            "save: expected 'f' to be string, path, or a file-like object with a 'write' "
            f"attribute; got {type(f).__name__}"
        )


@contextmanager
def _replacing(path: Any) -> Iterator[IO[bytes]]:
    folder, name = os.path.split(os.fsdecode(path))
    if not os.path.isdir(folder):
        raise RuntimeError(f"save: Parent directory {folder} does not exist.")
    remove_left_overs(folder)
    temporary = os.path.join(folder, temporary_name(name))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temporary, flags, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with suppress(OSError):  # who may read the file stays as it was
            os.chmod(temporary, stat.S_IMODE(os.stat(path).st_mode))
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    _sync_directory(folder)


def _sync_directory(folder: Any) -> None:
    """Makes sure that the new name itself survives a power cut, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
