"""The extension `linalg` of the standard."""

from __future__ import annotations

from typing import Any, NamedTuple

import livegrad as lg
from livegrad.array_api.elementwise_functions import NUMERIC, pair
from livegrad.array_api.linear_algebra_functions import (
    matmul as matmul,
    matrix_transpose as matrix_transpose,
    tensordot as tensordot,
    vecdot as vecdot,
)
from livegrad.array_api.statistical_functions import sum as total
from livegrad.dtypes import DType

Array = Any


class EighResult(NamedTuple):
    """Eigenvalues in rising order, and eigenvectors."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """An orthogonal and an upper triangular matrix."""

    Q: Array
    R: Array


class SlogdetResult(NamedTuple):
    """Sign and logarithm of the size of a determinant."""

    sign: Array
    logabsdet: Array


class SVDResult(NamedTuple):
    """Singular vectors and values."""

    U: Array
    S: Array
    Vh: Array


def cholesky(x: Array, /, *, upper: bool = False) -> Array:
    """The triangular matrix whose square is `x`."""
    return lg.linalg.cholesky(x, upper=upper)


def cross(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """The vector at a right angle to two vectors of three elements."""
    a, b = pair("cross", x1, x2, NUMERIC)
    if a.shape[axis] != 3 or b.shape[axis] != 3:
        raise ValueError("cross: both arrays must have size 3 along the axis")
    return lg.linalg.cross(*lg.broadcast_tensors(a, b), dim=axis)


def det(x: Array, /) -> Array:
    """The determinant."""
    return lg.linalg.det(x)


def diagonal(x: Array, /, *, offset: int = 0) -> Array:
    """Diagonals of matrices."""
    return lg.linalg.diagonal(x, offset=offset)


def eigh(x: Array, /) -> EighResult:
    """Eigenvalues and eigenvectors of symmetric matrices."""
    return EighResult(*lg.linalg.eigh(x))


def eigvalsh(x: Array, /) -> Array:
    """Eigenvalues of symmetric matrices."""
    return lg.linalg.eigvalsh(x)


def inv(x: Array, /) -> Array:
    """The inverse."""
    return lg.linalg.inv(x)


def matrix_norm(x: Array, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """The size of matrices."""
    return lg.linalg.matrix_norm(x, "fro" if ord is None else ord, keepdim=keepdims)


def matrix_power(x: Array, n: int, /) -> Array:
    """The product of `n` times the matrix."""
    return lg.linalg.matrix_power(x, n)


def matrix_rank(x: Array, /, *, rtol: Any = None) -> Array:
    """How many singular values count."""
    return lg.linalg.matrix_rank(x, rtol=rtol)


def outer(x1: Array, x2: Array, /) -> Array:
    """All products of an element of one vector with one of the other."""
    a, b = pair("outer", x1, x2, NUMERIC)
    return lg.outer(a, b)


def pinv(x: Array, /, *, rtol: Any = None) -> Array:
    """The pseudo-inverse."""
    return lg.linalg.pinv(x, rtol=rtol)


def qr(x: Array, /, *, mode: str = "reduced") -> QRResult:
    """The factorisation into an orthogonal and a triangular matrix."""
    return QRResult(*lg.linalg.qr(x, mode))


def slogdet(x: Array, /) -> SlogdetResult:
    """Sign and logarithm of the determinant."""
    return SlogdetResult(*lg.linalg.slogdet(x))


def solve(x1: Array, x2: Array, /) -> Array:
    """What gives x2 when multiplied by x1; only a single vector is taken for one."""
    a, b = pair("solve", x1, x2, NUMERIC)
    if b.ndim == 1:
        return lg.linalg.solve(a, b.unsqueeze(-1)).squeeze(-1)
    batch = lg.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return lg.linalg.solve(a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:]))


def svd(x: Array, /, *, full_matrices: bool = True) -> SVDResult:
    """Singular vectors and values."""
    return SVDResult(*lg.linalg.svd(x, full_matrices))


def svdvals(x: Array, /) -> Array:
    """Singular values."""
    return lg.linalg.svdvals(x)


def trace(x: Array, /, *, offset: int = 0, dtype: DType | None = None) -> Array:
    """The sums of diagonals."""
    return total(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(x: Array, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Array:
    """The length of vectors."""
    if axis == ():  # each element is a vector; for PyTorch no axes are all axes
        return lg.linalg.vector_norm(x.unsqueeze(-1), ord, -1)
    return lg.linalg.vector_norm(x, ord, axis, keepdims)
