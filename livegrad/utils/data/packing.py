"""Batches as bytes and back: the structure is pickled, large arrays stay in shared memory."""

from __future__ import annotations

import io
import pickle
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from livegrad.dtypes import DType
from livegrad.graph.handle import Handle, leaf, node_of
from livegrad.graph.meta import Shape, meta_of
from livegrad.graph.state import flush
from livegrad.runtime.memory import Buffer, address_of, allocate
from livegrad.utils.data.memory import INLINE_BYTES, Page, Slots, padded

Array = np.ndarray[Any, Any]
# Where in a segment: first byte, number of bytes.
Span = tuple[int, int]


class _Packer(pickle.Pickler):
    """A pickler that leaves the bytes of tensors and arrays out."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Handle):
            return _reduced_tensor(obj)
        if type(obj) is np.ndarray and not obj.dtype.hasobject:
            flags = obj.flags
            if not flags.c_contiguous and not flags.f_contiguous:
                return np.ascontiguousarray(obj).__reduce_ex__(5)
        return NotImplemented


def _reduced_tensor(x: Any) -> tuple[Any, ...]:
    node = node_of(x)
    if node.grad_to is not None and not isinstance(node.grad_to, weakref.ref):
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd "
            "does not support crossing process boundaries.  If you just want to transfer the data, "
            "call detach() on the tensor before serializing (e.g., putting it on the queue)."
        )
    if node.buffer is None:
        flush("a batch for another process", node)
    values = node.buffer.view(node.meta.dtype.storage, node.meta.shape)
    parts = (type(x), node.meta.dtype, node.meta.shape, x.requires_grad)
    return _restored_tensor, (*parts, pickle.PickleBuffer(values))


def _restored_tensor(cls: Any, dtype: DType, shape: Shape, requires_grad: bool, memory: Any) -> Any:
    """A tensor on `memory`: an array it may have, or bytes to be copied."""
    if isinstance(memory, np.ndarray):
        buffer = Buffer(address_of(memory), memory.nbytes, memory)
    else:
        buffer = allocate(len(memory))
        buffer.view(np.uint8, (len(memory),))[...] = np.frombuffer(memory, np.uint8)
        buffer.exported = False
    out = leaf(meta_of(shape, dtype), buffer)
    if type(out) is not cls:
        out.__class__ = cls
    return out.requires_grad_() if requires_grad else out


class Packed:
    """A batch ready to be sent: `body` is None if the pickle is the last of the spans."""

    __slots__ = ("body", "page", "spans")

    def __init__(self, page: Page | None, spans: list[Span], body: bytes | None) -> None:
        self.page = page
        self.spans = spans
        self.body = body


def pack(value: Any, page: Page | None, slots: Slots) -> Packed:
    """The batch `value`, with its large arrays on `page` or, if that is too small, on another."""
    arrays: list[Array] = []

    def keep_inside(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < INLINE_BYTES:
            return True
        arrays.append(np.frombuffer(raw, np.uint8))
        return False

    stream = io.BytesIO()
    try:
        _Packer(stream, 5, buffer_callback=keep_inside).dump(value)
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        raise TypeError(f"a worker cannot send this batch: {error}") from error
    body = stream.getvalue()
    outside = len(body) > 2 * INLINE_BYTES
    if outside:
        arrays.append(np.frombuffer(body, np.uint8))
    if not arrays:
        return Packed(None, [], body)
    spans = _placed(arrays, page)
    if page is None or spans is None:
        page = slots.larger_page(sum([padded(array.nbytes) for array in arrays]))
        spans = _placed(arrays, page)
        assert spans is not None
    return Packed(page, spans, None if outside else body)


def _placed(arrays: Sequence[Array], page: Page | None) -> list[Span] | None:
    """Where on the page the arrays are, those from elsewhere copied; None if they do not fit."""
    if page is None:
        return None
    spans = []
    for array in arrays:
        place = page.place_of(address_of(array), array.nbytes)
        if place is None:
            buffer = page.take(array.nbytes)
            if buffer is None:
                return None
            buffer.view(np.uint8, array.shape)[...] = array
            place = buffer.ptr - page.segment.ptr
        spans.append((place, array.nbytes))
    return spans


def unpack(body: bytes | None, views: list[Array]) -> Any:
    """The batch; its arrays lie on `views`, the bytes of the spans."""
    if body is None:
        return pickle.loads(views[-1].data, buffers=views[:-1])
    return pickle.loads(body, buffers=views)
