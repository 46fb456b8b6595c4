"""Resizing: tensors that take another shape in place, and tensors filled with one value."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from livegrad.graph.op import Op
from livegrad.graph.record import (
    Handle,
    _check_writable,
    _see_through,
    node_of,
    record,
    wrap,
)
from livegrad.ops import samples as s
from livegrad.ops.elementwise import cast, clone
from livegrad.ops.generate import filled, zeros_like
from livegrad.ops.index_writing import spread_number
from livegrad.ops.joining import padded, record_slice
from livegrad.ops.movement import EXPAND, _reshape_to, sizes_of
from livegrad.ops.scattering import number_for

Tensor = Any


# --------------------------------------------------------------------------- views, in place


def inplace_view(view: Callable[..., Any]) -> Callable[..., Any]:
    """The in-place form of a function that gives a view: the tensor becomes that view."""

    def method(self: Tensor, *args: Any, **options: Any) -> Tensor:
        _check_writable(self)
        return _become(self, view(self, *args, **options))

    method.__name__ = f"{view.__name__}_"
    method.__doc__ = f"In-place form of `{view.__name__}`."
    return method


def _become(x: Tensor, value: Tensor) -> Tensor:
    """Makes `x` stand for what `value` does, and share what that shares."""
    if value is x:
        return x
    leaf = node_of(x).grad_to
    if isinstance(leaf, weakref.ref):  # under no_grad: it stays that leaf
        value = clone(wrap(value._node))
        value._node.grad_to = leaf
    x._node, x._cell = value._node, value._cell
    x._path, x._seen = value._path, value._seen
    _see_through(value, x)
    return x


# ------------------------------------------------------------------------------------- resize


def resize_(self: Tensor, *sizes: Any, size: Any = None, memory_format: Any = None) -> Tensor:
    """Takes another shape: the first elements in row-major order stay, new ones are 0."""
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
    flat, count = _reshape_to(self, (meta.numel,)), prod(shape)
    if count < meta.numel:
        flat = record_slice(flat, 0, 0, count)
    value = _reshape_to(padded(flat, 0, 0, count), shape)
    # Not a view of what it was: views made before keep the old elements.
    return _become(self, value if value._node is not self._node else clone(value))


def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """Takes the shape of another tensor; see `resize_`."""
    return resize_(self, node_of(the_template).meta.shape)


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
