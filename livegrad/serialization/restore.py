"""The way back from the JSON of structure.py to Python values; nothing in it is trusted."""

from __future__ import annotations

import base64
import binascii
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from livegrad import dtypes
from livegrad.device import Device
from livegrad.graph.handle import Handle
from livegrad.graph.meta import Size
from livegrad.serialization.errors import (
    MOST_DEPTH,
    MOST_DIMS,
    MOST_ELEMENTS,
    MOST_INT_BYTES,
    LoadError,
)
from livegrad.serialization.files import Source
from livegrad.serialization.sparse_parts import checked_sparse
from livegrad.serialization.storages import Strided
from livegrad.serialization.strict_json import shown
from livegrad.serialization.structure import FACTORIES
from livegrad.serialization.tensors import parameter_class
from livegrad.serialization.walk import Keys

_DTYPES = {d.name: d for d in dtypes.ALL}
# kind, name, requires_grad, whether of dtype complex128, which of several, which part of it
# -> tensor or array
Leaf = Callable[[str, str, bool, bool, int, Strided | None, tuple[int, ...] | None], Any]
_NUMERIC = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64"
_SCALARS = frozenset((*_NUMERIC.split(), "complex64", "complex128"))


class Decoder:
    """Turns JSON back into values; `leaf` gives tensors and arrays by kind and name."""

    def __init__(self, source: Source, leaf: Leaf, weights_only: bool) -> None:
        self.source = source
        self.leaf = leaf
        self.weights_only = weights_only
        self.finder: Any = None  # of classes, if the file names any
        self.objects: dict[int, Any] = {}  # those of classes, by number
        self.depth = 0
        self.keys = Keys()

    def decode(self, x: Any) -> Any:
        """The value that `x` describes."""
        if not isinstance(x, list | dict):
            return x
        self.depth += 1
        if self.depth > MOST_DEPTH + 2:  # a leaf may be two objects deep
            raise self.bad(f"nests deeper than {MOST_DEPTH} containers")
        if isinstance(x, list):
            out: Any = [self.decode(item) for item in x]
        else:
            tags = [key for key in x if key.startswith("$")]
            if not tags:
                out = {key: self.decode(value) for key, value in x.items()}
            elif len(tags) == 1:
                rule, options = self._rule(tags[0])
                if not set(x) <= {tags[0], *options}:
                    raise self.bad(f"has {tags[0]} with {shown(str(sorted(x)))}")
                out = rule(self, tags[0][1:], x[tags[0]], x)
            else:
                raise self.bad(f"has the unknown kind {shown(tags[0])}")
        self.depth -= 1
        return out

    def _rule(self, tag: str) -> tuple[Any, tuple[str, ...]]:
        if tag in _DECODERS:
            return _DECODERS[tag]
        rules = _instances().RULES
        if tag not in rules:
            raise self.bad(f"has the unknown kind {shown(tag)}")
        return rules[tag]  # type: ignore[no-any-return]

    def bad(self, text: str) -> LoadError:
        """The error that says `text` about the structure."""
        return self.source.error(f"the structure of the saved object {text}; the file is corrupt")

    # ---- leaves --------------------------------------------------------------------------

    def _leaf(self, kind: str, name: Any, x: dict[str, Any]) -> Any:
        grad = x.get("requires_grad", False)
        dtype = x.get("dtype")
        alias = x.get("alias", 0)
        right = type(name) is str and type(grad) is bool and type(alias) is int
        if not right or dtype not in (None, "complex128"):
            raise self.bad(f"has the {kind} {shown(name)}")
        place = self._place(x["place"]) if "place" in x else None
        strides = self._sizes("strides", x["strides"]) if "strides" in x else None
        out = self.leaf(kind, name, grad, dtype is not None, alias, place, strides)
        if "attributes" in x:
            _instances().attributes(self, out, x["attributes"])
        return out

    def _place(self, parts: Any) -> Strided:
        offset, *both = self.list_of("place", parts, 3)
        shape, strides = (self._sizes("place", sizes) for sizes in both)
        (offset,) = self._sizes("place", [offset])
        if len(shape) != len(strides):
            raise self.bad(f"has a tensor at the place {shown(str(parts))}")
        return Strided(offset, shape, strides)

    def _sizes(self, what: str, given: Any) -> tuple[int, ...]:
        """Sizes or strides, which are a few numbers."""
        numbers = tuple(self.list_of(what, given))
        right = all([type(n) is int and 0 <= n <= MOST_ELEMENTS for n in numbers])
        if not right or len(numbers) > MOST_DIMS:
            raise self.bad(f"has a tensor at the {what} {shown(str(given))}")
        return numbers

    def _sparse(self, kind: str, layout: Any, x: dict[str, Any]) -> Any:
        marks = [x.get(name, False) for name in ("coalesced", "parameter", "requires_grad")]
        parts = [self.decode(x[name]) for name in ("indices", "indices1") if name in x]
        elements, size = self.decode(x.get("values")), x.get("size", ())
        right = type(layout) is str and all([type(mark) is bool for mark in marks])
        right = right and all([isinstance(part, Handle) for part in (*parts, elements)])
        sized = type(size) is list and all([type(n) is int and n >= 0 for n in size])
        if not right or not sized or len(parts) != 1 + (layout != "sparse_coo"):
            raise self.bad(f"has the sparse tensor {shown(layout)}")
        try:
            made = checked_sparse(layout, parts, elements, tuple(size), marks[0])
            if marks[1]:
                return parameter_class()(made, marks[2])
            return made.requires_grad_(marks[2])
        except (IndexError, RuntimeError) as error:
            raise self.bad(f"has a sparse tensor that is wrong: {error}") from None

    def _int(self, kind: str, text: Any, x: dict[str, Any]) -> int:
        digits = text.removeprefix("-") if type(text) is str else ""
        if not digits.startswith("0x") or len(digits) > 2 + 2 * MOST_INT_BYTES or "_" in digits:
            raise self.bad(f"has the integer {shown(text)}")
        try:
            return int(text, 16)
        except ValueError:
            raise self.bad(f"has the integer {shown(text)}") from None

    def _float(self, kind: str, text: Any, x: dict[str, Any]) -> float:
        if text not in ("nan", "inf", "-inf"):
            raise self.bad(f"has the number {shown(text)}")
        return float(text)

    def _complex(self, kind: str, parts: Any, x: dict[str, Any]) -> complex:
        values = [self.decode(part) for part in self.list_of(kind, parts)]
        if len(values) != 2 or not all([type(v) is float for v in values]):
            raise self.bad("has a complex number without two parts")
        return complex(values[0], values[1])

    def _bytes(self, kind: str, text: Any, x: dict[str, Any]) -> bytes | bytearray:
        raw = self._raw(text)
        return raw if kind == "bytes" else bytearray(raw)

    def _raw(self, text: Any) -> bytes:
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise self.bad("has bytes that are not base64") from None

    def _scalar(self, kind: str, parts: Any, x: dict[str, Any]) -> Any:
        parts = self.list_of(kind, parts)
        if len(parts) != 2 or type(parts[0]) is not str or parts[0] not in _SCALARS:
            raise self.bad(f"has a NumPy number of dtype {shown(parts[0] if parts else None)}")
        dtype, raw = np.dtype(parts[0]), self._raw(parts[1])
        if len(raw) != dtype.itemsize:
            raise self.bad(f"has a NumPy number of {len(raw)} bytes; expected {dtype.itemsize}")
        if dtype.kind == "b":
            return np.bool_(raw != b"\0")
        return np.frombuffer(raw, dtype.newbyteorder("<")).astype(dtype)[0]

    def _dtype(self, kind: str, name: Any, x: dict[str, Any]) -> Any:
        if type(name) is not str or name not in _DTYPES:
            raise self.bad(f"has the dtype {shown(name)}")
        return _DTYPES[name]

    def _device(self, kind: str, name: Any, x: dict[str, Any]) -> Device:
        try:
            return Device(name)
        except (RuntimeError, TypeError):
            raise self.bad(f"has the device {shown(name)}") from None

    def _numbers(self, kind: str, parts: Any, x: dict[str, Any]) -> Any:
        parts = self.list_of(kind, parts)
        whole = [type(p) is int or (kind == "slice" and p is None) for p in parts]
        if len(parts) != 3 or not all(whole) or (kind == "range" and parts[2] == 0):
            raise self.bad(f"has a {kind} of {shown(str(parts))}")
        return slice(*parts) if kind == "slice" else range(*parts)

    # ---- containers ----------------------------------------------------------------------

    def list_of(self, kind: str, items: Any, count: int | None = None) -> list[Any]:
        """The items that a value of some kind is made of."""
        if not isinstance(items, list) or (count is not None and len(items) != count):
            raise self.bad(f"has a {kind} made of {shown(items)}; expected a list")
        return items

    def text(self, kind: str, value: Any) -> str:
        """The name that a value of some kind consists of."""
        if type(value) is not str:
            raise self.bad(f"has a {kind} called {shown(value)}; expected text")
        return value

    def _sequence(self, kind: str, items: Any, x: dict[str, Any]) -> Any:
        values = [self.decode(item) for item in self.list_of(kind, items)]
        if kind == "tuple":
            return tuple(values)
        if not all([type(v) is int and v >= 0 for v in values]):
            raise self.bad(f"has the size {shown(str(values))}")
        return Size(values)

    def _set(self, kind: str, items: Any, x: dict[str, Any]) -> Any:
        values = [self.decode(item) for item in self.list_of(kind, items)]
        for value in values:
            self._check_key(value)
        out = set(values) if kind == "set" else frozenset(values)
        if len(out) != len(values):
            raise self.bad("has a set with the same element twice")
        return out

    def _check_key(self, key: Any) -> None:
        problem = self.keys.problem(key)
        if problem is not None:
            raise self.bad(f"has a key or element that {problem}")

    def pairs(self, kind: str, pairs: Any) -> dict[Any, Any]:
        """A dict from its keys and values."""
        out: dict[Any, Any] = {}
        for pair in self.list_of(kind, pairs):
            if not isinstance(pair, list) or len(pair) != 2:
                raise self.bad(f"has a {kind} that is not made of pairs")
            key = self.decode(pair[0])
            self._check_key(key)
            if key in out:
                raise self.bad(f"has the key {shown(key)} twice")
            out[key] = self.decode(pair[1])
        return out

    def _dict(self, kind: str, pairs: Any, x: dict[str, Any]) -> Any:
        return self.pairs(kind, pairs)

    def _counter(self, kind: str, pairs: Any, x: dict[str, Any]) -> Any:
        out: Counter[Any] = Counter()
        dict.update(out, self.pairs(kind, pairs))
        return out

    def _ordered(self, kind: str, pairs: Any, x: dict[str, Any]) -> Any:
        out = OrderedDict(self.pairs(kind, pairs))
        if "metadata" in x:
            out._metadata = self.decode(x["metadata"])  # type: ignore[attr-defined]
        return out

    def _default(self, kind: str, pairs: Any, x: dict[str, Any]) -> Any:
        name = x.get("factory")
        if name is not None and (type(name) is not str or name not in FACTORIES):
            raise self.bad(f"has a defaultdict of {shown(name)}")
        return defaultdict(None if name is None else FACTORIES[name], self.pairs(kind, pairs))


def _instances() -> Any:
    """What makes objects of classes, imported when a file has some: it knows modules."""
    from livegrad.serialization import instances

    return instances


# By tag: the rule, and what else may stand beside the tag.
_OF_TENSORS = ("dtype", "requires_grad", "alias", "attributes", "place", "strides")
_DECODERS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "$tensor": (Decoder._leaf, _OF_TENSORS),
    "$parameter": (Decoder._leaf, _OF_TENSORS),
    "$array": (Decoder._leaf, ("dtype",)),
    "$sparse": (
        Decoder._sparse,
        ("coalesced", "indices", "indices1", "parameter", "requires_grad", "size", "values"),
    ),
    "$int": (Decoder._int, ()),
    "$float": (Decoder._float, ()),
    "$complex": (Decoder._complex, ()),
    "$bytes": (Decoder._bytes, ()),
    "$bytearray": (Decoder._bytes, ()),
    "$scalar": (Decoder._scalar, ()),
    "$dtype": (Decoder._dtype, ()),
    "$device": (Decoder._device, ()),
    "$range": (Decoder._numbers, ()),
    "$slice": (Decoder._numbers, ()),
    "$tuple": (Decoder._sequence, ()),
    "$size": (Decoder._sequence, ()),
    "$set": (Decoder._set, ()),
    "$frozenset": (Decoder._set, ()),
    "$dict": (Decoder._dict, ()),
    "$ordered": (Decoder._ordered, ("metadata",)),
    "$counter": (Decoder._counter, ()),
    "$default": (Decoder._default, ("factory",)),
}
