"""Order statistics: medians, quantiles, the k-th smallest and the most frequent value.

Which element it is is found by sorting; its value is gathered, and that is where its gradient goes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from livegrad import dtypes
from livegrad.graph.blame import as_index, check_number
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.infer import not_implemented
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, cast, div, lerp, mul, sub, where
from livegrad.ops.elementwise.comparison import clamp, eq, isnan, logical_not, lt
from livegrad.ops.elementwise.division import floor_divide
from livegrad.ops.elementwise.pointwise_math import ceil, floor, round
from livegrad.ops.making.generate import filled
from livegrad.ops.picking.gathering import gather
from livegrad.ops.reductions.reduce import any as any_of, check_not_empty, reduced_meta, sum
from livegrad.ops.reductions.sorting import ARGSORT, picked, sort, stable_order
from livegrad.ops.shaping.movement import PERMUTE, expand, movedim, normal_dim, reshape_to
from livegrad.ops.support import batched, samples as s
from livegrad.ops.support.autocast import in_float32
from livegrad.ops.support.out import exact
from livegrad.ops.support.returned import returned

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]


@returned("kthvalue")
class kthvalue_result(NamedTuple):
    """The k-th smallest values along a dim, and where they are."""

    values: Tensor
    indices: Tensor


@returned("median")
class median_result(NamedTuple):
    """The medians along a dim, and where they are."""

    values: Tensor
    indices: Tensor


@returned("nanmedian")
class nanmedian_result(NamedTuple):
    """The medians along a dim of what is not NaN, and where they are."""

    values: Tensor
    indices: Tensor


@returned("mode")
class mode_result(NamedTuple):
    """The most frequent values along a dim, and where they are."""

    values: Tensor
    indices: Tensor


# --------------------------------------------------------------------- one element along a dim


def _at_rank(x: Tensor, dim: int, rank: Tensor) -> Tensor:
    """The index along `dim`, kept with size 1, of the element that has a rank among all of them."""
    order = record(ARGSORT, (x,), (dim, False), (), node_of(x).meta.shape)
    return picked(order, rank, dim)


def _middle(x: Tensor, dim: int, shape: Shape, skip: bool, size: int, half: int) -> Tensor:
    """The rank of the median of `size` elements along `dim`, the lower of two, which is `half`.

    NaN stands at the end: the median is the first of them, or that of the rest.
    """
    middle = filled(shape, half, dtypes.int64)
    if not node_of(x).meta.dtype.is_floating_point:
        return middle
    valid = sub(size, sum(isnan(x), dim, True)) if shape else middle
    if skip:
        return floor_divide(clamp(sub(valid, 1), min=0), 2)
    return where(lt(valid, size), valid, middle)


def _mode_ref(n: Any, x: Array) -> Array:
    """The last index of the most frequent value, of the smallest if several are."""
    if not x.size:
        return np.zeros(n.meta.shape, np.int64)
    rows = np.moveaxis(np.atleast_1d(x), n.attrs[0], -1)
    order = stable_order(rows, -1)
    ranked = np.take_along_axis(rows, order, -1)
    size = rows.shape[-1]
    starts = np.ones(ranked.shape, bool)
    starts[..., 1:] = ranked[..., 1:] != ranked[..., :-1]
    # How long the run of equals is that ends here: the longest, and of those the first.
    begun = np.maximum.accumulate(np.where(starts, np.arange(size), 0), -1)
    at = np.argmax(np.arange(size) - begun, -1)
    return np.take_along_axis(order, at[..., None], -1).reshape(n.meta.shape)


MODE_PLACE = Op(
    "mode_place",
    "host",
    # The index along a dim, which is kept as size 1: attrs (dim,).
    infer=lambda metas, attrs, shape: meta_of(shape, dtypes.int64),
    ref=_mode_ref,
    saves="",
    batch=batched.along_shaped,
    samples=s.calls(
        lambda: s.Sample((s.uniform(4, 5),), lambda x: mode(x, 1).indices, smooth=False),
        lambda: s.Sample((s.integers(5, 4, high=3),), lambda x: mode(x, -2).indices, smooth=False),
        lambda: s.Sample((s.uniform(),), lambda x: mode(x, 0).indices, smooth=False),
    ),
)


def _pick(
    name: str,
    find: Callable[[int, Shape], Tensor],
    x: Tensor,
    dim: int,
    keepdim: bool,
    bools: bool = False,
) -> tuple[Tensor, Tensor]:
    """Value and index along a dim, of the element that `find(dim, shape)` gives the index of, in
    the shape of one element along it; `bools` may be looked at."""
    meta = node_of(x).meta
    d = normal_dim(name, dim, meta.ndim)
    dims = (d,) if meta.ndim else ()
    check_not_empty(name, meta, dims)
    _check_ordered(name, meta, bools)
    shape = reduced_meta(meta, dims, True).shape
    indices = find(d, shape)
    values = picked(x, indices, d)
    if keepdim:
        return values, indices
    left = reduced_meta(meta, dims, False).shape
    return reshape_to(values, left), reshape_to(indices, left)


def _check_ordered(name: str, meta: Meta, bools: bool = False) -> None:
    if meta.dtype.is_complex or (meta.dtype is dtypes.bool_ and not bools):
        raise not_implemented(name, meta.dtype)


@exact
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> kthvalue_result:
    """The `k`-th smallest value along `dim` (1 is the smallest), and its index."""
    meta = node_of(input).meta
    d = normal_dim("kthvalue", dim, meta.ndim)
    check_not_empty("kthvalue", meta, (d,) if meta.ndim else ())
    size = meta.shape[d] if meta.ndim else 1
    k = as_index(k)
    if not 1 <= k <= size:
        raise RuntimeError(
            f"kthvalue(): selected number k out of range for dimension {d}; got {k}; expected 1 to "
            f"{size}"
        )

    def find(dim: int, shape: Shape) -> Tensor:
        return _at_rank(input, dim, filled(shape, k - 1, dtypes.int64))

    return kthvalue_result(*_pick("kthvalue", find, input, d, keepdim))


@exact
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> mode_result:
    """The most frequent value along `dim` (the smallest of several), and its last index."""

    def find(dim: int, shape: Shape) -> Tensor:
        return record(MODE_PLACE, (input,), (dim,), (), shape)

    return mode_result(*_pick("mode", find, input, dim, keepdim, bools=True))


# -------------------------------------------------------------------------------------- medians


def _median_expand(n: Any, x: Tensor) -> Tensor:
    meta = node_of(x).meta
    flat = reshape_to(x, (meta.numel,))
    rank = _middle(flat, 0, (1,), n.attrs[0], *n.args)
    return reshape_to(picked(flat, _at_rank(flat, 0, rank), 0), ())


def _median_backward(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """Shared evenly by the elements equal to the median, NaN being equal to NaN."""
    same = where(isnan(y), isnan(x), eq(x, y))
    return where(same, div(g, cast(sum(same), node_of(g).meta.dtype)), 0)


MEDIAN = Op(
    "median",
    "composite",
    # The median of all elements: attrs (whether NaN is left out,), args (how many, half of them).
    infer=lambda metas, attrs, shape: meta_of((), metas[0].dtype),
    expand=_median_expand,
    grads=(_median_backward,),
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 5),), lambda x: median(x)),
        lambda: s.Sample((s.uniform(4),), lambda x: nanmedian(x)),
        lambda: s.Sample((s.uniform(),), lambda x: median(x)),
    ),
)


def _median(name: str, x: Tensor, dim: int | None, keepdim: bool, skip: bool) -> Any:
    meta = node_of(x).meta
    if dim is not None:

        def find(dim: int, shape: Shape) -> Tensor:
            size = meta.shape[dim] if shape else 1
            return _at_rank(x, dim, _middle(x, dim, shape, skip, size, (size - 1) // 2))

        return _pick(name, find, x, dim, keepdim)
    _check_ordered(name, meta)
    if not meta.numel:
        if meta.dtype.is_floating_point:
            return add(sum(x), float("nan"))  # a function of `x`, if of nothing
        lowest = -(1 << (meta.dtype.bits - 1)) if meta.dtype.signed else 0
        return filled((), lowest, meta.dtype)
    return record(MEDIAN, (x,), (skip,), (meta.numel, (meta.numel - 1) // 2))


@overload
def median(input: Tensor, dim: None = None) -> Tensor: ...
@overload
def median(input: Tensor, dim: int, keepdim: bool = False) -> median_result: ...
@exact
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle value, the lower of two, NaN if there is one; with `dim`, (values, indices).

    Args:
        input: a tensor.
        dim: None: of all values.
        keepdim: keep the dim, with size 1.

    Example:
        >>> lg.median(lg.tensor([3, 1, 2, 9]))
        tensor(2)
    """
    found = _median("median", input, dim, keepdim, False)
    return found if dim is None else median_result(*found)


@overload
def nanmedian(input: Tensor, dim: None = None) -> Tensor: ...
@overload
def nanmedian(input: Tensor, dim: int, keepdim: bool = False) -> nanmedian_result: ...
@exact
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle one of the values that are not NaN; with `dim`, (values, indices)."""
    found = _median("nanmedian", input, dim, keepdim, True)
    return found if dim is None else nanmedian_result(*found)


# ------------------------------------------------------------------------------------ quantiles

INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _checked_ref(n: Any, q: Array) -> Array:
    if not ((q >= 0) & (q <= 1)).all():
        raise RuntimeError("quantile() q values must be in the range [0, 1]")
    return q


# The tensor q itself, known to be between 0 and 1.
QUANTILE_RANGE: Op = Op(
    "quantile_range",
    "host",
    infer=lambda metas, attrs, shape: metas[0],
    ref=_checked_ref,
    grads=(lambda g, y, q: g,),
    saves="",
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, low=0.0),), lambda q: record(QUANTILE_RANGE, (q,)))
    ),
)


def _quantile_q(name: str, q: Any, meta: Meta) -> Tensor:
    """`q` as a tensor, checked."""
    if not isinstance(q, Handle):
        check_number(q)
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q}")
        return filled((), float(q), meta.dtype)
    which = node_of(q).meta
    if which.ndim > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor; got {list(which.shape)}")
    if which.dtype is not meta.dtype:
        raise RuntimeError(
            f"{name}() q tensor must be same dtype as the input tensor; got {which.dtype.name} and "
            f"{meta.dtype.name}"
        )
    return record(QUANTILE_RANGE, (q,))


def _check_quantile(name: str, meta: Meta, interpolation: str) -> None:
    if meta.numel == 0:
        raise RuntimeError(f"{name}() input tensor must be non-empty; got {list(meta.shape)}")
    if meta.dtype not in (dtypes.float32, dtypes.float64):
        raise RuntimeError(
            f"{name}() input tensor must be either float or double dtype; got {meta.dtype.name}"
        )
    if interpolation not in INTERPOLATIONS:
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, "
            f"but got {interpolation}"
        )


def _quantile(
    name: str, x: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str
) -> Tensor:
    meta = node_of(x).meta
    _check_quantile(name, meta, interpolation)
    q = _quantile_q(name, q, meta)
    d = None if dim is None else normal_dim(name, dim, meta.ndim)
    many = node_of(q).meta.ndim
    if d is None or not meta.ndim:
        rows, shape = reshape_to(x, (meta.numel,)), (1,) * meta.ndim if keepdim else ()
    else:
        rows = movedim(x, d, -1)
        shape = reduced_meta(meta, (d,), keepdim).shape
    values = _interpolated(sort(rows).values, q, name == "nanquantile", interpolation)
    if not many:
        return reshape_to(values, shape)
    values = reshape_to(values, (*shape, node_of(q).meta.numel))
    return record(PERMUTE, (values,), ((len(shape), *range(len(shape))),))


def _interpolated(ranked: Tensor, q: Tensor, skip: bool, interpolation: str) -> Tensor:
    """Values at the quantiles `q`, in a new last dim, of rows that are in order."""
    shape = node_of(ranked).meta.shape
    count = node_of(q).meta.numel
    last = shape[-1] - 1
    rank = expand(reshape_to(q, (count,)), (*shape[:-1], count))
    nan = isnan(ranked)
    if skip:
        valid = cast(sum(logical_not(nan), -1, True), node_of(q).meta.dtype)
        rank = mul(rank, sub(valid, 1))
        rank = where(lt(rank, 0), 0.0, rank)
    else:
        # NaN stands at the end, and is the result wherever there is one.
        rank = where(any_of(nan, -1, True), float(last), mul(rank, float(last)))
    steps = {"lower": floor, "higher": ceil, "nearest": round}
    if interpolation in steps:
        return gather(ranked, -1, cast(steps[interpolation](rank), dtypes.int64))
    below = cast(rank, dtypes.int64)
    above = cast(ceil(rank), dtypes.int64)
    weight = 0.5 if interpolation == "midpoint" else sub(rank, cast(below, node_of(q).meta.dtype))
    return lerp(gather(ranked, -1, below), gather(ranked, -1, above), weight)


@exact
@in_float32
def quantile(
    input: Tensor,
    q: float | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """The values below which the parts `q` of all values along `dim` lie; NaN if there is one.

    Args:
        q: a number, or a tensor of them, which gives a new first dim.
        interpolation: what a quantile between two values is: "linear", "lower", "higher",
            "midpoint" or "nearest".

    Example:
        >>> lg.quantile(lg.tensor([1.0, 2.0, 3.0, 4.0]), 0.5)
        tensor(2.5000)
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation)


@exact
@in_float32
def nanquantile(
    input: Tensor,
    q: float | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """Like `quantile`, of the values that are not NaN."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation)
