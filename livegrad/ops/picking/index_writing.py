"""Writing by slices: a copy of a tensor with slices written, added or folded in at given indices.

    index_copy    out[index[i], k] = source[i, k]
    index_add     out[index[i], k] += source[i, k]

(written for dim 0). Slices are taken in order: where indices repeat, the last write stays. Writing
by single values is in scattering.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.infer import not_implemented
from livegrad.graph.lowering import lowered_by
from livegrad.graph.meta import Meta
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.bookkeeping.in_place import placed_like
from livegrad.ops.elementwise.arithmetic import cast, clone, mul, where
from livegrad.ops.making.generate import filled, zeros_like
from livegrad.ops.picking.checking import check_known, out_of_range, wrapped
from livegrad.ops.picking.gathering import (
    INDEX_SELECT,
    at_least_1d,
    check_index,
    check_range,
    spread_index,
)
from livegrad.ops.picking.scattering import (
    EXTREMES,
    SCATTER,
    SCATTER_ADD,
    SCATTER_FOLD,
    divided,
    fold_at,
    fold_grads,
    neutral,
)
from livegrad.ops.shaping.movement import EXPAND, normal_dim, reshape_to, wholes
from livegrad.ops.support import samples as s
from livegrad.ops.support.autocast import casted
from livegrad.ops.support.folds import widened
from livegrad.ops.support.numbers import cannot_convert, number_for
from livegrad.ops.support.out import exact, numpy_names

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]
Attrs = tuple[Any, ...]
Metas = tuple[Meta, ...]


def _rows_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    base, index, source = metas
    dim = attrs[0]
    check_index("index_add", index)
    wanted = base.shape[:dim] + index.shape + base.shape[dim + 1 :]
    if source.shape != wanted:
        raise RuntimeError(
            f"index_add: got source {list(source.shape)} for a tensor {list(base.shape)} and index "
            f"{list(index.shape)} at dimension {dim}; expected source {list(wanted)}"
        )
    if source.dtype is not base.dtype:
        raise RuntimeError(
            f"index_add: self and source expected to have the same dtype; got {base.dtype.name} "
            f"and {source.dtype.name}"
        )
    return base


def _rows_ref(how: str, n: Any, base: Array, index: Array, source: Array) -> Array:
    dim = n.attrs[0]
    check_range(index, base.shape[dim], dim)
    out = widened(base).copy()
    flat = source.reshape(source.shape[:dim] + (index.size,) + base.shape[dim + 1 :])
    fold_at(how, np.moveaxis(out, dim, 0), index.ravel(), np.moveaxis(flat, dim, 0))
    return out


def _batch_rows(scatter: Op) -> Callable[..., Tensor]:
    """The batching rule of an op on rows; `scatter` does the same with an index per element."""

    def rule(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
        dim = n.attrs[0] + 1
        attrs = (dim, *n.attrs[1:])
        base, source = wholes([xs[0], xs[2]], (batched[0], batched[2]), size)
        if not batched[1]:
            return record(n.op, (base, xs[1], source), attrs)
        picked = spread_index(xs[1], base, dim)
        flat = reshape_to(source, node_of(picked).meta.shape)
        return record(scatter, (base, picked, flat), attrs)

    return rule


INDEX_ADD: Op = Op(
    "index_add",
    "kernel",
    # Inputs (base, index of any rank, source), attrs (dim,).
    infer=_rows_infer,
    ref=lambda n, *arrays: _rows_ref("add", n, *arrays),
    lower=lowered_by("scatter.Scatter", per_value=False, fold="add"),
    complaint=out_of_range(IndexError),
    grads=(
        lambda g, y, base, index, source: g,
        None,
        lambda g, y, base, index, source: record(INDEX_SELECT, (g, index), y._node.attrs),
    ),
    saves="x",
    batch=_batch_rows(SCATTER_ADD),
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(5, 4), s.integers(7, high=5), s.uniform(7, 4, seed=1)),
            lambda x, i, v: index_add(x, 0, i, v),
        ),
        lambda: s.Sample(
            (s.uniform(3, 5), s.integers(2, 4, high=5), s.uniform(3, 2, 4, seed=1)),
            lambda x, i, v: record(INDEX_ADD, (x, i, v), (1,)),
        ),
    ),
)

INDEX_PUT: Op = Op(
    "index_put",
    "kernel",
    # Like INDEX_ADD, but replaces.
    infer=_rows_infer,
    ref=lambda n, *arrays: _rows_ref("put", n, *arrays),
    lower=lowered_by("scatter.Scatter", per_value=False, fold="put"),
    complaint=out_of_range(IndexError),
    grads=(
        lambda g, y, base, index, source: record(
            INDEX_PUT, (g, index, zeros_like(source)), y._node.attrs
        ),
        None,
        lambda g, y, base, index, source: record(INDEX_SELECT, (g, index), y._node.attrs),
    ),
    saves="x",
    batch=_batch_rows(SCATTER),
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(5, 4), np.array([3, 0]), s.uniform(2, 4, seed=1)),
            lambda x, i, v: index_copy(x, 0, i, v),
        ),
        lambda: s.Sample(
            (s.uniform(2, 3, 37), np.array([2, 0]), s.uniform(2, 2, 37, seed=1)),
            lambda x, i, v: index_copy(x, -2, i, v),
        ),
    ),
)

INDEX_FOLD: Op = Op(
    "index_fold",
    "kernel",
    # Like INDEX_ADD, but multiplies or takes extremes: attrs (dim, "prod", "amax" or "amin").
    infer=_rows_infer,
    ref=lambda n, *arrays: _rows_ref(n.attrs[1], n, *arrays),
    lower=lowered_by("scatter.Scatter", per_value=False),
    complaint=out_of_range(IndexError),
    grads=fold_grads(INDEX_SELECT, INDEX_ADD),
    batch=_batch_rows(SCATTER_FOLD),
    grad_fn="IndexReduceBackward0",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(5, 4), s.integers(7, high=5), s.uniform(7, 4, seed=1)),
            lambda x, i, v: index_reduce(x, 0, i, v, "prod"),
        ),
        lambda: s.Sample(
            (s.uniform(3, 5), s.integers(6, high=5), s.uniform(3, 6, seed=1)),
            lambda x, i, v: index_reduce(x, 1, i, v, "amax", include_self=False),
        ),
    ),
)


def _slices(
    name: str,
    op: Op,
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    fold: str | None = None,
) -> Tensor:
    """Any op by slices, of tensors of any rank, once the arguments are checked."""
    base, which, given = [node_of(x).meta for x in (input, index, source)]
    d = normal_dim(name, dim, base.ndim)
    if which.ndim > 1:
        raise IndexError(f"{name}: Index is supposed to be a vector; got {list(which.shape)}")
    check_index(name, which)
    if given.dtype is not base.dtype:
        raise RuntimeError(
            f"{name}: self and source expected to have the same dtype; got {base.dtype.name} and "
            f"{given.dtype.name}"
        )
    shape, sizes = base.shape or (1,), given.shape or (1,)
    others = shape[:d] + shape[d + 1 :], sizes[:d] + sizes[d + 1 :]
    if len(shape) == len(sizes) and sizes[d] != which.numel:
        # index_copy alone has another class here
        raise (IndexError if name == "index_copy" else RuntimeError)(
            f"{name}: Number of indices ({which.numel}) should be equal to source.size(dim) "
            f"({sizes[d]}), for dim {dim}"
        )
    # Only index_copy takes a vector for a number, or a number for a vector.
    if others[0] != others[1] or (name != "index_copy" and base.ndim != given.ndim):
        ranks_differ = given.ndim and base.ndim != given.ndim
        raise (IndexError if name == "index_copy" and ranks_differ else RuntimeError)(
            f"{name}: source tensor shape must match self tensor shape, excluding the specified "
            f"dimension; got self {list(base.shape)} and source {list(given.shape)}"
        )
    if fold in EXTREMES and base.dtype.is_complex:
        raise not_implemented(f"{name}_{fold}", base.dtype)
    check_known(name, index, shape[d], d)
    tensors = [at_least_1d(x) for x in (input, index, source)]
    return reshape_to(record(op, tensors, (d, fold) if fold else (d,)), base.shape)


@exact
def index_add(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1
) -> Tensor:
    """`input` with the slices of `source`, times `alpha`, added at the indices along `dim`."""
    if alpha != 1:
        dtype = node_of(source).meta.dtype
        number = number_for("index_add", alpha, dtype)
        source = mul(source, number)
    return _slices("index_add", INDEX_ADD, input, dim, index, source)


@exact
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """`input` with the slices of `source` written at the indices along `dim`."""
    check_index("index_copy", node_of(index).meta, (dtypes.int64,))
    input, source = casted("widest", input, source)
    return _slices("index_copy", INDEX_PUT, input, dim, index, source)


@numpy_names
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """`input` with one number (or 0-d tensor) in the slices at the indices along `dim`."""
    meta, which = node_of(input).meta, node_of(index).meta
    d = normal_dim("index_fill", dim, meta.ndim)
    if which.dtype is not dtypes.int64:
        raise IndexError(f"index_fill: Expected dtype int64 for index; got {which.dtype.name}")
    if which.ndim > 1:
        raise RuntimeError(f"index_fill: Index has to be a vector or scalar; got {which.shape}")
    if isinstance(value, Handle):
        value = spread_number("index_fill", value, (), meta.dtype)
    else:
        value = number_for("index_fill", value, meta.dtype)
    size = meta.shape[d] if meta.ndim else 1
    if not size and which.numel:
        raise RuntimeError(f"index_fill: dimension {d} has no elements to fill: it has size 0")
    if not meta.numel:
        return clone(input)
    # A mask of the dim rather than a write, so that an index given twice fills once.
    places = wrapped(at_least_1d(index), size, d)
    nowhere = filled((size,), 0, dtypes.bool_)
    mask = record(INDEX_PUT, (nowhere, places, filled((which.numel,), 1, dtypes.bool_)), (0,))
    along = tuple([size if i == d else 1 for i in range(meta.ndim)])
    return placed_like(where(reshape_to(mask, along), value, input), input)


def spread_number(name: str, value: Tensor, shape: tuple[int, ...], dtype: DType) -> Tensor:
    """A 0-d tensor as a tensor of `shape` and `dtype`."""
    given = node_of(value).meta
    if given.ndim:
        raise RuntimeError(
            f"{name}: only supports a 0-dimensional value tensor, but got tensor with {given.ndim} "
            "dimension(s)"
        )
    if given.dtype.is_complex and not dtype.is_complex:
        raise cannot_convert(name, "of a complex tensor", dtype)
    return record(EXPAND, (cast(value, dtype),), (), (), shape)


@exact
def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """`input` with the slices of `source` folded in at the indices along `dim`.

    Args:
        reduce: "prod", "mean", "amax" or "amin".
        include_self: whether the elements of `input` take part where something is folded in.
    """
    name = "index_reduce"
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"{name}(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}."
        )
    meta, given = node_of(input).meta, node_of(source).meta
    base = input
    if not include_self:
        start = filled(given.shape, neutral(reduce, meta.dtype), given.dtype)
        base = _slices(name, INDEX_PUT, input, dim, index, start)
    if reduce != "mean":
        return _slices(name, INDEX_FOLD, base, dim, index, source, reduce)
    total = _slices(name, INDEX_ADD, base, dim, index, source)
    ones = filled(meta.shape, 1, meta.dtype)
    if not include_self:
        ones = _slices(name, INDEX_PUT, ones, dim, index, zeros_like(source))
    count = _slices(name, INDEX_ADD, ones, dim, index, filled(given.shape, 1, given.dtype))
    return divided(total, count, meta.dtype)


def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """`input` with the elements of `source` written (or added) at indices into it flattened."""
    meta, which, given = [node_of(x).meta for x in (input, index, source)]
    check_index("put", which, (dtypes.int64,))
    if given.dtype is not meta.dtype:
        raise RuntimeError(
            f"put: self and source expected to have the same dtype; got {meta.dtype.name} and "
            f"{given.dtype.name}"
        )
    if which.numel != given.numel:
        raise IndexError(
            "put: expected source and index to have the same number of elements; got "
            f"{given.numel} and {which.numel}"
        )
    flat, places, values = [reshape_to(x, (node_of(x).meta.numel,)) for x in (input, index, source)]
    op = INDEX_ADD if accumulate else INDEX_PUT
    written = record(op, (flat, wrapped(places, meta.numel), values), (0,))
    return placed_like(reshape_to(written, meta.shape), input)
