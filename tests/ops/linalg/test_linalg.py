"""Linear algebra: faults that only values show, codes, odd shapes, gradients at special points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad import linalg


def singular(n: int = 3) -> Any:
    return lg.ones(n, n)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: linalg.inv(singular()), "singular"),
        (lambda: linalg.solve(singular(), lg.ones(3)), "singular"),
        (lambda: linalg.cholesky(-lg.eye(2)), "leading minor of order 1"),
        (lambda: linalg.lu_factor(lg.zeros(2, 2)), "U[1,1] is zero"),
    ],
)
def test_a_fault_of_the_values_names_the_line(call: Any, words: str) -> None:
    with pytest.raises(linalg.LinAlgError) as raised:
        call().numpy() if not isinstance(out := call(), tuple) else out[0].numpy()
    assert words in str(raised.value)
    assert "test_linalg.py" in str(raised.value)
    assert isinstance(raised.value, RuntimeError)


def test_the_matrix_of_a_batch_that_fails_is_named() -> None:
    batch = lg.stack([lg.eye(2), -lg.eye(2)])
    with pytest.raises(linalg.LinAlgError, match=r"\(Batch element 1\)"):
        linalg.cholesky(batch).numpy()


def test_codes_instead_of_errors() -> None:
    batch = lg.stack([lg.eye(2), -lg.eye(2)])
    factor, info = linalg.cholesky_ex(batch)
    assert info.tolist() == [0, 1]
    assert info.dtype is lg.int32
    assert factor[0].tolist() == lg.eye(2).tolist()
    assert linalg.inv_ex(singular()).info.item() == 2
    assert linalg.solve_ex(singular(), lg.ones(3)).info.item() == 2
    assert linalg.lu_factor_ex(lg.zeros(2, 2)).info.item() == 1


@pytest.mark.parametrize("dtype", [lg.float16, lg.bfloat16, lg.int64, lg.bool])
def test_what_lapack_does_not_compute_with_is_refused(dtype: Any) -> None:
    x = lg.eye(2).to(dtype)
    functions = (linalg.inv, linalg.det, linalg.svd, linalg.qr, linalg.eigh, linalg.cholesky)
    for function in functions:
        with pytest.raises(RuntimeError):
            function(x)


def test_results_have_pytorchs_names() -> None:
    x = lg.eye(2)
    assert linalg.svd(x)._fields == ("U", "S", "Vh")
    assert lg.svd(x)._fields == ("U", "S", "V")
    assert linalg.slogdet(x)._fields == ("sign", "logabsdet")
    assert linalg.eigh(x)._fields == ("eigenvalues", "eigenvectors")
    assert linalg.lstsq(x, x)._fields == ("solution", "residuals", "rank", "singular_values")


def test_methods() -> None:
    x = lg.tensor([[4.0, 1.0], [1.0, 3.0]])
    assert x.det().item() == pytest.approx(11.0)
    np.testing.assert_allclose((x @ x.inverse()).numpy(), np.eye(2), atol=1e-6)
    np.testing.assert_allclose((x.cholesky() @ x.cholesky().T).numpy(), x.numpy(), rtol=1e-6)
    assert x.norm("nuc").item() == pytest.approx(7.0)


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3)])
def test_nothing_to_compute(shape: tuple[int, ...]) -> None:
    x = lg.zeros(*shape, requires_grad=True)
    assert linalg.det(x).tolist() == np.ones(shape[:-2]).tolist()
    assert linalg.inv(x).shape == shape
    assert linalg.svd(x).S.shape == shape[:-1]
    assert linalg.eigh(x).eigenvectors.shape == shape
    assert linalg.solve(x, x).shape == shape
    linalg.cholesky(x).sum().backward()
    assert x.grad.shape == shape


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_the_gradient_of_det_where_there_is_no_inverse(rank: int) -> None:
    rng = np.random.default_rng(rank)
    values = rng.normal(size=(3, rank)) @ rng.normal(size=(rank, 3))
    x = lg.tensor(values, requires_grad=True)
    assert lg.autograd.gradcheck(linalg.det, (x,))
    assert lg.autograd.gradgradcheck(linalg.det, (x,))


def test_equal_singular_values_are_no_harm_if_only_they_are_used() -> None:
    x = lg.eye(3, dtype=lg.float64).requires_grad_()
    linalg.svd(x).S.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.eye(3), atol=1e-12)
    x.grad = None
    linalg.eigh(x).eigenvalues.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.eye(3), atol=1e-12)


def test_solving_for_vectors_and_batches() -> None:
    a, b = lg.randn(2, 3, 3) + 3 * lg.eye(3), lg.randn(2, 3)
    x = linalg.solve(a, b)  # a batch of vectors, by PyTorch's rule
    np.testing.assert_allclose((a @ x[..., None])[..., 0].numpy(), b.numpy(), atol=1e-5)
    right = linalg.solve(a, lg.ones(4, 1, 5, 3), left=False)
    assert right.shape == (4, 2, 5, 3)
    np.testing.assert_allclose((right @ a).numpy(), np.ones((4, 2, 5, 3)), atol=1e-4)


def test_a_factorisation_is_one_step_of_a_plan(counted: Any) -> None:
    a = lg.randn(4, 4) + 4 * lg.eye(4)
    a.numpy()
    with counted() as c:
        u, values, vh = linalg.svd(a)
        loss = (u * values @ vh).sum() + values.max()
        loss.item()
    assert c.host_steps == 1
    assert c.flushes == 1


def test_matrices_lie_by_columns_so_flat_copies_are_copies():
    x = lg.eye(3) * 2 + lg.ones(3, 3)
    for y in (lg.linalg.inv(x), lg.linalg.cholesky(x), lg.linalg.qr(x).Q, lg.linalg.solve(x, x)):
        assert y.stride() == (1, 3)
        y.reshape(-1).zero_()
        assert y.ne(0).any()
        with pytest.raises(RuntimeError, match="view size is not compatible"):
            y.view(-1)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("generalised", [True, False])
def test_lobpcg(largest: bool, generalised: bool) -> None:
    random = np.random.RandomState(0)
    a = random.randn(7, 7)
    a, b = a + a.T, np.diag(np.arange(1.0, 8.0)) if generalised else np.eye(7)
    given = lg.tensor(b) if generalised else None
    values, vectors = lg.lobpcg(lg.tensor(a), k=2, B=given, largest=largest)
    wanted = np.sort(np.linalg.eigvals(np.linalg.solve(b, a)).real)
    np.testing.assert_allclose(values.numpy(), wanted[::-1][:2] if largest else wanted[:2])
    x = vectors.numpy()
    np.testing.assert_allclose(a @ x, b @ x * values.numpy(), atol=1e-9)
    np.testing.assert_allclose(x.T @ b @ x, np.eye(2), atol=1e-9)


def test_lobpcg_refuses() -> None:
    assert lg.lobpcg(lg.eye(6).to_sparse())[0].tolist() == [1.0]
    assert lg.lobpcg(lg.eye(9), X=lg.ones(9, 3))[1].shape == (9, 3)
    with pytest.raises(ValueError, match="smaller than 3 x the number"):
        lg.lobpcg(lg.eye(5), k=2)
    with pytest.raises(AssertionError, match="must be square"):
        lg.lobpcg(lg.ones(3, 4))
