"""In-place writes: a new value in the place of the old, seen through all views."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from livegrad.device import CPU
from livegrad.graph import elsewhere
from livegrad.graph.family import family_node, written_view
from livegrad.graph.geometry import is_its_storage
from livegrad.graph.handle import (
    Cell,
    Share,
    Step,
    Writing,
    is_current,
    is_detached,
    is_only_detached,
    node_of,
    path_of,
    shows_conjugates,
    wrap,
)
from livegrad.graph.layout import repeats
from livegrad.graph.losses import note_update
from livegrad.graph.node import Interior, LeafRef, Node, is_in_vain, place_of
from livegrad.graph.op import REGISTRY
from livegrad.graph.record import record
from livegrad.graph.state import AT_ONCE, LOCAL, State, setting
from livegrad.graph.views import (
    counts_writes,
    in_place_of,
    is_latest,
    is_of_inference,
    laid_out,
    place_taken,
    steps_from_root,
    sync,
)
from livegrad.native.hot import hot

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

_WeakRef = weakref.ref


def rebind(x: Tensor, value: Tensor, expanded: bool = False) -> Tensor:
    """In-place write: `x` takes the value of the tensor `value`, of the same shape and dtype.

    With `expanded`, several elements of `x` may lie in one place.

    The value that was there stays in the graph for whoever recorded with it, so backward never
    meets a value "modified by an in-place operation".
    """
    if wrote_plainly(x, value):
        return x
    if LOCAL.state.flusher is not None:
        LOCAL.state.flusher.check_write(x, value)
    check_writable(x, value._node.grad_to is not None, expanded)
    if x._node.meta.device is not value._node.meta.device:
        value = elsewhere.written(x, value)
    share = x._share
    if share is not None and share.cell.memory is not None:
        return Writing.write_shared(x, value)
    if expanded and not is_its_storage(x):  # what is written is seen in all that lies there
        share = x._share
    part = value._node
    if part.meta is not x._node.meta:
        value = laid_out(value, x._node.meta)
    overwrites = LOCAL.state.grad
    if share is None:
        x._node = in_place_of(x._node, value, x, overwrites)
        x._writes += 1
        return x
    cell, path = share.cell, share.path
    if not path:
        cell._node = x._node = in_place_of(x._node, value, x, overwrites)
    else:
        if x._node.grad_to is not None and part.grad_to is None:
            leave_hooks(x)
        # What only took another shape in place, as x.t_() does, is no view: it stays where it was.
        moves = x._was_view is not False and (x._node.interior or is_in_vain(x._node.grad_to))
        x._node = in_place_of(x._node, value, x, overwrites)
        if share.root is not None and overwrites:
            _write_to_root(share, part)
        _write_to_cell(cell, path, part)
    _wrote(cell)
    if path:
        _let_go_of_old_whole(cell)
    # Where elements lie in one place, what was written to one is seen in the others. A gradient
    # reaches what was written through the whole, as in PyTorch: a view is a view of that now.
    through_whole = path and (part.grad_to is not None or moves)
    share.seen = -1 if through_whole or not is_apart(path) else cell.version
    if through_whole and type(x._node.grad_to) is Interior:
        sync(x)  # what retains its gradient does so at its new place in the graph
    share.wrote()
    if path and overwrites:
        _lead_through_reshaped(cell)
    return x


def rebind_uncounted(x: Tensor, value: Tensor) -> None:
    """`rebind` by what writes without PyTorch's `_version` counting it."""
    rebind(x, value)
    share = x._share
    if share is None:
        x._writes -= 1
    elif share.apart is not None:  # a write to the cell that nobody else counts
        share.apart[0] -= 1
        share.count_with(share.apart)
    else:
        for cell in share.cell.and_larger():
            cell.wrote_silently()


@hot
def next_index() -> int:
    """The index of the node that is recorded next."""
    state = LOCAL.state
    index: int = state.base + len(state.nodes)
    return index


@hot
def wrote_to_own_node(x: Any, value: Any, first: int) -> bool:
    """Writes a value that was recorded for this write to a leaf, if its node can be the leaf's."""
    if x._share is None:
        return wrote_to_leaf(x, value, first)
    return wrote_to_data(x, value, first)


@hot
def _place_of_last(state: State, value: Any, first: int) -> int:
    """Where a value is pending that was recorded last, not before the node `first`; else -1."""
    place = len(state.nodes) - 1
    node = value._node
    if node.index < first or place < 0 or state.nodes[place] is not node:
        return -1
    return place if state.handles[place] is value and node.inputs else -1


@hot
def wrote_to_leaf(x: Any, value: Any, first: int) -> bool:
    """Writes a value under no_grad to a leaf without views, as `p -= rate * p.grad` does.

    It was recorded last, not before the node `first`, for nobody else: so its own node can be the
    leaf's, and no other tensor is marked as one. False if it is otherwise.
    """
    state = LOCAL.state
    old, node = x._node, value._node
    to = old.grad_to
    if state.grad or state.inference or type(to) is not LeafRef or node.grad_to is not None:
        return False
    if node.meta is not old.meta or old.meta.strides is not None or old.spent or node.spent:
        return False
    if x._share is not None or value._share is not None or value is x:
        return False
    place = _place_of_last(state, value, first)
    if place < 0 or id(to()) != id(x):
        return False
    node.grad_to = to
    state.handles[place] = x
    state.written[node] = place_taken(node, old)
    x._node = node
    x._writes += 1
    return True


@hot
def wrote_to_data(x: Any, value: Any, first: int) -> bool:
    """Writes a value to all of what `.data` or detach() shows, a leaf or a constant, as
    `p.data.add_(step)` does.

    It was recorded last, not before the node `first`, for nobody else: its own node can be the
    whole's (see `wrote_to_leaf`). What is most often used no more, `x`, looks again if it is. False
    if it is otherwise.
    """
    state, share = LOCAL.state, x._share
    if share is None or not share.path or share.root is not None or share.made is not None:
        return False
    cell = share.cell
    whole, old, node = cell.base(), cell._node, value._node
    to = old.grad_to
    if node.grad_to is not None or x._node.grad_to is not None or value._share is not None:
        return False
    if node.meta is not old.meta or old.meta.strides is not None or old.spent or node.spent:
        return False
    if not is_only_detached(share.path) or state.inference or state.flusher is not None:
        return False
    if x._node.spent or not is_current(share) or (whole is not None and whole._was_view is False):
        return False
    if to is not None and not _is_current_leaf(whole, cell):
        return False
    if node.buffer is None:
        place = _place_of_last(state, value, first)
        if place < 0:
            return False
        state.handles[place] = cell
        state.written[node] = place_taken(node, old)
    elif to is not None:
        return False
    node.grad_to = to
    cell._node = node
    cell.version += 1
    if to is None:
        _let_go_of_old_whole(cell)
    else:
        _show_whole(whole, cell)
    share.seen = -1
    share.wrote()
    return True


@hot
def _is_current_leaf(whole: Any, cell: Cell) -> bool:
    """Whether the tensor that is the whole of a cell is the leaf which the cell's node is."""
    to = cell._node.grad_to
    if whole is None or type(to) is not LeafRef or id(to()) != id(whole):
        return False
    own = whole._share
    if own is None or own.cell is not cell or own.path or own.apart is not None:
        return False
    return is_current(own)


@hot
def _show_whole(whole: Any, cell: Cell) -> None:
    whole._node = cell._node
    whole._share.seen = cell.version


@hot
def wrote_plainly(x: Any, value: Any) -> bool:
    """Writes what needs no second look: no graph, no memory of others, at most one step away."""
    old, node = x._node, value._node
    if old.grad_to is not None or node.grad_to is not None or node.meta is not old.meta:
        return False
    if old.spent or old.meta.strides is not None or node is old:
        return False
    if (node.buffer is None and not is_latest(value)) or LOCAL.state.flusher is not None:
        return False
    share = x._share
    if share is None:
        x._writes += 1
    else:
        cell = share.cell
        if not is_current(share) or share.apart is not None or cell._node.grad_to is not None:
            return False
        path = share.path
        if path:
            op, attrs, args, _ = path[0]
            if len(path) > 1 or op.write is None or op.grads is None or share.root is not None:
                return False
            if cell._node.meta.strides is not None or cell._node.spent:
                return False
            _take_place(x, old, value)
            if not (AT_ONCE.is_on and op.picks and _put(cell, attrs, args, node)):
                before = cell._node
                whole = op.write(wrap(before), value, attrs, args)
                cell._node = whole._node
                _note_write(before, whole, cell)
            cell.version += 1
            share.seen = cell.version
            _let_go_of_old_whole(cell)
            return True
        cell._node = node
        cell.version += 1
        share.seen = cell.version
    _take_place(x, old, value)
    return True


@hot
def _put(cell: Cell, attrs: tuple[Any, ...], args: tuple[Any, ...], value: Node) -> bool:
    """Writes a value that is known to an element of a cell's, where that lies, if it may be."""
    if value.buffer is None or cell._node.buffer is None:
        return False
    whole = cell.base()
    # The tensor that is the whole refers to its node, too, if it is up to date.
    referrers = 2 if whole is not None and whole._node is cell._node else 1
    return bool(AT_ONCE.by.put_element(cell, referrers, attrs[0], args, value))


@hot
def _take_place(x: Any, old: Node, value: Any) -> None:
    x._node = value._node
    _note_write(old, value, x)


@hot
def _note_write(old: Node, value: Any, handle: Any) -> None:
    """What `in_place_of` does where no graph is concerned."""
    node = value._node
    node.spent = old.spent
    state = LOCAL.state
    handles = state.handles
    if handles and handles[-1] is value:
        handles[-1] = handle
    if node.inputs:
        state.written[node] = place_taken(node, old)


def is_apart(path: Sequence[Step]) -> bool:
    """Whether no step can show an element twice."""
    return all([step[0].write is not None for step in path])


def _wrote(cell: Cell) -> None:
    """Raises the version of a cell that was written to, and writes to what it is a view of."""
    cell.version += 1
    if cell.parent is not None:
        parent, path, _ = cell.parent
        _write_to_cell(parent, path, cell._node)
        _wrote(parent)
        cell.parent = parent, path, parent.version


@hot
def _let_go_of_old_whole(cell: Cell) -> None:
    """Brings the tensor that is the whole up to date, if nothing of a graph is concerned.

    Else it would refer to the old value until it is next used, and nothing could be written where
    that lies.
    """
    whole = cell.base()
    share = None if whole is None else whole._share
    if whole is None or share is None or share.cell is not cell or share.path:
        return
    if whole._node.grad_to is None and cell._node.grad_to is None and share.apart is None:
        _show_whole(whole, cell)


@hot
def is_whole_without_graph(x: Any) -> bool:
    """Whether `x` shows all of its memory, which is ours alone and in order, and is constant."""
    node, share = x._node, x._share
    if node.grad_to is not None or node.meta.strides is not None or node.meta.device is not CPU:
        return False
    if share is None:
        return True
    cell = share.cell
    return is_only_detached(share.path) and cell.memory is None and cell.parent is None


def _write_to_cell(cell: Cell, path: Sequence[Step], part: Node) -> None:
    """Gives the cell a new whole: that with `part` written to where `path` leads."""
    state = LOCAL.state
    grad = state.grad
    # What is written through detach() leaves the history of the whole alone.
    apart = is_detached(path)
    state.grad = grad and not apart
    try:
        value = record(REGISTRY["detach"], (wrap(part),)) if apart else wrap(part)
        whole = _write_through(wrap(cell._node), path, value)
        if whole._node.meta is not cell._node.meta:
            whole = laid_out(whole, cell._node.meta)
    finally:
        state.grad = grad
    cell._node = in_place_of(cell._node, whole, cell, grad and not apart)


def _write_to_root(share: Share, part: Node) -> None:
    """Writes `part`, history included, to the detached tensor that a view is a view of.

    Its cell gets the values alone.
    """
    root, steps = share.root, steps_from_root(share)
    if steps is None or (part.grad_to is None and node_of(root).grad_to is None):
        return
    before = node_of(root)
    whole = laid_out(_write_through(wrap(before), steps, wrap(part)), before.meta)
    root._node = in_place_of(before, whole, root, True)
    root._share.seen = share.cell.version + 1  # when the cell is written


def lead_views_through(x: Any) -> None:
    """Makes views of `x`, the whole until it took another shape in place, views of what it is now.

    So a gradient of them comes by the place in the graph that `x` has, and by the hooks there. What
    was made to share the storage of another tensor leads nobody: that one is the whole.
    """
    share = x._share
    if share is None or not share.path:
        return
    cell, node = share.cell, x._node
    if cell.base() is x and cell.memory is None and cell.parent is None:
        with setting(grad=node.grad_to is not None and LOCAL.state.grad):
            cell._node = _write_through(wrap(cell._node), share.path, wrap(node))._node


def _lead_through_reshaped(cell: Cell) -> None:
    """Leads views, after a write, through the whole if that took another shape in place."""
    whole = cell.base()
    if whole is not None and whole._was_view is False and node_of(whole).interior:
        lead_views_through(whole)


def _is_of_leaf(x: Any, node: Node, root: Node) -> bool:
    """Whether a view is one of a leaf, or of what has taken another shape in place and is one."""
    share = x._share
    whole = share.cell.base()
    if whole is None or whole._was_view is not False or share.root is not None:
        return not root.interior
    if whole._share is None or whole._share.cell is not share.cell:
        return not root.interior
    if isinstance(whole._node.grad_to, _WeakRef):
        return True
    has_more_room = root.grad_to is None and node.interior and whole._node.interior
    return not (root.interior or has_more_room)


def leave_hooks(x: Any) -> None:
    """Shows the part of a view anew, before it is written, if hooks are on the way to it.

    They are for what was computed before: as in PyTorch, a write is one to the whole, and its
    gradient does not pass by the views through which it was done.
    """
    if not LOCAL.state.grad:
        return
    node = x._node
    for _ in path_of(x):
        node = place_of(node)
        if type(node.grad_to) is Interior:
            x._share.seen = -1
            sync(x)
            return
        if not node.inputs:
            return
        node = node.inputs[0]


def prepare_write(x: Any, expanded: bool = True) -> None:
    """What comes before the value of a write to `x` is recorded, if that is made from `x`.

    What is refused leaves no trace.
    """
    if node_of(x).grad_to is not None:
        check_writable(x, expanded=expanded)
        leave_hooks(x)


def check_writable(x: Any, flows: bool = False, expanded: bool = False) -> None:
    """RuntimeError if `x` must not be written: in PyTorch's words, before anything has changed.

    `flows` says whether a gradient flows from elsewhere to what is written; `expanded`, whether
    several elements may lie in one place.
    """
    node = node_of(x)
    meta = node.meta
    if meta.strides is not None and not expanded and repeats(meta.shape, meta.strides):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation."
        )
    state = LOCAL.state
    if is_of_inference(node) and not state.inference and not counts_writes(x):
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed. You can make "
            "a clone to get a normal tensor before doing inplace update."
        )
    if not state.grad:
        note_update(node)
        return
    if x._share is not None and x._share.has_family():
        _check_view(x, node, flows)
    if isinstance(node.grad_to, _WeakRef) and not is_in_vain(node.grad_to):
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation. "
            "Write under livegrad.no_grad(), or to a clone()"
        )


def check_expanded(x: Any, flows: bool = False) -> None:
    """`check_writable` for what writes to several elements in one place, in no order.

    Not where `x` shows conjugates: what PyTorch writes for those, it copies to their places.
    """
    check_writable(x, flows, expanded=not shows_conjugates(path_of(x)))


def _check_view(x: Any, node: Node, flows: bool) -> None:
    """RuntimeError if a view must not be written while gradients are recorded.

    The values of a leaf may be written through detach(), and so .data, at any time: see there.
    """
    root = family_node(x)
    requires = node.grad_to is not None or root.grad_to is not None
    if x._share.made is not None and (flows or requires):
        raise written_view(x, "is being modified")
    if requires and _is_of_leaf(x, node, root):
        raise RuntimeError(
            "a view of a leaf Variable that requires grad is being used in an in-place operation. "
            "Write under livegrad.no_grad(), or to a clone()"
        )


def _write_through(whole: Tensor, path: Sequence[Any], value: Tensor) -> Tensor:
    """The whole after `value` was written to the part of it that `path` views."""
    if not is_apart(path):
        return Writing.write_strided(whole, path, value)
    parts = [whole]
    for op, attrs, args, shape in path[:-1]:
        parts.append(record(op, (parts[-1],), attrs, args, shape))
    for part, (op, attrs, args, _) in zip(reversed(parts), reversed(path), strict=True):
        value = op.write(part, value, attrs, args)
    return value
