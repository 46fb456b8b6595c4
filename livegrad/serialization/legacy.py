"""PyTorch files from before version 1.6, and how to write them: pickles one after the other.

    magic number │ protocol version │ system │ the object │ keys of storages │ count, bytes │ …

The object comes before the bytes its tensors lie on. So its pickle is run twice: once to find out
which storages there are, and again when it is known where each of them is.
"""

from __future__ import annotations

import struct
from typing import IO, Any

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph import elsewhere
from livegrad.serialization.archive import Member
from livegrad.serialization.errors import MOST_ELEMENTS, MOST_HEADER_BYTES, LoadError
from livegrad.serialization.files import Source
from livegrad.serialization.layout import little_endian
from livegrad.serialization.machine import Machine
from livegrad.serialization.plain import check_plain
from livegrad.serialization.storages import Storage, StorageKind, Storages
from livegrad.serialization.strict_json import shown
from livegrad.serialization.tensors import must_swap
from livegrad.serialization.torch_format import PickleWriter, stored_count
from livegrad.serialization.vocabulary import Vocabulary
from livegrad.serialization.walk import Stored

_MAGIC = 0x1950A86A20F9469CFC6C
_VERSION = 1001
_SYSTEM = {
    "protocol_version": _VERSION,
    "little_endian": True,
    "type_sizes": {"short": 2, "int": 4, "long": 4},
}
# The magic number as a pickle, however it is framed, is shorter.
_MAGIC_BYTES = 64


def looks_legacy(source: Source) -> bool:
    """Whether the file starts with the pickle of the magic number."""
    start = source.read(0, _MAGIC_BYTES)
    if not start.startswith(b"\x80"):
        return False
    try:
        return bool(_plain_machine(source, start, 0).run() == _MAGIC)
    except LoadError:
        return False


def read_legacy(source: Source) -> Any:
    """The object in a file from before PyTorch 1.6."""
    head = source.read(0, MOST_HEADER_BYTES)
    _, at = _plain(source, head, 0)
    version, at = _plain(source, head, at)
    if version != _VERSION:
        raise source.error(
            f"it is of protocol version {shown(str(version))}; expected {_VERSION}, as torch.save "
            "wrote before version 1.6"
        )
    _, at = _plain(source, head, at)  # about the machine: the bytes are in the same order anyway
    scout = _Scout(source)
    _, end = _run(source, head, at, scout)
    keys, end = _plain(source, head, end)
    located = _Located(source, scout.placed(keys, end))
    value, _ = _run(source, head, at, located)
    check_plain(source, value)
    return value


def _plain_machine(source: Source, data: bytes, start: int) -> Machine:
    """A machine for a pickle without names."""

    def find(module: str, name: str) -> Any:
        raise source.error(f"its header refers to {shown(f'{module}.{name}')}; it is refused")

    def persistent(pid: Any) -> Any:
        raise source.error("its header refers to a storage; it is refused")

    return Machine(source, data, find, persistent, start, "header")


def _plain(source: Source, data: bytes, start: int) -> tuple[Any, int]:
    """The value of a pickle without names, and where it ends."""
    machine = _plain_machine(source, data, start)
    return machine.run(), machine.at


def _run(source: Source, data: bytes, start: int, storages: Storages) -> tuple[Any, int]:
    """The value of the pickle of the object, and where it ends."""
    names = Vocabulary(source, storages)
    machine = Machine(source, data, names.find, storages.storage, start, "pickle")
    try:
        return machine.run(), machine.at
    finally:
        names.table.clear()  # its functions refer to it: a cycle that would keep the file mapped


class _Named(Storages):
    """Storages by the persistent ids of old files, in which one may be a part of another."""

    def __init__(self, source: Source) -> None:
        super().__init__(source, {}, "", must_swap("little"))

    def storage(self, pid: Any) -> Storage:
        """("storage", class, key, location, count, part): part is None or (key, start, count)."""
        if type(pid) is not tuple or len(pid) != 6 or pid[0] != "storage":
            raise self.bad("its pickle has a persistent id that is no storage")
        _, kind, key, location, count, part = pid
        if type(kind) is not StorageKind or type(key) is not str or type(location) is not str:
            raise self.bad(f"its pickle describes storage {shown(key)} wrongly")
        if not _is_count(count):
            raise self.bad(f"the storage {key} has {shown(count)} elements")
        member = self.member(key, kind.dtype, count)
        if part is None:
            return Storage(key, kind.dtype, member)
        if type(part) is not tuple or len(part) != 3 or type(part[0]) is not str:
            raise self.bad(f"its pickle describes a part of storage {key} wrongly")
        name, start, length = part
        if not _is_count(start) or not _is_count(length) or start + length > count:
            raise self.bad(f"a part of storage {key} is beyond its {count} elements")
        size = _itemsize(kind.dtype)
        inner = Member(member.start + start * size, length * size, 0)
        return Storage(f"{key}/{name}", kind.dtype, inner)

    def member(self, key: str, dtype: DType | None, count: int) -> Member:
        """Where the bytes of a storage are."""
        raise NotImplementedError


class _Scout(_Named):
    """Notes which storages there are; every tensor is the same one, without data."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.found: dict[str, tuple[DType | None, int]] = {}
        self.anything = elsewhere.empty((), dtypes.float32)

    def member(self, key: str, dtype: DType | None, count: int) -> Member:
        """Not known yet."""
        if self.found.setdefault(key, (dtype, count)) != (dtype, count):
            raise self.bad(f"its pickle describes storage {key} in two ways")
        return Member(0, count * _itemsize(dtype), 0)

    def tensor(self, *parts: Any, **more: Any) -> Any:
        """Stands for a tensor."""
        return self.anything

    def parameter(self, data: Any, requires_grad: bool) -> Any:
        """Stands for a parameter."""
        return self.anything

    def placed(self, keys: Any, at: int) -> dict[str, Member]:
        """Where each storage is; they come one after the other, in the order of `keys`."""
        if type(keys) is not list or not all([type(key) is str for key in keys]):
            raise self.bad("its storages are not named by a list of keys")
        members: dict[str, Member] = {}
        for key in keys:
            if key not in self.found or key in members:
                raise self.bad(f"the storage {shown(key)} belongs to no tensor, or comes twice")
            dtype, count = self.found[key]
            members[key] = self._at(key, at, count, _itemsize(dtype))
            at = members[key].start + members[key].size
        missing = sorted(self.found.keys() - members.keys())
        if missing:
            raise self.bad(f"the storage {shown(missing[0])} is missing")
        return members

    def _at(self, key: str, at: int, count: int, itemsize: int) -> Member:
        """The bytes of a storage, behind their count at byte `at`."""
        raw = self.source.read(at, 8)
        if len(raw) < 8:
            raise self.bad(f"it ends before the storage {key}: it is truncated")
        (written,) = struct.unpack("<q", raw)
        if written != count:
            raise self.bad(f"the storage {key} has {written} elements; expected {count}")
        left = self.source.size - at - 8
        if count * itemsize > left:
            raise self.bad(
                f"the storage {key} has {left} bytes; expected {count} elements of {itemsize}: it "
                "is truncated"
            )
        return Member(at + 8, count * itemsize, 0)


class _Located(_Named):
    """Storages whose places are known."""

    def __init__(self, source: Source, members: dict[str, Member]) -> None:
        super().__init__(source)
        self.members = members

    def member(self, key: str, dtype: DType | None, count: int) -> Member:
        """As the scout found it."""
        return self.members[key]


def _is_count(x: Any) -> bool:
    return type(x) is int and 0 <= x <= MOST_ELEMENTS // 16


def _itemsize(dtype: DType | None) -> int:
    return 1 if dtype is None else dtype.itemsize


# -------------------------------------------------------------------------------------- writing


def prepare_legacy(obj: Any) -> tuple[bytes, list[Stored]]:
    """All pickles of a file with `obj`, and the storages that follow, with all values computed."""
    writer = PickleWriter(parts=True)
    pickled = writer.pickled(obj)
    writer.walk.compute()
    stored = writer.walk.stored
    around = [PickleWriter().pickled(x) for x in (_MAGIC, _VERSION, _SYSTEM)]
    keys = PickleWriter().pickled([str(x.number) for x in stored])
    return b"".join([*around, pickled, keys]), stored


def write_legacy(file: IO[bytes], prepared: tuple[bytes, list[Stored]]) -> None:
    """Writes what `prepare_legacy` made."""
    pickles, stored = prepared
    file.write(pickles)
    for x in stored:
        file.write(struct.pack("<q", stored_count(x)))
        file.write(little_endian(x.array))
