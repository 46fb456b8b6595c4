"""Tensors on the bytes of a file: mapped where possible, so that they are read when used.

A mapped tensor is a leaf whose buffer belongs to the file's mapping. Nothing ever writes to it:
an update or an in-place operation gives the tensor memory of its own.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from livegrad import dtypes
from livegrad.creation import as_leaf, empty
from livegrad.dtypes import DType
from livegrad.graph.handle import leaf_node, wrap
from livegrad.graph.meta import meta_of
from livegrad.ops.shaping.resizing import set_
from livegrad.runtime.memory import Buffer, address_of, allocate
from livegrad.serialization.files import Source

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


def buffer_at(source: Source, start: int, dtype: DType, count: int, swap: bool = False) -> Any:
    """`count` elements from byte `start` as a buffer: the mapping itself, or a copy."""
    nbytes = count * dtype.itemsize
    raw = source.array[start : start + nbytes]
    assert raw.size == nbytes, f"{start=} {nbytes=} {source.size=}"
    usable = is_mapped(source, start, dtype, swap)
    if dtype is dtypes.bool_ and nbytes and raw.max() > 1:
        raw, usable = raw != 0, False  # kernels rely on 0 and 1
    if not usable or not nbytes:
        return _copied(raw, dtype, swap)
    buffer = Buffer(address_of(source.array) + start, nbytes, source.array)
    buffer.exported = True
    return buffer


def is_mapped(source: Source, start: int, dtype: DType, swap: bool) -> bool:
    """Whether elements from byte `start` can stay where they are: kernels rely on alignment."""
    aligned = (address_of(source.array) + start) % dtype.itemsize == 0
    return source.lazy and aligned and not swap


def _copied(raw: Array, dtype: DType, swap: bool) -> Any:
    buffer = allocate(raw.nbytes)
    view = buffer.view(np.uint8, raw.shape)
    view[...] = raw
    if swap and dtype.itemsize > 1:
        view.view(dtype.storage).byteswap(inplace=True)
    buffer.exported = False  # the view is gone, nobody else sees these bytes
    return buffer


def tensor_on(
    buffer: Any,
    shape: Shape,
    dtype: DType,
    requires_grad: bool,
    kind: Any,
    strides: Shape | None = None,
) -> Any:
    """A leaf tensor of class `kind` with the values of a buffer, in row-major order.

    `strides` are those that the tensor has in PyTorch, if others.
    """
    # Not `record.leaf`: mapped data is no reason to compute what is pending.
    tensor = wrap(leaf_node(meta_of(shape, dtype).with_strides(strides), buffer))
    if kind is not None:
        tensor.__class__ = kind
    return as_leaf(tensor, requires_grad)


def part_of(
    base: Any, offset: int, shape: Shape, strides: Shape, requires_grad: bool, kind: Any
) -> Any:
    """A leaf tensor of class `kind` on a part of the storage of `base`, which shares its values."""
    made = set_(empty(0, dtype=base.dtype), base.detach(), offset, shape, strides)
    if kind is not None:
        made.__class__ = kind
    return made.requires_grad_(requires_grad)


def parameter_class() -> Any:
    """`nn.Parameter`, imported when a file has one."""
    from livegrad.nn.parameter import Parameter

    return Parameter


def must_swap(byteorder: str) -> bool:
    """Whether bytes in this order are the wrong way round for this machine."""
    return byteorder != sys.byteorder
