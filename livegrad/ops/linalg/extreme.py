"""`lobpcg`: a few of the largest or smallest eigenvalues, with their vectors.

PyTorch comes near them step by step; here all are found, and those asked for are given: the same
numbers, and gradients as those of `eigh`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from livegrad.graph.handle import node_of
from livegrad.ops.linalg.cholesky import cholesky
from livegrad.ops.linalg.common import adjoint
from livegrad.ops.linalg.spectral import eigh
from livegrad.ops.linalg.triangular import solve_triangular
from livegrad.ops.shaping.slicing import flip, narrow

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: Any = None,
    ortho_fparams: Any = None,
    ortho_bparams: Any = None,
) -> tuple[Tensor, Tensor]:
    """The `k` largest eigenvalues of A x = λ B x, or the smallest, and their vectors.

    Args:
        A: symmetric, dense or sparse; may be a batch.
        k: how many; as many as X has columns by default, else 1.
        B: symmetric, with positive eigenvalues; the identity by default.
        largest: whether those at the upper end are asked for (the default).

    What PyTorch takes for its steps (`iK`, `niter`, `tol`, `method`, …) changes nothing here.
    """
    rows, columns = node_of(A).meta.shape[-2:]
    if rows != columns:
        raise AssertionError(f"A must be square, got shape {A.shape}")
    if k is None:
        k = 1 if X is None else node_of(X).meta.shape[-1]
    if rows < 3 * k:
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={rows}) is smaller "
            f"than 3 x the number of requested eigenpairs (={k}). Use linalg.eigh"
        )
    dense = A.to_dense() if A.is_sparse else A
    values, vectors = eigh(dense) if B is None else _generalised(dense, B)
    if largest is None or largest:
        values, vectors = flip(values, (-1,)), flip(vectors, (-1,))
    return narrow(values, -1, 0, k), narrow(vectors, -1, 0, k)


def _generalised(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """All eigenvalues of A x = λ B x: with B = L Lᴴ, those of L⁻¹ A L⁻ᴴ."""
    lower = cholesky(b.to_dense() if b.is_sparse else b)
    half = solve_triangular(lower, a, upper=False)
    values, vectors = eigh(solve_triangular(lower, adjoint(half), upper=False))
    return values, solve_triangular(adjoint(lower), vectors, upper=True)
