"""einsum in all its notations, tensordot, kron: against NumPy, and how they are done."""

import numpy as np
import pytest

import livegrad as lg

RNG = np.random.default_rng(0)


def arrays(*shapes):
    return [RNG.uniform(-1, 1, shape) for shape in shapes]


def same(got, want):
    assert tuple(got.shape) == np.shape(want)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-12)


EQUATIONS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("i,j->ji", (2,), (3,)),
    ("ij->", (2, 3)),
    ("ij->j", (2, 3)),
    ("iji->j", (2, 3, 2)),
    ("ii,ik->k", (2, 2), (2, 3)),
    ("ab,bc,cd,a->d", (2, 3), (3, 4), (4, 2), (2,)),
    ("...ij,...jk->...ik", (5, 2, 3), (1, 3, 4)),
    ("a...,a...->...", (2, 3, 4), (2, 3, 4)),
    ("i...->...", (2, 3, 4)),
    (" i j , j -> i ", (2, 3), (3,)),
    ("ij,kl->", (2, 3), (4, 2)),
    (",", (), ()),
    ("ij,jk->ik", (2, 0), (0, 3)),
]


@pytest.mark.parametrize("case", EQUATIONS, ids=lambda case: case[0])
def test_equations(case):
    equation, *shapes = case
    given = arrays(*shapes)
    want = np.einsum(equation.replace(" ", ""), *given)
    same(lg.einsum(equation, *map(lg.tensor, given)), want)
    same(lg.einsum(equation, [lg.tensor(x) for x in given]), want)


def test_labels_as_numbers():
    a, b = arrays((2, 3, 4), (4, 5))
    x, y = lg.tensor(a), lg.tensor(b)
    same(lg.einsum(x, [..., 0], y, [0, 1]), np.einsum("...i,ij", a, b))
    same(lg.einsum(x, [2, 1, 0], y, [0, 3], [3, 2, 1]), np.einsum("abc,cd->dab", a, b))


def test_sizes_of_one_are_broadcast():
    a, b = arrays((2, 1), (3, 4))
    same(lg.einsum("ij,jk->ik", lg.tensor(a), lg.tensor(b)), np.repeat(a, 3, 1) @ b)


def test_integers_and_bools():
    a = np.arange(6).reshape(2, 3)
    same(lg.einsum("ij,kj->ik", lg.tensor(a), lg.tensor(a)), a @ a.T)
    odd = lg.tensor(a % 2 == 1)
    assert lg.einsum("ij->i", odd).tolist() == [1, 2]
    assert lg.einsum("ij,ij->ij", odd, odd).dtype is lg.bool
    with pytest.raises(NotImplementedError, match="'Bool'"):
        lg.einsum("ij,kj->ik", odd, odd)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: lg.einsum("ij,jk", x), RuntimeError, "fewer operands"),
        (lambda x: lg.einsum("ijk", x), RuntimeError, "does not match the number of dimensions"),
        (lambda x: lg.einsum("ij,jk->ik", x, x), RuntimeError, "subscript j has size 2"),
        (lambda x: lg.einsum("ij->ii", x), RuntimeError, "more than once"),
        (lambda x: lg.einsum("ij->k", x), RuntimeError, "does not appear"),
        (lambda x: lg.einsum("i1", x), RuntimeError, "a-zA-Z"),
        (lambda x: lg.einsum("i.j", x), RuntimeError, "not part of any ellipsis"),
        (lambda x: lg.einsum("ii", x), RuntimeError, "3 != 2"),
        (lambda x: lg.einsum("ij"), ValueError, "at least one operand"),
        (lambda x: lg.einsum(x, [0, 52]), ValueError, r"\[0, 52\)"),
        (lambda x: lg.einsum("ij,jk", x, x.long()), RuntimeError, "does not broadcast"),
        (lambda x: lg.tensordot(x, x, dims=1), RuntimeError, "need to match"),
        (lambda x: lg.tensordot(x, x, dims=3), RuntimeError, "dims=3"),
        (lambda x: lg.tensordot(x, x.long(), dims=2), RuntimeError, "same dtype"),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(lg.zeros(2, 3))


def test_tensordot_and_kron():
    a, b = arrays((2, 3, 4), (4, 3, 5))
    x, y = lg.tensor(a), lg.tensor(b)
    same(lg.tensordot(x, y, dims=([1, 2], [1, 0])), np.tensordot(a, b, ([1, 2], [1, 0])))
    same(lg.tensordot(x, y, dims=1), np.tensordot(a, b, 1))
    same(lg.tensordot(x, y, dims=0), np.tensordot(a, b, 0))
    same(lg.kron(x[0], y[0]), np.kron(a[0], b[0]))
    same(lg.kron(x[0, 0], y[0]), np.kron(a[0, 0], b[0]))


def test_attention_scores_are_one_product(counted):
    q, k = lg.randn(2, 3, 4, 5), lg.randn(2, 3, 6, 5)
    with counted() as c:
        lg.einsum("bhqd,bhkd->bhqk", q, k).numpy()
    assert c.host_steps == 0


def test_chain_matmul_takes_the_cheap_way():
    matrices = arrays((30, 2), (2, 30), (30, 2))
    same(lg.chain_matmul(*map(lg.tensor, matrices)), np.linalg.multi_dot(matrices))
    with pytest.raises(RuntimeError, match="one or more"):
        lg.chain_matmul()


def test_a_diagonal_is_no_operand_for_blas():
    (x,) = arrays((3, 3, 3))
    (v,) = arrays((3,))
    got = lg.tensor(x).diagonal(0, 1, 2).T @ lg.tensor(v)
    same(got, np.diagonal(x, 0, 1, 2).T @ v)
