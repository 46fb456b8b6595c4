"""Matrices that linear algebra gives lie in memory as LAPACK's do in PyTorch: by columns."""

from __future__ import annotations

from typing import Any

import pytest

import livegrad as lg

torch = pytest.importorskip("torch")

# Of positive definite matrices `a` and others `b`, as tall.
CALLS = """
    inv(a) | inv_ex(a) | solve(a, b) | solve(a, b.mT, left=False) | solve(a, b[..., 0])
    solve_ex(a, b) | cholesky(a) | cholesky(a, upper=True) | cholesky_ex(a) | qr(a) | qr(b)
    qr(b.mT) | qr(b, mode='complete') | qr(a, mode='r') | eigh(a) | eig(a) | eigvalsh(a) | svd(a)
    svd(b) | svd(b, full_matrices=False) | svdvals(a) | lu(a) | lu(b) | lu(b.mT) | lu_factor(a)
    lu_factor_ex(a) | lu_solve(*L.lu_factor(a), b) | lu_solve(*L.lu_factor(a), b, adjoint=True)
    lu_solve(*L.lu_factor(a), b.mT, left=False) | pinv(a) | pinv(b) | matrix_exp(a)
    solve_triangular(a.tril(), b, upper=False) | matrix_power(a, 3) | matrix_power(a, -1)
    solve_triangular(a.tril(), b.mT, upper=False, left=False) | ldl_factor(a)
    ldl_solve(*L.ldl_factor(a), b) | householder_product(a, a[..., 0]) | lstsq(a, b)
    lstsq(b, a) | lstsq(b, a, driver='gelsd') | lstsq(b.mT, a[..., :2, :]) | lstsq(b, a[..., 0])
"""
TOP = """
    inverse(a) | cholesky(a) | cholesky(a, upper=True) | cholesky_inverse(a) | qr(b) | svd(b)
    cholesky_inverse(a, upper=True) | cholesky_solve(b, a) | triangular_solve(b, a) | geqrf(b)
    lu_unpack(*L.lu_factor(a)) | ormqr(a, a[..., 0], b)
"""


def calls(text: str, prefix: str) -> list[str]:
    return [prefix + call.strip() for line in text.strip().split("\n") for call in line.split("|")]


def numbers(T: Any, *shape: int) -> Any:
    return T.arange(float(torch.Size(shape).numel()), dtype=T.float64).mul(0.37).sin().view(shape)


def definite(T: Any, *batch: int, size: int = 3) -> Any:
    x = numbers(T, *batch, size, size)
    return x @ x.mT + 3 * T.eye(size, dtype=T.float64)


OPERANDS: dict[str, Any] = {
    "one matrix": lambda T: (definite(T), numbers(T, 3, 2)),
    "one column": lambda T: (definite(T), numbers(T, 3, 1)),
    "batch": lambda T: (definite(T, 2), numbers(T, 2, 3, 2)),
    "two dims of batch": lambda T: (definite(T, 2, 2), numbers(T, 2, 2, 3, 2)),
    "one number": lambda T: (definite(T, size=1), numbers(T, 1, 1)),
    "transposed": lambda T: (definite(T).mT, numbers(T, 2, 3).mT),
    "nothing": lambda T: (T.zeros(0, 0, dtype=T.float64), T.zeros(0, 2, dtype=T.float64)),
}


def layouts(found: Any) -> Any:
    if isinstance(found, tuple):
        return [layouts(x) for x in found]
    return tuple(found.shape), found.stride()


@pytest.mark.filterwarnings("ignore:torch")
@pytest.mark.parametrize("operands", OPERANDS)
@pytest.mark.parametrize("call", calls(CALLS, "L.") + calls(TOP, "T."))
def test_strides(call: str, operands: str) -> None:
    found = []
    for T in (torch, lg):
        a, b = OPERANDS[operands](T)
        try:
            found.append(layouts(eval(call, {"T": T, "L": T.linalg, "a": a, "b": b})))
        except (RuntimeError, IndexError) as error:
            found.append(type(error).__mro__[-3])
    assert found[1] == found[0]
