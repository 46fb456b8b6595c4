"""Resizing: tensors that take another shape in place, and tensors filled with one value."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad.graph.geometry import dims_in_memory, offset_of, root_of, storage_nbytes, writes_to
from livegrad.graph.handle import (
    Handle,
    Share,
    Step,
    new_share,
    node_of,
    path_of,
    share_of,
    shows_conjugates,
    wrap,
)
from livegrad.graph.layout import Strides, contiguous_strides
from livegrad.graph.meta import Shape
from livegrad.graph.node import Interior, is_in_vain
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.graph.state import LOCAL, setting
from livegrad.graph.views import (
    go_on_retaining,
    in_place_of,
    is_of_inference,
    see_through,
)
from livegrad.graph.writes import check_writable, lead_views_through, leave_hooks
from livegrad.ops.elementwise.arithmetic import cast
from livegrad.ops.elementwise.conjugate import conj_view
from livegrad.ops.making.generate import filled, zeros_like
from livegrad.ops.picking.index_writing import spread_number
from livegrad.ops.shaping.joining import padded
from livegrad.ops.shaping.movement import (
    DETACH,
    EXPAND,
    INDEX,
    PERMUTE,
    RESHAPE,
    detach,
    inverse_order,
    regrouping,
    sizes_of,
)
from livegrad.ops.shaping.strided import as_strided, in_memory, whole_of
from livegrad.ops.support import parts, samples as s
from livegrad.ops.support.numbers import number_for

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


# --------------------------------------------------------------------------- views, in place


def inplace_view(view: Callable[..., Any]) -> Callable[..., Any]:
    """The in-place form of a function that gives a view: the tensor becomes that view."""

    def method(self: Tensor, *args: Any, **options: Any) -> Tensor:
        check_writable(self, expanded=True)
        is_whole = not path_of(self) or self._was_view is False
        if LOCAL.state.grad or is_whole:
            become(self, view(self, *args, **options))
            if is_whole and LOCAL.state.grad and self._node.interior:
                lead_views_through(self)
            return self
        with setting(grad=True):  # a view follows what it shows, also under no_grad
            leave_hooks(self)
            old = self._node
            value = view(self, *args, **options)
        become(self, value)
        go_on_retaining(old, self._node, self)
        return self

    method.__name__ = f"{view.__name__}_"
    method.__doc__ = f"In-place form of `{view.__name__}`."
    return method


def become(x: Tensor, value: Tensor, stays: bool = True, counts: int = 1) -> Tensor:
    """Makes `x` stand for what `value` does, and share what that shares.

    It `stays` the leaf, or keeps the place in the graph, that it was; `counts` is what `_version`
    rises by.
    """
    if value is x:
        return x
    old, node, writes = node_of(x), node_of(value), writes_to(x) + counts
    x._was_view = x._is_view()
    mine, theirs = x._share, value._share
    if mine is not None:
        mine.count(counts)
        if theirs is not None and theirs.cell is mine.cell:
            theirs.seen = theirs.cell.version
    shares = None not in (mine, theirs) and root_of(x)[0] is root_of(value)[0]
    if stays and isinstance(old.grad_to, weakref.ref):  # under no_grad: it stays that leaf
        node = record(DETACH, (wrap(node),))._node
        node.grad_to = old.grad_to
    elif stays and (node.grad_to is None or is_in_vain(node.grad_to)):
        if node.grad_to is not None:  # a view made under no_grad
            node = record(DETACH, (wrap(node),))._node
        node = in_place_of(old, wrap(node), x, False)  # an interior node stays where it is
    x._node, x._share = node, None
    if theirs is None and mine is not None and mine.made_at is not None:
        theirs = share_of(x)  # a view whose history may be gone stays one
    if theirs is not None:
        x._share = _shown_as(x, mine, theirs)
    if not shares:  # from now on it counts for itself what is written to the other storage
        x._writes = writes
        if x._share is not None:
            x._share.count_with([writes])
    see_through(value, x)
    return x


def _shown_as(x: Tensor, before: Share | None, shown: Share) -> Share:
    """The share of `x` when it shows what another tensor does: it stays made as it was."""
    share = new_share(shown.cell, shown.path, shown.seen)
    share.root = None if shown.root is x else shown.root
    share.whole = shown.whole
    if before is not None:
        share.count_with(before.apart)
        # A view that takes another shape in place was written: it follows what it is a view of.
        share.followed, share.counts = before.followed or before.has_family(), before.counts
        share.made, share.made_at = before.made, before.made_at
    return share


# ------------------------------------------------------------------------------------- resize


def resize_(self: Tensor, *sizes: Any, size: Any = None, memory_format: Any = None) -> Tensor:
    """Takes another shape: the elements from its place in the storage on, new ones are 0."""
    shape = sizes_of("resize_", sizes, size)
    meta = node_of(self).meta
    if any(n < 0 for n in shape):
        raise RuntimeError(
            f"resize_: trying to create tensor with negative dimension: {list(shape)}"
        )
    if node_of(self).grad_to is not None:
        raise RuntimeError("cannot resize variables that require grad")
    if shape == meta.shape:
        return self
    if is_of_inference(node_of(self)):
        check_writable(self, expanded=True)  # no element is written
    return take_shape(self, shape, contiguous_strides(shape), counts=1)


def take_shape(x: Tensor, shape: Shape, strides: Strides, counts: int = 0) -> Tensor:
    """Makes a tensor show as many elements as `shape` has from its place in the storage on.

    The storage grows if it must; `counts` is what `_version` rises by.
    """
    offset = offset_of(x)
    needed = offset + prod(shape)
    if needed * node_of(x).meta.dtype.itemsize > storage_nbytes(x):
        _grow(x, needed)
    return become(x, as_strided(x, shape, strides, offset), counts=counts)


def _grow(x: Tensor, count: int) -> None:
    """Makes the storage of `x` larger; whoever shares it sees the same elements as before."""
    whole = whole_of(x)
    before = node_of(whole).meta
    memory = in_memory(whole)
    grown = padded(wrap(node_of(memory)), 0, 0, count)
    larger = share_of(grown).cell
    old = share_of(memory).cell
    larger.base = old.base
    if old.memory is not None:
        raise RuntimeError("Trying to resize storage that is not resizable")
    back: list[Step] = [(INDEX, ((("slice", 1),),), (0,), (before.numel,))]
    order = dims_in_memory(before)
    shape = before.shape if order is None else tuple([before.shape[d] for d in order])
    back.append((RESHAPE, (regrouping((before.numel,), shape),), (), shape))
    if order is not None:
        back.append((PERMUTE, (inverse_order(order),), (), None))
    old.parent = larger, tuple(back), larger.version
    larger.uncounted = old.uncounted - old.version  # what was written counts on
    if x._share is None:
        x._share = new_share(old, (), old.version)


def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """Takes the shape of another tensor; see `resize_`."""
    return resize_(self, node_of(the_template).meta.shape)


def set_(
    self: Tensor,
    source: Tensor | None = None,
    storage_offset: int = 0,
    size: Any = None,
    stride: Any = None,
) -> Tensor:
    """Makes the tensor share the storage of `source`: all it shows, or a part of the storage."""
    old = node_of(self)
    operands = [old, node_of(source)] if isinstance(source, Handle) else [old]
    edges = tuple([node for node in operands if node.grad_to is not None])
    if edges or is_of_inference(old):
        check_writable(self, bool(edges), expanded=True)  # no element is written
    shown, recorded = _shown(self, source, storage_offset, size, stride), LOCAL.state.grad
    if edges or not _is_beside(self, shown):
        shown = detach(shown)
    else:
        shown = as_strided(self, node_of(shown).meta.shape, shown.stride(), offset_of(shown))
    become(self, shown, stays=not (recorded and edges))
    if recorded and edges:
        self._node.grad_to = Interior(edges, _refuse_set)
        go_on_retaining(old, self._node, self)
    return self


def _is_beside(x: Tensor, shown: Tensor) -> bool:
    """Whether `x` is a view, history included, of what `shown` shows elements of, or the whole."""
    share = x._share
    if share is None or shown._share is None or (share.path and not share.has_family()):
        return False
    apart = share.root is not None or share.is_detached()
    turned = shows_conjugates(share.path)
    return root_of(x)[0] is root_of(shown)[0] and not apart and not turned


def _refuse_set(g: Tensor) -> Any:
    raise RuntimeError("derivative for set_ is not implemented")


def _shown(self: Tensor, source: Any, storage_offset: int, size: Any, stride: Any) -> Tensor:
    """What `set_` makes a tensor share."""
    if source is None:
        return filled((0,), 0, node_of(self).meta.dtype)
    tensor = getattr(source, "_tensor", source)  # a storage knows a tensor that shows it
    if node_of(tensor).meta.dtype is not node_of(self).meta.dtype:
        raise RuntimeError(
            f"set_: expected a source of dtype {node_of(self).meta.dtype.name}; got "
            f"{node_of(tensor).meta.dtype.name}"
        )
    shown: Tensor
    if size is None and tensor is source:
        shown = tensor
    else:
        shown = _stretch(tensor, tensor is source, storage_offset, size, stride)
    # Whether it shows conjugates of what lies in memory is the tensor's own affair.
    if shows_conjugates(path_of(self)) != shows_conjugates(path_of(tensor)):
        shown = conj_view(shown)
    return shown


def _stretch(
    tensor: Tensor, is_source: bool, storage_offset: int, size: Any, stride: Any
) -> Tensor:
    """The part of a storage that `set_` names: of that of `tensor`, from which it may count."""
    if size is None:
        size = (storage_nbytes(tensor) // node_of(tensor).meta.dtype.itemsize,)
    if is_source:
        if not node_of(tensor).meta.contiguous:
            raise RuntimeError("passed in tensor to be used as storage must be contiguous")
        storage_offset += offset_of(tensor)
    shape = sizes_of("set_", (size,))
    steps = contiguous_strides(shape) if stride is None else sizes_of("set_", (stride,))
    return as_strided(tensor, shape, steps, storage_offset)


# --------------------------------------------------------------------------------------- fill


def _fill_expand(n: Any, x: Tensor, *value: Tensor) -> Tensor:
    if value:
        return record(EXPAND, (cast(value[0], n.meta.dtype),), (), (), n.meta.shape)
    return filled(n.meta.shape, n.args[0], n.meta.dtype)


def _fill_ref(n: Any, x: Any, *value: Any) -> Any:
    return np.full(n.meta.shape, value[0] if value else n.args[0], x.dtype)


FILL: Op = Op(
    "fill",
    "composite",
    # Inputs (tensor that gives shape and dtype,), args (number,); or a second, 0-d tensor.
    infer=lambda metas, attrs, shape: metas[0],
    ref=_fill_ref,
    expand=_fill_expand,
    # Backward sums the gradient of the 0-d tensor, as of any value that was broadcast.
    grads=(lambda g, y, x, *value: zeros_like(x), lambda g, y, x, value: g),
    saves="",
    grad_fn=parts.fill,
    samples=s.calls(
        lambda: s.Sample((s.uniform(2, 3),), lambda x: fill(x, 2.5)),
        lambda: s.Sample((s.uniform(2, 3), s.uniform(seed=1)), lambda x, v: fill(x, v)),
        lambda: s.Sample((s.uniform(0),), lambda x: fill(x, 1)),
    ),
)


def fill(input: Tensor, value: Any) -> Tensor:
    """One number (or 0-d tensor) everywhere, with the shape and dtype of `input`."""
    meta = node_of(input).meta
    if isinstance(value, Handle):
        return record(FILL, (input, spread_number("fill", value, (), node_of(value).meta.dtype)))
    number = number_for("fill", value, meta.dtype)
    if meta.dtype.is_complex:
        return record(FILL, (input, filled((), number, meta.dtype)))
    return record(
        FILL, (input,), (), (float(number) if meta.dtype.is_floating_point else int(number),)
    )
