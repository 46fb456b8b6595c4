"""Scattering: a copy of a tensor with values written, added or folded in, one index per value.

    scatter       out[index[i, j], j] = source[i, j]
    scatter_add   out[index[i, j], j] += source[i, j]

(written for dim 0). Values are taken in order: where indices repeat, the last write stays, and sums
have one order whatever the number of threads. The same by slices is in index_writing.py.
"""

from __future__ import annotations

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
from livegrad.graph.views import row_major
from livegrad.ops.bookkeeping.in_place import also_of
from livegrad.ops.elementwise.arithmetic import cast, div, mul, needs_tensor, where
from livegrad.ops.elementwise.comparison import eq, logical_and
from livegrad.ops.elementwise.conjugate import conj
from livegrad.ops.elementwise.division import divide
from livegrad.ops.making.generate import filled, zeros_like
from livegrad.ops.picking.checking import check_known, out_of_range
from livegrad.ops.picking.gathering import (
    GATHER,
    at_least_1d,
    check_fits,
    check_index,
    check_range,
    scattered,
)
from livegrad.ops.shaping.movement import INDEX, normal_dim, reshape_to
from livegrad.ops.support import batched, samples as s
from livegrad.ops.support.folds import widened
from livegrad.ops.support.numbers import number_for
from livegrad.ops.support.out import exact, refusing_expanded

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]
Attrs = tuple[Any, ...]
Metas = tuple[Meta, ...]

_FOLDS = {"add": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


# ------------------------------------------------------------------------- one index per value


def _scatter_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    base, index, source = metas
    check_index("scatter", index)
    check_fits("scatter", base, index, attrs[0])
    if source.dtype is not base.dtype:
        raise RuntimeError(
            f"scatter: expected self.dtype to be equal to src.dtype; got {base.dtype.name} and "
            f"{source.dtype.name}"
        )
    if source.shape != index.shape:
        raise RuntimeError(
            f"scatter: got index {list(index.shape)} and src {list(source.shape)}; expected index "
            "to be nowhere larger than src"
        )
    return base


def fold_at(how: str, out: Array, places: Any, source: Array) -> None:
    """Folds values into `out`, one after the other; used by references."""
    if how == "put":
        out[places] = source
    else:
        _FOLDS[how].at(out, places, source)


def _scatter_ref(how: str, n: Any, base: Array, index: Array, source: Array) -> Array:
    dim = n.attrs[0]
    out = np.atleast_1d(widened(base).copy())
    index, source = np.atleast_1d(index), np.atleast_1d(source)
    check_range(index, out.shape[dim], dim, RuntimeError)
    places = list(np.ogrid[tuple([slice(size) for size in index.shape])])
    places[dim] = index
    fold_at(how, out, tuple(places), source)
    return out.reshape(base.shape)


SCATTER_ADD: Op = Op(
    "scatter_add",
    "kernel",
    # Inputs (base, index, source of the index's shape), attrs (dim,).
    infer=_scatter_infer,
    ref=lambda n, *arrays: _scatter_ref("add", n, *arrays),
    lower=lowered_by("scatter.Scatter", per_value=True, fold="add"),
    complaint=out_of_range(RuntimeError),
    grads=(
        lambda g, y, base, index, source: g,
        None,
        lambda g, y, base, index, source: record(GATHER, (g, index), y._node.attrs),
    ),
    saves="x",
    batch=batched.along,
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(4, 5), s.integers(3, 5, high=4), s.uniform(3, 5, seed=1)),
            lambda x, i, v: scatter_add(x, 0, i, v),
        ),
        lambda: s.Sample(
            (s.uniform(2, 6), s.integers(2, 9, high=6), s.uniform(2, 9, seed=1)),
            lambda x, i, v: scatter_add(x, 1, i, v),
        ),
        lambda: s.Sample(
            (s.uniform(4, 5), s.integers(2, 3, high=4), s.uniform(3, 4, seed=1)),
            lambda x, i, v: scatter_add(x, 0, i, v),
        ),
    ),
)

SCATTER: Op = Op(
    "scatter",
    "kernel",
    # Like SCATTER_ADD, but replaces.
    infer=_scatter_infer,
    ref=lambda n, *arrays: _scatter_ref("put", n, *arrays),
    lower=lowered_by("scatter.Scatter", per_value=True, fold="put"),
    complaint=out_of_range(RuntimeError),
    grads=(
        lambda g, y, base, index, source: record(
            SCATTER, (g, index, zeros_like(source)), y._node.attrs
        ),
        None,
        lambda g, y, base, index, source: record(GATHER, (g, index), y._node.attrs),
    ),
    saves="x",
    batch=batched.along,
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(4, 3), np.array([[2, 0, 1], [0, 3, 2]]), s.uniform(2, 3, seed=1)),
            lambda x, i, v: scatter(x, 0, i, v),
        ),
        lambda: s.Sample(
            (s.uniform(4, 3), np.array([[2, 0], [0, 1]])), lambda x, i: scatter(x, 1, i, 2.5)
        ),
        lambda: s.Sample(
            (s.uniform(), np.array(0), s.uniform(seed=1)), lambda x, i, v: scatter(x, 0, i, v)
        ),
    ),
)


def fold_grads(gathering: Op, adding: Op) -> tuple[Any, ...]:
    """Gradient rules of folds, by what reads at the indices, and what adds there."""

    def read(x: Tensor, index: Tensor, y: Tensor) -> Tensor:
        return record(gathering, (x, index), y._node.attrs[:1])

    def count(base: Tensor, index: Tensor, y: Tensor, hits: Tensor) -> Tensor:
        return record(adding, (base, index, cast(hits, base.dtype)), y._node.attrs[:1])

    def shared(g: Tensor, y: Tensor, base: Tensor, index: Tensor, source: Tensor) -> Any:
        """For extremes: where base and source give the result, as 1, and g shared among those.

        If the result is NaN, that is nowhere: the gradients are NaN, too, as a multiple of 0 / 0.
        """
        ours = cast(eq(base, y), base.dtype)
        theirs = cast(eq(source, read(y, index, y)), base.dtype)
        return ours, theirs, div(g, count(ours, index, y, theirs))

    def for_base(g: Tensor, y: Tensor, base: Tensor, index: Tensor, source: Tensor) -> Tensor:
        if y._node.attrs[1] != "prod":
            ours, _, share = shared(g, y, base, index, source)
            return mul(ours, share)
        ones = filled(base.shape, 1, base.dtype)
        others = record(y._node.op, (ones, index, source), y._node.attrs)
        return also_of(base, mul(g, conj(others)))

    def for_source(g: Tensor, y: Tensor, base: Tensor, index: Tensor, source: Tensor) -> Tensor:
        if y._node.attrs[1] != "prod":
            _, theirs, share = shared(g, y, base, index, source)
            return mul(theirs, read(share, index, y))
        # The product of the others: all but a single 0, which a division cannot take out again.
        zero = eq(source, 0)
        alone = logical_and(zero, eq(read(count(zeros_like(base), index, y, zero), index, y), 1))
        without = record(y._node.op, (base, index, where(alone, 1, source)), y._node.attrs)
        quotient = div(read(mul(g, conj(y)), index, y), conj(where(zero, 1, source)))
        return where(alone, read(mul(g, conj(without)), index, y), quotient)

    return for_base, None, for_source


SCATTER_FOLD: Op = Op(
    "scatter_fold",
    "kernel",
    # Like SCATTER_ADD, but multiplies or takes extremes: attrs (dim, "prod", "amax" or "amin").
    infer=_scatter_infer,
    ref=lambda n, *arrays: _scatter_ref(n.attrs[1], n, *arrays),
    lower=lowered_by("scatter.Scatter", per_value=True),
    complaint=out_of_range(RuntimeError),
    grads=fold_grads(GATHER, SCATTER_ADD),
    batch=batched.along,
    grad_fn="ScatterReduceBackward0",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(4, 5), s.integers(3, 5, high=4), s.uniform(3, 5, seed=1)),
            lambda x, i, v: scatter_reduce(x, 0, i, v, "prod"),
        ),
        lambda: s.Sample(
            (s.uniform(2, 6), s.integers(2, 9, high=6), s.uniform(2, 9, seed=1)),
            lambda x, i, v: scatter_reduce(x, 1, i, v, "amax"),
        ),
        lambda: s.Sample(
            (s.uniform(2, 6), s.integers(2, 9, high=6), s.uniform(2, 9, seed=1)),
            lambda x, i, v: scatter_reduce(x, 1, i, v, "amin", include_self=False),
        ),
    ),
)


EXTREMES = ("amax", "amin")  # complex numbers have none


def _scatter(
    name: str, op: Op, input: Tensor, dim: int, index: Tensor, src: Any, fold: str | None = None
) -> Tensor:
    """Any scatter, of tensors of any rank, once the arguments are checked."""
    base, which = node_of(input).meta, node_of(index).meta
    d = normal_dim(name, dim, base.ndim)
    check_index(name, which)
    if not isinstance(src, Handle):
        src = filled(which.shape, number_for(name, src, base.dtype), base.dtype)
    if not which.numel:
        index, source = _none_of(index, base, d), _none_of(src, base, d)
        which = node_of(index).meta
    else:
        check_fits(name, _vector(base), _vector(which), d)
        source = _fitted(name, src, which)
    if fold in EXTREMES and base.dtype.is_complex:
        raise not_implemented(f"{name}_{fold}", base.dtype)
    check_known(name, index, base.shape[d] if base.ndim else 1, d, RuntimeError)
    if base.ndim and which.ndim:
        return row_major(scattered(op, input, index, source, (d, fold) if fold else (d,)))
    tensors = [at_least_1d(x) for x in (input, index, source)]
    return reshape_to(record(op, tensors, (0, fold) if fold else (0,)), base.shape)


def _none_of(x: Tensor, base: Meta, dim: int) -> Tensor:
    """No elements of `x`, which may have any shape, in one that fits what is scattered into."""
    count = node_of(x).meta.numel
    flat = reshape_to(x, (count,))
    if count:
        flat = record(INDEX, (flat,), ((("slice", 1),),), (0,), (0,))
    return reshape_to(flat, (*base.shape[:dim], 0, *base.shape[dim + 1 :]))


def _vector(meta: Meta) -> Meta:
    return meta if meta.ndim else Meta((1,), meta.dtype)


def _fitted(name: str, source: Tensor, index: Meta) -> Tensor:
    """The part of `source` that an index of a smaller shape reads."""
    shape, wanted = node_of(source).meta.shape, index.shape
    if shape == wanted:
        return source
    if len(shape) + len(wanted) == 1:  # one of them has no dims
        return reshape_to(source, wanted)
    if len(shape) != len(wanted) or any(a < b for a, b in zip(shape, wanted, strict=True)):
        raise RuntimeError(
            f"{name}: expected index {list(wanted)} to be no larger than src {list(shape)}"
        )
    items = tuple([("slice", 1)] * len(wanted))
    return record(INDEX, (source,), (items,), (0,) * len(wanted), wanted)


@refusing_expanded
@exact
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """`input` with src[i][j] added to element [index[i][j]][j] (for dim 0)."""
    if not isinstance(src, Handle):
        raise needs_tensor("scatter_add", src)
    return _scatter("scatter_add", SCATTER_ADD, input, dim, index, src)


@refusing_expanded
@exact
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Any = None,
    *,
    value: float | None = None,
    reduce: str | None = None,
) -> Tensor:
    """`input` with src[i][j] (or one number) written to element [index[i][j]][j] (for dim 0).

    Args:
        input: a tensor; it is left as it is.
        dim: along which elements are written.
        index: int64, with as many dims.
        src: what is written: a tensor or a number.
        value: a number, instead of `src`.

    Example:
        >>> lg.scatter(lg.zeros(2, 3), 1, lg.tensor([[2], [0]]), 5.0)
        tensor([[0., 0., 5.],
                [5., 0., 0.]])
    """
    written = src if value is None else value
    if written is None:
        raise TypeError("scatter(): missing argument: expected `src`, a tensor, or `value`")
    if reduce is None:
        return _scatter("scatter", SCATTER, input, dim, index, written)
    if reduce == "add":
        return _scatter("scatter", SCATTER_ADD, input, dim, index, written)
    if reduce == "multiply":
        return _scatter("scatter", SCATTER_FOLD, input, dim, index, written, "prod")
    raise RuntimeError(f"scatter: reduce argument must be either add or multiply; got {reduce!r}")


@refusing_expanded
@exact
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """`input` with src[i][j] folded into element [index[i][j]][j] (for dim 0).

    Args:
        reduce: "sum", "prod", "mean", "amax" or "amin".
        include_self: whether the elements of `input` take part where something is folded in.
    """
    name = "scatter_reduce"
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"{name}: reduce argument must be either sum, prod, mean, amax or amin; got {reduce!r}"
        )
    dtype = node_of(input).meta.dtype
    base = input
    if not include_self:
        base = _scatter(name, SCATTER, input, dim, index, neutral(reduce, dtype))
    if reduce not in ("sum", "mean"):
        if dtype.is_complex and not node_of(index).meta.numel:
            reduce = "prod"  # nothing is compared, so it does not matter that there is no order
        return _scatter(name, SCATTER_FOLD, base, dim, index, src, reduce)
    total = _scatter(name, SCATTER_ADD, base, dim, index, src)
    if reduce == "sum":
        return total
    if dtype is dtypes.bool_:
        raise not_implemented("scatter_reduce_mean", dtype)
    ones = filled(node_of(input).meta.shape, 1, dtype)
    if not include_self:  # what nothing is folded into counts as it is
        ones = _scatter(name, SCATTER, ones, dim, index, 0)
    count = _scatter(name, SCATTER_ADD, ones, dim, index, 1)
    return divided(total, count, dtype)


def divided(total: Tensor, count: Tensor, dtype: DType) -> Tensor:
    """A sum as a mean; of integers, rounded down."""
    return divide(total, count, rounding_mode="floor" if dtype.category == dtypes.INT else None)


def neutral(reduce: str, dtype: DType) -> Any:
    """What a fold may start from without changing it."""
    if reduce in ("sum", "mean", "prod"):
        return 1 if reduce == "prod" else 0
    largest = reduce == "amin"
    if dtype.category == dtypes.INT:
        limits = np.iinfo(dtype.storage)
        return int(limits.max if largest else limits.min)
    if dtype is dtypes.bool_:
        return int(largest)
    return float("inf") if largest else -float("inf")
