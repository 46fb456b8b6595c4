"""Tensors of a PyTorch file: parts of its storages, each checked to lie within its own.

Storages stay on the file's mapping, and tensors on the same one share its values, as in PyTorch.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.meta import Size
from livegrad.runtime.memory import copied
from livegrad.serialization.archive import Member, check_member
from livegrad.serialization.errors import MOST_DIMS, MOST_ELEMENTS, MOST_TENSORS, LoadError
from livegrad.serialization.files import Source
from livegrad.serialization.strict_json import shown
from livegrad.serialization.tensors import (
    buffer_at,
    is_mapped,
    parameter_class,
    part_of,
    tensor_on,
)

# Copies may take this much more than four times the file.
MOST_COPIED = 64 << 20


class StorageKind(NamedTuple):
    """A class of storages: the dtype of the elements, None if it does not tell."""

    dtype: DType | None


class Storage(NamedTuple):
    """A storage: a file of the archive, seen as elements of `dtype`."""

    key: str
    dtype: DType | None
    member: Member


class Strided(NamedTuple):
    """Where the elements of a tensor are within its storage."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def span(self) -> int:
        """Number of elements of the storage from the first to the last."""
        if 0 in self.shape:
            return 0
        pairs = zip(self.shape, self.strides, strict=True)
        return 1 + sum([(size - 1) * stride for size, stride in pairs])

    @property
    def is_plain(self) -> bool:
        """Whether the elements lie one after the other."""
        step = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size > 1 and stride != step:
                return False
            step *= size
        return True


class Storages:
    """The storages of one file, and the tensors made of them."""

    def __init__(self, source: Source, members: dict[str, Member], prefix: str, swap: bool) -> None:
        self.source = source
        self.members = members
        self.prefix = prefix
        self.swap = swap
        self.budget = MOST_COPIED + 4 * source.size
        self.count = 0  # of tensors
        self.checked: set[str] = set()
        # A tensor that shows all of a storage.
        self.wholes: dict[tuple[str, DType], Any] = {}

    def bad(self, text: str) -> LoadError:
        """The error that says `text` about the file."""
        return self.source.error(f"{text}; the file is corrupt")

    def storage(self, pid: Any) -> Storage:
        """The storage that a persistent id names: ("storage", class, key, location, count)."""
        if type(pid) is not tuple or len(pid) != 5 or type(pid[0]) is not str:
            raise self.bad("its data.pkl has a persistent id that is no storage")
        what, kind, key, location, count = pid
        if (
            what != "storage"
            or type(kind) is not StorageKind
            or type(key) is not str
            or type(location) is not str
        ):
            raise self.bad(f"its data.pkl describes storage {shown(key)} wrongly")
        member = self.members.get(f"{self.prefix}data/{key}")
        if member is None:
            raise self.bad(f"the storage data/{shown(key)} is missing")
        itemsize = 1 if kind.dtype is None else kind.dtype.itemsize
        if type(count) is not int or count < 0 or count * itemsize != member.size:
            raise self.bad(
                f"the storage data/{key} has {member.size} bytes; expected {shown(count)} elements "
                f"of {itemsize}"
            )
        if not self.source.lazy and key not in self.checked:  # all of it is read anyway
            check_member(self.source, member, f"data/{key}")
            self.checked.add(key)
        return Storage(key, kind.dtype, member)

    def tensor(
        self,
        storage: Storage,
        dtype: DType,
        offset: Any,
        size: Any,
        stride: Any,
        requires_grad: Any = False,
        hooks: Any = None,
        metadata: Any = None,
    ) -> Any:
        """The tensor that `_rebuild_tensor_v2` makes."""
        if type(requires_grad) is not bool or (requires_grad and dtype.category < dtypes.FLOAT):
            raise self.bad(f"a tensor of {dtype.name} has requires_grad {shown(requires_grad)}")
        where = self._checked(storage, dtype, offset, size, stride)
        marks = self._marks(metadata, dtype)
        if not any(marks):
            return self._counted(self._part(storage, dtype, where, tuple(stride), requires_grad))
        buffer = self._buffer(storage, dtype, where, marks)
        return self._counted(tensor_on(buffer, where.shape, dtype, requires_grad, None))

    def _part(
        self, storage: Storage, dtype: DType, where: Strided, strides: Any, requires_grad: bool
    ) -> Any:
        """A tensor that shares its values with all others on the storage."""
        whole = Strided(0, (storage.member.size // dtype.itemsize,), (1,))
        first = self.wholes.get((storage.key, dtype))
        if first is None and where.is_plain and where.numel == whole.numel:
            buffer = self._buffer(storage, dtype, where, (False, False))
            made = tensor_on(buffer, where.shape, dtype, requires_grad, None)
            self.wholes[storage.key, dtype] = made
            return made
        if first is None:
            buffer = self._buffer(storage, dtype, whole, (False, False))
            first = tensor_on(buffer, whole.shape, dtype, False, None)
            self.wholes[storage.key, dtype] = first
        if where.numel != whole.numel or not where.is_plain:
            self._spend(where.numel * dtype.itemsize)
        return part_of(first, where.offset, where.shape, strides, requires_grad, None)

    def parameter(self, data: Any, requires_grad: bool) -> Any:
        """A parameter with the values of a tensor."""
        meta = data._node.meta
        if requires_grad and meta.dtype.category < dtypes.FLOAT:
            raise self.bad(f"a parameter of {meta.dtype.name} requires a gradient")
        return self._counted(parameter_class()(data, requires_grad))

    def _counted(self, tensor: Any) -> Any:
        self.count += 1
        if self.count > MOST_TENSORS:
            raise self.source.error(f"it has more than {MOST_TENSORS} tensors")
        return tensor

    # ---- checks --------------------------------------------------------------------------

    def _checked(
        self, storage: Storage, dtype: DType, offset: Any, size: Any, stride: Any
    ) -> Strided:
        """The place of a tensor, which is within its storage."""
        label = f"a tensor on storage data/{storage.key}"
        shape, strides = self.sizes(label, size), self.sizes(label, stride)
        if type(offset) is not int or offset < 0 or len(shape) != len(strides):
            raise self.bad(f"{label} has offset {shown(offset)}, size {shape}, stride {strides}")
        if math.prod([max(n, 1) for n in shape]) * dtype.itemsize > MOST_ELEMENTS:
            raise self.bad(f"{label} has size {shape}, which overflows 64 bits")
        # A stride that is never taken may be any number.
        taken = tuple([s if n > 1 else 0 for n, s in zip(shape, strides, strict=True)])
        where = Strided(offset, shape, taken)
        held = storage.member.size // dtype.itemsize
        if offset + where.span > held or storage.member.size % dtype.itemsize:
            raise self.bad(
                f"{label} needs elements {offset} to {offset + where.span} (size {shape}, stride "
                f"{strides}) of {dtype.name}; the storage has {held}"
            )
        return where

    def sizes(self, label: str, sizes: Any) -> tuple[int, ...]:
        """Sizes or strides, which are a few numbers."""
        if (
            type(sizes) not in (tuple, Size)
            or len(sizes) > MOST_DIMS
            or not all([type(n) is int and 0 <= n <= MOST_ELEMENTS for n in sizes])
        ):
            raise self.bad(
                f"{label} has sizes or strides other than at most {MOST_DIMS} numbers >= 0"
            )
        return tuple(sizes)

    def _marks(self, metadata: Any, dtype: DType) -> tuple[bool, bool]:
        """Whether the values are still to be conjugated, and negated."""
        given = {} if metadata is None else metadata
        if type(given) is not dict or not set(given) <= {"conj", "neg"}:
            raise self.bad("a tensor has metadata other than conj and neg")
        conj, neg = given.get("conj") is True, given.get("neg") is True
        if (conj or neg) and dtype.category < dtypes.FLOAT:
            raise self.bad(f"a tensor of {dtype.name} is marked as conjugate or negative")
        return conj, neg

    def _spend(self, nbytes: int) -> None:
        """Raises when what is copied gets out of proportion to the file."""
        self.budget -= nbytes
        if self.budget < 0:
            raise self.source.error(
                f"its tensors take far more memory than the {self.source.size} bytes of the file: "
                "they are views of the same few storages. Save contiguous() copies instead"
            )

    # ---- values --------------------------------------------------------------------------

    def _buffer(
        self, storage: Storage, dtype: DType, where: Strided, marks: tuple[bool, bool]
    ) -> Any:
        start = storage.member.start + where.offset * dtype.itemsize
        plain = where.is_plain and not any(marks)
        mapped = plain and is_mapped(self.source, start, dtype, self.swap)
        if not mapped or dtype is dtypes.bool_:  # bools are read now, to see that they are 0 or 1
            self._spend(where.numel * dtype.itemsize)
        if plain or not where.numel:
            return buffer_at(self.source, start, dtype, where.numel, self.swap)
        raw = self.source.array[start : start + where.span * dtype.itemsize]
        steps = [step * dtype.itemsize for step in where.strides]
        view = np.lib.stride_tricks.as_strided(
            raw.view(_stored(dtype)), where.shape, steps, writeable=False
        )
        return copied(_finished(view, dtype, self.swap, *marks))


def _stored(dtype: DType) -> np.dtype[Any]:
    # A bool may be any byte until it has been looked at.
    return np.dtype(np.uint8) if dtype is dtypes.bool_ else dtype.storage


def _finished(view: Any, dtype: DType, swap: bool, conj: bool, neg: bool) -> Any:
    """Values in plain order, after what was still to be done with them."""
    values = np.array(view, order="C")
    if swap:
        values = values.byteswap()
    if dtype is dtypes.bool_:
        values = values != 0
    if conj:
        values = values.conj()
    if neg:
        values = values ^ np.uint16(0x8000) if dtype is dtypes.bfloat16 else -values
    return values
