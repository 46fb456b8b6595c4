"""Variance, norms, logsumexp, and folds that skip NaN: several folds over the same dims.

Their expansions keep the folded dims as size 1 until the end, so that one kernel makes all passes
over a row. Half precisions are computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.blame import as_float, wrong_class
from livegrad.graph.handle import node_of, wrap
from livegrad.graph.infer import not_implemented
from livegrad.graph.meta import Meta
from livegrad.graph.node import Interior, Node
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.graph.symbol import real
from livegrad.ops.elementwise.arithmetic import abs, add, cast, div, mul, sgn, sub, where
from livegrad.ops.elementwise.comparison import eq, isnan, logical_not, logical_or, ne
from livegrad.ops.elementwise.conjugate import conj
from livegrad.ops.elementwise.pointwise_math import exp, log
from livegrad.ops.elementwise.power import pow
from livegrad.ops.elementwise.roots import sqrt, square
from livegrad.ops.norms.moments import squares_about_mean
from livegrad.ops.reductions.reduce import (
    Dim,
    Dims,
    amax,
    amin,
    check_not_empty,
    count,
    finish,
    kept,
    mean,
    normal_dims,
    over_several,
    reduced_meta,
    reductions,
    sum,
    wide,
)
from livegrad.ops.shaping.movement import detach, normal_dim, reshape_to, sizes_of
from livegrad.ops.support import batched, folds, samples as s
from livegrad.ops.support.out import casting, exact, folding, numpy_names, taking_expanded
from livegrad.ops.support.returned import returned

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = Any


def _infer(metas: tuple[Meta, ...], attrs: tuple[Any, ...], shape: Any) -> Meta:
    return reduced_meta(metas[0], *attrs[:2])


def _real_infer(metas: tuple[Meta, ...], attrs: tuple[Any, ...], shape: Any) -> Meta:
    # Variances and norms are real, of complex numbers too.
    return reduced_meta(metas[0], attrs[0], attrs[1], metas[0].dtype.to_real())


def real_part(x: Tensor) -> Tensor:
    """The real part of complex numbers; real ones are their own."""
    return x.real if node_of(x).meta.dtype.is_complex else x


def _squared_size(x: Tensor) -> Tensor:
    """`|x| ** 2`."""
    return square(abs(x) if node_of(x).meta.dtype.is_complex else x)


def _backward(name: str, expand: Callable[..., Any], sample: Callable[..., Any]) -> Op:
    """Registers the gradient op (g, x[, y]) of a reduction, with its attrs."""
    return Op(
        name,
        "composite",
        infer=lambda metas, attrs, shape: metas[1],
        expand=expand,
        batch=batched.folding,
        samples=s.calls(lambda: s.Sample((s.uniform(3), s.uniform(3, 5, seed=1)), sample)),
    )


# ----------------------------------------------------------------------------- variance, deviation


def _freedom(x: Tensor, n: Any) -> float:
    """What squares are divided by: the number of values less the correction, never below 0."""
    left = count(x, n.attrs[0]) - n.attrs[2]
    return real(left if left > 0 else 0)


def _freedom_of_slope(x: Tensor, n: Any) -> float:
    """The same for a gradient, which PyTorch divides by what may be below 0."""
    return real(count(x, n.attrs[0]) - n.attrs[2])


def _centred(x: Tensor, dims: Dims) -> Tensor:
    return sub(x, mean(x, dims, True)) if dims else mul(x, 0)


def _variance(n: Any, x: Tensor) -> Tensor:
    """In double precision, to be rounded once."""
    dims = n.attrs[0]
    if not dims:
        squares = _squared_size(_centred(x, dims))
    elif node_of(x).meta.dtype.is_complex:
        squares = sum(_squared_size(_centred(cast(x, dtypes.complex128), dims)), dims, True)
    else:
        squares = squares_about_mean(wide(x), dims)
    return div(squares, _freedom(x, n))


def _variance_ref(n: Any, x: Array) -> Array:
    return np.divide(folds.squares_about_mean(x, *n.attrs[:2]), float(_freedom(x, n)))


def _var_backward(n: Any, g: Tensor, x: Tensor) -> Tensor:
    dims, keepdim = n.attrs[:2]
    slope = div(mul(wide(kept(g, x, dims, keepdim)), 2.0), _freedom_of_slope(x, n))
    return cast(mul(slope, _centred(wide(x), dims)), n.meta.dtype)


def _std_backward(n: Any, g: Tensor, x: Tensor, y: Tensor) -> Tensor:
    dims, keepdim = n.attrs[:2]
    deviation = wide(kept(y, x, dims, keepdim))
    slope = div(wide(kept(g, x, dims, keepdim)), mul(deviation, _freedom_of_slope(x, n)))
    # Where all values are equal the deviation has a kink; its gradient is 0 there.
    return cast(mul(where(eq(deviation, 0), 0, slope), _centred(wide(x), dims)), n.meta.dtype)


VAR_BACKWARD: Op = _backward(
    "var_backward",
    _var_backward,
    lambda g, x: record(VAR_BACKWARD, (g, x), ((1,), False, 1)),
)
VAR = Op(
    "var",
    "composite",
    infer=_real_infer,
    ref=_variance_ref,
    expand=lambda n, x: finish(n, _variance(n, x)),
    grads=(lambda g, y, x: record(VAR_BACKWARD, (g, x), y._node.attrs),),
    saves="x",
    batch=batched.folding,
    samples=over_several(
        lambda x, dim, keepdim: var(x, dim, keepdim=keepdim),
        s.calls(
            lambda: s.Sample((s.uniform(3, 37),), lambda x: var(x)),
            lambda: s.Sample((s.uniform(3, 37),), lambda x: var(x, 0, correction=0)),
            lambda: s.Sample((s.uniform(5),), lambda x: var(x, -1, keepdim=True)),
        ),
    ),
)
STD_BACKWARD: Op = _backward(
    "std_backward",
    _std_backward,
    lambda g, x: record(STD_BACKWARD, (g, x, std(x, 1)), ((1,), False, 1)),
)
STD = Op(
    "std",
    "composite",
    infer=_real_infer,
    ref=lambda n, x: np.sqrt(_variance_ref(n, x)),
    expand=lambda n, x: finish(n, sqrt(_variance(n, x))),
    grads=(lambda g, y, x: record(STD_BACKWARD, (g, x, y), y._node.attrs),),
    batch=batched.folding,
    samples=over_several(
        lambda x, dim, keepdim: std(x, dim, keepdim=keepdim),
        s.calls(
            lambda: s.Sample((s.uniform(3, 37),), lambda x: std(x)),
            lambda: s.Sample((s.uniform(3, 37),), lambda x: std(x, 0, correction=0)),
        ),
    ),
)


def _record_variance(
    op: Op,
    x: Tensor,
    dim: Dim | bool,
    unbiased: bool | None,
    keepdim: bool,
    correction: float | None,
) -> Tensor:
    meta = node_of(x).meta
    if meta.dtype.category < dtypes.FLOAT:
        raise RuntimeError(
            f"{op.name}: std and var only support floating point dtypes; got {meta.dtype.name}. "
            "Convert with .float() first"
        )
    if isinstance(dim, bool):  # var(x, unbiased)
        dim, unbiased = None, dim
    if unbiased is not None and not isinstance(unbiased, bool):
        raise wrong_class(unbiased, "bool")
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    elif not isinstance(correction, int | float | np.number):
        raise TypeError(
            f"{op.name}(): argument 'correction' must be Number, not {type(correction).__name__}"
        )
    else:
        correction = correction if isinstance(correction, int) else float(correction)
    out = record(op, (x,), (normal_dims(op.name, dim, meta.ndim), keepdim, correction))
    if meta.numel <= correction and (not meta.ndim or dim in (None, ())):
        _without_freedom(op, out, x)
    return out


def _without_freedom(op: Op, out: Tensor, x: Tensor) -> None:
    """Gives the variance of all of too few values PyTorch's gradient, which is no function of `x`.

    It is infinite, or NaN for values that are the mean. That of the deviation is divided by it,
    and so is one.
    """
    node, attrs = node_of(x), out._node.attrs

    def pull(g: Tensor) -> list[tuple[Node, Tensor]]:
        values = detach(wrap(node))
        slope = where(eq(values, mean(values)), math.nan, math.inf)
        if op is STD:
            g = div(g, mul(record(STD, (wrap(node),), attrs), 2))
        return [(node, cast(mul(g, slope), node.meta.dtype))]

    if out._node.grad_to is True:
        out._node.grad_to = Interior((node,), pull)


@casting
def var(
    input: Tensor,
    dim: Dim | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """Variance over `dim` (all dims by default), divided by the count less `correction` (1).

    Args:
        input: a float or complex tensor.
        dim: one dim or several; None: all.
        unbiased: False is `correction=0`.
        keepdim: keep the dims, with size 1.
        correction: what is taken from the count before dividing by it.

    Example:
        >>> lg.var(lg.tensor([1.0, 2.0, 3.0]))
        tensor(1.)
    """
    return _record_variance(VAR, input, dim, unbiased, keepdim, correction)


@casting
def std(
    input: Tensor,
    dim: Dim | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """Standard deviation: the square root of `var`.

    Args:
        input: a float or complex tensor.
        dim: one dim or several; None: all.
        unbiased: False is `correction=0`.
        keepdim: keep the dims, with size 1.
        correction: what is taken from the count before dividing by it.

    Example:
        >>> lg.std(lg.tensor([1.0, 2.0, 3.0]))
        tensor(1.)
        >>> lg.std(lg.tensor([1.0, 2.0, 3.0]), correction=0)
        tensor(0.8165)
    """
    return _record_variance(STD, input, dim, unbiased, keepdim, correction)


@numpy_names
def var_mean(
    input: Tensor,
    dim: Dim | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Variance and mean over `dim`."""
    variance = var(input, dim, unbiased, keepdim, correction=correction)
    return variance, mean(input, None if isinstance(dim, bool) else dim, keepdim)


@numpy_names
def std_mean(
    input: Tensor,
    dim: Dim | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean over `dim`."""
    deviation = std(input, dim, unbiased, keepdim, correction=correction)
    return deviation, mean(input, None if isinstance(dim, bool) else dim, keepdim)


# --------------------------------------------------------------------------------------- logsumexp


def _logsumexp(n: Any, x: Tensor) -> Tensor:
    dims = n.attrs[0]
    if not dims and not n.meta.dtype.is_complex:
        return finish(n, wide(x))
    x = wide(x)
    if count(x, dims) == 0:
        return finish(n, log(sum(x, dims, True)))
    largest = amax(real_part(x), dims, True)
    finite = where(eq(abs(largest), math.inf), 0, largest)
    return finish(n, add(log(sum(exp(sub(x, finite)), dims, True)), finite))


def _logsumexp_ref(n: Any, x: Array) -> Array:
    dims, x = n.attrs[0], folds.widened(x)
    largest = np.max(x.real, axis=dims, keepdims=True, initial=-np.inf)
    finite = np.where(np.isinf(largest), 0, largest)
    total = folds.total(np.exp(x - finite), dims, True)
    return (np.log(total) + finite).reshape(n.meta.shape)


def _logsumexp_backward(n: Any, g: Tensor, x: Tensor, y: Tensor) -> Tensor:
    dims, keepdim = n.attrs
    shares = exp(sub(wide(x), wide(kept(y, x, dims, keepdim))))
    return cast(mul(wide(kept(g, x, dims, keepdim)), conj(shares)), n.meta.dtype)


LOGSUMEXP_BACKWARD: Op = _backward(
    "logsumexp_backward",
    _logsumexp_backward,
    lambda g, x: record(LOGSUMEXP_BACKWARD, (g, x, logsumexp(x, 1)), ((1,), False)),
)
LOGSUMEXP = Op(
    "logsumexp",
    "composite",
    infer=_infer,
    ref=_logsumexp_ref,
    expand=_logsumexp,
    grads=(lambda g, y, x: record(LOGSUMEXP_BACKWARD, (g, x, y), y._node.attrs),),
    batch=batched.folding,
    samples=over_several(
        lambda x, dim, keepdim: logsumexp(x, dim, keepdim),
        reductions(lambda x, dim, keepdim: logsumexp(x, () if dim is None else dim, keepdim)),
    ),
)


@casting
def logsumexp(input: Tensor, dim: Dim, keepdim: bool = False) -> Tensor:
    """`log(sum(exp(input)))` over `dim`, without overflow.

    Args:
        input: a tensor.
        dim: one dim or several.
        keepdim: keep them, with size 1.

    Example:
        >>> lg.logsumexp(lg.tensor([1000.0, 1000.0]), dim=0)
        tensor(1000.6932)
    """
    meta = node_of(input).meta
    if meta.dtype.category < dtypes.FLOAT:
        input = cast(input, dtypes.get_default_dtype())
    return record(LOGSUMEXP, (input,), (normal_dims("logsumexp", dim, meta.ndim), keepdim))


# ------------------------------------------------------------------------------------------- norms


def _norm(n: Any, x: Tensor) -> Tensor:
    dims, _, p = n.attrs
    x = wide(x)
    if count(x, dims) == 1:
        return finish(n, ne(x, 0) if p == 0 else abs(x))
    if p == 2:
        return finish(n, sqrt(sum(_squared_size(x), dims, True)))
    if p == 1:
        return finish(n, sum(abs(x), dims, True))
    if p == 0:
        return finish(n, sum(ne(x, 0), dims, True))
    if math.isinf(p):
        return finish(n, (amax if p > 0 else amin)(abs(x), dims, True))
    return finish(n, pow(sum(pow(abs(x), p), dims, True), 1.0 / p))


def _norm_ref(n: Any, x: Array) -> Array:
    dims, keepdim, p = n.attrs
    size = np.abs(x)
    if p == 0:
        return np.sum(x != 0, axis=dims, keepdims=keepdim)
    if count(x, dims) == 1:
        return size.reshape(n.meta.shape)
    if math.isinf(p):
        return (np.max if p > 0 else np.min)(size, axis=dims, keepdims=keepdim)
    return np.power(folds.total(np.power(size, p), dims, keepdim), 1.0 / p)


def _norm_backward(n: Any, g: Tensor, x: Tensor, y: Tensor) -> Tensor:
    dims, keepdim, p = n.attrs
    length = wide(kept(y, x, dims, keepdim))
    g, x = wide(kept(g, x, dims, keepdim)), wide(x)
    if p == 1:
        slope = mul(g, sgn(x))
    elif p == 2:
        # The norm has a kink at 0, where its gradient is 0: times what comes, which may be NaN.
        zero = eq(length, 0)
        slope = mul(x, where(zero, mul(g, 0), div(g, where(zero, 1, length))))
    elif math.isinf(p):
        largest = logical_or(eq(abs(x), length), isnan(x))
        slope = mul(where(largest, sgn(x), 0), div(g, sum(largest, dims, True)))
    else:
        size = where(eq(x, 0), 0, pow(abs(x), p - 1))
        if p < 1:
            scale = mul(g, pow(length, 1 - p))
        else:
            scale = where(eq(length, 0), 0, div(g, pow(length, p - 1)))
        slope = mul(mul(sgn(x), size), scale)
    return cast(slope, n.meta.dtype)


NORM_BACKWARD: Op = _backward(
    "norm_backward",
    _norm_backward,
    lambda g, x: record(NORM_BACKWARD, (g, x, norm(x, 2, 1)), ((1,), False, 2)),
)
NORM = Op(
    "norm",
    "composite",
    # attrs (dims, keepdim, p): each p is a formula of its own.
    infer=_real_infer,
    ref=_norm_ref,
    expand=_norm,
    grads=(lambda g, y, x: record(NORM_BACKWARD, (g, x, y), y._node.attrs),),
    batch=batched.folding,
    grad_fn="LinalgVectorNormBackward0",
    samples=over_several(
        lambda x, dim, keepdim: norm(x, 2, dim, keepdim),
        s.calls(
            lambda: s.Sample((s.uniform(3, 37),), lambda x: norm(x)),
            lambda: s.Sample((s.uniform(3, 37),), lambda x: norm(x, 1, 0)),
            lambda: s.Sample((s.uniform(3, 5),), lambda x: norm(x, 3, 1, keepdim=True)),
            lambda: s.Sample((s.uniform(3, 5),), lambda x: norm(x, math.inf, 1)),
            lambda: s.Sample((s.uniform(3, 5),), lambda x: norm(x, -math.inf, 1)),
            lambda: s.Sample((s.uniform(),), lambda x: norm(x)),
        ),
    ),
)
NORM_COUNT = Op(
    "norm_count",
    "composite",
    # The norm with p = 0, attrs as above: it requires a gradient, and gives none on.
    infer=_real_infer,
    ref=_norm_ref,
    expand=_norm,
    grads=(None,),
    saves="",
    batch=batched.folding,
    grad_fn="LinalgVectorNormBackward0",
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 5),), lambda x: norm(x, 0, 1), smooth=False),
    ),
)


def record_norm(x: Tensor, dims: tuple[int, ...], keepdim: bool, order: float) -> Tensor:
    """The norm of an order over dims."""
    return record(NORM_COUNT if order == 0 else NORM, (x,), (dims, keepdim, order))


def norm(
    input: Tensor,
    p: float | str | None = "fro",
    dim: Dim = None,
    keepdim: bool = False,
    out: None = None,
    dtype: DType | None = None,
) -> Tensor:
    """The `p`-norm of the values over `dim` (all dims by default): `sum(|x|**p) ** (1/p)`.

    Args:
        p: 2 or "fro" is the length, inf and -inf the largest and smallest magnitude, 0 counts
            what is not 0.
        dim: one dim or several; None: all.
        keepdim: keep the dims, with size 1.
    """
    if dtype is not None:
        input = cast(input, dtype)
    meta = node_of(input).meta
    if meta.dtype.category < dtypes.FLOAT:
        raise RuntimeError(
            f"norm: expected a floating point tensor as input; got {meta.dtype.name}. "
            "Convert with .float() first"
        )
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"norm: got p {p!r}; expected a number or 'fro'")
    order = 2.0 if p is None or isinstance(p, str) else as_float(p)
    dims = normal_dims("norm", dim, meta.ndim)
    if count(meta, dims) == 0 and (order < 0 or math.isinf(order)):
        raise RuntimeError(
            f"norm: cannot compute the {order:g} norm on an empty tensor because the operation "
            "does not have an identity"
        )
    return record_norm(input, dims, keepdim, order)


# ------------------------------------------------------------------- without NaN, both extremes


@returned("aminmax")
class aminmax_result(NamedTuple):
    """Smallest and largest values."""

    min: Tensor
    max: Tensor


def _nansum_backward(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    # A product: what comes to a NaN is NaN or infinite times 0, as in PyTorch.
    dims, keepdim = y._node.attrs
    return mul(kept(g, x, dims, keepdim), logical_not(isnan(x)))


NANSUM = Op(
    "nansum",
    "composite",
    # attrs (dims, keepdim)
    infer=_infer,
    expand=lambda n, x: sum(where(isnan(x), 0, x), *n.attrs),
    grads=(_nansum_backward,),
    saves="x",
    batch=batched.folding,
    samples=over_several(
        lambda x, dim, keepdim: nansum(x, dim, keepdim),
        reductions(lambda x, dim, keepdim: nansum(x, dim, keepdim)),
    ),
)


def _nansum(x: Tensor, dim: Dim, keepdim: bool) -> Tensor:
    return record(NANSUM, (x,), (normal_dims("nansum", dim, node_of(x).meta.ndim), keepdim))


@folding
def nansum(
    input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """Sum over `dim` (all dims by default), NaN counting as 0."""
    meta = node_of(input).meta
    if meta.dtype.is_complex:
        normal_dims("nansum", dim, meta.ndim)  # which PyTorch looks at first
        raise RuntimeError(f"nansum does not support complex inputs; got {meta.dtype.name}")
    if not meta.dtype.is_floating_point:
        return sum(input, dim, keepdim, dtype=dtype)
    return _nansum(input if dtype is None else cast(input, dtype), dim, keepdim)


@taking_expanded
@casting
def nanmean(
    input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """Mean over `dim` (all dims by default) of the values that are not NaN."""
    meta = node_of(input).meta
    if meta.dtype.category < dtypes.FLOAT:
        raise RuntimeError(
            "nanmean(): expected input to have floating point or complex dtype but got "
            f"{meta.dtype.name}. Convert with .float() first"
        )
    valid = logical_not(isnan(input))
    total = _nansum(input if dtype is None else cast(input, dtype), dim, keepdim)
    return div(total, cast(sum(valid, dim, keepdim), node_of(total).meta.dtype.to_real()))


@exact
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> aminmax_result:
    """Smallest and largest value over `dim` (all dims by default)."""
    meta = node_of(input).meta
    if dim is not None:
        dim = normal_dim("aminmax", dim, meta.ndim)
        check_not_empty("aminmax", meta, (dim,) if meta.ndim else ())
    elif not meta.numel:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
            "identity; specify dim"
        )
    if meta.dtype.is_complex:
        raise not_implemented("aminmax", meta.dtype)
    dims: Any = () if dim is None else dim
    return aminmax_result(amin(input, dims, keepdim), amax(input, dims, keepdim))


def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """`input` summed to a shape that broadcasts to its own."""
    shape = node_of(input).meta.shape
    wanted = sizes_of("sum_to_size", size)
    if not wanted:
        return sum(input)
    lead = len(shape) - len(wanted)
    fits = lead >= 0 and all(w in (1, n) for w, n in zip(wanted, shape[lead:], strict=True))
    if not fits:
        raise RuntimeError(
            f"sum_to_size: size {list(wanted)} is not expandable to size {list(shape)}"
        )
    dims = [d for d in range(len(shape)) if d < lead or wanted[d - lead] != shape[d]]
    return reshape_to(sum(input, dims, True), wanted) if dims else input
