"""Views: tensors that share values, and follow what is written to them."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from livegrad import dtypes
from livegrad.device import CPU
from livegrad.graph.family import NO_GRAD, check_not_stale, family_node, node_of_whole
from livegrad.graph.handle import (
    LEAF,
    Cell,
    Handle,
    Share,
    Step,
    Writing,
    is_current,
    is_detached,
    may_be_stale,
    new_share,
    node_of,
    share_of,
    wrap,
)
from livegrad.graph.infer import infer_meta, not_a_tensor
from livegrad.graph.layout import like_strides, repeats
from livegrad.graph.meta import Meta, Shape
from livegrad.graph.node import (
    Interior,
    LeafRef,
    Node,
    Spec,
    is_in_vain,
    place_of,
    to_nowhere,
    to_place,
)
from livegrad.graph.op import REGISTRY, Op
from livegrad.graph.record import append, record, unary
from livegrad.graph.spent import propagate
from livegrad.graph.state import LOCAL, setting, was_dropped
from livegrad.graph.symbol import Session
from livegrad.native.calls import untrack
from livegrad.native.hot import hot

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

_WeakRef = weakref.ref
_refs = sys.getrefcount


def sync(x: Any) -> None:
    """Brings a tensor that shares a cell up to date with the cell."""
    share = x._share
    if share is None:  # another thread has seen that nobody shares it
        return
    cell = share.cell
    if cell.parent is not None:
        _follow_parent(cell)
    if share.made_at is not None and LOCAL.state.grad:
        check_not_stale(x)
    if cell.memory is not None:
        Writing.read_shared(x)
        return
    if share.seen != cell.version:
        follow_cell(x, share)
    if _refs(cell) == _ALONE and cell.parent is None and share.is_to_itself():
        # Nobody shares it any more: from now on the tensor is used without this detour.
        x._writes = share.writes()
        x._share = None


def _count_own_references() -> int:
    """What `_refs` says, inside `sync`, of a cell that only one tensor refers to."""
    holder = [object()]
    cell = holder[0]
    return _refs(cell)


_ALONE = _count_own_references()


def follow_cell(x: Any, share: Share) -> None:
    """Applies the path of `x` to the value that its cell has now."""
    state = LOCAL.state
    cell = share.cell
    value, path = wrap(cell._node), share.path
    if path:
        steps = steps_from_root(share)
        if steps is not None:  # which has a history of its own
            value, path = wrap(node_of(share.root)), steps
        # Gradients flow through a view whenever they flow through what it shows. But after a
        # silent write it has the place in the graph that it had, if any.
        unchanged = share.was_written_silently() or _has_place_of_whole(x, cell)
        silently = unchanged and has_its_place(x._node, share)
        grad, state.grad = state.grad, not silently
        try:
            value = followed(value, path)
            if not silently and _has_lost_whole(x, value):
                value._node.grad_to = to_nowhere()
            x._node = in_place_of(x._node, value, x, False)
        finally:
            state.grad = grad
        if silently:
            require_in_vain(x._node, share)
        else:
            share.followed = True
    else:
        before, x._node = x._node, value._node
        if before.grad_to is not None:
            go_on_retaining(before, x._node, x)
    share.seen = cell.version
    if share.apart is not None:
        share.count_with(share.apart)


def _has_lost_whole(x: Any, value: Tensor) -> bool:
    """Whether a view has the history of its whole, which was detached in place, and written.

    Not one that begins at a leaf: with a view of which somebody collects the gradient.
    """
    if value._node.grad_to is not None or x._share.is_detached():
        return False
    node = x._node
    for _ in x._share.path:
        node = place_of(node)
        if not node.interior or not node.inputs:
            return False
        node = node.inputs[0]
    interior: bool = node.interior
    return interior


def claim(x: Any) -> None:
    """Tells views of `x`, when next used, that it requires a gradient, or none any more."""
    share = x._share
    if share is not None:
        share.cell.version += 1
        share.cell.wrote_silently()
        share.seen = share.cell.version


def detach_whole(x: Any) -> bool:
    """Takes the history of a tensor away, if it is the whole that others are views of.

    They keep theirs until something is written, but must not be written: as views of a leaf.
    """
    node = node_of(x)
    share = x._share
    if share is None or share.path or share.cell.parent is not None:
        return False
    detached = record(REGISTRY["detach"], (wrap(node),))
    share.cell._node = x._node = detached._node
    see_through(detached, x)
    claim(x)
    return True


def _has_place_of_whole(x: Any, cell: Cell) -> bool:
    """Whether `x`, which took another shape under no_grad, is in the graph where the whole is.

    It is no view, for which a gradient would be brought to the shape of the whole.
    """
    if x._was_view is not False:
        return False
    if cell._node.grad_to is None and cell.base() is x:  # it got more room, for what is written
        return True
    return place_of(x._node) is place_of(cell._node)


def has_its_place(node: Node, share: Share) -> bool:
    """Whether a view is where it was made in the graph, or was put since: also if that is nowhere.

    If nothing flowed to what it shows when that was written, where it is now was left open.
    """
    to = node.grad_to
    if to is None or is_in_vain(to):
        made = node.spec.op in (share.path[-1][0], LEAF) or share.shown is not None
        return made and not share.followed
    return True


@hot
def require_in_vain(node: Node, share: Share) -> None:
    """A view that was not recorded requires a gradient like the tensor that it is a view of.

    As in PyTorch, what is computed from it does so, too, but no gradient goes any further.
    """
    if share.root is None and is_detached(share.path):
        return
    to, family = node.grad_to, node_of_whole(share)
    if is_in_vain(to) and family.grad_to is None:
        node.grad_to = None
    elif to is None and family.grad_to is not None:
        node.grad_to = LeafRef(_Nobody())


class _Nobody:
    """Who a gradient is for that is wanted in vain."""


def followed(value: Tensor, path: Sequence[Step]) -> Tensor:
    for op, attrs, args, shape in path:
        value = record(op, (value,), attrs, args, shape)
    return value


def _follow_parent(cell: Cell) -> None:
    """Brings a cell that is itself a view of another up to date with that."""
    assert cell.parent is not None
    parent, path, seen = cell.parent
    if parent.parent is not None:
        _follow_parent(parent)
    cell.memory = parent.memory  # where all of the storage is, while somebody else sees it
    if seen != parent.version:
        # It has grown through what has no history in common with those that have one: they keep it.
        with setting(grad=cell._node.grad_to is None and LOCAL.state.grad):
            value = followed(wrap(parent._node), path)
            cell._node = in_place_of(cell._node, value, cell, False)
        cell.parent = parent, path, parent.version
        cell.version += 1
        if parent.was_written_silently(seen):
            cell.wrote_silently()


@hot
def is_latest(value: Any) -> bool:
    """Whether a tensor is what was recorded last.

    Then another may take over its node. What was recorded before is seen through the tensor that
    it was recorded for alone: once that is gone, nobody would know that it is alive.
    """
    handles = LOCAL.state.handles
    return len(handles) > 0 and handles[-1] is value


def see_through(temporary: Any, handle: Any) -> None:
    """Makes `handle` the one through which the node recorded last is seen."""
    handles = LOCAL.state.handles
    if handles and handles[-1] is temporary:
        handles[-1] = handle


@hot
def view(
    op: Op,
    x: Any,
    attrs: tuple[Any, ...] = (),
    args: tuple[Any, ...] = (),
    shape: Shape | None = None,
) -> Tensor:
    """Records a view: a tensor that shares its values with `x`, in both directions."""
    try:
        shown = x._share
    except AttributeError:
        raise not_a_tensor(op, x) from None
    if shown is not None and shown.cell.memory is not None:
        return Writing.view_shared(op, x, attrs, args, shape)
    # A cell that we refer to is not given up, only to be made again.
    cell = None if shown is None else shown.cell  # noqa: F841
    out = record(op, (x,), attrs, args, shape)
    share_values(x, out, (op, attrs, args, shape))
    return out


@hot
def share_values(x: Any, out: Any, step: Step) -> None:
    """Makes `out`, which was recorded just now, a view of `x`."""
    op = step[0]
    shown = x._share
    if shown is None:
        shown = share_of(x)
    cell = shown.cell
    share = new_share(cell, _longer(shown.path, step), cell.version)
    out._share = share
    if cell._node.grad_to is not None and (op.grads is not None or shown.whole is not None):
        share.whole = cell.base()
    state = LOCAL.state
    if state.inference:
        out._node.spent = False
    if shown.path:
        inherit(op, x, share)
    if x._node.spent and x._node.grad_to is None:
        mark_view_of_inference(op, out)
    if not state.grad and op.grads is not None:
        share.mark_made(NO_GRAD)
        if x._node.grad_to is not None:
            require_in_vain(out._node, share)


@hot
def view_as_known(spec: Spec, x: Any, args: tuple[Any, ...]) -> Tensor:
    """`view` by a known spec, of a tensor that `is_plainly_current`."""
    node = x._node
    out = append(spec, (node,), args, None if node.grad_to is None else spec.grad)
    share_values(x, out, (spec.op, spec.attrs, args, spec.meta.shape))
    return out


@hot
def view_found(op: Op, name: Any, x: Any, args: tuple[Any, ...] = ()) -> Tensor | None:
    """The view that is remembered by what `x` is and a name (see `remember_view`); None if that is
    new, or `x` is no plain tensor: then it is for others to make."""
    if not isinstance(x, Handle):
        return None
    share = x._share
    if share is not None and not is_current(share):
        node_of(x)
    spec = op.cache.get((x._node.meta, name))
    if spec is None or not is_plainly_current(x):
        return None
    return view_as_known(spec, x, args)


@hot
def remember_view(op: Op, name: Any, x: Any, out: Tensor) -> Tensor:
    """Has a view of `x` that was just recorded be found by a name: what it is asked with."""
    meta = x._node.meta
    if meta.device is CPU and out._node.spec.op is op:
        op.remember_as((meta, name), out._node.spec, (meta,))
    return out


# The views that a function gives of a tensor together, by what that is and what is asked for: of
# each its spec, numbers, path from there, and how it was made, which depends on whether gradients
# are recorded.
_TOGETHER: dict[Any, list[tuple[Spec, tuple[Any, ...], tuple[Step, ...], str]]] = {}
_MOST_TOGETHER = 1024
_MOST_PARTS = 64
dtypes.on_default_change(_TOGETHER.clear)  # with the specs that ops remember


@hot
def views_found(name: str, number: Any, dim: Any, x: Any) -> tuple[Tensor, ...] | None:
    """The views that are remembered (see `remember_views`); None if they are new, or `x` is no
    plain tensor: then they are for others to make."""
    if type(number) is not int or type(dim) is not int or not isinstance(x, Handle):
        return None
    node, shown, state = x._node, x._share, LOCAL.state
    if shown is None:
        if node.meta.strides is not None:
            return None
    elif shown.apart is not None or not is_current(shown):
        return None
    elif shown.path and not _is_view_without_graph(x, shown):
        return None
    known = _TOGETHER.get((node.meta, name, number, dim, state.grad))
    if known is None or state.inference or node.spent:
        return None
    if not state.grad and node.grad_to is not None:
        return None  # views that are no part of its graph
    return _view_together(x, known)


@hot
def _is_view_without_graph(x: Any, shown: Share) -> bool:
    """Whether a view, and what it is a view of, have no history that views of it would inherit."""
    if x._node.grad_to is not None or shown.cell._node.grad_to is not None:
        return False
    return shown.root is None and not is_detached(shown.path) and not _is_whole_reshaped(x)


@hot
def _view_together(x: Any, known: list[Any]) -> tuple[Tensor, ...]:
    state, node = LOCAL.state, x._node
    shown = share_of(x)
    cell, way = shown.cell, shown.path
    whole = None if node.grad_to is None else cell.base()
    grad = None if node.grad_to is None else known[0][0].grad
    inputs = (node,)
    parts = []
    site = state.site
    try:
        for spec, args, path, made in known:
            out = append(spec, inputs, args, grad)
            state.site = out._node.site  # one line makes all of them
            share = new_share(cell, _longer(way, path[0]) if way else path, cell.version)
            share.whole = whole
            share.mark_made(made)
            out._share = share
            parts.append(out)
    finally:
        state.site = site
    return tuple(parts)


def remember_views(
    name: str, number: Any, dim: Any, x: Any, parts: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    """Has views of `x` that were just made together be found by what they were asked for with."""
    if type(number) is not int or type(dim) is not int or not 0 < len(parts) <= _MOST_PARTS:
        return parts
    known: list[Any] = []
    for part in parts:
        node, share = part._node, part._share
        if share is None or not share.path or node.op is not share.path[-1][0]:
            return parts
        if share.made is None or share.apart is not None:
            return parts
        known.append((node.spec, share.path[-1][2], share.path[-1:], share.made))
    if x._node.meta.device is CPU and Session.current is None:
        if len(_TOGETHER) >= _MOST_TOGETHER:
            _TOGETHER.clear()
        _TOGETHER[x._node.meta, name, number, dim, LOCAL.state.grad] = known
    return parts


@hot
def is_plainly_current(x: Any) -> bool:
    """Whether a tensor shows what it shares, is no detached one, and the memory is ours alone."""
    share = x._share
    if share is None:
        return True
    path = share.path
    return is_current(share) and (not path or path[-1][0].grads is not None)


@hot
def _longer(path: tuple[Step, ...], step: Step) -> tuple[Step, ...]:
    """A path with one more step. The garbage collector need not look at it: it has no tensors."""
    longer = path + (step,)
    untrack(step)
    untrack(longer)
    return longer


@hot
def view_again(x: Any, other: Any, args: tuple[Any, ...]) -> Tensor:
    """A view of `x` like `other`, which was recorded just now, but for its numbers."""
    node, share, shown, state = other._node, other._share, x._share, LOCAL.state
    cell = share.cell
    op, attrs, _, shape = share.path[-1]
    if (
        shown is None
        or shown.cell is not cell
        or node.buffer is not None  # it may have lost its inputs
        or node.spent
        or (share.made is not None and (share.made is not NO_GRAD or state.grad))
        or share.apart is not None
        or cell.memory is not None
        or node.meta.device is not CPU
        or (share.made is not None and x._node.grad_to is not None)
    ):
        return view(op, x, attrs, args, shape)
    site = state.site
    state.site = node.site
    try:
        out = append(node.spec, node.inputs, args, node.grad_to)
    finally:
        state.site = site
    own = new_share(cell, _longer(shown.path, (op, attrs, args, shape)), share.seen)
    own.root = share.root
    own.whole = share.whole
    if share.made is not None:
        own.mark_made(NO_GRAD)
    out._share = own
    return out


@hot
def is_of_inference(node: Node) -> bool:
    """Whether a value is that of a tensor made in inference mode."""
    spent: bool = node.spent
    return spent and node.grad_to is None


def counts_writes(x: Any) -> bool:
    """Whether a tensor of inference mode may be written elsewhere: if detach() gave it there."""
    return x._share is not None and x._share.counts


def mark_view_of_inference(op: Op, out: Any) -> None:
    """A view is a tensor of inference mode if what it shows is, wherever it is made.

    That without the history, which detach() gives, may be written elsewhere: it counts its own
    writes.
    """
    out._node.spent = True
    if op.grads is None and not LOCAL.state.inference:
        out._share.counts = True
        out._share.count_with([0])


@hot
def inherit(op: Op, x: Any, share: Share) -> None:
    """What the share of a view has in common with that of `x`, a view that it is a view of."""
    shown = x._share
    if op.grads is not None:
        share.root = shown.root
        if shown.root is None and (is_detached(shown.path) or _is_whole_reshaped(x)):
            share.root = x  # past detach() begins another history
    if shown.apart is not None:
        share.count_with(shown.apart)
    if shown.made is not None and op.grads is not None:
        share.mark_made(shown.made)


@hot
def _is_whole_reshaped(x: Any) -> bool:
    """Whether a constant took another shape in place: the history it gets is none of its memory."""
    return x._was_view is False and not x._node.interior


def steps_from_root(share: Share) -> tuple[Step, ...] | None:
    """The way of a view from its root, a detached tensor; None if that shows another part."""
    root = None if share.root is None else share.root._share
    if root is None or root.cell is not share.cell:
        return None
    length = len(root.path)
    return share.path[length:] if share.path[:length] == root.path else None


def give_storage(x: Any) -> Share | None:
    """Makes a tensor that shares no cell the whole of a storage, or a view of one.

    What a function of `func` returns may be expanded: then its elements lie in memory once, and it
    is a view, as in PyTorch, of a whole that nobody can see. The share is returned if it is one.
    """
    meta = x._node.meta
    if not repeats(meta.shape, meta.stride()):
        make_dense(x)
        return None
    step: Step = (REGISTRY["expand"], (), (), meta.shape)
    with setting(grad=x._node.interior):
        whole = _without_repetitions(wrap(x._node))
        whole._node.spent, whole._writes = x._node.spent, x._writes
        cell = share_of(whole).cell
        see_through(whole, cell)
    _lay_out(x, infer_meta(step[0], cell._node.meta, (), meta.shape))
    share = x._share = new_share(cell, _longer((), step), cell.version)
    if cell._node.grad_to is not None:
        share.whole = whole
    return share


def _without_repetitions(x: Tensor) -> Tensor:
    """The elements of a tensor, those along expanded dims once."""
    meta = x._node.meta
    once = [size if step else 1 for size, step in zip(meta.shape, meta.stride(), strict=True)]
    items = (("slice", 1),) * meta.ndim
    return record(REGISTRY["index"], (x,), (items,), (0,) * meta.ndim, tuple(once))


def make_dense(x: Any) -> None:
    """Gives a tensor that is the whole of its storage strides without gaps or repetitions.

    What a rule returns may be a part of something nobody can see.
    """
    meta = x._node.meta
    _lay_out(x, meta.with_strides(like_strides(meta.shape, meta.stride())))


def _lay_out(x: Any, meta: Meta) -> None:
    """Gives a tensor that shares no cell the strides of `meta`."""
    if x._node.meta is not meta:
        placed = laid_out(wrap(x._node), meta)
        if isinstance(x._node.grad_to, LeafRef):
            placed._node.grad_to = x._node.grad_to
        x._node = placed._node
        see_through(placed, x)


def laid_out(value: Tensor, meta: Meta) -> Tensor:
    """`value` with the strides of `meta`."""
    if value._node.meta is meta:
        return value
    return record(REGISTRY["placed"], (value,), (meta.strides,))


def row_major(value: Tensor) -> Tensor:
    """A value nobody else has seen with the strides of row-major order."""
    return laid_out(value, value._node.meta.plain)


def in_place_of(old: Node, value: Any, handle: Any, overwrites: bool) -> Node:
    """The node that takes the place of `old`, seen through `handle`.

    A leaf (written under no_grad) stays that leaf. An interior node keeps its place in the graph
    although the value has another history: the gradient goes on to `old`, or ends there if the
    write was recorded to be differentiated and `overwrites` it.
    """
    node: Node = value._node
    to = old.grad_to
    if isinstance(to, _WeakRef) and type(handle) is not Cell and _is_no_leaf_now(to, node, handle):
        pass
    elif isinstance(to, _WeakRef):
        # A node of its own, so that marking it as the leaf marks no other tensor's value.
        value = laid_out(unary(REGISTRY["clone"], wrap(node)), node.meta)
        node = value._node
        node.grad_to = to
    elif to is not None and node.grad_to is None:
        with setting(grad=True):
            if old.buffer is not None:  # else nothing of its graph is given up yet
                propagate(old)
            value = _at_place(place_of(old), wrap(node), overwrites, type(handle) is Cell)
        node = value._node
    elif to is None and node.grad_to is None:
        if node.buffer is None and not is_latest(value):
            value = laid_out(unary(REGISTRY["clone"], wrap(node)), node.meta)
            node = value._node
        node.spent = old.spent  # whether in inference mode or not, it stays what it was made as
    if to is not None:
        go_on_retaining(old, node, handle)
    see_through(value, handle)
    if node.inputs and node is not old:  # what is computed from nothing cannot fail
        LOCAL.state.written[node] = place_taken(node, old)
    return node


@hot
def place_taken(node: Node, old: Node) -> Any:
    """How `State.written` says that `node` took the place of `old`.

    If that is among the first inputs of first inputs of `node`, how far away it is: a reference
    more, and nothing could be written where `old` lies.
    """
    before, distance = node, 0
    while before.inputs and distance < 8:
        before = before.inputs[0]
        distance += 1
        if before is old:
            return distance
    return old


def taken_by(node: Node, old: Any) -> Node:
    """The node whose place `node` took, as `place_taken` says it."""
    if isinstance(old, Node):
        return old
    for _ in range(old):
        node = node.inputs[0]
    return node


def _at_place(place: Node, value: Tensor, overwrites: bool, of_whole: bool) -> Tensor:
    """`value` without a history, to which gradients come on their way to the interior `place`."""
    meta = value._node.meta
    # Its value is not needed. It cannot be had where gradients are refused, and may be hard to have
    # again where it was dropped.
    if place.cut is not None or (not overwrites and was_dropped(LOCAL.state, place)):
        value = laid_out(unary(REGISTRY["clone"], value), meta)
        value._node.grad_to = to_place(place)
    elif overwrites:
        value = record(REGISTRY["overwritten"], (wrap(place), value), (of_whole,))
    else:
        value = record(REGISTRY["altered"], (wrap(place), value))
    if not is_broadcast(place.meta.shape, meta.shape):
        value._node.grad_to = Interior((place,), refuse_shape)
    return value


def is_broadcast(shape: Shape, to: Shape) -> bool:
    """Whether a gradient of shape `to` can be summed to one of `shape`."""
    if len(shape) > len(to):
        return False
    ends = to[len(to) - len(shape) :]
    return all([a == b or a == 1 for a, b in zip(shape, ends, strict=True)])


def refuse_shape(g: Any) -> Any:
    """The gradient rule of a tensor whose place in the graph is one of another shape."""
    raise RuntimeError(
        "the gradient of a tensor that was given another shape by `.data`, or under no_grad, is "
        "not of a shape compatible with the one that the tensor had"
    )


def _is_no_leaf_now(to: Any, node: Node, x: Any) -> bool:
    """Whether a view that required a gradient did so in vain, or its base requires one now."""
    if to() is None:
        return True
    if node.grad_to is None or x._was_view is False:  # what took another shape in place
        return False
    return family_node(x).grad_to is not None


def go_on_retaining(old: Node, node: Node, handle: Any) -> None:
    """A tensor that retains its gradient does so after it was written, at its new place."""
    to, new = place_of(old).grad_to, place_of(node)
    if type(to) is not Interior or not to.retained or new.grad_to is to:
        return
    if type(handle) is Cell:  # it was written through a view
        handle = handle.base()
    if handle is None or may_be_stale(handle):  # its history is still that which it had
        return
    mine = [r for r in to.retained if r() is handle]
    if mine and new.grad_to is not None and not isinstance(new.grad_to, _WeakRef):
        if type(new.grad_to) is not Interior:
            new.grad_to = Interior()
        new.grad_to.retained += mine
        to.retained = [r for r in to.retained if r() is not handle]


Writing.sync = sync
Writing.give_storage = give_storage
