"""Norms of vectors and matrices, and condition numbers: folds, and singular values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.blame import as_float, as_items, one_or_several
from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import cast, div, mul, where
from livegrad.ops.elementwise.comparison import gt
from livegrad.ops.linalg.common import (
    check_field,
    check_float,
    check_matrices,
    check_square,
)
from livegrad.ops.linalg.singular import svdvals
from livegrad.ops.linalg.solving import inv_ex
from livegrad.ops.making.generate import filled
from livegrad.ops.reductions.reduce import (
    amax,
    amin,
    count,
    normal_dims,
    reduced_meta,
    sum as sum_of,
)
from livegrad.ops.reductions.statistics import record_norm
from livegrad.ops.shaping.movement import PERMUTE, normal_dim, reshape_to
from livegrad.ops.support.out import casting, exact

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Order = float | int | str | None


def _typed(name: str, x: Tensor, dtype: DType | None) -> Tensor:
    """`x` in the dtype asked for, which must be able to hold its values."""
    have = node_of(x).meta
    check_float(name, have)
    if dtype is None or dtype is have.dtype:
        return x
    dtype = dtypes.as_dtype(dtype)
    if dtype.category < dtypes.FLOAT:
        raise RuntimeError(f"{name}: dtype should be floating point or complex; got {dtype.name}")
    if have.dtype.is_complex != dtype.is_complex:
        kind = "complex" if have.dtype.is_complex else "real"
        raise RuntimeError(
            f"{name}: dtype should be {kind} for {kind} inputs, but got {dtype.name}"
        )
    if dtypes.promote_types(have.dtype, dtype) is not dtype:
        raise RuntimeError(
            f"{name}: the dtype of the input ({have.dtype.name}) should be convertible without "
            f"narrowing to the specified dtype ({dtype.name})"
        )
    return cast(x, dtype)


def _checked_order(name: str, ord: Any) -> float:
    if isinstance(ord, bool) or not isinstance(ord, int | float | np.number):
        raise RuntimeError(f"{name}: Expected a number for ord; got {ord!r}")
    return as_float(ord)


@exact
def vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """The `ord`-norm of the values over `dim` (all dims by default), taken as one vector."""
    name = "linalg.vector_norm"
    x = _typed(name, x, dtype)
    return _vector_norm(name, x, _checked_order(name, ord), dim, keepdim)


def _vector_norm(name: str, x: Tensor, order: float, dim: Any, keepdim: bool) -> Tensor:
    meta = node_of(x).meta
    dims = normal_dims(name, dim, meta.ndim)
    if count(meta, dims) == 0 and (order < 0 or math.isinf(order)):
        empty = dim is None or any(meta.shape[d] == 0 for d in dims)
        if empty:
            raise RuntimeError(
                f"{name} cannot compute the {order:g} norm on an empty tensor because the "
                "operation does not have an identity"
            )
    return record_norm(x, dims, keepdim, order)


# ----------------------------------------------------------------------------- norms of matrices


@exact
def matrix_norm(
    A: Tensor,
    ord: Any = "fro",
    dim: Any = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """A norm of matrices, which lie in two dims.

    Args:
        ord: "fro", "nuc", or one of 1, -1 (sums of columns), inf, -inf (sums of rows), 2, -2
            (singular values).
    """
    name = "linalg.matrix_norm"
    A = _typed(name, A, dtype)
    meta = node_of(A).meta
    check_matrices(name, meta)
    dims = one_or_several(dim)
    if len(dims) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple; got {dims}")
    first, second = (normal_dim(name, d, meta.ndim) for d in dims)
    if first == second:
        raise RuntimeError(f"{name}: dims must be different; got {dims}")
    if ord == "fro":
        return _vector_norm(name, A, 2.0, (first, second), keepdim)
    order = ord if ord == "nuc" else _matrix_order(name, ord)
    if order in ("nuc", 2.0, -2.0):
        return _of_singular_values(name, A, order, (first, second), keepdim)
    inner, outer = (first, second) if order in (1.0, -1.0) else (second, first)
    sums = _vector_norm(name, A, 1.0, inner, True)
    return _finished(_extreme(sums, outer, order > 0), meta, (first, second), keepdim)


def _matrix_order(name: str, ord: Any) -> float:
    if isinstance(ord, str):
        raise RuntimeError(f"{name}: Order {ord} not supported.")
    order = _checked_order(name, ord)
    if order not in (1.0, -1.0, 2.0, -2.0, math.inf, -math.inf):
        raise RuntimeError(f"{name}: Order {ord} not supported.")
    return order


def _extreme(x: Tensor, dim: int, largest: bool) -> Tensor:
    """The largest or smallest along a dim, which stays; the largest of no magnitudes is 0."""
    meta = node_of(x).meta
    if largest and meta.shape[dim] == 0:
        return sum_of(x, dim, True)
    return (amax if largest else amin)(x, dim, True)


def _of_singular_values(
    name: str, x: Tensor, order: Any, dims: tuple[int, int], keepdim: bool
) -> Tensor:
    meta = node_of(x).meta
    check_field(name, meta)
    rest = [d for d in range(meta.ndim) if d not in dims]
    values = svdvals(record(PERMUTE, (x,), ((*rest, *dims),)))
    if order == "nuc":
        out = sum_of(values, -1)
    else:
        out = _extreme(values, -1, order > 0)
    return _finished(out, meta, dims, keepdim)


def _finished(x: Tensor, meta: Meta, dims: tuple[int, int], keepdim: bool) -> Tensor:
    return reshape_to(x, reduced_meta(meta, dims, keepdim).shape)


@exact
def norm(
    A: Tensor,
    ord: Any = None,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """A norm of vectors (one dim) or matrices (two); without `ord`, the length of all values."""
    name = "linalg.norm"
    A = _typed(name, A, dtype)
    meta = node_of(A).meta
    dims = None if dim is None else one_or_several(dim)
    if dims is not None and len(dims) not in (1, 2) and ord is not None:
        raise RuntimeError(
            f"{name}: If dim is specified, it must be of length 1 or 2. Got {list(dims)}"
        )
    if dims is None and ord is not None and meta.ndim not in (1, 2):
        raise RuntimeError(
            f"{name}: If dim is not specified but ord is, the input must be 1D or 2D. Got "
            f"{meta.ndim}D"
        )
    if ord is not None and (len(dims) == 2 if dims is not None else meta.ndim == 2):
        return matrix_norm(A, ord, dims or (0, 1), keepdim)
    if isinstance(ord, str):
        raise RuntimeError(f"{name}: Order {ord} not supported for vectors; expected a number")
    order = 2.0 if ord is None else _checked_order(name, ord)
    return _vector_norm(name, A, order, dims, keepdim)


@exact
def old_norm(
    input: Tensor,
    p: Any = "fro",
    dim: Any = None,
    keepdim: bool = False,
    dtype: DType | None = None,
) -> Tensor:
    """The `p`-norm of the values over `dim` (all dims by default): `sum(|x|**p) ** (1/p)`.

    Args:
        p: 2 or "fro" is the length, "nuc" the sum of singular values, inf and -inf the largest and
            smallest magnitude, 0 counts what is not 0.
        dim: one dim or several; None: all.
        keepdim: keep the dims, with size 1.

    Example:
        >>> lg.norm(lg.tensor([3.0, 4.0]))
        tensor(5.)
    """
    if p == "nuc":
        dims = as_items(dim) if dim is not None else (0, 1)
        if dim is None and node_of(input).meta.ndim != 2:
            raise RuntimeError(
                f"norm: expected a matrix for the nuclear norm; got {node_of(input).meta.ndim}D"
            )
        return matrix_norm(input, "nuc", dims, keepdim, dtype=dtype)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"norm: got p {p!r}; expected a number, 'fro' or 'nuc'")
    order = 2.0 if p is None or isinstance(p, str) else as_float(p)
    if isinstance(dim, list | tuple) and not dim:
        dim = None
    return _vector_norm("norm", _typed("norm", input, dtype), order, dim, keepdim)


def nuclear_norm(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The sum of the singular values of matrices."""
    return old_norm(input, "nuc", dim, keepdim)


def frobenius_norm(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The length of all values of matrices."""
    return old_norm(input, 2, dim, keepdim)


# ----------------------------------------------------------------------------------- condition


@casting
def cond(A: Tensor, p: Any = None) -> Tensor:
    """The condition number: by default the largest singular value divided by the smallest."""
    name = "linalg.cond"
    meta = node_of(A).meta
    check_float(name, meta)
    check_matrices(name, meta)
    if p in (None, 2, -2):
        if not meta.numel:
            return filled(meta.shape[:-2], 0, meta.dtype.to_real())
        values = svdvals(A)
        low, high = amin(values, -1), amax(values, -1)
        return div(low, high) if p == -2 else div(high, low)
    if not isinstance(p, str) and as_float(p) not in (1.0, -1.0, math.inf, -math.inf):
        raise RuntimeError(f"{name} got an invalid norm type: {p}")
    if isinstance(p, str) and p not in ("fro", "nuc"):
        raise RuntimeError(f"{name} got an invalid norm type: {p}")
    check_square(name, meta)
    if not meta.numel:
        return filled(meta.shape[:-2], 0, meta.dtype.to_real())
    inverse, info = inv_ex(A)
    return _where_regular(mul(matrix_norm(A, p), matrix_norm(inverse, p)), info)


def _where_regular(x: Tensor, info: Tensor) -> Tensor:
    """Infinite where the inverse does not exist."""
    return where(gt(info, 0), math.inf, x)
