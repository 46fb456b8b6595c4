"""The safetensors format: 8 bytes of length, a JSON header, and the tensors one after the other.

    | n: uint64 | {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …} | data |
                 n bytes                                              offsets count from here ─┘

`read_layout` believes nothing: whatever it returns lies within the file, fits its shape and dtype,
and overlaps nothing else. `write_layout` writes the same format.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Any, NamedTuple

import numpy as np

from livegrad.serialization.errors import (
    MOST_DIMS,
    MOST_ELEMENTS,
    MOST_HEADER_BYTES,
    MOST_TENSORS,
)
from livegrad.serialization.files import Source
from livegrad.serialization.strict_json import parse, shown

# The bytes of one element, by the format's name of its dtype, as NumPy holds them.
STORAGE: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype("bool"),
    "U8": np.dtype("uint8"),
    "I8": np.dtype("int8"),
    "U16": np.dtype("uint16"),
    "I16": np.dtype("int16"),
    "F16": np.dtype("float16"),
    "BF16": np.dtype("uint16"),
    "U32": np.dtype("uint32"),
    "I32": np.dtype("int32"),
    "F32": np.dtype("float32"),
    "U64": np.dtype("uint64"),
    "I64": np.dtype("int64"),
    "F64": np.dtype("float64"),
    "C64": np.dtype("complex64"),
}
METADATA = "__metadata__"
_ALIGNMENT = 64
# Header, entry, list of sizes.
_DEPTH = 3


class Entry(NamedTuple):
    """One tensor of a file: what it is, and where its bytes start."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    nbytes: int


class Layout(NamedTuple):
    """The tensors of a file by name, in the order of its header, and its metadata."""

    entries: dict[str, Entry]
    metadata: dict[str, str]


def read_layout(source: Source) -> Layout:
    """The header of a safetensors file, checked."""
    text, begin = _header_text(source)
    try:
        header = parse(text, _DEPTH)
    except ValueError as error:
        text = f"the header is not valid JSON: {error}; expected a safetensors header"
        raise source.error(text) from error
    if not isinstance(header, dict):
        raise source.error(f"the header is a {type(header).__name__}; expected an object")
    metadata = _checked_metadata(source, header.pop(METADATA, {}))
    entries = {name: _checked_entry(source, name, x, begin) for name, x in header.items()}
    _check_coverage(source, entries, begin)
    return Layout(entries, metadata)


def looks_like_layout(source: Source) -> bool:
    """Whether the file starts as a safetensors file does."""
    return source.size >= 9 and source.array[8] == ord("{")


def _header_text(source: Source) -> tuple[str, int]:
    if source.size < 8:
        raise source.error(
            f"the file is truncated: it has {source.size} bytes; expected at least 8, which hold "
            "the length of a safetensors header"
        )
    length = int.from_bytes(source.read(0, 8), "little")
    if length > MOST_HEADER_BYTES:
        raise source.error(
            f"the header claims {length} bytes; expected at most {MOST_HEADER_BYTES}. "
            "The file is corrupt, or no safetensors file"
        )
    if 8 + length > source.size:
        raise source.error(
            f"the file is truncated: its header needs {8 + length} bytes; got {source.size}"
        )
    raw = source.read(8, length)
    if raw.count(b'"data_offsets"') > MOST_TENSORS:
        raise source.error(f"the header lists more than {MOST_TENSORS} tensors")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        where = f"{error.reason} at byte {8 + error.start}"
        raise source.error(f"the header is not UTF-8: {where}") from error
    if not text.startswith("{"):
        raise source.error(f"the header starts with {shown(text[:8])}; expected '{{'")
    return text, 8 + length


def _checked_metadata(source: Source, metadata: Any) -> dict[str, str]:
    if not isinstance(metadata, dict) or not all([type(x) is str for x in metadata.values()]):
        raise source.error(f"{METADATA} must be an object of strings; got {shown(metadata)}")
    return metadata


def _checked_entry(source: Source, name: str, entry: Any, begin: int) -> Entry:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        found = sorted(entry) if isinstance(entry, dict) else type(entry).__name__
        raise source.error(
            f"tensor {shown(name)} is described by {found}; expected dtype, shape and data_offsets"
        )
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in STORAGE:
        raise source.error(
            f"tensor {shown(name)} has dtype {shown(dtype)}; expected one of {', '.join(STORAGE)}"
        )
    itemsize = STORAGE[dtype].itemsize
    if not isinstance(shape, list) or not all([type(n) is int and n >= 0 for n in shape]):
        raise source.error(f"tensor {shown(name)} has shape {shape!s:.80}; expected sizes >= 0")
    if len(shape) > MOST_DIMS:
        raise source.error(f"tensor {shown(name)} has {len(shape)} dims; expected {MOST_DIMS}")
    if math.prod([max(n, 1) for n in shape]) * itemsize > MOST_ELEMENTS:
        raise source.error(f"tensor {shown(name)} has shape {shape}, which overflows 64 bits")
    if (
        not isinstance(offsets, list)
        or len(offsets) != 2
        or not all([type(n) is int for n in offsets])
    ):
        raise source.error(f"tensor {shown(name)} has data_offsets {offsets!s:.80}; expected two")
    first, last = offsets
    if not 0 <= first <= last <= source.size - begin:
        raise source.error(
            f"tensor {shown(name)} is at bytes {first} to {last} of the data, of which the file "
            f"has {source.size - begin}; the file is truncated or corrupt"
        )
    nbytes = math.prod(shape) * itemsize
    if last - first != nbytes:
        raise source.error(
            f"tensor {shown(name)} has {last - first} bytes; expected {nbytes} for {dtype} {shape}"
        )
    return Entry(dtype, tuple(shape), begin + first, nbytes)


def _check_coverage(source: Source, entries: Mapping[str, Entry], begin: int) -> None:
    """Raises unless the tensors fill the data without gaps and without overlap."""
    at = begin
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].nbytes)):
        if entry.start != at:
            what = "overlaps the one before it" if entry.start < at else "leaves a gap before it"
            raise source.error(
                f"tensor {shown(name)} {what}: it starts at byte {entry.start}; expected {at}"
            )
        at += entry.nbytes
    if at != source.size:
        raise source.error(
            f"{source.size - at} bytes follow the last tensor; expected the file to end at byte "
            f"{at}"
        )


# ------------------------------------------------------------------------------------- writing


class Content(NamedTuple):
    """One tensor to write: its name, dtype and shape in the format, and its bytes."""

    name: str
    dtype: str
    shape: Sequence[int]
    array: np.ndarray[Any, Any]


def write_layout(file: IO[bytes], contents: Sequence[Content], metadata: Mapping[str, str]) -> None:
    """Writes a safetensors file: header and data, the same bytes for the same contents."""
    # Large elements first, so that each lies at a multiple of its size: gaps are not allowed.
    ordered = sorted(contents, key=lambda c: (-c.array.dtype.itemsize, c.name))
    header: dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    at = 0
    for content in ordered:
        end = at + content.array.nbytes
        header[content.name] = {
            "dtype": content.dtype,
            "shape": list(content.shape),
            "data_offsets": [at, end],
        }
        at = end
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode("ascii")
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    if len(text) > MOST_HEADER_BYTES or len(ordered) > MOST_TENSORS:
        raise ValueError(
            f"save: the header has {len(text)} bytes for {len(ordered)} tensors; the format allows "
            f"{MOST_HEADER_BYTES} and {MOST_TENSORS}. Save long lists of numbers as tensors"
        )
    file.write(len(text).to_bytes(8, "little"))
    file.write(text)
    for content in ordered:
        file.write(little_endian(content.array))


def little_endian(array: np.ndarray[Any, Any]) -> memoryview:
    """The bytes of a contiguous array, lowest byte of each element first."""
    if sys.byteorder == "big":
        array = array.byteswap()
    return array.reshape(-1).view(np.uint8).data
