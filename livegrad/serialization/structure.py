"""Nested Python values as JSON, beside the tensors that are their leaves.

None, bools, strings, ordinary numbers, lists, and dicts whose keys are strings are what they are
in JSON. Everything else is an object with one key that starts with `$`:

    {"model": {"weight": {"$tensor": "model.weight"}}, "betas": {"$tuple": [0.9, 0.99]}, "epoch": 3}

The vocabulary is closed: restore.py knows what each kind is, and calls nothing else. Objects that
are not plain values, such as modules, are in objects.py.
"""

from __future__ import annotations

import base64
import json
import math
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from livegrad import dtypes
from livegrad.device import Device
from livegrad.dtypes import DType
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.layout import is_dense
from livegrad.graph.meta import Size
from livegrad.serialization.errors import MOST_INT_BYTES
from livegrad.serialization.tensors import parameter_class
from livegrad.serialization.walk import Stored, Walk, storage_of
from livegrad.settings import strided

# Factories of a defaultdict that can be named.
FACTORIES: dict[str, Any] = {
    kind.__name__: kind for kind in (bool, int, float, complex, str, bytes, list, tuple, dict, set)
}
_LARGE = 1 << 63


class NamedArray(NamedTuple):
    """A NumPy array to write, under its name."""

    name: str
    array: np.ndarray[Any, Any]


class Encoder:
    """Turns a value into what `json.dumps` takes; `walk.stored` and `arrays` are to be written."""

    def __init__(self) -> None:
        self.walk = Walk()
        self.arrays: list[NamedArray] = []
        # By identity: the number of an object, and the object, so that its identity stays its own.
        self.objects: dict[int, tuple[int, Any]] = {}
        self.within = 0  # how many objects the walk is in
        self._tensors: dict[str, dict[int, tuple[int, Any]]] = {}
        self._leaves: list[tuple[dict[str, Any], str, Any, Stored]] = []

    def encode(self, x: Any) -> Any:
        """`x` as JSON."""
        kind = type(x)
        if x is None or kind is bool or kind is str:
            return x
        if kind is int:
            return x if -_LARGE <= x < _LARGE else self._int(x)
        if kind is float:
            return x if math.isfinite(x) else {"$float": repr(x)}
        if isinstance(x, Handle):
            return self._tensor(x)
        rule = _ENCODERS.get(kind)
        if rule is None and isinstance(x, np.generic) and kind.__module__ == "numpy":
            rule = Encoder._scalar
        if rule is not None:
            return rule(self, x)
        if isinstance(x, np.ndarray | np.generic):
            self.walk.refuse(x)
        return _objects().encode_object(self, x)

    # ---- leaves --------------------------------------------------------------------------

    def _int(self, x: int) -> Any:
        if x.bit_length() > 8 * MOST_INT_BYTES:
            raise ValueError(f"save: {self.walk.place} is an integer of {x.bit_length()} bits")
        return {"$int": hex(x)}

    def _tensor(self, x: Any) -> Any:
        if x._saved_tag is not None:
            return {x._saved_tag: self.encode(x._saved())}
        if x.layout is not strided:
            return self._sparse(x, isinstance(x, parameter_class()))
        stored: Stored = self.walk.add(x)
        tag = "$parameter" if isinstance(x, parameter_class()) else "$tensor"
        out: dict[str, Any] = {tag: stored.name}
        if stored.dtype is dtypes.complex128:  # the format has no name for it
            out["dtype"] = "complex128"
        if x.requires_grad:
            out["requires_grad"] = True
        alias = self._alias(stored.name, x)
        if alias:
            out["alias"] = alias
        meta = node_of(x).meta
        if meta.strides is not None and is_dense(meta.shape, meta.strides):
            out["strides"] = list(meta.strides)
        if self.within:
            _objects().add_attributes(self, x, out)
        self._leaves.append((out, tag, x, stored))
        return out

    def join_parts(self) -> None:
        """Has tensors that show parts of one storage written as that, once.

        What alone shows a part of a storage is written by itself, under its own name.
        """
        by_storage: dict[int, list[Any]] = {}
        for leaf in self._leaves:
            by_storage.setdefault(id(storage_of(leaf[2])), []).append(leaf)
        gone = set()
        for leaves in by_storage.values():
            if len({id(stored) for *_, stored in leaves}) == 1:
                continue
            self.walk.path = [f"{leaves[0][3].name}.storage"]
            for out, tag, x, before in leaves:
                place = self.walk.in_storage(x)
                if place.stored is not before:
                    gone.add(id(before))
                    out[tag] = place.stored.name
                    out["place"] = [place.offset, list(place.shape), list(place.strides)]
                    out["alias"] = self._alias(place.stored.name, x)
                    out.pop("strides", None)
        self.walk.path = []
        self.walk.stored = [stored for stored in self.walk.stored if id(stored) not in gone]

    def _alias(self, name: str, x: Any) -> int:
        """Which of the tensors it is that share the value called `name`."""
        seen = self._tensors.setdefault(name, {})
        return seen.setdefault(id(x), (len(seen), x))[0]

    def _sparse(self, x: Any, learned: bool) -> Any:
        """A layout, and its parts as tensors of their own."""
        parts = {"values": x._elements.detach()}
        parts |= {f"indices{i or ''}": part for i, part in enumerate(x._pattern.parts)}
        out: dict[str, Any] = {"$sparse": x.layout.name, "size": list(x.shape)}
        for name, part in parts.items():
            self.walk.path.append(name)
            out[name] = self._tensor(part)
            self.walk.path.pop()
        out |= {"coalesced": True} if x.is_sparse and x.is_coalesced() else {}
        out |= {"parameter": True} if learned else {}
        return out | ({"requires_grad": True} if x.requires_grad else {})

    def _array(self, x: np.ndarray[Any, Any]) -> Any:
        if x.dtype.kind not in "biufc" or x.dtype.itemsize > 16 or x.dtype == np.longdouble:
            self.walk.refuse(x, f" with dtype {x.dtype}")
        name = self.walk.new_name()
        native = np.ascontiguousarray(x, x.dtype.newbyteorder("=")).reshape(x.shape)
        self.arrays.append(NamedArray(name, native))
        out: dict[str, Any] = {"$array": name}
        if native.dtype == np.complex128:
            out["dtype"] = "complex128"
        return out

    def _scalar(self, x: Any) -> Any:
        if x.dtype.kind not in "biufc" or x.dtype == np.longdouble:
            self.walk.refuse(x)
        return {"$scalar": [x.dtype.name, _text(x.astype(x.dtype.newbyteorder("<")).tobytes())]}

    def _complex(self, x: complex) -> Any:
        return {"$complex": [self.encode(x.real), self.encode(x.imag)]}

    def _bytes(self, x: bytes | bytearray) -> Any:
        return {f"${type(x).__name__}": _text(bytes(x))}

    def _named(self, x: Any) -> Any:
        return {"$dtype": x.name} if isinstance(x, DType) else {"$device": str(x)}

    def _numbers(self, x: Any) -> Any:
        """A range or a slice, which are three numbers."""
        parts = [x.start, x.stop, x.step]
        if not all([p is None or (type(p) is int and -_LARGE <= p < _LARGE) for p in parts]):
            self.walk.refuse(x)
        return {f"${type(x).__name__}": parts}

    # ---- containers ----------------------------------------------------------------------

    def items(self, x: Iterable[Any]) -> list[Any]:
        """The items of a sequence or a set."""
        out = []
        with self.walk.inside(x):
            for place, item in enumerate(x):
                self.walk.path.append(place)
                out.append(self.encode(item))
                self.walk.path.pop()
        return out

    def _list(self, x: list[Any]) -> Any:
        return self.items(x)

    def _sequence(self, x: tuple[Any, ...]) -> Any:
        return {"$size" if type(x) is Size else "$tuple": self.items(x)}

    def _set(self, x: Any) -> Any:
        for item in x:
            self.walk.check_key(item)
        # In an order of its own, so that equal sets make equal files.
        items = sorted(self.items(x), key=lambda item: json.dumps(item, sort_keys=True))
        return {f"${type(x).__name__}": items}

    def pairs(self, x: dict[Any, Any]) -> list[tuple[Any, Any]]:
        """The keys and values of a dict."""
        pairs = []
        with self.walk.inside(x):
            for key, value in x.items():
                self.walk.check_key(key)
                self.walk.path.append(key)
                pairs.append((self.encode(key), self.encode(value)))
                self.walk.path.pop()
        return pairs

    def _dict(self, x: dict[Any, Any]) -> Any:
        pairs = self.pairs(x)
        if all([type(key) is str and not key.startswith("$") for key in x]):
            return dict(pairs)
        return {"$dict": pairs}

    def _ordered(self, x: OrderedDict[Any, Any]) -> Any:
        out: dict[str, Any] = {"$ordered": self.pairs(x)}
        versions = getattr(x, "_metadata", None)  # what a Module's state dict carries
        if versions is not None:
            self.walk.path.append("_metadata")
            out["metadata"] = self.encode(versions)
            self.walk.path.pop()
        return out

    def _counter(self, x: Counter[Any]) -> Any:
        return {"$counter": self.pairs(x)}

    def _default(self, x: defaultdict[Any, Any]) -> Any:
        factory = x.default_factory
        name = None if factory is None else getattr(factory, "__name__", "")
        if name is not None and FACTORIES.get(name) is not factory:
            self.walk.refuse(x, " with a factory of its own")
        return {"$default": self.pairs(x), "factory": name}


_ENCODERS: dict[type, Any] = {
    np.ndarray: Encoder._array,
    complex: Encoder._complex,
    bytes: Encoder._bytes,
    bytearray: Encoder._bytes,
    DType: Encoder._named,
    Device: Encoder._named,
    range: Encoder._numbers,
    slice: Encoder._numbers,
    list: Encoder._list,
    tuple: Encoder._sequence,
    Size: Encoder._sequence,
    set: Encoder._set,
    frozenset: Encoder._set,
    dict: Encoder._dict,
    OrderedDict: Encoder._ordered,
    Counter: Encoder._counter,
    defaultdict: Encoder._default,
}


def _objects() -> Any:
    """What knows modules and other objects, imported when one is saved."""
    from livegrad.serialization import objects

    return objects


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")
