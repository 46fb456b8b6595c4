"""Object code and plans kept between processes, one file for each, and packs of them.

The cache may only ever save time: an entry that is truncated, corrupt or foreign counts as
absent, and a directory that cannot be used is reported once and then left alone.

    entry = MAGIC (8 bytes) + sha256 of payload (32 bytes) + payload
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import threading
import warnings
from typing import Any

from livegrad.runtime.cpu.packs import Pack
from livegrad.temporary import remove_left_overs, temporary_name

MAGIC = b"LVGRAD\x00\x01"
# Raise when the meaning of a cached object changes though its IR does not (kernel ABI, loader).
FORMAT_VERSION = 2
MAX_BYTES = 512 << 20
# By all processes together: the directory is walked as often.
WRITES_BETWEEN_PRUNES = 1024

_CHECKSUM_BYTES = 32
_SUFFIX = ".o"
# A file that grows by a byte per write.
_COUNT = "writes"


def default_directory() -> str | None:
    """The directory chosen by the environment, or None when the cache is switched off."""
    chosen = os.environ.get("LIVEGRAD_CACHE_DIR")
    if chosen is not None:
        return None if chosen in ("", "off") else chosen
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "livegrad")


def entry_key(ir: str, cpu: str, features: str, llvm_version: str) -> str:
    """Hex digest of everything the object code depends on."""
    digest = _digest_of(str(FORMAT_VERSION), llvm_version, cpu, features).copy()
    _add_part(digest, ir)
    return str(digest.hexdigest())


@functools.cache
def _digest_of(*parts: str) -> Any:
    digest = hashlib.sha256()
    for part in parts:
        _add_part(digest, part)
    return digest


def _add_part(digest: Any, part: str) -> None:
    data = part.encode()
    # Lengths keep ("ab", "c") and ("a", "bc") apart.
    digest.update(len(data).to_bytes(8, "little") + data)


class DiskCache:
    """Bytes by key in `directory`; None means a cache that holds nothing.

    A `program` has a pack of what it looks up.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str] | None,
        max_bytes: int = MAX_BYTES,
        program: str | None = None,
    ) -> None:
        # No Path: that takes as long to import as a process takes to read all it needs from here.
        self.directory = None if directory is None else os.fspath(directory)
        self.max_bytes = max_bytes
        self._warned = False
        self._lock = threading.RLock()
        self._pack_key = None if program is None else _digest(b"pack " + os.fsencode(program)).hex()
        self._pack = Pack() if self._pack_key is None else Pack(self._read(self._pack_key) or b"")

    def get(self, key: str) -> bytes | None:
        """The stored payload, or None when it is absent or not intact."""
        found = self._pack.get(key)
        if found is None:
            found = self._read(key)
            if found is not None and self._pack_key is not None:
                self._pack.add(key, found)
        return found

    def _read(self, key: str) -> bytes | None:
        if self.directory is None:
            return None
        try:
            with open(self._path(key), "rb") as file:
                data = file.read()
        except OSError:
            # Absent is the normal case; unreadable shows up as a warning in `put`.
            return None
        return _payload(data)

    def put(self, key: str, payload: bytes) -> None:
        """Store `payload`; a failure costs a warning the first time and nothing afterwards."""
        if self.directory is None:
            return
        if self._pack_key is not None:
            self._pack.add(key, payload)
        try:
            self._store(key, payload)
            self._prune_rarely()
        except OSError as error:
            self._warn_once(error)

    def _store(self, key: str, payload: bytes) -> None:
        self._write(self._path(key), MAGIC + _digest(payload) + payload)

    def store_pack(self) -> None:
        """Leaves what this program has looked up to its next process, at the end of this one."""
        if self._pack_key is None or not self._pack.is_new:
            return
        if self.directory is None or not os.path.isdir(self.directory):
            return  # tests and others clean up behind a program
        with contextlib.suppress(OSError):
            self._store(self._pack_key, self._pack.written())

    def _path(self, key: str) -> str:
        assert self.directory is not None
        return os.path.join(self.directory, key[:2], key + _SUFFIX)

    def _write(self, path: str, data: bytes) -> None:
        """Write through a temporary file, so that readers see all of an entry or none."""
        folder, name = os.path.split(path)
        os.makedirs(folder, exist_ok=True)
        temporary = os.path.join(folder, temporary_name(name))
        try:
            with open(temporary, "xb") as file:
                file.write(data)
            os.replace(temporary, path)
        except BaseException:
            _remove(temporary)
            raise

    def _prune_rarely(self) -> None:
        """Walks the directory once per 1024 writes of whatever processes, which it counts."""
        assert self.directory is not None
        path = os.path.join(self.directory, _COUNT)
        with self._lock, open(path, "ab") as file:
            file.write(b".")
            due = file.tell() >= WRITES_BETWEEN_PRUNES
            if due:
                file.truncate(0)
        if due:
            self.prune()

    def prune(self) -> None:
        """Remove the oldest files until the cache fits into `max_bytes`."""
        if self.directory is None:
            return
        for folder in os.scandir(self.directory):
            remove_left_overs(folder.path, again=True)
        files = _files_by_age(self.directory)
        excess = sum(size for _, size, _ in files) - self.max_bytes
        for _, size, path in files:
            if excess <= 0:
                return
            _remove(path)
            excess -= size

    def _warn_once(self, error: OSError) -> None:
        with self._lock:
            if self._warned:
                return
            self._warned = True
        warnings.warn(
            f"kernel cache: cannot write to {self.directory}; got {error}. Kernels are compiled"
            " again in every process. Set LIVEGRAD_CACHE_DIR to a writable directory, or to"
            " 'off'.",
            RuntimeWarning,
            stacklevel=2,
        )


def _payload(data: bytes) -> bytes | None:
    """The payload of an intact entry, else None."""
    start = len(MAGIC) + _CHECKSUM_BYTES
    if not data.startswith(MAGIC) or len(data) < start:
        return None
    payload = data[start:]
    return payload if _digest(payload) == data[len(MAGIC) : start] else None


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _files_by_age(directory: str) -> list[tuple[float, int, str]]:
    """(mtime, size, path) of our files, oldest first, including abandoned temporaries."""
    found = []
    for folder, _, names in os.walk(directory):
        for name in names:
            if not name.endswith((_SUFFIX, ".tmp")):
                continue
            path = os.path.join(folder, name)
            try:
                status = os.stat(path)
            except OSError:
                continue
            found.append((status.st_mtime, status.st_size, path))
    return sorted(found)


def _remove(path: str) -> None:
    # Another process was quicker, or the directory became read-only: either is fine.
    with contextlib.suppress(OSError):
        os.unlink(path)
