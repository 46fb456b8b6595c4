"""Segments: folds over consecutive runs of different lengths along a dim."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import cast
from livegrad.ops.shaping.movement import normal_dim
from livegrad.ops.support import folds, samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]

REDUCES = ("sum", "mean", "prod", "max", "min", "amax", "amin")


def _bounds(n: Any, data: Array, where: Array) -> Array:
    """(rows of segments, segments + 1): where each segment begins and ends along the dim."""
    axis, size = n.attrs[0], data.shape[n.attrs[0]]
    rows = where.reshape(prod(data.shape[:axis]), where.shape[-1]).astype(np.int64)
    if n.attrs[2]:  # offsets
        return rows
    if (rows < 0).any():
        raise RuntimeError("segment_reduce: lengths contains negative value!")
    ends = np.cumsum(rows, 1)
    if rows.shape[1] and not n.attrs[3] and (ends[:, -1] != size).any():
        raise RuntimeError(
            "segment_reduce(): Expected all rows of lengths along axis to sum to data.size("
            f"lengths.dim()-1) when !unsafe; got {ends[0, -1]}; expected {size}"
        )
    return np.concatenate([np.zeros((len(rows), 1), np.int64), ends], 1)


def _rows(x: Array, axis: int) -> Array:
    """(rows of segments, along the dim, all dims after it)."""
    return x.reshape(prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :]))


_FOLDS: dict[str, Any] = {
    "sum": (np.add, 0.0),
    "mean": (np.add, 0.0),
    "prod": (np.multiply, 1.0),
    "max": (np.maximum, -np.inf),
    "min": (np.minimum, np.inf),
}


def _segment_ref(n: Any, data: Array, where: Array) -> Array:
    axis, reduce = n.attrs[:2]
    fold, start = _FOLDS[reduce]
    given = bool(n.args)
    bounds, rows = _bounds(n, data, where), _rows(folds.widened(data), axis)
    out = np.full((len(rows), bounds.shape[1] - 1, rows.shape[2]), n.args[0] if given else start)
    for r, (row, edges) in enumerate(zip(rows, bounds, strict=True)):
        for i, (low, high) in enumerate(pairwise(edges)):
            if high > low:
                out[r, i] = fold(out[r, i], fold.reduce(row[low:high], 0))
            if reduce == "mean" and (high > low or not given):
                out[r, i] = out[r, i] / (high - low)
    return out.reshape(n.meta.shape)


def _segment_backward_ref(n: Any, g: Array, data: Array, y: Array, where: Array) -> Array:
    axis, reduce = n.attrs[:2]
    bounds, rows = _bounds(n, data, where), _rows(data, axis)
    gs, ys = (a.reshape(len(rows), bounds.shape[1] - 1, rows.shape[2]) for a in (g, y))
    out = np.zeros(rows.shape)
    for r, (row, edges) in enumerate(zip(rows, bounds, strict=True)):
        for i, (low, high) in enumerate(pairwise(edges)):
            if high > low:
                out[r, low:high] = _shares(reduce, n.args, gs[r, i], row[low:high], ys[r, i])
    return out.reshape(data.shape)


def _shares(reduce: str, args: tuple[Any, ...], g: Array, x: Array, y: Array) -> Array:
    """The gradient of the elements of one segment."""
    if reduce == "sum":
        return np.broadcast_to(g, x.shape)
    if reduce == "mean":
        return np.broadcast_to(g / len(x), x.shape)
    if reduce == "prod":
        others = [np.prod(np.delete(x, k, 0), 0) for k in range(len(x))]
        return np.asarray(others) * (args[0] if args else 1.0) * g
    best = (x == y) | (np.isnan(x) & np.isnan(y))
    return np.asarray(best * (g / np.maximum(best.sum(0), 1)))


def _infer(metas: tuple[Meta, ...], attrs: tuple[Any, ...], shape: Any) -> Meta:
    data, where = metas
    axis = attrs[0]
    count = where.shape[-1] - attrs[2]
    return meta_of(data.shape[:axis] + (count,) + data.shape[axis + 1 :], data.dtype)


# Inputs (data, lengths or offsets), attrs (axis, reduce, whether offsets, unsafe), args (initial,).
SEGMENT_BACKWARD: Op = Op(
    "segment_reduce_backward",
    "host",
    # Inputs (g, data, result, lengths or offsets).
    infer=lambda metas, attrs, shape: metas[1],
    ref=_segment_backward_ref,
    saves="x",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(2), s.uniform(5, low=0.5, seed=1), np.array([2, 3])),
            lambda g, x, where: record(
                SEGMENT_BACKWARD,
                (g, x, segment_reduce(x, "prod", lengths=where), where),
                (0, "prod", False, False),
            ),
            smooth=False,
        ),
    ),
)
SEGMENT_REDUCE: Op = Op(
    "segment_reduce",
    "host",
    infer=_infer,
    ref=_segment_ref,
    grads=(
        lambda g, y, data, where: record(
            SEGMENT_BACKWARD, (g, data, y, where), y._node.attrs, y._node.args
        ),
        None,
    ),
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(5, 2), np.array([2, 0, 3])),
            lambda x, where: segment_reduce(x, "max", lengths=where, initial=-2.0),
            smooth=False,
        ),
        lambda: s.Sample(
            (s.uniform(2, 4), np.array([[0, 1, 4], [0, 2, 4]])),
            lambda x, where: segment_reduce(x, "mean", offsets=where, axis=1),
            smooth=False,
        ),
    ),
)


def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """Consecutive runs along `axis` folded to one value each.

    Args:
        reduce: "sum", "mean", "prod", "max" or "min".
        lengths: how long the runs are, in the last dim; leading dims are those of `data`.
        offsets: instead of lengths, where the runs begin, and the end of the last one.
        unsafe: whether not to check that the lengths cover the whole axis.
        initial: what each fold starts from, and the value of empty runs.
    """
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    where = lengths if lengths is not None else offsets
    if where is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    kind = {"amax": "max", "amin": "min"}.get(reduce, reduce)
    if kind not in _FOLDS:
        raise RuntimeError(
            "segment_reduce(): reduce argument must be either sum, prod, mean, max or min, got "
            f"{reduce}"
        )
    meta, places = node_of(data).meta, node_of(where).meta
    d = normal_dim("segment_reduce", axis, meta.ndim)
    _check_segments(meta, places, d)
    args = () if initial is None else (float(initial),)
    attrs = (d, kind, lengths is None, bool(unsafe))
    return record(SEGMENT_REDUCE, (data, cast(where, dtypes.int64)), attrs, args)


def _check_segments(data: Meta, places: Meta, axis: int) -> None:
    if places.ndim - 1 != axis:
        raise RuntimeError(
            f"segment_reduce(): Expected axis to be the last dimension of lengths but got {axis}; "
            f"lengths are of shape {list(places.shape)}"
        )
    if data.ndim < places.ndim or data.shape[:axis] != places.shape[:axis]:
        raise RuntimeError(
            "segment_reduce(): expected the leading dims of data and lengths to agree; got "
            f"{list(data.shape)} and {list(places.shape)}"
        )
    if not data.dtype.is_floating_point:
        raise NotImplementedError(f'"segment_reduce" not implemented for {data.dtype.name}')
