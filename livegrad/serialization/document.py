"""A saved object as one safetensors file: tensors as tensors, the rest as JSON in the metadata.

    __metadata__:  format          "pt", which other tools ask for
                   livegrad        {"version": 1, "object": …} as structure.py writes it
                   livegrad_crc32  of that text and of the names, dtypes and shapes of the tensors

Other tools see named tensors. A file of theirs, without structure, loads as a dict of tensors.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from typing import IO, Any

import numpy as np

from livegrad import dtypes
from livegrad.device import CPU, Device
from livegrad.dtypes import DType
from livegrad.graph.handle import Handle
from livegrad.graph.layout import is_dense
from livegrad.serialization.errors import MOST_DEPTH
from livegrad.serialization.files import Source
from livegrad.serialization.layout import STORAGE, Content, Entry, Layout, write_layout
from livegrad.serialization.restore import Decoder
from livegrad.serialization.storages import MOST_COPIED, Strided
from livegrad.serialization.strict_json import parse, shown
from livegrad.serialization.structure import Encoder
from livegrad.serialization.tensors import (
    buffer_at,
    must_swap,
    parameter_class,
    part_of,
    tensor_on,
)
from livegrad.serialization.walk import Walk

VERSION = 1
_STRUCTURE, _CHECK = "livegrad", "livegrad_crc32"
# A container is at most three brackets deep in JSON: {"$dict": [[key, …]]}.
_JSON_DEPTH = 3 * MOST_DEPTH + 10
_CODES: dict[DType, str] = {
    dtypes.bool_: "BOOL",
    dtypes.uint8: "U8",
    dtypes.uint16: "U16",
    dtypes.uint32: "U32",
    dtypes.uint64: "U64",
    dtypes.int8: "I8",
    dtypes.int16: "I16",
    dtypes.int32: "I32",
    dtypes.int64: "I64",
    dtypes.float16: "F16",
    dtypes.bfloat16: "BF16",
    dtypes.float32: "F32",
    dtypes.float64: "F64",
    dtypes.complex64: "C64",
}
_BY_CODE = {code: dtype for dtype, code in _CODES.items()}
_ARRAY_CODES = {storage: code for code, storage in STORAGE.items() if code != "BF16"}


# -------------------------------------------------------------------------------------- saving


def write_document(file: IO[bytes], prepared: tuple[list[Content], dict[str, str]]) -> None:
    """Writes what `prepare_document` made."""
    write_layout(file, *prepared)


def prepare_document(obj: Any) -> tuple[list[Content], dict[str, str]]:
    """The tensors and the metadata that stand for `obj`, with all values computed."""
    encoder = Encoder()
    return prepare_encoded(encoder, encoder.encode(obj))


def prepare_encoded(encoder: Encoder, value: Any) -> tuple[list[Content], dict[str, str]]:
    """The same, for what an encoder made of an object."""
    walk = encoder.walk
    encoder.join_parts()
    walk.compute()
    contents = _contents(walk)
    contents += [_content(a.name, _ARRAY_CODES.get(a.array.dtype), a.array) for a in encoder.arrays]
    structure = json.dumps({"version": VERSION, "object": value}, separators=(",", ":"))
    table = [(c.name, c.dtype, tuple(c.shape)) for c in contents]
    metadata = {"format": "pt", _STRUCTURE: structure, _CHECK: _checksum(structure, table)}
    return contents, metadata


def prepare_tensors(
    tensors: Mapping[str, Any], metadata: Mapping[str, str] | None
) -> tuple[list[Content], dict[str, str]]:
    """The contents of a plain safetensors file; each tensor has the name it is given."""
    walk = Walk()
    named = {}
    for name, tensor in tensors.items():
        if type(name) is not str or not isinstance(tensor, Handle):
            kinds = f"{type(name).__name__} to {type(tensor).__name__}"
            raise TypeError(f"save_file: expected a dict of names to tensors; got {kinds}")
        walk.path = [name]
        named[name] = walk.add(tensor)
    walk.compute()
    contents = [_content(name, _CODES.get(x.dtype), x.array) for name, x in named.items()]
    given = {} if metadata is None else dict(metadata)
    if not all([type(x) is str for pair in given.items() for x in pair]):
        raise TypeError("save_file: metadata must be a dict of strings to strings")
    return contents, given


def _contents(walk: Walk) -> list[Content]:
    return [_content(x.name, _CODES.get(x.dtype), x.array) for x in walk.stored]


def _content(name: str, code: str | None, array: np.ndarray[Any, Any]) -> Content:
    shape = array.shape
    if code is None:  # complex128, as pairs of float64
        code, shape = "F64", (*shape, 2)
    return Content(name, code, shape, array)


def _checksum(structure: str, table: Iterable[tuple[str, str, tuple[int, ...]]]) -> str:
    lines = [f"\n{name} {dtype} {shape}" for name, dtype, shape in sorted(table)]
    text = structure + "".join(lines)
    return f"{zlib.crc32(text.encode('utf-8', 'surrogatepass')):08x}"


# ------------------------------------------------------------------------------------- loading


class Leaves:
    """The tensors of a file, each made when it is asked for, and shared if asked for again."""

    def __init__(self, source: Source, layout: Layout, device: Device = CPU) -> None:
        self.source = source
        self.layout = layout
        self.device = device
        self.budget = MOST_COPIED + 4 * source.size
        self._tensors: dict[tuple[Any, ...], Any] = {}
        self._first: dict[tuple[str, bool], Any] = {}

    def __call__(
        self,
        kind: str,
        name: str,
        requires_grad: bool,
        pairs: bool,
        alias: int = 0,
        place: Strided | None = None,
        strides: tuple[int, ...] | None = None,
    ) -> Any:
        """The tensor, parameter or array called `name`; `pairs` of float64 are complex128.

        Those of another `alias` are other tensors of the same values; with a `place`, it is a part.
        `strides` are those of the whole.
        """
        entry = self.layout.entries.get(name)
        if entry is None:
            raise self.source.error(f"the tensor {shown(name)} is missing; the file is corrupt")
        if kind == "array":
            return self._array(name, entry, pairs)
        key = (kind, name, requires_grad, pairs, alias, place)
        if key not in self._tensors:
            first = self._first.get((name, pairs))
            if first is not None and place is None:
                made = _sharing(first, kind, requires_grad)
            elif first is None:
                whole = (kind, requires_grad) if place is None else ("tensor", False)
                made = self._tensor(whole[0], name, entry, whole[1], pairs, strides)
                if self.device is not CPU:
                    made = placed(made, self.device)
                self._first[name, pairs] = first = made
            if place is not None:
                made = self._part(first, place, kind, requires_grad, name)
            self._tensors[key] = made
        return self._tensors[key]

    def _part(self, whole: Any, place: Strided, kind: str, requires_grad: bool, name: str) -> Any:
        """A tensor that shows a part of the values of another."""
        self.budget -= place.numel * whole.element_size()
        if place.offset + place.span > whole.numel() or self.budget < 0:
            raise self.source.error(f"a part of tensor {shown(name)} is beyond it, or too large")
        if requires_grad and whole.dtype.category < dtypes.FLOAT:
            raise self.source.error(f"a part of tensor {shown(name)} requires a gradient")
        cls = parameter_class() if kind == "parameter" else None
        return part_of(whole, place.offset, place.shape, place.strides, requires_grad, cls)

    def _tensor(
        self,
        kind: str,
        name: str,
        entry: Entry,
        requires_grad: bool,
        pairs: bool,
        strides: tuple[int, ...] | None,
    ) -> Any:
        dtype = dtypes.complex128 if pairs else _BY_CODE[entry.dtype]
        if requires_grad and dtype.category < dtypes.FLOAT:
            raise self.source.error(f"tensor {shown(name)} of {dtype.name} requires a gradient")
        shape = self._shape(name, entry, pairs)
        if strides is not None and (len(strides) != len(shape) or not is_dense(shape, strides)):
            raise self.source.error(f"tensor {shown(name)} has the strides {shown(str(strides))}")
        count = entry.nbytes // dtype.itemsize
        found = buffer_at(self.source, entry.start, dtype, count, must_swap("little"))
        cls = parameter_class() if kind == "parameter" else None
        return tensor_on(found, shape, dtype, requires_grad, cls, strides)

    def _array(self, name: str, entry: Entry, pairs: bool) -> np.ndarray[Any, Any]:
        shape = self._shape(name, entry, pairs)
        if entry.dtype == "BF16":
            raise self.source.error(f"tensor {shown(name)} is BF16, which NumPy does not have")
        dtype = np.dtype("complex128") if pairs else STORAGE[entry.dtype]
        raw = self.source.read(entry.start, entry.nbytes)
        if dtype.kind == "b":
            array: np.ndarray[Any, Any] = np.frombuffer(raw, np.uint8) != 0
        else:
            array = np.frombuffer(raw, dtype.newbyteorder("<")).astype(dtype)
        return array.reshape(shape)

    def _shape(self, name: str, entry: Entry, pairs: bool) -> tuple[int, ...]:
        if not pairs:
            return entry.shape
        if entry.dtype != "F64" or entry.shape[-1:] != (2,):
            raise self.source.error(f"tensor {shown(name)} is not complex; the file is corrupt")
        return entry.shape[:-1]


def _sharing(first: Any, kind: str, requires_grad: bool) -> Any:
    """Another tensor that shares the values of one; complex pairs have passed the checks."""
    out = first.detach()
    if kind == "parameter":
        out.__class__ = parameter_class()
    return out.requires_grad_(requires_grad)


def placed(tensor: Any, device: Device) -> Any:
    """A tensor of the same class and values on another device."""
    out = tensor.detach().to(device).requires_grad_(tensor.requires_grad)
    out.__class__ = type(tensor)
    return out


def read_document(source: Source, layout: Layout, device: Device, weights_only: bool) -> Any:
    """The object saved in a file, or the tensors of a file that has no structure."""
    structure = layout.metadata.get(_STRUCTURE)
    if structure is None and _CHECK not in layout.metadata:
        return read_tensors(source, layout, device)
    table = [(name, entry.dtype, entry.shape) for name, entry in layout.entries.items()]
    if structure is None or layout.metadata.get(_CHECK) != _checksum(structure, table):
        raise source.error(
            "the header does not match its checksum; the file is corrupt, or another tool has "
            "changed its tensors. livegrad.serialization.load_file reads the tensors alone"
        )
    try:
        described = parse(structure, _JSON_DEPTH)
    except ValueError as error:
        raise source.error(f"the structure of the saved object is not JSON: {error}") from error
    if not isinstance(described, dict) or set(described) != {"version", "object"}:
        raise source.error("the structure of the saved object is not of the expected form")
    if described["version"] != VERSION:
        raise source.error(
            f"it was saved in version {shown(described['version'])} of the format; expected "
            f"{VERSION}. Use a newer livegrad"
        )
    leaves = Leaves(source, layout, device)
    return Decoder(source, leaves, weights_only).decode(described["object"])


def read_tensors(source: Source, layout: Layout, device: Device) -> dict[str, Any]:
    """The tensors of a file by name."""
    leaves = Leaves(source, layout, device)
    return {name: leaves("tensor", name, False, False) for name in layout.entries}
