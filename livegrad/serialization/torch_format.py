"""Writing PyTorch files that `torch.load(weights_only=True)` reads, without torch.

The pickle is written opcode by opcode (protocol 2), in the words that torch's own restricted
reader knows. Tensors that share a storage in PyTorch share one in the file, which has all of it.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict
from collections.abc import Iterable
from typing import IO, Any

import numpy as np

from livegrad.device import Device
from livegrad.dtypes import DType
from livegrad.graph.handle import Handle
from livegrad.graph.layout import contiguous_strides
from livegrad.graph.meta import Size
from livegrad.serialization.archive import ArchiveWriter
from livegrad.serialization.layout import little_endian
from livegrad.serialization.tensors import parameter_class
from livegrad.serialization.vocabulary import STORAGE_CLASSES
from livegrad.serialization.walk import Place, Stored, Walk
from livegrad.settings import strided

_CLASSES = {dtype: name for name, dtype in STORAGE_CLASSES.items()}
_MARK, _STOP, _REDUCE, _BUILD, _NONE = b"(", b".", b"R", b"b", b"N"
_TUPLE, _APPENDS, _SETITEMS, _PERSID = b"t", b"e", b"u", b"Q"
_PUT, _GET = b"r", b"j"  # a number of four bytes follows
_EMPTY_TUPLE, _EMPTY_LIST, _EMPTY_DICT = b")", b"]", b"}"
# How many bytes LONG1 can hold.
_MOST_INT_BYTES = 255


class PickleWriter:
    """Writes one value as a pickle; `walk.stored` are the storages it refers to.

    With `parts`, storages are named as in old files, where one could be a part of another.
    """

    def __init__(self, parts: bool = False) -> None:
        self.parts = parts
        self.walk = Walk()
        self.out: list[bytes] = []
        # By identity: the number of a tensor that was written, and the tensor.
        self.memo: dict[int, tuple[int, Any]] = {}

    def pickled(self, x: Any) -> bytes:
        """The whole pickle of `x`."""
        self.out = [b"\x80\x02"]
        self.write(x)
        return b"".join([*self.out, _STOP])

    def write(self, x: Any) -> None:
        """Writes a value."""
        rule = _WRITERS.get(type(x))
        if rule is None and isinstance(x, Handle):
            rule = PickleWriter._tensor
        if rule is None:
            foreign = isinstance(x, np.generic | np.ndarray | frozenset | range | slice)
            where = ' (format="safetensors" keeps it, torch does not)' if foreign else ""
            self.walk.refuse(x, where)
        rule(self, x)

    def _emit(self, *parts: bytes) -> None:
        self.out += parts

    def _call(self, name: str, *args: Any) -> None:
        """A global, called with plain arguments."""
        self._global(name)
        self._tuple(args)
        self._emit(_REDUCE)

    def _global(self, name: str) -> None:
        module, _, attribute = name.rpartition(".")
        self._emit(b"c", module.encode(), b"\n", attribute.encode(), b"\n")

    # ---- leaves --------------------------------------------------------------------------

    def _none(self, x: None) -> None:
        self._emit(_NONE)

    def _bool(self, x: bool) -> None:
        self._emit(b"\x88" if x else b"\x89")

    def _int(self, x: int) -> None:
        if -(1 << 31) <= x < 1 << 31:
            self._emit(b"J", struct.pack("<i", x))
            return
        size = x.bit_length() // 8 + 1
        if size > _MOST_INT_BYTES:
            raise ValueError(f"save: {self.walk.place} is an integer of {x.bit_length()} bits")
        self._emit(b"\x8a", bytes([size]), x.to_bytes(size, "little", signed=True))

    def _float(self, x: float) -> None:
        self._emit(b"G", struct.pack(">d", x))

    def _str(self, x: str) -> None:
        raw = x.encode("utf-8", "surrogatepass")
        self._emit(b"X", struct.pack("<I", len(raw)), raw)

    def _bytes(self, x: bytes) -> None:
        self._call("_codecs.encode", x.decode("latin-1"), "latin1")

    def _bytearray(self, x: bytearray) -> None:
        self._call("__builtin__.bytearray", x.decode("latin-1"), "latin-1")

    def _complex(self, x: complex) -> None:
        self._call("__builtin__.complex", x.real, x.imag)

    def _dtype(self, x: DType) -> None:
        self._global(f"torch.{x.name}")

    def _device(self, x: Device) -> None:
        self._call("torch.device", str(x))

    def _tensor(self, x: Any) -> None:
        if id(x) in self.memo:
            self._emit(_GET, struct.pack("<I", self.memo[id(x)][0]))
            return
        self._new_tensor(x)
        self.memo[id(x)] = (len(self.memo), x)
        self._emit(_PUT, struct.pack("<I", self.memo[id(x)][0]))

    def _new_tensor(self, x: Any) -> None:
        if x._saved_tag is not None:
            self.walk.refuse(x, ' (format="safetensors" keeps it)')
        if isinstance(x, parameter_class()):
            self._global("torch._utils._rebuild_parameter")
            self._emit(_MARK)
            self._plain_tensor(x, False)
            self._bool(x.requires_grad)
            self._call("collections.OrderedDict")
            self._emit(_TUPLE, _REDUCE)
        else:
            self._plain_tensor(x, x.requires_grad)

    def _plain_tensor(self, x: Any, requires_grad: bool) -> None:
        if x.layout is not strided:
            self._sparse(x)
            return
        if not x.is_meta:
            self._rebuild(self.walk.in_storage(x), requires_grad)
            return
        shape = tuple(x.shape)
        self._call(
            "torch._utils._rebuild_meta_tensor_no_storage",
            x.dtype, shape, contiguous_strides(shape), requires_grad,
        )  # fmt: skip

    def _sparse(self, x: Any) -> None:
        """`_rebuild_sparse_tensor(layout, (its parts, size[, whether it is coalesced]))`."""
        self._global("torch._utils._rebuild_sparse_tensor")
        self._emit(_MARK)
        self._call("torch.serialization._get_layout", f"torch.{x.layout.name}")
        self._emit(_MARK)
        for part in (*x._pattern.parts, x._elements.detach()):
            self._plain_tensor(part, False)
        self._call("torch.Size", tuple(x.shape))
        if x.is_sparse:
            self._bool(x.is_coalesced())
        self._emit(_TUPLE, _TUPLE, _REDUCE)

    def _rebuild(self, place: Place, requires_grad: bool) -> None:
        """`_rebuild_tensor_v2(storage, offset, shape, strides, requires_grad, OrderedDict())`."""
        stored = place.stored
        kind = _CLASSES.get(stored.dtype)  # of later dtypes there are no storages
        if kind is None and self.parts:
            raise TypeError(
                f"save: {self.walk.place} is a tensor of {stored.dtype.name}, which PyTorch did "
                "not have before version 1.6"
            )
        self._global(f"torch._utils._rebuild_tensor_{'v3' if kind is None else 'v2'}")
        self._emit(_MARK, _MARK)
        self._str("storage")
        self._global("torch.storage.UntypedStorage" if kind is None else f"torch.{kind}")
        self._str(str(stored.number))
        self._str("cpu")
        self._int(stored_count(stored))
        if self.parts:
            self._emit(_NONE)
        self._emit(_TUPLE, _PERSID)
        self._int(place.offset)
        self._tuple(place.shape)
        self._tuple(place.strides)
        self._bool(requires_grad)
        self._call("collections.OrderedDict")
        if kind is None:
            self._dtype(stored.dtype)
        self._emit(_TUPLE, _REDUCE)

    # ---- containers ----------------------------------------------------------------------

    def _items(self, x: Iterable[Any]) -> None:
        for place, item in enumerate(x):
            self.walk.path.append(place)
            self.write(item)
            self.walk.path.pop()

    def _tuple(self, x: tuple[Any, ...]) -> None:
        if not x:
            self._emit(_EMPTY_TUPLE)
            return
        self._emit(_MARK)
        with self.walk.inside(x):
            self._items(x)
        self._emit(_TUPLE)

    def _list(self, x: list[Any]) -> None:
        self._emit(_EMPTY_LIST, _MARK)
        with self.walk.inside(x):
            self._items(x)
        self._emit(_APPENDS)

    def _size(self, x: Size) -> None:
        self._call("torch.Size", tuple(x))

    def _set(self, x: set[Any]) -> None:
        for item in x:
            self.walk.check_key(item)
        with self.walk.inside(x):
            self._call("__builtin__.set", sorted(x, key=repr))

    def _pairs(self, x: dict[Any, Any]) -> None:
        self._emit(_MARK)
        with self.walk.inside(x):
            for key, value in x.items():
                self.walk.check_key(key)
                self.write(key)
                self.walk.path.append(key)
                self.write(value)
                self.walk.path.pop()
        self._emit(_SETITEMS)

    def _dict(self, x: dict[Any, Any]) -> None:
        self._emit(_EMPTY_DICT)
        self._pairs(x)

    def _counter(self, x: Counter[Any]) -> None:
        self._global("collections.Counter")
        self._emit(_MARK)
        self._dict(x)
        self._emit(_TUPLE, _REDUCE)

    def _ordered(self, x: OrderedDict[Any, Any]) -> None:
        self._call("collections.OrderedDict")
        self._pairs(x)
        versions = getattr(x, "_metadata", None)  # what a Module's state dict carries
        if versions is not None:
            self.walk.path.append("_metadata")
            self._dict({"_metadata": versions})
            self.walk.path.pop()
            self._emit(_BUILD)


def stored_count(stored: Stored) -> int:
    """Elements of a storage: bytes, where there is no class of storages for the dtype."""
    meta = stored.node.meta
    return meta.numel if stored.dtype in _CLASSES else meta.nbytes


_WRITERS: dict[type, Any] = {
    type(None): PickleWriter._none,
    bool: PickleWriter._bool,
    int: PickleWriter._int,
    float: PickleWriter._float,
    str: PickleWriter._str,
    bytes: PickleWriter._bytes,
    bytearray: PickleWriter._bytearray,
    complex: PickleWriter._complex,
    DType: PickleWriter._dtype,
    Device: PickleWriter._device,
    tuple: PickleWriter._tuple,
    list: PickleWriter._list,
    Size: PickleWriter._size,
    set: PickleWriter._set,
    dict: PickleWriter._dict,
    Counter: PickleWriter._counter,
    OrderedDict: PickleWriter._ordered,
}


def prepare_torch(obj: Any) -> tuple[bytes, list[Stored]]:
    """The pickle of `obj` and the storages it refers to, with all values computed."""
    writer = PickleWriter()
    pickled = writer.pickled(obj)
    writer.walk.compute()
    return pickled, writer.walk.stored


def write_torch(file: IO[bytes], prepared: tuple[bytes, list[Stored]]) -> None:
    """Writes what `prepare_torch` made, in the layout of torch.save."""
    pickled, stored = prepared
    archive = ArchiveWriter(file)
    archive.add("archive/data.pkl", pickled)
    archive.add("archive/.format_version", b"1")
    archive.add("archive/.storage_alignment", b"64")
    archive.add("archive/byteorder", b"little")
    for x in stored:
        archive.add(f"archive/data/{x.number}", little_endian(x.array))
    archive.add("archive/version", b"3\n")
    archive.finish()
