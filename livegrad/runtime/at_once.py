"""Writing at once: known values go to the memory of a tensor that nobody else sees; reading, too.

`x[i] = 3.0`, where `x` is computed, only it refers to its node, and the node alone to its buffer:
nothing pending reads the old value, and what is written cannot fail. So the bytes are changed right
there, which is less work than to record the write and to run it later. Whoever could tell the
difference refers to the node, or to the buffer: a pending operation, a graph, a copy that shares
the values, an array of NumPy's.

`x[i].item()`, where `x` is computed: the element is where it is, and nothing has to be run for it.
"""

from __future__ import annotations

import sys
from math import copysign
from typing import Any

import numpy as np

from livegrad import dtypes
from livegrad.device import CPU
from livegrad.dtypes import DType
from livegrad.graph.events import RECORDED
from livegrad.graph.handle import Handle, Share, is_current, leaf_node, node_of, shares_with
from livegrad.graph.node import Node
from livegrad.graph.record import forget_from
from livegrad.graph.state import LOCAL, STATES
from livegrad.native.calls import put_word, remainder
from livegrad.native.hot import hot, hot_slots
from livegrad.ops.making.generate import number_everywhere
from livegrad.ops.picking.plain_parts import keys_of
from livegrad.runtime.liveness import may_overwrite
from livegrad.runtime.memory import Buffer, allocate, allocate_zeros
from livegrad.runtime.running import ARGUMENT
from livegrad.runtime.through import forget_views, is_writable_part, pending_views
from livegrad.runtime.values import LARGEST, bits_at

Array = np.ndarray[Any, Any]

_refs = sys.getrefcount
_array: Any = np.ndarray
# Dtypes whose values NumPy converts as kernels do.
_STORAGE: dict[DType, Any] = {
    dtype: dtype.storage
    for dtype in (
        dtypes.bool_,
        dtypes.uint8,
        dtypes.int8,
        dtypes.int16,
        dtypes.int32,
        dtypes.int64,
        dtypes.float32,
        dtypes.float64,
    )
}


def write_at_once(x: Any, key: Any, value: Any) -> bool:
    """`x[key] = value`, if that is possible at once, with a number or a tensor."""
    share = x._share
    is_part = share is not None and bool(share.path)
    if is_part and not is_writable_part(x, share):
        return False
    if share is not None and not is_current(share):
        return False
    node = share.cell._node if is_part else x._node
    if node.grad_to is not None or node.spent or node.meta.strides is not None:
        return False
    plain = _is_plain(key)
    if not plain:
        key = _known_places(x, key, value)
        if key is None:
            return False
    dtype = node.meta.dtype
    storage = _STORAGE.get(dtype)
    if storage is None or node.meta.device is not CPU or not _may_be_now():
        return False
    node = None  # what others refer to is not written
    part = _part(x, share, storage) if is_part else _whole(x, share, storage)
    if part is None:
        return False
    if type(value) not in _EXACT[dtype.category]:
        value = _known(value, dtype, storage, plain)
        if value is None:
            return False
    elif type(value) is float and not -LARGEST <= value <= LARGEST:
        return False
    try:
        part[key] = value
    except (IndexError, ValueError, OverflowError):
        return False  # nothing is changed, and recording it says what is wrong
    _count(x)
    return True


def _whole(x: Any, share: Share | None, storage: Any) -> Array | None:
    """The memory of a tensor that nobody else sees."""
    node = x._node
    buffer = node.buffer
    if buffer is None:
        buffer = _made(x, node, storage)
        if buffer is None:
            return None
    else:
        # The tensor's, that of the cell which it shares with views, ours, and the argument's.
        others = _refs(node) - 2 - (share is not None) - ARGUMENT
        others_of_buffer = _refs(buffer) - 2 - ARGUMENT
        if not may_overwrite(others, buffer, others_of_buffer):
            return None
    whole: Array = _array(node.meta.shape, storage, buffer.memory[1])
    return whole


def _part(x: Any, share: Share, storage: Any) -> Array | None:
    """The memory that a view shows, if nobody but the whole of it sees that besides."""
    cell, path = share.cell, share.path
    base, keys, views = cell.base(), keys_of(path), pending_views(x, len(path))
    if base is None or keys is None or views < 0:
        return None
    node = cell._node
    own = base._share
    if own is None or own.cell is not cell or own.apart is not None or base._node is not node:
        return None
    buffer = node.buffer
    # The whole's, the cell's, perhaps that of the innermost view, ours, and the argument's.
    others = _refs(node) - 3 - (views > 0) - ARGUMENT
    if buffer is None:
        buffer = _made(base, node, storage)
        if buffer is None:
            return None
    else:
        others_of_buffer = _refs(buffer) - 2 - ARGUMENT
        if not may_overwrite(others, buffer, others_of_buffer):
            return None
    part: Array = _array(node.meta.shape, storage, buffer.memory[1])
    for key in keys:
        part = part[(*key, ...)]  # an array, also if it has one element
    return part


# Numbers that a dtype holds as NumPy converts them, by its category; floats up to float32's.
_EXACT = {dtypes.BOOL: (bool,), dtypes.INT: (int, bool), dtypes.FLOAT: (float, int, bool)}


def _is_plain(key: Any) -> bool:
    """Whether a key is made of ints and slices alone: NumPy and PyTorch take those alike."""
    kind = type(key)
    if kind is tuple:
        return all([type(part) is int or type(part) is slice for part in key])
    return kind is int or kind is slice


def _known_places(x: Any, key: Any, value: Any) -> Array | None:
    """The indices of a computed index tensor, a few of them, that has no memory in common."""
    if not isinstance(key, Handle) or key is x or value is x:
        return None
    node = node_of(key)
    meta = node.meta
    if meta.dtype is not dtypes.int64 or not 0 < meta.ndim <= meta.numel <= _MOST_PLACES:
        return None
    if shares_with(x, key) or (isinstance(value, Handle) and shares_with(x, value)):
        return None
    return _known(key, dtypes.int64, dtypes.int64.storage, converts=False)


# With more, a kernel is quicker.
_MOST_PLACES = 4096


@hot
def _may_be_now() -> bool:
    """Whether nobody wants to hear of what is recorded, or to record it himself."""
    state = LOCAL.state
    return not (RECORDED or state.reference or state.held or state.flusher is not None)


def _known(value: Any, dtype: DType, storage: Any, converts: bool) -> Array | None:
    """The values of a computed tensor, if NumPy converts them to the dtype as kernels do, and if
    the write `converts` at all: one at places that tensors name does not."""
    if not isinstance(value, Handle):
        return None
    node = node_of(value)
    buffer = node.buffer
    if buffer is None or type(buffer) is not Buffer:
        return None
    if node.meta.dtype is not dtype:
        if not converts or (node.meta.dtype, dtype) not in _CONVERTED:
            return None
        storage = node.meta.dtype.storage
    if buffer.home is None:
        return buffer.view(storage, node.meta.shape, writeable=False)
    known: Array = _array(node.meta.shape, storage, buffer.memory[1])
    return known


# From what to what: to the nearest float, or without a loss.
_CONVERTED = frozenset(
    (source, target)
    for source in (dtypes.bool_, dtypes.uint8, dtypes.int32, dtypes.int64)
    for target in (dtypes.float32, dtypes.float64)
)


def _made(x: Any, node: Node, storage: Any) -> Buffer | None:
    """The buffer of a tensor that is filled with one number, and pending: it is made now.

    The node stays pending for whoever else refers to it.
    """
    number = number_everywhere(node)
    if number is None or node.meta.nbytes > _MOST_AT_ONCE:
        return None
    if number == 0 and copysign(1.0, number) > 0:
        buffer = allocate_zeros(node.meta.nbytes)
    else:
        buffer = allocate(node.meta.nbytes)
        _array(node.meta.shape, storage, buffer.memory[1])[...] = number
    x._node = leaf_node(node.meta, buffer)
    if x._share is not None:
        x._share.cell._node = x._node
    return buffer


# More than that is for the kernels, of several threads.
_MOST_AT_ONCE = 64 << 20


def _count(x: Any) -> None:
    """One write more; views look again."""
    share = x._share
    if share is None:
        x._writes += 1
        return
    share.cell.version += 1
    share.wrote()
    if share.path:  # the view is to look again
        forget_views(pending_views(x, len(share.path)))
        share = share.cell.base()._share
    share.seen = share.cell.version


# ------------------------------------------------------------------------------------- reading


@hot
def read_at_once(node: Node) -> bool:
    """Gives a pending node its value, if it is an element of what is computed, recorded just now.

    It is taken off the list of what is pending, where it would make every structure another one.
    """
    if not node.spec.op.picks or node.grad_to is not None or not is_alone():
        return False
    state = LOCAL.state
    nodes = state.nodes
    x = node.inputs[0]
    if x.buffer is None or type(x.buffer) is not Buffer or not nodes or nodes[-1] is not node:
        return False
    _READS.count += 1
    if remainder(_READS.count, _BETWEEN_FLUSHES) == 0:
        return False
    itemsize = node.meta.dtype.itemsize
    shape, args, items = x.meta.shape, node.args, node.spec.attrs[0]
    if itemsize not in _COPIED or len(items) != len(shape):
        return False
    place = 0
    for d in range(len(items)):
        if items[d][0] != "int":
            return False
        place = place * shape[d] + args[d]
    made = allocate(itemsize)
    put_word(made.ptr, bits_at(x.buffer.ptr + place * itemsize, itemsize))
    handles, last = state.handles, len(nodes) - 1
    try:
        handles.pop()
        nodes.pop()
    except BaseException:  # Ctrl-C between the two
        forget_from(last)
        raise
    node.index = -1
    node.inputs = ()
    node.buffer = made
    return True


@hot_slots
class _Reads:
    """How many elements have been read, or nearly so."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


_READS = _Reads()
# A program that does nothing but read is to flush now and then: flushes bring native functions.
_BETWEEN_FLUSHES = 64
# Bytes of elements that are read at once.
_COPIED = (1, 4, 8)


@hot
def is_alone() -> bool:
    """Whether this thread records alone, and nobody wants to hear of it."""
    return len(STATES) == 1 and LOCAL.state.most >= 0 and _may_be_now()
