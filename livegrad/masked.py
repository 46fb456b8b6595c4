"""Reductions and normalisations of the elements that a mask keeps, as `torch.masked` has them.

A mask is a tensor of bools that broadcasts to the input. What it leaves out takes no part: it is
replaced by the value that changes nothing (0 for a sum, -inf for a maximum), or not counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.above import Above
from livegrad.graph.handle import node_of
from livegrad.ops.elementwise import pointwise_math
from livegrad.ops.elementwise.arithmetic import cast, div, mul, sub, where
from livegrad.ops.elementwise.comparison import isnan, maximum
from livegrad.ops.elementwise.conjugate import conj
from livegrad.ops.elementwise.roots import sqrt
from livegrad.ops.layers import composite
from livegrad.ops.linalg.norms import vector_norm
from livegrad.ops.making.generate import filled
from livegrad.ops.reductions import product, quantiles, reduce, scan, statistics
from livegrad.ops.reductions.reduce import normal_dims
from livegrad.ops.shaping.movement import broadcast_to, normal_dim, reshape_to

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Dim = int | Sequence[int] | None


# --------------------------------------------------------------------------------- masks


def _mask(input: Tensor, mask: Tensor) -> Tensor:
    """`mask` as bools of the input's shape."""
    shape, have = node_of(input).meta.shape, node_of(mask).meta.shape
    if len(have) > len(shape):
        raise IndexError(
            "masked: expected mask dimensionality to be less than or equal to that of the input; "
            f"got {list(have)} and {list(shape)}"
        )
    return broadcast_to(cast(mask, dtypes.bool_), shape)


def _kept(input: Tensor, mask: Tensor | None, other: float) -> Tensor:
    """`input` with `other` where the mask does not hold."""
    return input if mask is None else where(_mask(input, mask), input, other)


def _lowest(input: Tensor) -> float:
    dtype = node_of(input).meta.dtype
    return -math.inf if dtype.category != dtypes.INT else dtypes.iinfo(dtype).min


def _highest(input: Tensor) -> float:
    dtype = node_of(input).meta.dtype
    return math.inf if dtype.category != dtypes.INT else dtypes.iinfo(dtype).max


def _dims(name: str, input: Tensor, dim: Dim) -> tuple[int, ...]:
    return normal_dims(f"masked.{name}", dim, node_of(input).meta.ndim)


def _dtype(input: Tensor, dtype: DType | None) -> DType:
    return node_of(input).meta.dtype if dtype is None else dtypes.as_dtype(dtype)


def _summed_dtype(input: Tensor, dtype: DType | None) -> DType:
    have = _dtype(input, dtype)
    return dtypes.int64 if dtype is None and have.category < dtypes.FLOAT else have


# ---------------------------------------------------------------------------- reductions


def sum(
    input: Tensor,
    dim: Dim = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Sum over `dim` of what the mask keeps; 0 if that is nothing."""
    x = _kept(input, mask, 0)
    target = _summed_dtype(input, dtype)
    return reduce.sum(x, _dims("sum", input, dim), keepdim, dtype=target)


def prod(
    input: Tensor,
    dim: Dim = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Product over `dim` of what the mask keeps; 1 if that is nothing."""
    x = cast(_kept(input, mask, 1), _summed_dtype(input, dtype))
    return product.prod(x, _dims("prod", input, dim), keepdim)


def amax(
    input: Tensor,
    dim: Dim = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Largest value over `dim` of what the mask keeps; the least there is if that is nothing."""
    x = _kept(input, mask, _lowest(input))
    return cast(reduce.amax(x, _dims("amax", input, dim), keepdim), _dtype(input, dtype))


def amin(
    input: Tensor,
    dim: Dim = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Smallest value over `dim` of what the mask keeps; the greatest there is if nothing."""
    x = _kept(input, mask, _highest(input))
    return cast(reduce.amin(x, _dims("amin", input, dim), keepdim), _dtype(input, dtype))


def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Index of the largest value that the mask keeps, along `dim` or of the flattened input."""
    x = _kept(input, mask, _lowest(input))
    return cast(reduce.argmax(x, dim, keepdim), _dtype(input, dtype))


def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Index of the smallest value that the mask keeps, along `dim` or of the flattened input."""
    x = _kept(input, mask, _highest(input))
    return cast(reduce.argmin(x, dim, keepdim), _dtype(input, dtype))


def _count(input: Tensor, dims: tuple[int, ...], keepdim: bool, mask: Tensor | None) -> Any:
    """How many elements are folded: a number, or a tensor if a mask has a say."""
    if mask is None:
        return float(reduce.count(input, dims))
    return reduce.sum(_mask(input, mask), dims, keepdim)


def mean(
    input: Tensor,
    dim: Dim = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Mean over `dim` of what the mask keeps; NaN if that is nothing."""
    target = _dtype(input, dtype)
    if target.category < dtypes.FLOAT:
        raise ValueError(
            "mean(): Could not infer output dtype. It must be either a floating point or complex "
            f"dtype; got {target.name}. Convert with .float() first"
        )
    dims = _dims("mean", input, dim)
    total = sum(input, dims, keepdim=keepdim, dtype=target, mask=mask)
    return div(total, _count(input, dims, keepdim, mask))


def median(
    input: Tensor,
    dim: int = -1,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Median along `dim` of what the mask keeps; NaN if that is nothing.

    Integers have no NaN: with them the values are read, and a row without any raises.
    """
    d = normal_dim("masked.median", dim, node_of(input).meta.ndim)
    floating = node_of(input).meta.dtype.is_floating_point
    x = input if floating else cast(input, dtypes.float32)
    found = quantiles.nanmedian(_kept(x, mask, math.nan), d, keepdim).values
    if floating:
        return found
    if bool(reduce.any(isnan(found))):
        raise ValueError(
            "masked median expects no fully masked out rows if dtype is not floating point"
        )
    return cast(found, _dtype(input, dtype))


def logsumexp(
    input: Tensor,
    dim: Dim = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """`log(sum(exp(input)))` over `dim` of what the mask keeps; -inf if that is nothing."""
    x = _kept(input, mask, _lowest(input))
    dims = _dims("logsumexp", input, dim)
    return cast(statistics.logsumexp(x, dims, keepdim), _dtype(input, dtype))


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: DType | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """`log(exp(input) + exp(other))`, each with a mask of its own."""
    a = _kept(input, input_mask, _lowest(input))
    b = _kept(other, other_mask, _lowest(other))
    return cast(pointwise_math.logaddexp(a, b), _dtype(input, dtype))


def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Dim = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The `ord`-norm over `dim` of what the mask keeps; 0 if that is nothing (inf for -inf)."""
    order = 2.0 if ord is None else ord
    x = _kept(input, mask, math.inf if order == -math.inf else 0)
    dims = _dims("norm", input, dim)
    return vector_norm(x, order, dims, keepdim, dtype=_dtype(input, dtype))


def _variance(
    name: str,
    input: Tensor,
    dim: Dim,
    unbiased: bool | None,
    correction: float | None,
    keepdim: bool,
    dtype: DType | None,
    mask: Tensor | None,
) -> Tensor:
    if unbiased is not None and correction is not None:
        raise AssertionError(f"masked.{name}: only one of unbiased and correction may be given")
    off = correction if correction is not None else 1.0 if unbiased is None else float(unbiased)
    given = _dtype(input, dtype)
    whole = given.category < dtypes.FLOAT
    target = dtypes.float32 if whole and dtype is None else given
    compute = dtypes.float32 if whole else given
    dims = _dims(name, input, dim)
    count = _count(input, dims, True, mask)
    total = sum(input, dims, keepdim=True, dtype=target, mask=mask)
    away = sub(input, div(total, count))
    squares = sum(mul(away, conj(away)), dims, keepdim=keepdim, dtype=compute, mask=mask)
    if mask is None:
        count = max(count - off, 0.0)
    else:
        count = reshape_to(cast(count, compute.to_real()), node_of(squares).meta.shape)
        count = maximum(sub(count, off), filled((), 0, compute.to_real()))
    return cast(div(squares, count), target)


def var(
    input: Tensor,
    dim: Dim = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Variance over `dim` of what the mask keeps; NaN if that is nothing."""
    return _variance("var", input, dim, unbiased, correction, keepdim, dtype, mask)


def std(
    input: Tensor,
    dim: Dim = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Standard deviation over `dim` of what the mask keeps; NaN if that is nothing."""
    return sqrt(_variance("std", input, dim, unbiased, correction, keepdim, dtype, mask))


# ----------------------------------------------------------------- scans, normalisations


def cumsum(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """Running sum along `dim` of what the mask keeps."""
    return scan.cumsum(_kept(input, mask, 0), dim, dtype=_dtype(input, dtype))


def cumprod(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """Running product along `dim` of what the mask keeps."""
    return scan.cumprod(_kept(input, mask, 1), dim, dtype=_dtype(input, dtype))


def softmax(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """softmax along `dim` of what the mask keeps, 0 elsewhere."""
    return composite.softmax(_kept(input, mask, _lowest(input)), dim, _dtype(input, dtype))


def log_softmax(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """Logarithm of softmax along `dim` of what the mask keeps, -inf elsewhere."""
    return composite.log_softmax(_kept(input, mask, _lowest(input)), dim, _dtype(input, dtype))


def softmin(
    input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """softmin along `dim` of what the mask keeps, 0 elsewhere."""
    return composite.softmin(_kept(input, mask, _highest(input)), dim, _dtype(input, dtype))


def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """What the mask keeps divided by its `ord`-norm along `dim`, 0 elsewhere."""
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    least = filled((), eps, node_of(length).meta.dtype)
    return div(_kept(input, mask, 0), maximum(length, least))


# Names of `livegrad.maskedtensor`, which is imported when one is first asked for.
_CLASSES = ("MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor")

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _CLASSES:
            return getattr(Above.maskedtensor(), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
