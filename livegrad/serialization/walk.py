"""What saving shares between formats: the tensors found on the way, and where the walk is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn

import numpy as np

from livegrad.dtypes import DType
from livegrad.graph.geometry import offset_of, root_of
from livegrad.graph.handle import Handle, node_of, share_of, shows_conjugates
from livegrad.graph.layout import contiguous_strides
from livegrad.graph.meta import Meta
from livegrad.graph.node import Node
from livegrad.graph.state import flush, setting
from livegrad.ops.shaping.strided import in_memory, whole_of
from livegrad.runtime.values import array_of
from livegrad.serialization.errors import MOST_DEPTH

# Larger integers have the hash of a smaller one.
_MOST_KEY = (1 << 61) - 2
_KEY_DEPTH = 4
_MOST_PARTS = 20_000


class Attribute(str):
    """A step of the way that leads to an attribute."""

    __slots__ = ()


class Refused(TypeError):
    """A value cannot be saved in the format."""


class Stored:
    """One value to write; several tensors that share their values have the same."""

    __slots__ = ("name", "node", "number", "owner")

    def __init__(self, owner: Any, node: Node, name: str, number: int) -> None:
        self.owner = owner  # kept, so that its id stays its own
        self.node = node
        self.name = name
        self.number = number

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.node.meta.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dims."""
        return self.node.meta.shape

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The values, in the storage dtype; `Walk.compute` comes first."""
        return array_of(self.node)


class Place(NamedTuple):
    """Where the elements of a tensor are in a storage that is written."""

    stored: Stored
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class Walk:
    """A walk through what is saved: the way from the top to here, and the tensors met so far."""

    def __init__(self) -> None:
        self.path: list[Any] = []
        self.stored: list[Stored] = []
        self.names: set[str] = set()
        self._by_identity: dict[int, Stored] = {}
        self._open: set[int] = set()
        self.keys = Keys()

    @contextmanager
    def inside(self, container: Any) -> Iterator[None]:
        """Notes that what comes next is within `container`."""
        if id(container) in self._open:
            raise ValueError(f"save: {self.place} contains itself; expected no cycles")
        if len(self._open) >= MOST_DEPTH:
            raise ValueError(f"save: {self.place[:200]} nests deeper than {MOST_DEPTH} containers")
        self._open.add(id(container))
        try:
            yield
        finally:
            self._open.discard(id(container))

    @property
    def place(self) -> str:
        """Where the walk is, as Python: `obj['model'][0]`."""
        return "obj" + "".join([_step(key) for key in self.path])

    def add(self, tensor: Any) -> Stored:
        """The value of a tensor, to be written once however many tensors share it."""
        node = node_of(tensor)
        return self._to_store(_owner(tensor), node)

    def in_storage(self, tensor: Any) -> Place:
        """Where a tensor is in the storage that it has in PyTorch, all of which is written."""
        strided = node_of(tensor).meta.strides is not None
        # Made dense; we refer to it, so that it is not given up again.
        cell = share_of(tensor).cell if strided else None  # noqa: F841
        node, owner = node_of(tensor), storage_of(tensor)
        memory = node
        if owner is not tensor and not _is_all(node.meta, owner._node.meta):
            with setting(grad=False):
                memory = node_of(in_memory(whole_of(tensor)))
        offset = 0 if owner is tensor else offset_of(tensor)
        strides = contiguous_strides(node.meta.shape) if owner is tensor else node.meta.stride()
        return Place(self._to_store(owner, memory), offset, node.meta.shape, strides)

    def _to_store(self, owner: Any, node: Node) -> Stored:
        """What is written for all that have the `owner` in common; `node` has the values."""
        found = self._by_identity.get(id(owner))
        if found is None:
            found = Stored(owner, node, self.new_name(), len(self.stored))
            self._by_identity[id(owner)] = found
            self.stored.append(found)
        return found

    def new_name(self) -> str:
        """A name for the value here that no other has: the keys that lead to it, with dots."""
        wanted = ".".join([str(key) for key in self.path]) or "tensor"
        if wanted == "__metadata__" or not _is_text(wanted):
            wanted = "tensor"
        name, number = wanted, 1
        while name in self.names:
            number += 1
            name = f"{wanted}#{number}"
        self.names.add(name)
        return name

    def compute(self) -> None:
        """Computes all values met on the walk."""
        nodes = [stored.node for stored in self.stored]
        if any([node.buffer is None for node in nodes]):
            flush("save()", *nodes)

    def refuse(self, value: Any, where: str = "") -> NoReturn:
        """TypeError: this value cannot be saved."""
        kind = type(value)
        name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
        hint = "expected tensors, numbers, strings and plain containers of them"
        if hasattr(value, "state_dict"):
            hint = "save its state_dict() instead"
        elif isinstance(value, tuple):
            hint = "save tuple(...) of it instead"
        elif isinstance(value, dict):
            hint = "save dict(...) of it instead"
        elif isinstance(value, np.ndarray):
            hint = "convert it with livegrad.tensor(...) first"
        raise Refused(f"save: {self.place} is of type {name}{where}; {hint}")

    def check_key(self, key: Any) -> None:
        """TypeError unless `key` may be a key of a dict, or an element of a set."""
        problem = self.keys.problem(key)
        if problem is not None:
            raise Refused(f"save: a key or element in {self.place} {problem}")


def _step(key: Any) -> str:
    return f".{key}" if type(key) is Attribute else f"[{key!r}]"


def _owner(tensor: Any) -> Any:
    """The object that tensors with the same values in the same places have in common."""
    share = tensor._share
    return share.cell if share is not None and share.is_whole() else tensor


def storage_of(tensor: Any) -> Any:
    """What stands for the storage of a tensor: its cell, or itself if it has no other's.

    What shows values as others than they are, of another dtype or as conjugates, is by itself.
    """
    if tensor._share is None:
        return tensor
    cell, path = root_of(tensor)
    same = cell._node.meta.dtype is tensor.dtype and not shows_conjugates(path)
    return cell if same else tensor


def _is_all(meta: Meta, whole: Meta) -> bool:
    """Whether a tensor shows all elements of its storage, one after the other."""
    return meta.contiguous and whole.strides is None and meta.numel == whole.numel


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


class Keys:
    """Says what may be a key of a dict or an element of a set: few plain types.

    Hashing and comparing keys must neither run code nor take long. Many keys of the same hash do
    take long, and tuples with the same hash are easily found: so all tuples that are keys together
    may have only so many parts.

    With `tensors`, they may be keys, too, as in an optimiser: their hash is their identity.
    """

    def __init__(self) -> None:
        self.left = _MOST_PARTS
        self.tensors = False

    def problem(self, key: Any, depth: int = 0) -> str | None:
        """What is wrong with a key, or None."""
        kind = type(key)
        if kind in (str, bool, float, bytes, DType) or key is None:
            return None
        if kind is int:
            return None if -_MOST_KEY <= key <= _MOST_KEY else "is an integer beyond 61 bits"
        if self.tensors and isinstance(key, Handle):
            return None
        if kind is not tuple and kind is not frozenset:
            return f"is of type {kind.__name__}; expected strings, numbers or tuples of them"
        self.left -= len(key)
        if depth == _KEY_DEPTH or self.left < 0:
            return (
                f"is a tuple that nests deeper than {_KEY_DEPTH}, or one of too many: expected "
                f"tuples of {_MOST_PARTS} parts in all"
            )
        for part in key:
            found = self.problem(part, depth + 1)
            if found is not None:
                return found
        return None
