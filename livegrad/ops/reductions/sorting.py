"""Sorting: the order of values along a dim is found; values are gathered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from livegrad import dtypes
from livegrad.graph.blame import as_index
from livegrad.graph.handle import node_of
from livegrad.graph.lowering import lowered_by
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op, as_first
from livegrad.graph.record import record
from livegrad.graph.views import row_major
from livegrad.ops.bookkeeping.in_place import placed_like
from livegrad.ops.elementwise.arithmetic import clone
from livegrad.ops.picking.gathering import GATHER
from livegrad.ops.shaping.movement import normal_dim
from livegrad.ops.support import batched, samples as s
from livegrad.ops.support.out import exact
from livegrad.ops.support.returned import returned

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]


@returned("sort")
class sort_result(NamedTuple):
    """Values in order, and the index each had."""

    values: Tensor
    indices: Tensor


@returned("topk")
class topk_result(NamedTuple):
    """The largest values, and the index each had."""

    values: Tensor
    indices: Tensor


def picked(x: Tensor, indices: Tensor, dim: int) -> Tensor:
    """The values of `x` at indices along `dim`; of a 0-d tensor, its only one."""
    return record(GATHER, (x, indices), (dim,)) if node_of(x).meta.ndim else clone(x)


def _in_order(x: Tensor, dim: int, descending: bool) -> sort_result:
    """All values along a dim; in memory they lie as those of `x` do."""
    indices = record(ARGSORT, (x,), (dim, descending), (), node_of(x).meta.shape)
    return sort_result(placed_like(picked(x, indices, dim), indices), indices)


def stable_order(x: Array, dim: int, descending: bool = False) -> Array:
    """Indices that put values in order; equals stay as they were, NaN is greater than anything."""
    if not descending:
        return np.asarray(np.argsort(x, dim, kind="stable"))
    turned = np.argsort(np.flip(x, dim), dim, kind="stable")
    return np.asarray(x.shape[dim] - 1 - np.flip(turned, dim))


def _argsort_ref(n: Any, x: Array) -> Array:
    dim, descending = n.attrs
    if not x.ndim:
        return np.zeros((), np.int64)
    order = stable_order(x, dim, descending)
    return np.asarray(order[(slice(None),) * dim + (slice(n.meta.shape[dim]),)])


ARGSORT = Op(
    "argsort",
    "kernel",
    # Indices in the order of the values along a dim, the first of them: attrs (dim, descending).
    infer=lambda metas, attrs, shape: meta_of(shape, dtypes.int64),
    ref=_argsort_ref,
    lower=lowered_by("sort.Sort"),
    layout=as_first,
    saves="",
    batch=batched.along_shaped,
    samples=s.calls(
        lambda: s.Sample((s.uniform(4, 5),), lambda x: argsort(x), smooth=False),
        lambda: s.Sample((s.uniform(4, 5),), lambda x: argsort(x, 0, True), smooth=False),
        lambda: s.Sample((s.uniform(2, 37),), lambda x: topk(x, 2).indices, smooth=False),
        lambda: s.Sample((s.uniform(),), lambda x: argsort(x), smooth=False),
        lambda: s.Sample((s.uniform(0, 3),), lambda x: argsort(x, 0), smooth=False),
        lambda: s.Sample((s.uniform(3, 19),), lambda x: sort(x, 1).values),
    ),
)


def _check_real(name: str, meta: Meta) -> None:
    if meta.dtype.is_complex:
        raise RuntimeError(
            f"{name}: does not support complex dtypes; got {meta.dtype.name}. Complex numbers have "
            "no order: sort their abs() or real part"
        )


@exact
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The indices that put the values along `dim` in order; equals always keep their order.

    Args:
        input: a tensor.
        dim: along which; the last by default.
        descending: the greatest first.
        stable: accepted; it always is.

    Example:
        >>> lg.argsort(lg.tensor([3, 1, 2]), descending=True)
        tensor([0, 2, 1])
    """
    meta = node_of(input).meta
    d = normal_dim("argsort", dim, meta.ndim)
    _check_real("argsort", meta)
    return record(ARGSORT, (input,), (d, bool(descending)), (), meta.shape)


@exact
def sort(
    input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False
) -> sort_result:
    """The values along `dim` in order, and their indices; equals always keep their order.

    Args:
        input: a tensor.
        dim: along which; the last by default.
        descending: the greatest first.
        stable: accepted; it always is.

    Example:
        >>> values, indices = lg.sort(lg.tensor([3, 1, 2]))
        >>> values, indices
        (tensor([1, 2, 3]), tensor([1, 2, 0]))
    """
    meta = node_of(input).meta
    d = normal_dim("sort", dim, meta.ndim)
    _check_real("sort", meta)
    return _in_order(input, d, bool(descending))


@exact
def msort(input: Tensor) -> Tensor:
    """The values along the first dim in order."""
    return sort(input, 0).values


@exact
def topk(
    input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> topk_result:
    """The `k` largest (or smallest) values along `dim`, in order, and their indices.

    Args:
        input: a tensor.
        k: how many.
        dim: along which; the last by default.
        largest: False: the smallest.
        sorted: accepted; they always are.

    Example:
        >>> values, indices = lg.topk(lg.tensor([3, 9, 1, 7]), 2)
        >>> values, indices
        (tensor([9, 7]), tensor([1, 3]))
    """
    meta = node_of(input).meta
    d = normal_dim("topk", dim, meta.ndim)
    size = meta.shape[d] if meta.ndim else 1
    k = as_index(k)
    if not 0 <= k <= size:
        raise RuntimeError(f"topk: selected index k out of range; got k={k} for size {size}")
    if meta.dtype is dtypes.bool_ or meta.dtype.is_complex:
        raise RuntimeError(f"topk: does not support {meta.dtype.name} dtypes on CPU")
    shape = meta.shape[:d] + (k,) + meta.shape[d + 1 :] if meta.ndim else ()
    indices = row_major(record(ARGSORT, (input,), (d, bool(largest)), (), shape))
    return topk_result(picked(input, indices, d), indices)
