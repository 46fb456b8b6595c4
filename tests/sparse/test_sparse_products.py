"""Products of sparse matrices, against those of the dense ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import livegrad as lg
from livegrad.func import replay

LAYOUTS = ["to_sparse", "to_sparse_csr", "to_sparse_csc"]


def matrix(*shape: int, seed: int = 0, dtype: Any = None) -> Any:
    """About a third of the elements are not zero; one row is empty."""
    rng = np.random.default_rng([seed, *shape])
    values = rng.standard_normal(shape) * (rng.random(shape) < 0.35)
    values[..., 0, :] = 0
    return lg.tensor(values, dtype=dtype or lg.float64)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("width", [0, 1, 3, 16, 37, 80])
def test_times_dense(layout: str, width: int) -> None:
    a, b = matrix(7, 5), lg.randn(5, width, dtype=lg.float64)
    sparse = getattr(a, layout)()
    for got in (sparse @ b, lg.mm(sparse, b), lg.sparse.mm(sparse, b), sparse.matmul(b)):
        lg.testing.assert_close(got, a @ b)
    left = lg.randn(width, 7, dtype=lg.float64)
    lg.testing.assert_close(left @ sparse, left @ a)
    lg.testing.assert_close(sparse @ b[:, 0] if width else a, a @ b[:, 0] if width else a)


@pytest.mark.parametrize("dtype", [lg.float32, lg.float16, lg.bfloat16, lg.int64, lg.complex64])
def test_dtypes(dtype: Any) -> None:
    a = (matrix(6, 4) * 4).round().to(dtype)
    b = (lg.randn(4, 5) * 3).round().to(dtype)
    assert (a.to_sparse() @ b).tolist() == (a @ b).tolist()


def test_repeated_elements_add_up_whatever_their_order() -> None:
    a = lg.sparse_coo_tensor([[2, 0, 2, 2], [1, 0, 0, 1]], [1.0, 2, 3, 4], (3, 2))
    b = lg.randn(2, 5)
    lg.testing.assert_close(a @ b, a.to_dense() @ b)


def test_many_matrices() -> None:
    a, b = matrix(3, 4, 5), lg.randn(3, 5, 2, dtype=lg.float64)
    lg.testing.assert_close(lg.bmm(a.to_sparse(), b), lg.bmm(a, b))
    lg.testing.assert_close(a[0].to_sparse() @ b, a[0] @ b)


@pytest.mark.parametrize("layout", LAYOUTS[:2])
def test_times_sparse(layout: str) -> None:
    a, b = matrix(7, 5), matrix(5, 6, seed=1)
    got = getattr(a, layout)() @ getattr(b, layout)()
    assert got.layout is getattr(a, layout)().layout
    lg.testing.assert_close(got.to_dense(), a @ b)
    assert got._nnz() < 42


def test_addmm_and_its_kin() -> None:
    a, b, c = matrix(4, 5), lg.randn(5, 3, dtype=lg.float64), lg.randn(4, 3, dtype=lg.float64)
    s = a.to_sparse()
    want = 2 * c + 3 * (a @ b)
    lg.testing.assert_close(lg.addmm(c, s, b, beta=2, alpha=3), want)
    lg.testing.assert_close(lg.sparse.addmm(c, s, b, beta=2, alpha=3), want)
    lg.testing.assert_close(c.addmm(s, b, beta=2, alpha=3), want)
    lg.testing.assert_close(lg.smm(s, b).to_dense(), a @ b)
    lg.testing.assert_close(lg.hspmm(s, b).to_dense(), a @ b)
    lg.testing.assert_close(lg.nn.functional.linear(b.t(), s), b.t() @ a.t())
    sampled = lg.sparse.sampled_addmm(a.to_sparse_csr(), c, b.t(), beta=0.5, alpha=2)
    mask = (a != 0).double()
    lg.testing.assert_close(sampled.to_dense(), 0.5 * a + 2 * (c @ b.t()) * mask)


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_reductions_of_the_terms(reduce: str) -> None:
    a, b = matrix(6, 5), lg.randn(5, 3, dtype=lg.float64)
    terms = a.unsqueeze(2) * b
    got = lg.sparse.mm(a.to_sparse_csr(), b, reduce)
    for row in range(6):
        kept = [terms[row, j] for j in range(5) if a[row, j] != 0]
        want = lg.zeros(3, dtype=lg.float64)
        if kept:
            want = getattr(lg.stack(kept), reduce)(0)
        lg.testing.assert_close(got[row], want)


# ------------------------------------------------------------------------------------- gradients


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_are_those_of_dense_matrices(layout: str) -> None:
    a, b = matrix(7, 5), lg.randn(5, 19, dtype=lg.float64)
    weights = lg.randn(7, 19, dtype=lg.float64)
    dense, other = a.clone().requires_grad_(), b.clone().requires_grad_()
    ((dense @ other).sin() * weights).sum().backward()
    sparse, b = getattr(a, layout)().requires_grad_(), b.requires_grad_()
    ((sparse @ b).sin() * weights).sum().backward()
    lg.testing.assert_close(b.grad, other.grad)
    assert sparse.grad.layout is sparse.layout
    lg.testing.assert_close(sparse.grad.to_dense(), dense.grad * (a != 0))


def test_gradients_of_any_order() -> None:
    check = lg.sparse.as_sparse_gradcheck(lg.autograd.gradcheck)
    twice = lg.sparse.as_sparse_gradcheck(lg.autograd.gradgradcheck)
    a = matrix(4, 3).to_sparse().requires_grad_()
    b = lg.randn(3, 2, dtype=lg.float64, requires_grad=True)
    functions: list[Callable[..., Any]] = [
        lambda x, y: x @ y,
        lambda x, y: x.t() @ (x @ y),
        lambda x, y: (x @ x.t()).to_dense() * y.sum(),
        lambda x, y: lg.sparse.softmax(x, 1) @ y,
        lambda x, y: (x * x + x).coalesce() @ y,
        lambda x, y: lg.sparse.sum(x, 0) * y.sum(),
    ]
    for function in functions:
        assert check(function, (a, b), masked=True)
    assert twice(functions[0], (a, b))
    assert twice(functions[3], (a, b))


@pytest.mark.parametrize("threads", [1, 2])
def test_bits_do_not_depend_on_threads(threads: int) -> None:
    rng = np.random.default_rng(0)
    rows = np.sort(rng.integers(0, 500, 40_000))
    columns = rng.integers(0, 400, 40_000)
    values = rng.standard_normal(40_000).astype(np.float32)
    a = lg.sparse_coo_tensor(np.stack([rows, columns]), values, (500, 400))
    b = lg.tensor(rng.standard_normal((400, 70)).astype(np.float32))
    known = lg.get_num_threads()
    try:
        lg.set_num_threads(threads)
        got = (a @ b).numpy()
    finally:
        lg.set_num_threads(known)
    want = np.zeros((500, 70), np.float32)
    for r, c, v in zip(rows, columns, values, strict=True):  # one term after the other, fused
        want[r] = (want[r].astype(np.float64) + np.float64(v) * b.numpy()[c]).astype(np.float32)
    assert (got == want).mean() > 0.99
    np.testing.assert_allclose(got, want, 1e-3, 1e-4)


def test_a_column_out_of_range_is_refused() -> None:
    a = lg.sparse_csr_tensor([0, 1, 2], [0, 7], [1.0, 2], (2, 3))
    with pytest.raises(IndexError, match="column 7 is out of bounds"):
        (a @ lg.ones(3, 2)).tolist()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda a: a @ lg.ones(2, 2), "shapes cannot be multiplied"),
        (lambda a: a @ lg.ones(3, 2, dtype=lg.float64), "same dtype"),
        (lambda a: lg.mv(a, lg.ones(2)), "self.size"),
        (lambda a: lg.bmm(lg.stack([a, a]), lg.ones(3, 3, 2)), "must match"),
    ],
)
def test_shapes_are_checked(call: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        call(lg.ones(2, 3).to_sparse())


@pytest.mark.parametrize("width", [0, 3, 17])
def test_one_matrix_times_many_is_one_product(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "one_by_one", None)
    a, b = matrix(7, 5).to_sparse_csr(), lg.randn(4, 5, width, dtype=lg.float64)
    got, wanted = lg.vmap(lambda x: a @ x)(b), lg.stack([a @ x for x in b])
    assert got.shape == wanted.shape
    assert got.tolist() == wanted.tolist()
    slopes = lg.vmap(lg.func.grad(lambda x: ((a @ x) ** 2).sum()))(b)
    lg.testing.assert_close(slopes, 2 * lg.stack([a.t() @ x for x in wanted]))
