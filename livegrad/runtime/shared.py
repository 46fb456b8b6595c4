"""Memory that somebody else sees too: NumPy arrays, DLPack, other processes.

 a = np.zeros(3)                        cell.memory ──► the bytes of `a`
 t = from_numpy(a)     t ─► cell ─┘     a window: the part of them that a tensor shows
 t += 1                                 written there; a[0] = 5 is seen by t

Such memory may change at any line without our knowing, while what is recorded runs later. So
whoever uses the tensor gets its value as of that line: a small one as a snapshot (the last one, if
nothing has changed), a large one is read in place, and what reads it is computed before the line
ends. Tensors that share memory with nobody pay nothing for this: all of it hangs on their cell. A
tensor that nobody else sees any more is an ordinary one again.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad.dtypes import float32
from livegrad.graph.family import requires_as_family
from livegrad.graph.geometry import dims_in_memory, path_geometry, root_of
from livegrad.graph.handle import (
    Cell,
    Share,
    Step,
    Writing,
    leaf_node,
    node_of,
    path_of,
    share_of,
    shows_conjugates,
    wrap,
)
from livegrad.graph.infer import infer_meta
from livegrad.graph.layout import span
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.node import Node
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.graph.state import LOCAL, flush, setting
from livegrad.graph.views import (
    follow_cell,
    followed,
    has_its_place,
    in_place_of,
    laid_out,
    require_in_vain,
    share_values,
    sync,
)
from livegrad.graph.writes import rebind
from livegrad.ops.shaping.strided import AS_STRIDED
from livegrad.runtime.lent import LOANS, Borrowed, Lent, Memory, Spread, exported
from livegrad.runtime.memory import Buffer, allocate, copied
from livegrad.runtime.values import array_of

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]

# Values up to this size are copied (or compared with the last copy) where they are used.
MOST_COPIED = 1 << 20

_refs = sys.getrefcount


# ------------------------------------------------------------------------------------- sharing


def borrow(array: Array, meta: Meta) -> Tensor:
    """A tensor that shares the memory of `array`, whose elements are those of `meta`'s dtype."""
    if array.flags.c_contiguous and array.size and 1 not in array.shape:
        return _on(Borrowed(array, array.nbytes), leaf_node(meta, None), ())
    strides = tuple([step // array.itemsize for step in array.strides])
    extent = span(array.shape, strides)
    memory = Borrowed(array, extent * array.itemsize)
    return on_memory(memory, meta.with_strides(strides), 0)


def _bytes(flat: Array) -> Array:
    return flat.view(np.uint8) if flat.size else np.empty(0, np.uint8)


def _on(memory: Memory, whole: Node, path: tuple[Step, ...]) -> Tensor:
    out = wrap(whole)
    own = share_of(out)
    own.cell.memory = memory
    if path:
        out._node = leaf_node(path_geometry(whole.meta, path)[0], None)
        own.path = path
        out._was_view = False  # it is all that there is of the memory, to whoever asks
    out._node.spent = whole.spent = LOCAL.state.inference
    return out


def lend(x: Tensor, reason: str = "numpy()") -> Array:
    """An array of the memory of `x`: what is written to one is seen by the other."""
    if not _is_all_of_memory(x):
        _compute_storage(x, reason)
        given = _given_away(x) if _refs(x) == _UNNAMED else None
        if given is not None:
            return given
    if shows_conjugates(path_of(x)):
        flush(reason, x._node)
        return np.array(array_of(x._node))
    while True:
        cell, _ = share_of(x).origin()  # another thread may have let go of the one before
        own = _to_lend(cell, reason) if cell.memory is None else None
        with LOANS:  # no thread takes it back meanwhile
            if cell.memory is None and own is not None:
                share(x, own)
            memory = cell.memory
            if memory is not None:
                window = _window(x, memory)
                array, export = exported(window, memory)
                memory.lend(window, export)
                return array


def _compute_storage(x: Tensor, reason: str) -> None:
    """Computes what holds the values of `x`, unless they are in memory."""
    node = _stored_node(x)
    if node is not None and node.buffer is None:
        flush(reason, node)
        node_of(x)  # who shared it may have been waiting for that alone


def _stored_node(x: Tensor) -> Node | None:
    node = node_of(x)
    if x._share is None:
        return node
    cell, _ = x._share.origin()
    return cell._node if cell.memory is None else None


def _given_away(x: Tensor) -> Array | None:
    """The memory of a value that only a tensor without a name has: nobody is left to share it."""
    node = x._node
    if x._share is not None or node.meta.strides is not None or node.grad_to is not None:
        return None
    buffer = node.buffer
    if buffer is None or buffer.home is None or _refs(node) > _OWN_NODE or _refs(buffer) > _OWN + 1:
        return None
    given: Array = buffer.view(node.meta.dtype.storage, node.meta.shape)
    return given


class _Nameless:
    """Counts references to itself, from as deep in calls as `lend` is."""

    def numpy(self) -> int:
        return self._lent()

    def _lent(self) -> int:
        return _references(self)


def _references(x: Any) -> int:
    return _refs(x)


def _count_unnamed() -> int:
    """What `_refs` says, in `lend`, of a tensor that is nobody's: `(x * 2).numpy()`; -1 if it says
    the same of one that has a name."""
    named = _Nameless()
    unnamed = _Nameless().numpy()
    return unnamed if unnamed < named.numpy() else -1


_UNNAMED = _count_unnamed()


def _is_all_of_memory(x: Tensor) -> bool:
    """Whether `x` shows the whole of memory that somebody sees, or has seen: nothing has to be read
    for others to see it, too."""
    own = x._share
    if own is None or not own.is_to_itself() or own.cell.parent is not None:
        return False
    memory = own.cell.memory
    return memory is not None and (type(memory) is Lent or memory.is_shared())


class _Spare:
    """Memory that was lent and came back unchanged: it may be lent again without a copy.

    A program that shows one row of a large tensor after the other as an array lends every time.
    Whoever holds a buffer keeps it from being written to in place, so as long as the node has the
    one that is held here, its value is that of the memory.
    """

    memory: Lent | None = None
    buffer: Buffer | None = None

    @classmethod
    def keep(cls, memory: Lent, node: Node) -> None:
        """Keeps memory that holds the value of `node`."""
        cls.memory, cls.buffer = memory, node.buffer

    @classmethod
    def take(cls, node: Node) -> Lent | None:
        """The memory, if it holds the value of `node`."""
        with LOANS:
            found, buffer = cls.memory, cls.buffer
            if found is None or found.origin() is not node:
                return None
            cls.memory = cls.buffer = None
            return found if node.buffer is buffer else None

    @classmethod
    def forget(cls, origin: Any) -> None:
        """Lets memory go whose node is gone."""
        if cls.memory is not None and cls.memory.origin is origin:
            cls.memory = cls.buffer = None


def _to_lend(cell: Cell, reason: str) -> Lent:
    """Memory with the value of a storage."""
    if cell._node.buffer is None:
        flush(reason, cell._node)
    node = cell._node
    return _Spare.take(node) or Lent(_buffer_to_lend(node), node, _Spare.forget)


def _buffer_to_lend(node: Node) -> Buffer:
    """The bytes of a storage in the order they have in memory, at the address that was told."""
    told = _TOLD.get(node.buffer) == id(node) and _refs(node.buffer) <= _OWN
    copy = copied(_as_in_memory(node))
    if not told or dims_in_memory(node.meta) is not None:
        return copy
    own: Buffer = node.buffer
    node.buffer = copy
    return own


def _as_in_memory(node: Node) -> Array:
    values, order = array_of(node), dims_in_memory(node.meta)
    return values if order is None else values.transpose(order)


def _came_back(cell: Cell, memory: Memory) -> bool:
    """Whether lent memory holds what its cell has still; then it is kept, to be lent again."""
    node = cell._node
    if not isinstance(memory, Lent) or memory.origin() is not node or node.buffer is None:
        return False
    if dims_in_memory(node.meta) is not None or not memory.holds(
        _bytes(array_of(node).reshape(-1))
    ):
        return False
    memory.keep_for_readers()
    memory.windows.clear()
    _Spare.keep(memory, node)
    return True


def share(x: Tensor, memory: Memory | None) -> None:
    """Makes `memory`, which holds the values already, that of `x` and whoever shares with it."""
    for cell in share_of(x).cell.and_larger():  # other smaller ones will find it: `sync`
        cell.memory = memory


def spread(x: Tensor) -> None:
    """Moves the values of `x`, and of whoever shares them, to memory that other processes see."""
    node_of(x)
    cell, _ = share_of(x).origin()
    if not isinstance(cell.memory, Spread):
        share(x, Spread.holding(_stored(cell) if cell.memory is None else cell.memory.array))


def is_spread(x: Tensor) -> bool:
    """Whether other processes can see the memory of `x`."""
    return x._share is not None and isinstance(root_of(x)[0].memory, Spread)


def place_of(x: Tensor) -> tuple[Memory, Meta, int]:
    """The memory of `x`, and where in it `x` lies: strides and the place of the first element."""
    cell, path = root_of(x)
    return cell.memory, *path_geometry(cell._node.meta, path)


def on_memory(memory: Memory, meta: Meta, offset: int) -> Tensor:
    """A tensor that shows a part of `memory`, as `place_of` gave it."""
    count = memory.nbytes // meta.dtype.itemsize
    if meta.contiguous and not offset and count == meta.numel:
        return _on(memory, leaf_node(meta, None), ())
    step = (AS_STRIDED, (meta.stride(),), (offset,), meta.shape)
    return _on(memory, leaf_node(meta_of((count,), meta.dtype), None), (step,))


def _stored(cell: Cell) -> Array:
    """A copy of the bytes of a whole storage, in the order they have in memory."""
    node = cell._node
    if node.buffer is None:
        flush("shared memory", node)
    return _bytes(np.array(_as_in_memory(node)).reshape(-1))


# ------------------------------------------------------------------------------------- windows


def _window(x: Tensor, memory: Memory) -> Array:
    """The part of its memory that `x` shows, as a NumPy array."""
    own = share_of(x)
    cell, path = own.origin()
    known = own.shown
    if known is not None and known[0] is memory and known[1] is own.path:
        found: Array = known[2]
        return found
    meta, offset = path_geometry(cell._node.meta, path)
    dtype = meta.dtype.storage
    if not meta.numel:
        return np.empty(meta.shape, dtype)
    strides = tuple([step * dtype.itemsize for step in meta.stride()])
    window = memory.window(meta.shape, dtype, offset * dtype.itemsize, strides)
    if known is None and own.path and not has_its_place(x._node, own):
        own.followed = True  # it was written, which what is read from memory would not tell
    own.shown = memory, own.path, window
    return window


def read_shared(x: Tensor) -> None:
    """Gives `x` a node with what its memory holds now."""
    cell, _ = root_of(x)
    memory = cell.memory
    if memory is None:  # another thread has taken it back
        sync(x)
        return
    own = share_of(x)
    if type(memory) is Borrowed and _is_small_whole(x._node, own, cell):
        _read_whole(x, own, cell, memory)
        return
    window = _window(x, memory)
    if not memory.is_shared() and _take_back(cell, memory):
        if not x._node.inputs and x._node.buffer is None:  # a view that nobody has read yet
            with setting(grad=False):
                x._node = followed(wrap(cell._node), root_of(x)[1])._node
        sync(x)
        return
    if own.seen != own.cell.version and _has_history(x, own):
        _refresh(cell, memory)
        follow_cell(x, own)  # its history; the value may be another
    node = _computed(x._node)
    if window.nbytes <= MOST_COPIED or not window.flags.c_contiguous or shows_conjugates(own.path):
        data = (window.conj() if shows_conjugates(own.path) else window).tobytes()
        if node.buffer is not None and _bytes(array_of(node).reshape(-1)).data == data:
            return
        buffer = Buffer.from_array(np.frombuffer(data, np.uint8))
    else:
        buffer = Buffer.from_array(window)
        LOCAL.state.most = -1
    fresh = leaf_node(node.meta, buffer)
    if buffer.memory is window:
        memory.readers.append(weakref.ref(fresh))
    x._node = _in_place_of(x._node, fresh, x)
    if own.path:
        require_in_vain(x._node, own)


def _is_small_whole(node: Node, own: Share, cell: Cell) -> bool:
    """Whether a tensor is all of some memory, little of it, and has no history: most that are made
    of arrays."""
    if own.path or own.cell is not cell or own.seen != cell.version or node.index >= 0:
        return False
    meta = node.meta
    return meta.nbytes <= MOST_COPIED and meta.strides is None and node.grad_to is None


def _read_whole(x: Tensor, own: Share, cell: Cell, memory: Borrowed) -> None:
    """`read_shared` for these: a copy, unless the last one is equal."""
    node = x._node
    is_shared = memory.is_shared()
    if node.buffer is not None and is_shared and memory.equals(node.buffer):
        return
    fresh = leaf_node(node.meta, memory.copied())
    fresh.spent = node.spent
    x._node = fresh
    if is_shared:
        return
    with LOANS:
        if cell.memory is not memory or memory.is_shared():
            return
        cell.memory, cell._node = None, fresh
        _wrote_silently(cell)  # views that were made of memory have not seen it yet
    own.seen = cell.version
    sync(x)


def _has_history(x: Tensor, own: Share) -> bool:
    """Whether `x` may have another place in the graph after a write: not a leaf of its own."""
    to = x._node.grad_to
    if isinstance(to, weakref.ref) and not own.has_family():
        return False
    return to is not None or requires_as_family(x)


def _in_place_of(old: Node, fresh: Node, handle: Any) -> Node:
    """`fresh`, a value read from memory, where `old` was: in a graph, or of inference mode."""
    if old.grad_to is not None:
        return in_place_of(old, wrap(fresh), handle, False)
    fresh.spent = old.spent
    return fresh


def _take_back(cell: Cell, memory: Memory) -> bool:
    """Nobody else sees the memory any more: its bytes become an ordinary value.

    False if somebody has asked for it meanwhile.
    """
    _computed(cell._node)  # not while others wait
    with LOANS:
        if cell.memory is memory:
            if memory.is_shared():
                return False
            if not _came_back(cell, memory):
                _refresh(cell, memory)
            cell.memory = None
            _wrote_silently(cell)  # views that were made of memory have not seen it yet
    return True


def _refresh(cell: Cell, memory: Memory) -> None:
    """Gives a cell the value that its memory holds, if that is another."""
    node = _computed(cell._node)
    if node.buffer is not None and _stored(cell).data == memory.array.data:
        return
    meta = node.meta
    order = dims_in_memory(meta)
    values = np.array(memory.array).view(meta.dtype.storage)
    if order is not None:
        sizes = tuple([meta.shape[d] for d in order])
        values = values.reshape(sizes).transpose(np.argsort(order))
    fresh = leaf_node(meta, Buffer.from_array(np.ascontiguousarray(values.reshape(meta.shape))))
    cell._node = _in_place_of(node, fresh, cell)
    _wrote_silently(cell)


def _wrote_silently(cell: Cell) -> None:
    cell.version += 1
    cell.wrote_silently()


def view_shared(
    op: Op, x: Tensor, attrs: tuple[Any, ...], args: tuple[Any, ...], shape: Shape | None
) -> Tensor:
    """A view of memory: nothing is read before somebody uses it."""
    if x._node.grad_to is not None:
        out = record(op, (x,), attrs, args, shape)
    else:
        out = wrap(leaf_node(infer_meta(op, x._node.meta, attrs, shape), None))
    share_values(x, out, (op, attrs, args, shape))
    return out


def write_shared(x: Tensor, value: Tensor) -> Tensor:
    """Writes to memory, at once."""
    cell, _ = root_of(x)
    window = _window(x, cell.memory)
    if not window.flags.writeable:
        raise RuntimeError(
            "the tensor shares memory that is read only, and cannot be written; clone() it first"
        )
    if not (cell._node.grad_to is value._node.grad_to is x._node.grad_to is None):
        return _write_with_history(x, value, cell)
    value = laid_out(value, x._node.meta)
    node = _computed(value._node)
    node.spent = x._node.spent  # it stays what it was made as, also in inference mode
    x._node = node
    cell.memory.keep_for_readers()
    values = array_of(node)
    own = share_of(x)
    if isinstance(cell.memory, Lent):
        cell.memory.written = True
    np.copyto(window, values.conj() if shows_conjugates(own.path) else values, casting="no")
    _count_write(own)
    return x


def _count_write(own: Share) -> None:
    """Raises the versions of a cell and of those that it has grown to; nothing is recorded."""
    cells = own.cell.and_larger()
    for cell in cells:
        cell.version += 1
    for cell, larger in pairwise(cells):
        assert cell.parent is not None
        cell.parent = larger, cell.parent[1], larger.version
    own.wrote()


def _write_with_history(x: Tensor, value: Tensor, cell: Cell) -> Tensor:
    """Writes what gradients flow through as if there were no memory, then to memory."""
    _refresh(cell, cell.memory)  # somebody else may have written
    node_of(x)
    memory = cell.memory
    try:
        share(x, None)
        rebind(x, value, expanded=True)  # whether it may be written was looked at before
        data = _stored(cell)
    finally:
        share(x, memory)
    memory.keep_for_readers()
    if isinstance(memory, Lent):
        memory.written = True
    memory.array[...] = data
    return x


def _computed(node: Node) -> Node:
    if node.buffer is None and node.index >= 0:
        flush("a write to shared memory", node)
    return node


def address_of(x: Tensor) -> int:
    """The address of the first element of a tensor that shares a storage."""
    cell, path = root_of(x)
    if cell.memory is not None:
        return int(_window(x, cell.memory).__array_interface__["data"][0])
    meta, offset = path_geometry(cell._node.meta, path)
    return own_address(cell._node) + offset * meta.dtype.itemsize


def own_address(node: Node) -> int:
    """The address of a value, in memory whose address no other value was told.

    Other nodes may have its buffer: views of it that were run when they were recorded, or copies
    that nobody has asked for theirs. It is told the same address again all the same.
    """
    waited = node.buffer is None
    if waited:
        flush("data_ptr", node)
    lent = _Spare.take(node)
    if lent is not None:  # an array that is gone had another address, which was told by it
        node.buffer = lent.buffer
    elif (_refs(node.buffer) > _OWN and _TOLD.get(node.buffer) != id(node)) or (
        waited and _was_told_of_what_is_gone(node)
    ):
        node.buffer = copied(node.buffer.view(np.uint8, (node.buffer.nbytes,)))
    _TOLD[node.buffer] = id(node)
    address, state = int(node.buffer.ptr), LOCAL.state
    _LATELY.append((address, state.base + len(state.nodes)))
    return address


def _was_told_of_what_is_gone(node: Node) -> bool:
    """Whether a value lies where one was that is gone, whose address was told after `node` was
    recorded: `f(x).data_ptr() == x.data_ptr()` would be true of an `x` that is computed last."""
    address = node.buffer.ptr
    return node.buffer not in _TOLD and any(
        address == told and node.index < coming for told, coming in list(_LATELY)
    )


# Buffers whose address is known to the program, and by `id` the node that it was told for.
_TOLD: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

# The addresses that were told last, and the index of the node that was recorded next.
_LATELY: deque[tuple[int, int]] = deque(maxlen=16)


def _count_own() -> int:
    """What `_refs` says of the buffer of a node that shares it with nobody."""
    node = leaf_node(meta_of((), float32), allocate(4))
    return _refs(node.buffer)


def _count_own_node() -> int:
    """What `_refs` says of a node that only one tensor has, and a variable."""
    only = wrap(leaf_node(meta_of((), float32), None))
    node = only._node
    return _refs(node)


_OWN, _OWN_NODE = _count_own(), _count_own_node()


Writing.read_shared = read_shared
Writing.view_shared = view_shared
Writing.write_shared = write_shared
