"""Handles: what a Tensor is to the graph, and the cell that it shares with its views."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from livegrad.graph.blame import wrong_class
from livegrad.graph.meta import Meta, Shape
from livegrad.graph.node import Node
from livegrad.graph.op import Op
from livegrad.graph.site import user_site
from livegrad.graph.state import LOCAL, MOST_PENDING_BYTES, flush
from livegrad.native.hot import hot, hot_slots

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

_new = object.__new__
_WeakRef = weakref.ref
# One view operation: op, attrs, args, shape, as `record` takes them.
Step = tuple[Op, tuple[Any, ...], tuple[Any, ...], Shape | None]


class BareHandle:
    """What a Tensor is to the graph: a mutable reference to a node, and perhaps to a view cell.

    Slots, because recording touches these two on every operation.
    """

    __slots__ = ("__dict__", "__weakref__", "_cell", "_node")

    _node: Node
    _cell: Cell | None
    # Set on views only: the view operations that lead here from the cell's node, and the version
    # of the cell they were applied to.
    _path: tuple[Step, ...] = ()
    _seen = 0
    # Writes to a tensor that shared no cell yet.
    _writes = 0
    # Set on x.data and its views, and on what was made to share another storage: how often they
    # were written, which the `_version` of others does not count.
    _unseen: list[int] | None = None
    # Why it may not be written while gradients are recorded: see `check_writable`.
    _made: str | None = None
    # The count of writes when it was, of a view whose history is gone after the next one.
    _made_at: int | None = None
    # The tensor that this is a view of, if that shares its memory, but no history, with others.
    _root: Any = None
    # Whether it was brought up to date after a counted write to what it is a view of.
    _followed = False
    # Whether it was a view, of a tensor that was made to show something else: it stays that.
    _was_view: bool | None = None
    # The part of memory shared with somebody else that it shows: see runtime/shared.py.
    _shown: Any = None


# Every handle is a Tensor, which the graph must not import: a type checker may take it for one.
if TYPE_CHECKING:
    Handle = Tensor
else:
    Handle = BareHandle


@hot_slots
class Cell:
    """The value that a tensor and its views share: PyTorch's storage.

    Writing through any of them makes a new node for the whole and raises `version`; the others
    apply their path to it again when they are next used.

    `memory` is there if somebody outside can see the values as well (NumPy, another process): then
    it holds them, and `_node` is what they were once; see runtime/shared.py. `parent` is there if
    the storage has grown: the cell of the larger one, the path from its value, and its version.
    `base` refers to the tensor that is the whole of it. `uncounted` writes are no writes to
    PyTorch's `_version`, and views keep their place in the graph when they follow them: the last
    of these, one after another, took the version from `silent[0]` to `silent[1]`.
    """

    __slots__ = ("_node", "base", "memory", "parent", "silent", "uncounted", "version")

    def __init__(self, base: Handle) -> None:
        if base._node.meta.strides is not None:
            Writing.make_dense(base)
        self._node = base._node
        self.base = _WeakRef(base)
        self.memory: Any = None
        self.parent: tuple[Cell, tuple[Step, ...], int] | None = None
        self.silent = (0, 0)
        self.uncounted = 0
        self.version = base._seen = base._writes


# Filled in by `livegrad.tensor`, so that ops need not import it.
_tensor_class: type[Tensor] = Handle


def set_tensor_class(cls: type[Tensor]) -> None:
    """Names the class of the handles that recording hands out."""
    global _tensor_class
    _tensor_class = cls


LEAF = Op("leaf", "leaf")


@hot
def leaf_node(meta: Meta, buffer: Any) -> Node:
    """A node that holds data."""
    spec = LEAF.cache.get(meta)
    if spec is None:
        spec = LEAF.remember(meta, (), (), meta)
    node = _new(Node)
    node.spec = spec
    node.meta = meta
    node.inputs = ()
    node.args = ()
    node.grad_to = None
    node.buffer = buffer
    node.cut = None
    node.spent = False
    node.index = -1
    node.site = user_site()
    return node


def leaf(meta: Meta, buffer: Any) -> Tensor:
    """A tensor that holds data."""
    state = LOCAL.state
    state.bytes += meta.nbytes
    if state.bytes > MOST_PENDING_BYTES:
        state.bytes = 0
        if state.nodes:
            flush("pending nodes held much data")
    node = leaf_node(meta, buffer)
    node.spent = state.inference
    return wrap(node)


@hot
def wrap(node: Node) -> Tensor:
    """A new tensor for an existing node."""
    tensor = _new(_tensor_class)
    tensor._node = node
    tensor._cell = None
    return tensor


@hot
def node_of(x: Any) -> Node:
    """The node a tensor stands for now (a view may have been changed through its base)."""
    try:
        if x._cell is not None:
            Writing.sync(x)
        node: Node = x._node
    except AttributeError:
        raise _no_tensor(x) from None
    return node


def _no_tensor(x: Any) -> TypeError:
    return wrong_class(x, "Tensor")


class Writing:
    """Ways of reading and writing that others fill in, so that recording need not know them.

    sync(x)                             brings a tensor that shares a cell up to date with it
    make_dense(x)                       a whole without gaps or repetitions in memory
    read_shared(x)                      the value of `x` is what its memory holds now
    view_shared(op, x, …)               a view of memory
    write_shared(x, value)              writes to memory
    write_strided(whole, path, value)   writes to a part whose elements may overlap
    """

    sync: Callable[[Any], None]
    make_dense: Callable[[Any], None]
    read_shared: Callable[[Any], None]
    view_shared: Callable[..., Tensor]
    write_shared: Callable[[Any, Any], Tensor]
    write_strided: Callable[[Any, Sequence[Step], Any], Tensor]
