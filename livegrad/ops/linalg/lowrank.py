"""Singular values of matrices of low rank, by projection on a few random directions.

After Halko, Martinsson and Tropp, Finding structure with randomness (2011): the range of A is
sampled by A times random vectors, and made sharper by multiplying with A Aᴴ a few times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from livegrad.graph.blame import as_index
from livegrad.graph.handle import node_of
from livegrad.ops.elementwise.arithmetic import cast, sub
from livegrad.ops.linalg.common import adjoint, broadcast, check_matrices
from livegrad.ops.linalg.orthogonal import qr
from livegrad.ops.linalg.singular import svd
from livegrad.ops.making.random import gaussian
from livegrad.ops.products.matmul import matmul
from livegrad.ops.reductions.reduce import mean

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

    Triple = tuple[Tensor, Tensor, Tensor]


def _basis(a: Tensor, size: int, rounds: int) -> Tensor:
    """Orthonormal columns that span nearly the range of A."""
    dtype = node_of(a).meta.dtype
    directions = gaussian((node_of(a).meta.shape[-1], size), dtype.to_real())
    found = qr(matmul(a, cast(directions, dtype)))[0]
    for _ in range(rounds):
        found = qr(matmul(adjoint(a), found))[0]
        found = qr(matmul(a, found))[0]
    return found


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> Triple:
    """The `q` largest singular values of A (less M), with their vectors: A ≈ U diag(S) Vᴴ."""
    check_matrices("svd_lowrank", node_of(A).meta)
    shape = node_of(A).meta.shape
    if M is not None:
        A = sub(A, broadcast(M, shape))
    wide = shape[-2] < shape[-1]
    tall = adjoint(A) if wide else A
    basis = _basis(tall, 6 if q is None else q, 2 if niter is None else niter)
    small, values, vh = svd(matmul(adjoint(basis), tall), False)
    u, v = matmul(basis, small), adjoint(vh)
    return (v, values, u) if wide else (u, values, v)


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> Triple:
    """Principal components of the rows of A: `svd_lowrank` of A less the mean of its rows."""
    check_matrices("pca_lowrank", node_of(A).meta)
    most = min(node_of(A).meta.shape[-2:])
    if q is None:
        q = min(6, most)
    elif not 0 <= as_index(q) <= most:
        raise ValueError(
            f"pca_lowrank: q(={q}) must be non-negative integer and not greater than "
            f"min(m, n)={most}"
        )
    if niter < 0:
        raise ValueError(f"pca_lowrank: niter(={niter}) must be non-negative integer")
    return svd_lowrank(sub(A, mean(A, -2, True)) if center else A, q, niter)
