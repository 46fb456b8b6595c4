"""Zip archives as PyTorch writes them: files stored as they are, one after the other.

    | local header, name, padding, bytes | … | central directory | end (64 bit) | end |

The reader is strict where archives can lie: nothing compressed, nothing encrypted, nothing that
overlaps, no name twice or unlike in its two places, and no gaps in the directory. So what it
returns lies within the file, and cannot unpack to more than the file holds.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from itertools import pairwise
from typing import IO, NamedTuple

from livegrad.serialization.errors import MOST_HEADER_BYTES, MOST_TENSORS
from livegrad.serialization.files import Source
from livegrad.serialization.strict_json import shown

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_END64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR = struct.Struct("<4sIQI")
_FULL16, _FULL32 = 0xFFFF, 0xFFFFFFFF
_ENCRYPTED, _DESCRIPTOR, _UTF8 = 0x1, 0x8, 0x800
_MOST_NAME = 1024
_ALIGNMENT = 64


class Member(NamedTuple):
    """A file in the archive: where its bytes are, and their CRC-32."""

    start: int
    size: int
    crc: int


class _Record(NamedTuple):
    """What the directory says of a file."""

    name: str
    raw_name: bytes
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    header: int


# ------------------------------------------------------------------------------------- reading


def read_archive(source: Source) -> dict[str, Member]:
    """The files of an archive by name."""
    count, size, start = _find_directory(source)
    members: dict[str, Member] = {}
    spans = []
    for record in _records(source, count, size, start):
        if record.name in members:
            raise source.error(f"the archive has two files called {shown(record.name)}")
        _check_name(source, record.name)
        data = _check_local(source, record, start)
        members[record.name] = Member(data, record.size, record.crc)
        spans.append((record.header, data + record.size, record.name))
    spans.sort()
    for (_, end, name), (begin, _, other) in pairwise(spans):
        if begin < end:
            raise source.error(f"{shown(other)} overlaps {shown(name)} in the archive")
    return members


def read_member(source: Source, member: Member, name: str) -> bytes:
    """The bytes of a file in the archive, checked."""
    check_member(source, member, name)
    return source.read(member.start, member.size)


def check_member(source: Source, member: Member, name: str) -> None:
    """Raises unless the bytes of a file in the archive match their CRC-32."""
    if zlib.crc32(source.array[member.start : member.start + member.size].data) != member.crc:
        raise source.error(f"{shown(name)} does not match its checksum; the file is corrupt")


def _find_directory(source: Source) -> tuple[int, int, int]:
    """Number of files, size and place of the central directory."""
    at = source.size - _END.size
    if at < 0 or source.read(at, 4) != b"PK\5\6":
        raise source.error(
            "the end of the archive is missing; the file is truncated, or something was added to it"
        )
    _, disk, first, here, count, size, start, comment = _END.unpack(source.read(at, _END.size))
    if disk or first or here != count or comment:
        raise source.error("the archive has several parts or a comment; expected one plain archive")
    locator = source.read(max(at - _LOCATOR.size, 0), _LOCATOR.size)
    if locator.startswith(b"PK\6\7") and len(locator) == _LOCATOR.size:
        at, plain = _LOCATOR.unpack(locator)[2], (count, size, start)
        count, size, start = _read_end64(source, at)
        full = zip(plain, (_FULL16, _FULL32, _FULL32), (count, size, start), strict=True)
        if not all([short in (most, wide) for short, most, wide in full]):
            raise source.error("the two ends of the archive contradict each other")
    if count > MOST_TENSORS or size > MOST_HEADER_BYTES:
        raise source.error(f"the archive has {count} files in a directory of {size} bytes")
    if start + size != at:
        raise source.error(
            f"the archive's directory of {count} files is at bytes {start} to {start + size}; "
            f"expected it to end at byte {at}. The file is truncated or corrupt"
        )
    return count, size, start


def _read_end64(source: Source, at: int) -> tuple[int, int, int]:
    raw = source.read(at, _END64.size) if at <= source.size else b""
    if len(raw) != _END64.size or not raw.startswith(b"PK\6\6"):
        raise source.error(f"the archive's 64-bit end is not at byte {at}, where it should be")
    if at + _END64.size + _LOCATOR.size + _END.size != source.size:
        raise source.error("the archive's 64-bit end is not followed by its end")
    _, length, _, _, disk, first, here, count, size, start = _END64.unpack(raw)
    if length != _END64.size - 12 or disk or first or here != count:
        raise source.error("the archive's 64-bit end is damaged")
    return count, size, start


def _records(source: Source, count: int, size: int, start: int) -> Iterator[_Record]:
    directory = source.read(start, size)
    at = 0
    for _ in range(count):
        if at + _CENTRAL.size > size:
            raise source.error(f"the archive's directory ends before its {count} files")
        (
            signature, _, _, flags, method, _, _, crc, packed, unpacked, name_size, extra_size,
            comment, disk, _, _, header,
        ) = _CENTRAL.unpack_from(directory, at)  # fmt: skip
        names = at + _CENTRAL.size
        extras = names + name_size
        at = extras + extra_size + comment
        if signature != b"PK\1\2" or at > size or disk or name_size > _MOST_NAME:
            raise source.error("the archive's directory is damaged")
        raw_name = directory[names:extras]
        extra = directory[extras : extras + extra_size]
        unpacked, packed, header = _wide(source, extra, (unpacked, packed, header))
        name = _decoded(source, raw_name)
        yield _Record(name, raw_name, flags, method, crc, packed, unpacked, header)
    if at != size:
        raise source.error(f"the archive's directory has {size - at} bytes too many")


def _wide(source: Source, extra: bytes, numbers: tuple[int, int, int]) -> list[int]:
    """Numbers that do not fit into 32 bits are replaced by those of the extra field."""
    wide = b""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            wide = extra[at + 4 : at + 4 + length]
        at += 4 + length
    out = []
    for number in numbers:
        if number == _FULL32 and wide:
            if len(wide) < 8:
                raise source.error("the archive's directory has a damaged 64-bit field")
            number, wide = int.from_bytes(wide[:8], "little"), wide[8:]
        out.append(number)
    return out


def _decoded(source: Source, raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise source.error(f"the archive has a file name that is not UTF-8: {raw!r:.80}") from None


def _check_name(source: Source, name: str) -> None:
    """Names that could lead out of a directory say that the archive is not what it seems."""
    parts = name.split("/")
    if (
        "\\" in name
        or "\0" in name
        or parts[0][1:] == ":"
        or any([part in ("", ".", "..") for part in parts])
    ):
        raise source.error(f"the archive has a file called {shown(name)}; expected a plain path")


def _check_local(source: Source, record: _Record, end: int) -> int:
    """Where the bytes of a file start; what stands before them must agree with the directory."""
    label = shown(record.name)
    if record.flags & _ENCRYPTED:
        raise source.error(f"{label} is encrypted; expected what torch.save writes")
    if record.method != 0 and "/code/" in record.name:
        raise source.error("it is a TorchScript archive, which holds code; expected torch.save")
    if record.method != 0:
        raise source.error(
            f"{label} is compressed (from {record.size} to {record.packed} bytes); expected files "
            "stored as they are, as torch.save does"
        )
    if record.packed != record.size:
        raise source.error(f"{label} has {record.packed} bytes that claim to be {record.size}")
    raw = source.read(record.header, _LOCAL.size) if record.header < end else b""
    if len(raw) != _LOCAL.size or not raw.startswith(b"PK\3\4"):
        raise source.error(f"{label} is not at byte {record.header}; the file is corrupt")
    _, _, flags, method, _, _, crc, _, size, name_size, extra_size = _LOCAL.unpack(raw)
    start: int = record.header + _LOCAL.size + name_size + extra_size
    name = source.read(record.header + _LOCAL.size, name_size)
    stated = not flags & _DESCRIPTOR and (crc != record.crc or size not in (record.size, _FULL32))
    if name != record.raw_name or method != 0 or flags & _ENCRYPTED or stated:
        raise source.error(f"{label} contradicts the archive's directory; the file is corrupt")
    if start + record.size > end:
        raise source.error(
            f"{label} has {record.size} bytes from byte {start}; expected it to end before the "
            f"directory at byte {end}. The file is truncated or corrupt"
        )
    return start


# ------------------------------------------------------------------------------------- writing


class ArchiveWriter:
    """Writes an archive front to back; every file in it starts at a multiple of 64 bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.at = 0
        self.directory: list[bytes] = []

    def _write(self, data: bytes | memoryview) -> None:
        self.file.write(data)
        self.at += len(data)

    def add(self, name: str, data: bytes | memoryview) -> None:
        """Adds a file."""
        raw = name.encode("utf-8")
        size, crc, header = len(data), zlib.crc32(data), self.at
        large = size >= _FULL32
        short = _FULL32 if large else size
        extra = struct.pack("<HHQQ", 1, 16, size, size) if large else b""
        # A field of padding, as torch.save has it, is four bytes and what is left to the multiple.
        begin = header + _LOCAL.size + len(raw) + len(extra) + 4
        padding = -begin % _ALIGNMENT
        extra += struct.pack("<2sH", b"FB", padding) + b"Z" * padding
        fixed = (_UTF8, 0, 0, 0, crc, short, short, len(raw))
        self._write(_LOCAL.pack(b"PK\3\4", 45, *fixed, len(extra)) + raw + extra)
        self._write(data)
        far = header >= _FULL32
        numbers = ([size, size] if large else []) + ([header] if far else [])
        wide = struct.pack(f"<HH{len(numbers)}Q", 1, 8 * len(numbers), *numbers) if numbers else b""
        place = _FULL32 if far else header
        entry = _CENTRAL.pack(b"PK\1\2", 45, 45, *fixed, len(wide), 0, 0, 0, 0, place)
        self.directory.append(entry + raw + wide)

    def finish(self) -> None:
        """Writes the directory and the end."""
        start, count = self.at, len(self.directory)
        self._write(b"".join(self.directory))
        size, end = self.at - start, self.at
        self._write(_END64.pack(b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, start))
        self._write(_LOCATOR.pack(b"PK\6\7", 0, end, 1))
        few, short, near = min(count, _FULL16), min(size, _FULL32), min(start, _FULL32)
        self._write(_END.pack(b"PK\5\6", 0, 0, few, few, short, near, 0))
