"""Handles: what a Tensor is to the graph, and the cell that it shares with its views."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from livegrad.graph.blame import wrong_class
from livegrad.graph.meta import Meta, Shape
from livegrad.graph.node import CYCLES, Node
from livegrad.graph.op import Op
from livegrad.graph.site import user_site
from livegrad.graph.state import LOCAL, MOST_PENDING_BYTES, flush
from livegrad.native.calls import half_at, untrack
from livegrad.native.hot import hot, hot_slots
from livegrad.native.layout import REFERENCES, is_known

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

_new = object.__new__
# Whether references to an object are counted where REFERENCES says: on interpreters we know.
COUNTS_ARE_KNOWN = is_known()
_WeakRef = weakref.ref
# One view operation: op, attrs, args, shape, as `record` takes them.
Step = tuple[Op, tuple[Any, ...], tuple[Any, ...], Shape | None]


class BareHandle:
    """What a Tensor is to the graph: a mutable reference to a node, and perhaps a share in a cell.

    Slots, because recording touches these two on every operation.
    """

    __slots__ = ("__dict__", "__weakref__", "_node", "_share")

    _node: Node
    # None for a tensor that has no views, and is none.
    _share: Share | None
    # Writes to a tensor that shared no cell yet.
    _writes = 0
    # Whether it was a view, of a tensor that was made to show something else: it stays that.
    _was_view: bool | None = None
    # Whether `retain_grad` was called on it, and nothing has cut it from its history since.
    _retains_grad = False


# Every handle is a Tensor, which the graph must not import: a type checker may take it for one.
if TYPE_CHECKING:
    Handle = Tensor
else:
    Handle = BareHandle


# Stands for no node: the handle of a pending one that the program cannot see.
NOBODY: Any = BareHandle()
NOBODY._node = NOBODY._share = None


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

    _node: Node
    base: weakref.ref[Tensor]
    memory: Any
    parent: tuple[Cell, tuple[Step, ...], int] | None
    silent: tuple[int, int]
    uncounted: int
    version: int

    @property
    def writes(self) -> int:
        """How often it was written, by PyTorch's count."""
        return self.version - self.uncounted

    def and_larger(self) -> list[Cell]:
        """This cell, and those of the storage as it has grown: a write to one is one to all."""
        found = [self]
        while found[-1].parent is not None:
            found.append(found[-1].parent[0])
        return found

    def wrote_silently(self) -> None:
        """Notes that the write that raised the version last is none to PyTorch's `_version`."""
        self.uncounted += 1
        begin, end = self.silent
        self.silent = (begin if end == self.version - 1 else self.version - 1), self.version

    def was_written_silently(self, seen: int) -> bool:
        """Whether all writes since the version `seen` were silent."""
        begin, end = self.silent
        return begin <= seen and end == self.version


@hot_slots
class Share:
    """What a tensor that has views, or is one, has of its own.

        x          ──► Share  path: ()            ──┐
                                                    ├──► Cell ──► node of the whole
        x[0].t()   ──► Share  path: index 0, t    ──┘    version

    `path` has the view operations that lead from the cell's value to that of this tensor; `seen`
    is the version of the cell that they were applied to. What has no slot, few have.
    """

    __slots__ = ("__dict__", "apart", "cell", "made", "made_at", "path", "root", "seen", "whole")

    cell: Cell
    path: tuple[Step, ...]
    seen: int
    # Of x.data and its views, and of what was made to share another storage: how often they were
    # written, which the `_version` of others does not count. They have one list in common.
    apart: list[int] | None
    # That count when this one was brought up to date: what they write is no silent write to it.
    apart_seen = 0
    # Why it may not be written while gradients are recorded: see `check_writable`.
    made: str | None
    # The count of writes when it was, of a view whose history is gone after the next one.
    made_at: int | None
    # The tensor that this is a view of, if that shares its memory, but no history, with others.
    root: Any
    # The tensor that is the whole, if backward may spend its graph: its value is kept for writes
    # to this part of it, like that of any tensor somebody holds.
    whole: Any
    # Whether it was brought up to date after a counted write to what it is a view of.
    followed = False
    # Whether it is of inference mode, and counts its writes all the same: see `counts_writes`.
    counts = False
    # The part of memory shared with somebody else that it shows: see runtime/shared.py.
    shown: Any = None

    def is_detached(self) -> bool:
        """Whether it has values in common with the whole, and no history."""
        return is_detached(self.path)

    def is_whole(self) -> bool:
        """Whether it shows all of the cell's value, as it is."""
        return is_only_detached(self.path)

    def is_to_itself(self) -> bool:
        """Whether it says nothing that a tensor without one does not: where it is the only one."""
        return self.made_at is None and self.is_whole()

    def has_family(self) -> bool:
        """Whether it is a view of another tensor, history included."""
        return bool(self.path) and (
            self.root is not None or self.made is not None or not self.is_detached()
        )

    def origin(self) -> tuple[Cell, tuple[Step, ...]]:
        """The cell that holds all of the storage, and the path from there."""
        cell, path = self.cell, self.path
        while cell.parent is not None:
            cell, before, _ = cell.parent
            path = before + path
        return cell, path

    def writes(self) -> int:
        """How often the memory that it shows a part of was written, as this tensor counts it."""
        return self.origin()[0].writes if self.apart is None else self.apart[0]

    def count(self, writes: int) -> None:
        """Counts writes, for this tensor and who counts with it, that change no value.

        As in PyTorch, views are shown anew after them: hooks on them are for what was computed
        before.
        """
        if self.apart is not None:
            self.apart[0] += writes
        else:
            self.origin()[0].version += writes

    def count_with(self, apart: list[int] | None) -> None:
        """Counts writes from now on in a list that it has in common with others, if any."""
        self.apart = apart
        if apart is not None:
            self.apart_seen = apart[0]

    def wrote(self) -> None:
        """Notes a write to the cell by this tensor, which has a count of its own if it is apart."""
        if self.apart is not None:
            self.apart[0] += 1
            for cell in self.cell.and_larger():
                cell.wrote_silently()

    def was_written_silently(self) -> bool:
        """Whether no write since it was brought up to date is one that this tensor counts."""
        if self.apart is not None:
            return self.apart[0] == self.apart_seen
        return self.cell.was_written_silently(self.seen)

    @hot
    def mark_made(self, how: str) -> None:
        """Notes how a view was made: not so that its history follows what is written later."""
        cell = self.cell
        self.made = how
        if cell.parent is None and self.apart is None:
            self.made_at = cell.version - cell.uncounted
        else:
            self.made_at = self.writes()


@hot
def is_detached(path: Sequence[Step]) -> bool:
    """Whether a step shares values but no history, as detach() does."""
    return any([step[0].grads is None for step in path])


@hot
def is_only_detached(path: Sequence[Step]) -> bool:
    """Whether a path leads to all of the whole, as it is: by no step, or by detach() alone."""
    return all([step[0].name == "detach" for step in path])


def shows_conjugates(path: Sequence[Step]) -> bool:
    """Whether a view shows conjugates of what lies in memory."""
    return sum([step[0].name == "conj" for step in path]) % 2 == 1


@hot
def new_share(cell: Cell, path: tuple[Step, ...], seen: int) -> Share:
    """A share in a cell, about which there is nothing more to be said."""
    share = _new(Share)
    share.cell = cell
    share.path = path
    share.seen = seen
    share.apart = None
    share.made = None
    share.made_at = None
    share.root = None
    share.whole = None
    if not CYCLES.are_possible:
        untrack(share)
    return share


@hot
def share_of(x: Any) -> Share:
    """The share of a tensor in a cell, which is one of its own if it has shared none yet."""
    share: Share | None = x._share
    if share is None:
        if x._node.meta.strides is not None:
            share = Writing.give_storage(x)
            if share is not None:
                return share
        cell = _new(Cell)
        cell._node = x._node
        cell.base = _WeakRef(x)
        cell.memory = None
        cell.parent = None
        cell.silent = (0, 0)
        cell.uncounted = 0
        cell.version = x._writes
        if not CYCLES.are_possible:
            untrack(cell)
        share = new_share(cell, (), cell.version)
        x._share = share
    return share


@hot
def is_current(share: Share) -> bool:
    """Whether a tensor shows what its cell holds, with nobody else to ask: it needs no `sync`.

    Whether it is the only one is not looked into.
    """
    cell = share.cell
    if share.seen != cell.version or cell.memory is not None or cell.parent is not None:
        return False
    made_at = share.made_at
    return made_at is None or (share.apart is None and made_at == cell.version - cell.uncounted)


@hot
def follow(x: Any) -> None:
    """Brings a tensor that shares a cell up to date with it."""
    share = x._share
    path = share.path
    # Who shows the whole may be the only one left, and have no need for its share.
    if not path or path[-1][0].grads is None:
        referrers = 0  # nobody knows
        if COUNTS_ARE_KNOWN:
            cell: Any = share.cell
            # Shares, at least one, and ours, which `sync` is not to see.
            referrers = half_at(id(cell) + REFERENCES)
            cell = None
        if not is_current(share) or referrers == 0:
            Writing.sync(x)
        elif referrers == 2:
            _give_up_share(x, share)
    elif not is_current(share):
        Writing.sync(x)


@hot
def _give_up_share(x: Any, share: Share) -> None:
    """What `sync` does for a whole that nobody shares any more: it is used without this detour."""
    if share.made_at is None and share.apart is None and not share.path:
        x._writes = share.cell.version - share.cell.uncounted
        x._share = None
    else:
        Writing.sync(x)


def path_of(x: Any) -> tuple[Step, ...]:
    """The view operations that lead to a tensor; none if it is no view."""
    share: Share | None = x._share
    return () if share is None else share.path


def shares_with(x: Any, other: Any) -> bool:
    """Whether two tensors share a cell."""
    return x._share is not None and other._share is not None and x._share.cell is other._share.cell


def may_be_stale(x: Any) -> bool:
    """Whether the history of a tensor, which is a view then, may be gone: see `Share.made_at`."""
    return x._share is not None and x._share.made_at is not None


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
    node.walked = None
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
    tensor._share = None
    return tensor


@hot
def node_of(x: Any) -> Node:
    """The node a tensor stands for now (a view may have been changed through its base)."""
    try:
        if x._share is not None:
            follow(x)
        node: Node = x._node
    except AttributeError:
        raise _no_tensor(x) from None
    return node


def _no_tensor(x: Any) -> TypeError:
    return wrong_class(x, "Tensor")


class Writing:
    """Ways of reading and writing that others fill in, so that recording need not know them.

    sync(x)                             brings a tensor that shares a cell up to date with it
    give_storage(x)                     the share of a tensor that repeats elements of a storage;
                                        any other is made a whole without gaps
    read_shared(x)                      the value of `x` is what its memory holds now
    view_shared(op, x, …)               a view of memory
    write_shared(x, value)              writes to memory
    write_strided(whole, path, value)   writes to a part whose elements may overlap
    """

    sync: Callable[[Any], None]
    give_storage: Callable[[Any], Share | None]
    read_shared: Callable[[Any], None]
    view_shared: Callable[..., Tensor]
    write_shared: Callable[[Any, Any], Tensor]
    write_strided: Callable[[Any, Sequence[Step], Any], Tensor]
