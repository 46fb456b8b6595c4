"""`x[key]` and `x[key] = value` on short ways, for keys of ints and slices; see indexing.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.device import CPU
from livegrad.graph.handle import Handle, Step, is_current, node_of
from livegrad.graph.infer import infer_spec
from livegrad.graph.meta import Meta, Shape
from livegrad.graph.node import Node, Spec
from livegrad.graph.record import record
from livegrad.graph.state import AT_ONCE, LOCAL, Runtime
from livegrad.graph.views import is_plainly_current, view, view_as_known
from livegrad.graph.writes import (
    is_whole_without_graph,
    next_index,
    rebind,
    wrote_plainly,
    wrote_to_own_node,
)
from livegrad.native.hot import hot
from livegrad.ops.making.constants import from_array
from livegrad.ops.picking.checking import place_outside
from livegrad.ops.picking.gathering import INDEX_SELECT, LINEAR_INDEX
from livegrad.ops.picking.plain_keys import ALL, INT, RUN, Parsed, parse_plainly
from livegrad.ops.shaping.movement import DETACH, INDEX, INDEX_WRITE, reshape_to
from livegrad.ops.shaping.slicing import items_at

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


@hot
def plain_part(x: Any, key: Any) -> Any:
    """`x[key]` for ints in range and slices without a step, on a short way; None for other keys.

    The commonest is one int, for which the spec is found by what is indexed alone.
    """
    share = x._share
    if share is not None and not is_current(share):
        node_of(x)
    if isinstance(key, Handle) and _is_place(key._node.meta) and LOCAL.state.flusher is None:
        key = int(key)  # one index is read, and gives a view
    node = x._node
    meta = node.meta
    shape = meta.shape
    if type(key) is int and shape and is_plainly_current(x):
        spec = INDEX.cache.get(meta)
        if spec is None:
            spec = _spec_of_place(meta)
        size = shape[0]
        if key < 0:
            key = key + size
        if spec is None or not 0 <= key < size:
            return None
        return view_as_known(spec, x, (key,))
    parsed = parse_plainly(shape, key)
    if parsed is None:
        return None
    return view(INDEX, x, (parsed.items,), parsed.args, parsed.shape)


_ALONG_FIRST = ((0,), 1)


@hot
def rows_plainly(x: Any, index: Any) -> Tensor | None:
    """`x[index]` for one tensor of int64 that has dims; None for others to make, or to refuse."""
    if not isinstance(index, Handle):
        return None
    node = node_of(index)
    which, meta = node.meta, node_of(x).meta
    if which.dtype is not dtypes.int64 or which.ndim == 0 or meta.ndim == 0:
        return None
    if which.strides is not None or meta.strides is not None or not which.numel or not meta.numel:
        return None
    size = meta.shape[0]
    if node.buffer is not None and place_outside(index, -size, 2 * size, 0):
        return None
    return record(INDEX_SELECT, (x, record(LINEAR_INDEX, (index,), _ALONG_FIRST, (size,))), (0,))


def masked_plainly(x: Any, mask: Any) -> Tensor | None:
    """`x[mask]` for bools over the first dims; None for others to make, or to refuse.

    Reads the mask.
    """
    if not isinstance(mask, Handle):
        return None
    which, meta = node_of(mask).meta, node_of(x).meta
    if which.dtype is not dtypes.bool_ or which.ndim == 0 or LOCAL.state.flusher is not None:
        return None
    if which.strides is not None or meta.strides is not None or which.device is not CPU:
        return None
    if which.shape != meta.shape[: which.ndim]:
        return None
    places = np.flatnonzero(mask._values("indexing by a mask"))
    if not places.size or not meta.numel:
        return None
    rows = x if which.ndim == 1 else reshape_to(x, (which.numel, *meta.shape[which.ndim :]))
    index = record(LINEAR_INDEX, (from_array(places),), ((0,), which.ndim), (which.numel,))
    return record(INDEX_SELECT, (rows, index), (0,))


@hot
def _is_place(meta: Meta) -> bool:
    return meta.ndim == 0 and meta.dtype is dtypes.int64


def _spec_of_place(meta: Meta) -> Spec | None:
    """The spec of `x[i]`, which from now on is found by the meta of `x`."""
    if meta.device is not CPU:
        return None
    key = ((meta,), (items_at(meta.ndim, 0, INT),), meta.shape[1:])
    spec = INDEX.cache.get(key) or infer_spec(INDEX, key, (), ())
    return INDEX.remember_as(meta, spec, (meta,))


@hot
def set_plainly(x: Any, key: Any, value: Any) -> bool:
    """`x[key] = value` on a short way, if there is one: at once, or as one node.

    The latter of a tensor that is all of its memory, without a graph, to a part of it that ints and
    slices name, with a value that fits.
    """
    if not isinstance(value, Handle):
        done: bool = Runtime.write_at_once(x, key, value)
        return done
    share, own = value._share, x._share
    if share is not None and own is not None and share.cell is own.cell:
        return is_written_already(x, key, value)
    share = own = None  # what others refer to is not written at once, neither directly
    given = node_of(value)
    if given.grad_to is not None and LOCAL.state.grad:
        return False
    if given.meta.device is not CPU or value is x:
        return False
    node_of(x)  # nor by a reference to it
    if not is_whole_without_graph(x):
        return False
    if given.buffer is not None:
        if AT_ONCE.is_on and _put_plainly(x, key, given):
            return True
        if Runtime.write_at_once(x, key, value):
            return True
    meta = x._node.meta
    parsed = parse_plainly(meta.shape, key)
    if parsed is None or given.meta.dtype is not meta.dtype or given.meta.shape != parsed.shape:
        return False
    if is_all(parsed, meta.shape):
        return False
    write_part(x, value, parsed)
    return True


@hot
def write_part(x: Any, value: Any, parsed: Parsed) -> None:
    """Records one write of a tensor that fits to a part of `x`, which `is_whole_without_graph`."""
    first = next_index()
    written = record(INDEX_WRITE, (x, value), (parsed.items,), parsed.args)
    if not (wrote_plainly(x, written) or wrote_to_own_node(x, written, first)):
        rebind(x, written, True)


@hot
def _put_plainly(x: Any, key: Any, value: Node) -> bool:
    """Writes a value that is known to an element of `x`, which `is_whole_without_graph`."""
    parsed = parse_plainly(x._node.meta.shape, key)
    if parsed is None or parsed.shape or x._node.spent:
        return False
    share = x._share
    if share is None:
        if not AT_ONCE.by.put_element(x, 1, parsed.items, parsed.args, value):
            return False
        x._writes += 1
        return True
    cell = share.cell
    if share.apart is not None or not is_current(share) or cell._node is not x._node:
        return False
    if not AT_ONCE.by.put_element(x, 2, parsed.items, parsed.args, value):
        return False
    cell.version += 1
    share.seen = cell.version
    return True


@hot
def is_written_already(x: Any, key: Any, value: Any) -> bool:
    """Whether `value` is what `x[key]` shows: `x[key] += 1` has written it when Python assigns it.

    It is one write more to PyTorch's `_version`.
    """
    meta = x._node.meta
    shape = meta.shape
    if type(key) is int and shape:
        spec = INDEX.cache.get(meta)
        if spec is not None:
            return wrote_as(x, value, spec.attrs, (key + shape[0] if key < 0 else key,))
    parsed = parse_plainly(shape, key)
    if parsed is None:
        return False
    return wrote_as(x, value, (parsed.items,), parsed.args)


@hot
def wrote_as(x: Any, value: Any, attrs: tuple[Any, ...], args: tuple[int, ...]) -> bool:
    """If `value` shows this part of `x`, and no graph is concerned, counts a write that is none."""
    share, own = value._share, x._share
    if share is None or own is None or share.cell is not own.cell:
        return False
    path, cell = share.path, own.cell
    if not path or share.apart is not None or own.apart is not None or share.root is not None:
        return False
    if value._node.grad_to is not None or cell._node.grad_to is not None:
        return False
    if own.path:
        if own.path + (path[-1],) != path:
            return False
    elif len(path) != 1 or cell._node is not x._node:
        return False
    step = path[-1]
    if step[0] is not INDEX or step[1] != attrs or step[2] != args or not is_current(share):
        return False
    cell.version += 1
    share.seen = cell.version
    if not own.path:
        own.seen = cell.version
    return True


@hot
def is_all(parsed: Parsed, shape: Shape) -> bool:
    if parsed.turned or parsed.shape != shape:
        return False
    return all([item in (ALL, RUN) for item in parsed.items])


def keys_of(path: tuple[Step, ...]) -> list[tuple[Any, ...]] | None:
    """The path to a view, detached or not, as keys one after the other; None if some are others."""
    found = []
    for op, attrs, args, shape in path:
        if op is DETACH:
            continue
        if op is not INDEX or shape is None:
            return None
        key: list[Any] = []
        numbers, sizes = iter(args), iter(shape)
        for item in attrs[0]:
            if item == INT:
                key.append(next(numbers))
            elif item == ALL:
                next(sizes)
                key.append(slice(None))
            elif item == RUN:
                first = next(numbers)
                key.append(slice(first, first + next(sizes)))
            else:
                return None
        found.append(tuple(key))
    return found
