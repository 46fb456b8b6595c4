"""Stores: values by name that the members of a group tell each other; within one process.

All `TCPStore`s of one address are one store, and all `FileStore`s of one file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

default_store_timeout = timedelta(seconds=300)


class DistError(RuntimeError):
    """Something between the members of a group failed."""


class DistBackendError(DistError):
    """A backend failed."""


class DistNetworkError(DistError):
    """The network failed."""


class DistStoreError(DistError):
    """A store failed, or a value did not come in time."""


class _Values:
    """What is in a store, for all objects that speak of it."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.values: dict[str, bytes] = {}


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


class Store:
    """Values by name; reading one that is not there waits until somebody sets it."""

    def __init__(self) -> None:
        self._place = _Values()
        self._timeout = default_store_timeout

    @property
    def timeout(self) -> timedelta:
        """How long is waited at most."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Says how long to wait at most."""
        self._timeout = timeout

    def _key(self, key: str) -> str:
        return key

    def _change(self, change: Callable[[dict[str, bytes]], Any]) -> Any:
        with self._place.changed:
            result = change(self._place.values)
            self._place.changed.notify_all()
            return result

    def set(self, key: str, value: str | bytes) -> None:
        """Sets a value."""
        self._change(lambda values: values.update({self._key(key): _bytes(value)}))

    def get(self, key: str) -> bytes:
        """A value, as soon as it is there."""
        self.wait([key])
        return self._place.values[self._key(key)]

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Waits until all of these are there; DistStoreError if that takes too long."""
        names = [self._key(key) for key in keys]
        seconds = (timeout or self._timeout).total_seconds()
        with self._place.changed:
            there = self._place.changed.wait_for(
                lambda: all([name in self._place.values for name in names]), seconds
            )
        if not there:
            raise DistStoreError(f"Wait timeout: nobody has set {', '.join(keys)} in {seconds} s")

    def add(self, key: str, amount: int) -> int:
        """Adds to a number, which is 0 before, and gives the sum."""

        def change(values: dict[str, bytes]) -> int:
            total = int(values.get(self._key(key), b"0")) + amount
            values[self._key(key)] = str(total).encode()
            return total

        return int(self._change(change))

    def append(self, key: str, value: str | bytes) -> None:
        """Puts bytes after those that are there."""

        def change(values: dict[str, bytes]) -> None:
            values[self._key(key)] = values.get(self._key(key), b"") + _bytes(value)

        self._change(change)

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """Sets a value if it is the expected one, or is missing and "" is; gives what is there."""

        def change(values: dict[str, bytes]) -> bytes:
            there = values.get(self._key(key))
            if there == _bytes(expected_value) or (there is None and not expected_value):
                values[self._key(key)] = _bytes(desired_value)
            return values.get(self._key(key), _bytes(expected_value))

        found: bytes = self._change(change)
        return found

    def delete_key(self, key: str) -> bool:
        """Takes a value out; whether it was there."""
        return self._change(lambda values: values.pop(self._key(key), None)) is not None

    def check(self, keys: list[str]) -> bool:
        """Whether all of these are there."""
        return all([self._key(key) in self._place.values for key in keys])

    def num_keys(self) -> int:
        """How many values there are."""
        return len(self._place.values)

    def list_keys(self) -> list[str]:
        """The names of all values."""
        return list(self._place.values)

    def multi_get(self, keys: list[str]) -> list[bytes]:
        """Several values."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: list[str], values: list[str | bytes]) -> None:
        """Sets several values."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """Whether `append`, `multi_get` and `multi_set` are there: yes."""
        return True

    def clone(self) -> Store:
        """Another object for the same store."""
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made


_SHARED: dict[tuple[str, Any], _Values] = {}


class HashStore(Store):
    """A store of its own."""


class TCPStore(Store):
    """The store of an address; nothing is sent, all of its users are in this process."""

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = default_store_timeout,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        self.host, self.port = host_name, int(port)
        self._timeout = timeout
        self._place = _SHARED.setdefault(("tcp", (host_name, self.port)), _Values())


class FileStore(Store):
    """The store of a file's name; all of its users are in this process."""

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self.path = file_name
        self._place = _SHARED.setdefault(("file", str(Path(file_name).absolute())), _Values())


class PrefixStore(Store):
    """Another store, with names that begin with a prefix."""

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self.prefix = prefix
        self.underlying_store = store
        self._place, self._timeout = store._place, store._timeout

    def _key(self, key: str) -> str:
        return self.underlying_store._key(f"{self.prefix}/{key}")


__all__ = [
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "FileStore",
    "HashStore",
    "PrefixStore",
    "Store",
    "TCPStore",
]
