"""Linear algebra under the older names and signatures of `torch` itself and of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from livegrad.graph.handle import node_of
from livegrad.ops.linalg import cholesky as cholesky_factors, lu as lu_factors, orthogonal, singular
from livegrad.ops.linalg.common import adjoint, check_matrices
from livegrad.ops.making.generate import filled
from livegrad.ops.support.out import casting, exact
from livegrad.ops.support.returned import returned

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


@returned("svd")
class svd_result(NamedTuple):
    """Factors with A = U diag(S) Vᴴ."""

    U: Tensor
    S: Tensor
    V: Tensor


@casting
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """The Cholesky factor of positive definite matrices; see `linalg.cholesky`."""
    return cholesky_factors.cholesky(input, upper=upper)


@exact
def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> svd_result:
    """U, S and V with A = U diag(S) Vᴴ; without `compute_uv`, U and V are zeros."""
    meta = node_of(input).meta
    check_matrices("svd", meta, "input")
    if not compute_uv:
        *batch, height, width = meta.shape
        zeros = [filled((*batch, size, size), 0, meta.dtype) for size in (height, width)]
        return svd_result(zeros[0], singular.svdvals(input), zeros[1])
    u, values, vh = singular.svd(input, not some)
    return svd_result(u, values, adjoint(vh))


@exact
def qr(input: Tensor, some: bool = True) -> orthogonal.qr_result:
    """Q and R with A = Q R; all columns of Q unless `some`."""
    return orthogonal.qr(input, "reduced" if some else "complete")


@casting
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """L and U in one matrix and the pivots, and with `get_infos` LAPACK's codes."""
    if get_infos:
        return lu_factors.lu_factor_ex(A, pivot=pivot)
    both, pivots = lu_factors.lu_factor(A, pivot=pivot)
    return both, pivots


@exact
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """X with A X = b, from `lu(A)`."""
    return lu_factors.lu_solve(LU_data, LU_pivots, b)
