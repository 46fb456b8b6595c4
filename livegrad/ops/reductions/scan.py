"""Scans: running sums, products, extremes along a dim, each by one native kernel.

All gradients but those of sums are one linear recurrence, h[i] = x[i] + f[i] * h[i-1], which is a
scan too and whose gradient is another: so they divide by nothing, are right at zeros, and have
gradients of any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.handle import node_of
from livegrad.graph.infer import not_implemented
from livegrad.graph.lowering import lowered_by
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.graph.views import row_major
from livegrad.ops.bookkeeping.in_place import also_of
from livegrad.ops.elementwise.arithmetic import abs, cast, clone, mul, sub, where
from livegrad.ops.elementwise.comparison import eq, logical_and
from livegrad.ops.elementwise.conjugate import conj
from livegrad.ops.elementwise.pointwise_math import exp
from livegrad.ops.making.generate import filled, zeros_like
from livegrad.ops.picking.gathering import gather
from livegrad.ops.shaping.joining import pad
from livegrad.ops.shaping.movement import normal_dim
from livegrad.ops.support import batched, samples as s
from livegrad.ops.support.out import exact, folding
from livegrad.ops.support.returned import returned

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]


@returned("cummax")
class cummax_result(NamedTuple):
    """The largest value so far along a dim, and where it is."""

    values: Tensor
    indices: Tensor


@returned("cummin")
class cummin_result(NamedTuple):
    """The smallest value so far along a dim, and where it is."""

    values: Tensor
    indices: Tensor


# attrs (dim, backwards, dtype of the result) of all scans.


def _infer(metas: tuple[Meta, ...], attrs: tuple[Any, ...], shape: Any) -> Meta:
    return meta_of(metas[0].shape, attrs[2])


def _scan(x: Array, n: Any, scan: Callable[..., Array]) -> Array:
    """`scan(x, axis)` of values in the order they are walked, in the dtype they are carried in."""
    dim, backwards, dtype = n.attrs
    wide = np.atleast_1d(x).astype(_accumulator(dtype))
    if backwards:
        wide = np.flip(wide, dim)
    found = scan(wide, dim)
    return (np.flip(found, dim) if backwards else found).reshape(x.shape)


def _accumulator(dtype: DType) -> Any:
    if dtype.category == dtypes.COMPLEX:
        return np.complex128
    if dtype.category == dtypes.FLOAT:
        return np.longdouble if dtype is dtypes.float64 else np.float64
    return np.int64


def _samples(call: Callable[..., Any], low: float = -1.0) -> s.SampleRule:
    """Samples of `call(x, dim)`: along rows, along columns, of one and of no value."""

    def sample(dim: int, *shape: int) -> Callable[[], s.Sample]:
        return lambda: s.Sample((s.uniform(*shape, low=low),), lambda x: call(x, dim))

    return s.calls(
        sample(-1, 3, 19), sample(0, 5, 3), sample(1, 2, 3, 4), sample(0), sample(1, 2, 0)
    )


# ------------------------------------------------------------------------------- the recurrence


def _recurrence_ref(n: Any, x: Array, factor: Array) -> Array:
    dim, backwards = n.attrs[:2]
    wide = _accumulator(n.attrs[2])
    values, factors = (np.atleast_1d(a).astype(wide) for a in (x, factor))
    rows, by = np.moveaxis(values, dim, 0), np.moveaxis(factors, dim, 0)
    out = np.empty_like(rows)
    carried: Any = 0
    order = range(len(rows))
    for i in reversed(order) if backwards else order:
        carried = out[i] = rows[i] + by[i] * carried
    return np.moveaxis(out, 0, dim).reshape(x.shape)


def _recurrence_values(g: Tensor, y: Tensor, x: Tensor, factor: Tensor) -> Tensor:
    dim, backwards = y._node.attrs[:2]
    # The walk the other way, by the factor that led on from here.
    return recurrence(g, conj(_shifted(factor, dim, -1 if backwards else 1)), dim, not backwards)


def _recurrence_factors(g: Tensor, y: Tensor, x: Tensor, factor: Tensor) -> Tensor:
    dim, backwards = y._node.attrs[:2]
    before = _shifted(y, dim, 1 if backwards else -1)
    return mul(_recurrence_values(g, y, x, factor), conj(before))


RECURRENCE = Op(
    "recurrence",
    "kernel",
    # h[i] = x[i] + factor[i] * h[i - 1] along a dim: inputs (x, factor).
    infer=_infer,
    ref=_recurrence_ref,
    lower=lowered_by("scan.Scan", kind="recurrence"),
    grads=(_recurrence_values, _recurrence_factors),
    batch=batched.along,
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, 5), s.uniform(3, 5, seed=1)), lambda x, f: recurrence(x, f, 1, False)
        ),
        lambda: s.Sample(
            (s.uniform(4, 3), s.uniform(4, 3, seed=1)), lambda x, f: recurrence(x, f, 0, True)
        ),
    ),
)


def recurrence(x: Tensor, factor: Tensor, dim: int, backwards: bool) -> Tensor:
    """h[i] = x[i] + factor[i] * h[i - 1] along `dim`; backwards, h[i + 1] takes part instead."""
    return record(RECURRENCE, (x, factor), (dim, backwards, node_of(x).meta.dtype))


def _shifted(x: Tensor, dim: int, by: int, edge: float = 0) -> Tensor:
    """`x[i + by]` along a dim, `edge` where there is none."""
    meta = node_of(x).meta
    if not meta.ndim:
        return filled((), edge, meta.dtype)
    return pad(x, [0, 0] * (meta.ndim - 1 - dim) + [-by, by], value=edge) if meta.numel else x


def _is_of_one(x: Tensor, dim: int) -> bool:
    """Whether a scan leaves `x` as it is."""
    meta = node_of(x).meta
    return meta.numel <= 1 or meta.shape[dim] == 1


# ----------------------------------------------------------------------------- sums and products

CUMSUM = Op(
    "cumsum",
    "kernel",
    infer=_infer,
    ref=lambda n, x: _scan(x, n, np.cumsum),
    lower=lowered_by("scan.Scan", kind="cumsum"),
    grads=(lambda g, y, x: _record_sum(g, y._node.attrs[0], not y._node.attrs[1]),),
    saves="",
    batch=batched.along,
    samples=_samples(lambda x, dim: cumsum(x, dim)),
)


def _cumprod_backward(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    dim, backwards, _ = y._node.attrs
    assert not backwards
    if _is_of_one(x, dim):
        return g
    onward = recurrence(g, conj(_shifted(x, dim, 1)), dim, True)
    return mul(onward, conj(_shifted(y, dim, -1, edge=1)))


CUMPROD = Op(
    "cumprod",
    "kernel",
    infer=_infer,
    ref=lambda n, x: _scan(x, n, np.cumprod),
    lower=lowered_by("scan.Scan", kind="cumprod"),
    grads=(_cumprod_backward,),
    batch=batched.along,
    samples=_samples(lambda x, dim: cumprod(x, dim)),
)


def _record_sum(x: Tensor, dim: int, backwards: bool) -> Tensor:
    return record(CUMSUM, (x,), (dim, backwards, node_of(x).meta.dtype))


def _summed(name: str, op: Op, input: Tensor, dim: int, dtype: DType | None) -> Tensor:
    if dtype is not None:
        input = cast(input, dtypes.as_dtype(dtype))
    meta = node_of(input).meta
    d = normal_dim(name, dim, meta.ndim)
    whole = dtype is None and meta.dtype.category < dtypes.FLOAT
    return record(op, (input,), (d, False, dtypes.int64 if whole else meta.dtype))


@folding
def cumsum(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """Running sum along `dim`; integers and bools are summed as int64.

    Args:
        input: a tensor.
        dim: along which it runs.
        dtype: what is added up is cast to it first.

    Example:
        >>> lg.cumsum(lg.tensor([1, 2, 3]), dim=0)
        tensor([1, 3, 6])
    """
    return _summed("cumsum", CUMSUM, input, dim, dtype)


@folding
def cumprod(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """Running product along `dim`; integers and bools are multiplied as int64."""
    return _summed("cumprod", CUMPROD, input, dim, dtype)


def in_own_dtype(scan: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A scan as its in-place form does it: bools, for which PyTorch has no kernel, stay bools."""

    def call(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
        meta = node_of(input).meta
        if dtype is not None or meta.dtype is not dtypes.bool_:
            return scan(input, dim, dtype=dtype)
        normal_dim(scan.__name__, dim, meta.ndim)
        if meta.ndim and meta.numel:
            raise not_implemented(f"{scan.__name__}_out_cpu", meta.dtype)
        return clone(input)

    call.__name__ = scan.__name__
    return call


# ---------------------------------------------------------------------------------- logcumsumexp


def _logcumsumexp_backward(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """`g[j] * exp(x[i] - y[j])` summed over j >= i; y never falls, so no factor is above 1."""
    dim = y._node.attrs[0]
    if _is_of_one(x, dim):
        return also_of(x, g) if node_of(x).meta.ndim else g
    factor = _exp_of_difference(y, _shifted(y, dim, 1, edge=math.inf))
    return mul(conj(_exp_of_difference(x, y)), recurrence(g, conj(factor), dim, True))


def _exp_of_difference(a: Tensor, b: Tensor) -> Tensor:
    """exp(a - b), also where both are the same infinity."""
    same = logical_and(eq(a, b), eq(abs(a), math.inf))
    return exp(where(same, 0, sub(a, b)))


def _logcumsumexp_ref(n: Any, x: Array) -> Array:
    if x.dtype.kind == "c":
        return _scan(x, n, _complex_logcumsumexp)
    return _scan(x, n, lambda wide, dim: np.logaddexp.accumulate(wide, dim))


def _complex_logcumsumexp(x: Array, dim: int) -> Array:
    rows = np.moveaxis(x, dim, 0)
    out = rows.copy()
    for i in range(1, len(rows)):
        before, x = out[i - 1], rows[i]
        rises = x.real >= before.real
        high, low = np.where(rises, x, before), np.where(rises, before, x)
        out[i] = np.where(np.isinf(high), high, np.log1p(np.exp(low - high)) + high)
    return np.moveaxis(out, 0, dim)


LOGCUMSUMEXP = Op(
    "logcumsumexp",
    "kernel",
    infer=_infer,
    ref=_logcumsumexp_ref,
    lower=lowered_by("scan.Scan", kind="logcumsumexp", weight=40),
    grads=(_logcumsumexp_backward,),
    batch=batched.along,
    samples=_samples(lambda x, dim: logcumsumexp(x, dim)),
)


@exact
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """Logarithm of the running sum of `exp(input)` along `dim`, without overflow."""
    meta = node_of(input).meta
    d = normal_dim("logcumsumexp", dim, meta.ndim)
    if meta.dtype.category < dtypes.FLOAT:
        raise NotImplementedError(
            f'"logcumsumexp" not implemented for {meta.dtype.name}; expected floating-point '
            "values. Convert with .float() first"
        )
    return record(LOGCUMSUMEXP, (input,), (d, False, meta.dtype))


# -------------------------------------------------------------------------------------- extremes


def _extreme_ref(largest: bool) -> Callable[..., Array]:
    def ref(n: Any, x: Array) -> Array:
        rows = np.moveaxis(np.atleast_1d(x), n.attrs[0], 0)
        out = np.zeros(rows.shape, np.int64)
        best, at = rows[:1].copy(), out[:1].copy()
        for i in range(len(rows)):
            row = rows[i : i + 1]
            take = row >= best if largest else row <= best
            take = (row != row) | (take & (best == best))
            best, at = np.where(take, row, best), np.where(take, i, at)
            out[i] = at[0]
        return np.moveaxis(out, 0, n.attrs[0]).reshape(x.shape)

    return ref


def _extreme(name: str, largest: bool) -> Op:
    """Registers the op that gives the index of the best value so far; the latest of equals wins."""
    return Op(
        f"{name}_indices",
        "kernel",
        infer=_infer,
        ref=_extreme_ref(largest),
        lower=lowered_by("scan.Scan", kind=name),
        saves="",
        batch=batched.along,
        samples=_samples(lambda x, dim: (cummax if largest else cummin)(x, dim).indices),
    )


CUMMAX_INDICES = _extreme("cummax", True)
CUMMIN_INDICES = _extreme("cummin", False)


def _best(name: str, op: Op, input: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    meta = node_of(input).meta
    d = normal_dim(name, dim, meta.ndim) if meta.numel else 0  # as PyTorch, which has not looked
    if not meta.ndim or not meta.numel:
        return row_major(clone(input)), cast(zeros_like(input), dtypes.int64)
    if meta.dtype.is_complex:
        raise NotImplementedError(f'"{name}" not implemented for {meta.dtype.name}')
    indices = record(op, (input,), (d, False, dtypes.int64))
    return gather(input, d, indices), indices


@exact
def cummax(input: Tensor, dim: int) -> cummax_result:
    """The largest value so far along `dim`, and its index; the latest of equals, NaN above all."""
    return cummax_result(*_best("cummax", CUMMAX_INDICES, input, dim))


@exact
def cummin(input: Tensor, dim: int) -> cummin_result:
    """The smallest value so far along `dim`, and its index; the latest of equals, NaN below all."""
    return cummin_result(*_best("cummin", CUMMIN_INDICES, input, dim))
