"""Eigenvalues and eigenvectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from livegrad import dtypes
from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta, Shape
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, cast, div, mul, sub, where
from livegrad.ops.elementwise.comparison import eq
from livegrad.ops.linalg.common import (
    Array,
    Attrs,
    LinAlgError,
    Metas,
    adjoint,
    as_column,
    as_row,
    check_field,
    check_square,
    conj,
    diag_embed,
    diagonal_of,
    factors,
    on_diagonal,
    pack,
    packed,
    packed_meta,
    parts,
    real_of,
    zero_diagonal,
)
from livegrad.ops.linalg.solving import solve
from livegrad.ops.making.generate import counting
from livegrad.ops.products.matmul import matmul
from livegrad.ops.support import samples as s
from livegrad.ops.support.out import casting, exact
from livegrad.ops.support.returned import returned

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def eigen_shapes(shape: Shape) -> list[Shape]:
    return [shape[:-1], shape]


def gaps(values: Tensor) -> Tensor:
    """Differences of values: entry (i, j) is value j less value i, and 1 on the diagonal."""
    difference = sub(as_row(values), as_column(values))
    size = values.shape[-1]
    return where(on_diagonal(size, size), 1, difference)


def divided(x: Tensor, by: Tensor) -> Tensor:
    """x / by, and 0 where both are 0: what is not asked for is not transposed into NaN."""
    nothing = eq(x, 0)
    return div(x, where(mul(nothing, eq(by, 0)), 1, by))


def converged(function: Any, name: str, a: Array, *arguments: Any) -> Any:
    """What a NumPy decomposition gives; its error as ours."""
    if not np.isfinite(a).all():  # LAPACK might search for ever
        raise LinAlgError(
            f"{name}: The algorithm failed to converge because the input matrix contained "
            "non-finite values."
        )
    try:
        return function(a, *arguments)
    except np.linalg.LinAlgError:
        raise LinAlgError(
            f"{name}: The algorithm failed to converge because the input matrix is ill-conditioned"
        ) from None


# ---------------------------------------------------------------------------------------- eigh


def _eigh_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    check_field("linalg.eigh", metas[0])
    return packed_meta(eigen_shapes(metas[0].shape), metas[0].dtype)


def _eigh_ref(n: Any, a: Array) -> Array:
    part = np.tril(a) if n.attrs[0] == "L" else np.triu(a)  # the rest may be anything
    return pack(*converged(np.linalg.eigh, "linalg.eigh", part, n.attrs[0]))


def _eigh_grad(g: Tensor, y: Tensor, a: Tensor) -> Tensor:
    """V (diag(gλ) + (Vᴴ gV) / E) Vᴴ made hermitian, where E are the gaps between eigenvalues."""
    (values, vectors), (gw, gv) = parts(y, eigen_shapes(a.shape)), parts(g, eigen_shapes(a.shape))
    inner = zero_diagonal(matmul(adjoint(vectors), gv))
    inner = divided(inner, gaps(values))
    inner = add(mul(add(inner, adjoint(inner)), 0.5), diag_embed(real_of(gw)))
    return matmul(vectors, matmul(inner, adjoint(vectors)))


def _symmetric(x: Tensor) -> Tensor:
    """A symmetric matrix for samples, with eigenvalues far apart."""
    size = x.shape[-1]
    ramp = mul(counting(size), cast(on_diagonal(size, size), dtypes.int64))
    return add(add(x, adjoint(x)), mul(ramp, 3))


EIGH = Op(
    "linalg_eigh",
    "host",
    # [eigenvalues, eigenvectors] of a hermitian A; attrs (which triangle is read,).
    infer=_eigh_infer,
    ref=_eigh_ref,
    grads=(_eigh_grad,),
    saves="y",
    autocast="float32",
    batch=packed(lambda a, triangle: eigen_shapes(a)),
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 3),), lambda x: eigh(_symmetric(x))[0]),
        lambda: s.Sample((s.uniform(2, 2, 2),), lambda x: eigh(_symmetric(x))[1]),
        lambda: s.Sample((s.uniform(0, 0),), lambda x: eigh(x)[1]),
        lambda: s.Sample((s.uniform(0, 2, 2),), lambda x: eigh(x)[0]),
    ),
)


@returned("linalg_eigh")
class eigh_result(NamedTuple):
    """Eigenvalues in ascending order, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


@exact
def eigh(A: Tensor, UPLO: str = "L") -> eigh_result:
    """Eigenvalues, ascending, and eigenvectors of hermitian matrices, of one triangle of them."""
    meta = node_of(A).meta
    check_square("linalg.eigh", meta)
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    values, vectors = factors(record(EIGH, (A,), (UPLO.upper(),)), eigen_shapes(meta.shape))
    return eigh_result(real_of(values), vectors)


@exact
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """Eigenvalues, ascending, of hermitian matrices."""
    return eigh(A, UPLO)[0]


# ----------------------------------------------------------------------------------------- eig


def _eig_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    check_field("linalg.eig", metas[0])
    return packed_meta(eigen_shapes(metas[0].shape), metas[0].dtype.to_complex())


def _eig_ref(n: Any, a: Array) -> Array:
    if not np.isfinite(a).all():
        raise RuntimeError("linalg.eig: got infinities or NaN; expected finite numbers")
    return pack(*converged(np.linalg.eig, "linalg.eig", a))


def _eig_grad(g: Tensor, y: Tensor, a: Tensor) -> Tensor:
    """V⁻ᴴ (diag(gλ) + (Vᴴ gV - Vᴴ V diag(Re(Vᴴ gV))) / conj(E)) Vᴴ."""
    (values, vectors), (gw, gv) = parts(y, eigen_shapes(a.shape)), parts(g, eigen_shapes(a.shape))
    transposed = adjoint(vectors)
    inner = matmul(transposed, gv)
    # Vectors are of length 1: what would change their length takes no part.
    length = as_row(cast(real_of(diagonal_of(inner)), node_of(y).meta.dtype))
    inner = sub(inner, mul(matmul(transposed, vectors), length))
    inner = add(divided(zero_diagonal(inner), conj(gaps(values))), diag_embed(gw))
    return real_if(solve(transposed, matmul(inner, transposed)), a)


def real_if(g: Tensor, x: Tensor) -> Tensor:
    """The gradient of a real operand is real."""
    return g if node_of(x).meta.dtype.is_complex else real_of(g)


EIG = Op(
    "linalg_eig",
    "host",
    # [eigenvalues, eigenvectors], complex.
    infer=_eig_infer,
    ref=_eig_ref,
    grads=(_eig_grad,),
    saves="y",
    autocast="float32",
    batch=packed(eigen_shapes),
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 3),), lambda x: _magnitude(eig(_symmetric(x))[0])),
        lambda: s.Sample((s.uniform(2, 2, 2),), lambda x: _magnitude(eig(_symmetric(x))[1])),
        lambda: s.Sample((s.uniform(0, 0),), lambda x: _magnitude(eig(x)[0])),
    ),
)


def _magnitude(x: Tensor) -> Tensor:
    """Re(x)² + Im(x)²: real, and the same for every phase."""
    return real_of(mul(x, conj(x)))


@returned("linalg_eig")
class eig_result(NamedTuple):
    """Eigenvalues, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


@casting
def eig(A: Tensor) -> eig_result:
    """Eigenvalues, in no order, and eigenvectors of square matrices; complex."""
    meta = node_of(A).meta
    check_square("linalg.eig", meta)
    return eig_result(*factors(record(EIG, (A,)), eigen_shapes(meta.shape)))


@casting
def eigvals(A: Tensor) -> Tensor:
    """Eigenvalues, in no order, of square matrices; complex."""
    return eig(A)[0]
