"""Writing at once: known values go to the memory of a tensor that nobody else sees.

`x[i] = 3.0`, where `x` is computed, only it refers to its node, and the node alone to its buffer:
nothing pending reads the old value, and what is written cannot fail. So the bytes are changed right
there, which is less work than to record the write and to run it later. Whoever could tell the
difference refers to the node, or to the buffer: a pending operation, a graph, a copy that shares
the values, an array of NumPy's.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.events import RECORDED
from livegrad.graph.handle import leaf_node, node_of
from livegrad.graph.node import Node
from livegrad.graph.state import LOCAL
from livegrad.ops.making.generate import FULL
from livegrad.runtime.liveness import may_overwrite
from livegrad.runtime.memory import Buffer, allocate
from livegrad.runtime.running import ARGUMENT

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
    """`x[key] = value`, if that is possible at once; `key` is what NumPy takes, too.

    `x` is all of its memory and no part of a graph; `value` is a number that its dtype holds, or a
    tensor.
    """
    state = LOCAL.state
    if RECORDED or state.reference or state.held or LOCAL.flusher is not None:
        return False
    node = x._node
    storage = _STORAGE.get(node.meta.dtype)
    if storage is None or node.spent:
        return False
    buffer = node.buffer
    if buffer is None:
        buffer = _made(x, node, storage)
        if buffer is None:
            return False
    else:
        # The tensor's, that of the cell which it shares with views, ours, and the argument's.
        others = _refs(node) - 2 - (x._share is not None) - ARGUMENT
        others_of_buffer = _refs(buffer) - 2 - ARGUMENT
        if not may_overwrite(others, buffer, others_of_buffer):
            return False
    if type(value) not in (float, int, bool):
        value = _known(value, node.meta.dtype, storage)
        if value is None:
            return False
    try:
        _array(node.meta.shape, storage, buffer.memory[1])[key] = value
    except (IndexError, ValueError, OverflowError):
        return False  # nothing is changed, and recording it says what is wrong
    _count(x)
    return True


def _known(value: Any, dtype: DType, storage: Any) -> Array | None:
    """The values of a computed tensor, if they are of the dtype that they are written to."""
    node = node_of(value)
    buffer = node.buffer
    if buffer is None or node.meta.dtype is not dtype or type(buffer) is not Buffer:
        return None
    if buffer.home is None:
        return buffer.view(storage, node.meta.shape, writeable=False)
    known: Array = _array(node.meta.shape, storage, buffer.memory[1])
    return known


def _made(x: Any, node: Node, storage: Any) -> Buffer | None:
    """The buffer of a tensor that is filled with one number, and pending: it is made now.

    The node stays pending for whoever else refers to it.
    """
    if node.spec.op is not FULL or node.meta.nbytes > _MOST_AT_ONCE:
        return None
    buffer = allocate(node.meta.nbytes)
    _array(node.meta.shape, storage, buffer.memory[1])[...] = node.args[0]
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
    else:
        share.cell.version += 1
        share.seen = share.cell.version
        share.wrote()
