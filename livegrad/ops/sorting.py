"""Sorting: the order of values along a dim. The order is found on the host; values are gathered."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from livegrad import dtypes
from livegrad.graph.meta import meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import node_of, record
from livegrad.ops import samples as s
from livegrad.ops.gathering import GATHER
from livegrad.ops.movement import normal_dim

Tensor = Any
Array = np.ndarray[Any, Any]


class Sorted(NamedTuple):
    """Values in order, and the index each had."""

    values: Tensor
    indices: Tensor


def _order(x: Array, dim: int, descending: bool) -> Array:
    """Stable order along a dim; NaN is greater than anything."""
    if not descending:
        return np.asarray(np.argsort(x, dim, kind="stable"))
    turned = np.argsort(np.flip(x, dim), dim, kind="stable")
    return np.asarray(x.shape[dim] - 1 - np.flip(turned, dim))


def _argsort_ref(n: Any, x: Array) -> Array:
    dim, descending = n.attrs
    if not x.ndim:
        return np.zeros((), np.int64)
    first = (slice(None),) * dim + (slice(n.meta.shape[dim]),)
    return np.asarray(_order(x, dim, descending)[first])


ARGSORT = Op(
    "argsort",
    "host",
    # Indices in the order of the values along a dim, the first of them: attrs (dim, descending).
    infer=lambda metas, attrs, shape: meta_of(shape, dtypes.int64),
    ref=_argsort_ref,
    saves="",
    samples=s.calls(
        lambda: s.Sample((s.uniform(4, 5),), lambda x: argsort(x), smooth=False),
        lambda: s.Sample((s.uniform(4, 5),), lambda x: argsort(x, 0, True), smooth=False),
        lambda: s.Sample((s.uniform(4, 5),), lambda x: topk(x, 2).indices, smooth=False),
        lambda: s.Sample((s.uniform(),), lambda x: argsort(x), smooth=False),
        lambda: s.Sample((s.uniform(0, 3),), lambda x: argsort(x, 0), smooth=False),
    ),
)


def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The indices that put the values along `dim` in order."""
    meta = node_of(input).meta
    return record(
        ARGSORT, (input,), (normal_dim("argsort", dim, meta.ndim), descending), (), meta.shape
    )


def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Sorted:
    """The values along `dim` in order, and their indices."""
    indices = argsort(input, dim, descending)
    d = normal_dim("sort", dim, node_of(input).meta.ndim)
    return Sorted(record(GATHER, (input, indices), (d,)), indices)


def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Sorted:
    """The `k` largest (or smallest) values along `dim`, in order, and their indices."""
    meta = node_of(input).meta
    d = normal_dim("topk", dim, meta.ndim)
    size = meta.shape[d] if meta.ndim else 1
    if not 0 <= k <= size:
        raise RuntimeError(f"topk: selected index k out of range; got k={k} for size {size}")
    shape = meta.shape[:d] + (k,) + meta.shape[d + 1 :] if meta.ndim else ()
    indices = record(ARGSORT, (input,), (d, largest), (), shape)
    return Sorted(record(GATHER, (input, indices), (d,)), indices)
