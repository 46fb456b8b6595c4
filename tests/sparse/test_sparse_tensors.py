"""Sparse tensors: what they are, how they are made, moved, folded and written to."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest

import livegrad as lg

X = lg.tensor([[0.0, 1, 0, 2], [0, 0, 0, 0], [3, 0, -4, 0]])
COMPRESSED = {
    "csr": lambda x: x.to_sparse_csr(),
    "csc": lambda x: x.to_sparse_csc(),
    "bsr": lambda x: x.to_sparse_bsr((1, 2)),
    "bsc": lambda x: x.to_sparse_bsc((3, 2)),
}
ALL = {"coo": lambda x: x.to_sparse(), "hybrid": lambda x: x.to_sparse(1), **COMPRESSED}


@pytest.mark.parametrize("kind", ALL)
def test_there_and_back(kind: str) -> None:
    s = ALL[kind](X)
    assert isinstance(s, lg.Tensor)
    assert s.layout is not lg.strided
    assert isinstance(s.layout, lg.layout)
    assert (s.shape, s.dtype, s.ndim, s.numel()) == (X.shape, X.dtype, 2, 12)
    assert s.to_dense().tolist() == X.tolist()
    for other in ALL.values():
        if kind != "hybrid" and other is not ALL["hybrid"]:
            through = s.to_sparse(layout=other(X).layout, **block_of(other(X)))
            assert through.layout is other(X).layout
            assert through.to_dense().tolist() == X.tolist()


def block_of(s: Any) -> dict[str, Any]:
    return {"blocksize": s.values().shape[1:]} if "bs" in s.layout.name else {}


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0), (1,), (2, 1, 3)])
def test_odd_shapes(shape: tuple[int, ...]) -> None:
    x = lg.ones(shape)
    s = x.to_sparse()
    assert s.to_dense().tolist() == x.tolist()
    assert (s + s).to_dense().tolist() == (x + x).tolist()
    assert s.coalesce().sum().item() == x.sum().item()
    assert (s * 3).to_dense().tolist() == (x * 3).tolist()
    assert repr(s).startswith("tensor(indices=")


def test_huge_shapes_take_no_memory() -> None:
    s = lg.sparse_coo_tensor([[0, 10**9], [5, 10**9]], [1.0, 2.0], (2 * 10**9, 2 * 10**9))
    assert s.numel() == 4 * 10**18
    assert (s * 2).coalesce().values().tolist() == [2, 4]
    assert s.t().coalesce().indices().tolist() == [[5, 10**9], [0, 10**9]]


def test_dense_tensors_say_that_they_are() -> None:
    assert not X.is_sparse
    assert not X.is_sparse_csr
    assert X.layout is lg.strided
    assert (X.sparse_dim(), X.dense_dim()) == (0, 2)
    for name in ("indices", "values", "coalesce", "crow_indices", "is_coalesced"):
        with pytest.raises(RuntimeError, match=f"{name} expected sparse"):
            getattr(X, name)()


def test_coalescing_adds_up_and_sorts() -> None:
    s = lg.sparse_coo_tensor([[2, 0, 2], [1, 0, 1]], [1.0, 2, 4], (3, 2))
    assert not s.is_coalesced()
    c = s.coalesce()
    assert c.is_coalesced()
    assert c.indices().tolist() == [[0, 2], [0, 1]]
    assert c.values().tolist() == [2, 5]
    assert c.coalesce() is c


def test_elements_share_memory() -> None:
    v = lg.ones(2)
    s = lg.sparse_coo_tensor([[0, 1]], v, (3,))
    v[0] = 5
    assert s.to_dense().tolist() == [5, 1, 0]
    s.coalesce().values().mul_(2)
    assert v.tolist() == [10, 2]


def test_to_and_casts() -> None:
    s = X.to_sparse()
    assert s.to(lg.float32) is s
    assert s.to(lg.float64).dtype is lg.float64
    assert s.long().to_dense().tolist() == X.long().tolist()
    assert s.half().layout is lg.sparse_coo
    assert s.cpu() is s
    assert s.device == lg.device("cpu")


# ---------------------------------------------------------------------------------- elementwise


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("name", ["neg", "abs", "sin", "tanh", "relu", "sign", "square", "expm1"])
def test_functions_that_leave_zeros(kind: str, name: str) -> None:
    s, want = ALL[kind](X), getattr(X, name)()
    got = getattr(s, name)()
    assert got.layout is s.layout
    lg.testing.assert_close(got.to_dense(), want)
    lg.testing.assert_close(getattr(lg, name)(s).to_dense(), want)


@pytest.mark.parametrize("kind", ALL)
def test_sums_and_products(kind: str) -> None:
    y = lg.tensor([[1.0, 1, 0, 0], [0, 2, 0, 0], [5, 0, 1, 7]])
    a, b = ALL[kind](X), ALL[kind](y)
    lg.testing.assert_close((a + b).to_dense(), X + y)
    lg.testing.assert_close((a - b).to_dense(), X - y)
    lg.testing.assert_close((a * b).to_dense(), X * y)
    lg.testing.assert_close((a * y).to_dense(), X * y)
    lg.testing.assert_close((a / 4).to_dense(), X / 4)
    lg.testing.assert_close(lg.add(a, b, alpha=3).to_dense(), X + 3 * y)
    lg.testing.assert_close(y + a, X + y)
    lg.testing.assert_close(y - a, y - X)
    z = y.clone()
    z += a
    lg.testing.assert_close(z, X + y)
    assert z.add_(b, alpha=2) is z
    lg.testing.assert_close(z, X + 3 * y)


def test_in_place() -> None:
    s = X.to_sparse()
    same = s
    s *= 2
    s.div_(4).neg_()
    assert s is same
    lg.testing.assert_close(s.to_dense(), -X / 2)
    s.add_(s)
    lg.testing.assert_close(s.to_dense(), -X)
    s.copy_(X.to_sparse())
    lg.testing.assert_close(s.to_dense(), X)
    s.zero_()
    assert s._nnz() == 0
    s.sparse_resize_((5, 6), 2, 0)
    assert s.shape == (5, 6)


# --------------------------------------------------------------------------------------- moving


def test_moving() -> None:
    s, h = X.to_sparse(), X.unsqueeze(2).expand(3, 4, 2).contiguous().to_sparse(2)
    lg.testing.assert_close(s.t().to_dense(), X.t())
    lg.testing.assert_close(s.T.to_dense(), X.T)
    lg.testing.assert_close(s.unsqueeze(1).to_dense(), X.unsqueeze(1))
    lg.testing.assert_close(h.permute(1, 0, 2).to_dense(), h.to_dense().permute(1, 0, 2))
    index = lg.tensor([2, 0, 2])
    lg.testing.assert_close(s.index_select(0, index).to_dense(), X.index_select(0, index))
    lg.testing.assert_close(h.index_select(2, index % 2).to_dense(), h.to_dense()[:, :, index % 2])
    lg.testing.assert_close(s.narrow(1, 1, 2).to_dense(), X.narrow(1, 1, 2))
    lg.testing.assert_close(s[2].to_dense(), X[2])
    lg.testing.assert_close(s[..., 3].to_dense(), X[..., 3])
    assert s[2, 2].item() == -4
    assert [row.to_dense().tolist() for row in s] == X.tolist()
    lg.testing.assert_close(lg.cat([s, s * 2], 1).to_dense(), lg.cat([X, X * 2], 1))
    lg.testing.assert_close(lg.stack([s, s], 1).to_dense(), lg.stack([X, X], 1))


@pytest.mark.parametrize("kind", COMPRESSED)
def test_transposed_compressed_tensors_keep_their_indices(kind: str) -> None:
    s = COMPRESSED[kind](X)
    lg.testing.assert_close(s.t().to_dense(), X.t())
    assert s.t().layout is not s.layout
    assert s.t().t().layout is s.layout


# -------------------------------------------------------------------------------------- folding


def test_folding() -> None:
    s = X.to_sparse()
    assert s.sum().item() == X.sum().item()
    lg.testing.assert_close(lg.sparse.sum(s, 0).to_dense(), X.sum(0))
    lg.testing.assert_close(s.sum(1, keepdim=True).to_dense(), X.sum(1, keepdim=True))
    lg.testing.assert_close(s.norm(), X.norm())
    filled = lg.where(X == 0, -float("inf"), X)
    soft = lg.softmax(filled, 1).nan_to_num(0)
    lg.testing.assert_close(lg.sparse.softmax(s, 1).to_dense(), soft)
    log = lg.sparse.log_softmax(s, 0).to_dense()
    lg.testing.assert_close(log, lg.log_softmax(filled, 0).nan_to_num(0, neginf=0))


def test_spdiags() -> None:
    d = lg.arange(6.0).reshape(2, 3)
    s = lg.sparse.spdiags(d, lg.tensor([0, 1]), (3, 3))
    assert s.to_dense().tolist() == [[0, 4, 0], [0, 1, 5], [0, 0, 2]]


# ------------------------------------------------------------------------------------- gradients


def test_gradients_reach_values() -> None:
    v = lg.tensor([1.0, 2, 3], requires_grad=True)
    s = lg.sparse_coo_tensor([[0, 1, 1], [0, 2, 2]], v, (2, 3))
    assert not s.is_leaf
    assert s.requires_grad
    (s.coalesce().values() ** 2).sum().backward()
    assert v.grad is not None
    assert v.grad.tolist() == [2, 10, 10]


def test_a_sparse_leaf_has_a_sparse_gradient() -> None:
    s = X.to_sparse().requires_grad_()
    seen = []
    s.register_hook(lambda g: seen.append(g.layout))
    (s.to_dense() * lg.arange(12.0).reshape(3, 4)).sum().backward()
    assert s.grad.is_sparse
    assert s.grad is s.grad
    assert s.grad.to_dense().tolist() == [[0, 1, 0, 3], [0, 0, 0, 0], [8, 0, 10, 0]]
    assert seen == [lg.sparse_coo]
    s.grad = None
    assert s.grad is None
    (g,) = lg.autograd.grad((s * s).sum(), s)
    lg.testing.assert_close(g.to_dense(), 2 * X)


def test_dense_tensors_get_gradients_through_sparse_ones() -> None:
    x = X.clone().requires_grad_()
    (x.to_sparse() * 3).to_dense().sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == ((X != 0) * 3.0).tolist()
    y = lg.ones(3, 4, requires_grad=True)
    (y.sparse_mask(X.to_sparse()) * X).sum().backward()
    assert y.grad is not None
    assert y.grad.tolist() == X.tolist()


# ------------------------------------------------------------------------------ copies and files


@pytest.mark.parametrize("kind", ALL)
def test_copies(kind: str) -> None:
    s = ALL[kind](X).requires_grad_()
    file = io.BytesIO()
    lg.save({"s": s.detach()}, file)
    file.seek(0)
    copies = [copy.deepcopy(s), pickle.loads(pickle.dumps(s)), s.clone(), lg.load(file)["s"]]
    for other in copies:
        assert other is not s
        assert other.layout is s.layout
        assert other.to_dense().tolist() == X.tolist()
    assert copies[0].is_leaf
    assert copies[1].requires_grad


def test_a_file_with_wrong_indices_is_refused() -> None:
    s = lg.sparse_coo_tensor([[0, 9]], [1.0, 2], (3,))
    file = io.BytesIO()
    lg.save(s, file)
    file.seek(0)
    with pytest.raises(lg.serialization.LoadError, match="size is inconsistent with indices"):
        lg.load(file)


def test_modules() -> None:
    module = lg.nn.Module()
    module.register_buffer("a", X.to_sparse())
    module.w = lg.nn.Parameter(X.to_sparse_csr())
    assert [type(p).__name__ for p in module.parameters()] == ["SparseParameter"]
    assert isinstance(module.w, lg.nn.Parameter)
    other = copy.deepcopy(module).double()
    other.load_state_dict(module.state_dict())
    assert other.a.dtype is lg.float64
    lg.testing.assert_close(other.w.detach().to_dense(), X.double())


# ---------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "name", ["exp", "cos", "view", "argsort", "cumsum", "fill_", "max", "sort"]
)
def test_what_is_for_dense_tensors_is_refused(name: str) -> None:
    args = {"view": (12,), "cumsum": (0,), "fill_": (1,)}.get(name, ())
    with pytest.raises(NotImplementedError, match=f"'aten::{name.strip('_')}.*SparseCPU"):
        getattr(X.to_sparse(), name)(*args)


@pytest.mark.parametrize("name", ["exp", "cos", "argsort", "where", "gelu"])
def test_functions_refuse_too(name: str) -> None:
    function = getattr(lg, name, None) or getattr(lg.nn.functional, name)
    args = (1.0, 2.0) if name == "where" else ()
    with pytest.raises(NotImplementedError, match="SparseCPU"):
        function(X.to_sparse(), *args)


def test_invariants_are_checked_if_asked() -> None:
    bad: Any = ([[0, 7]], [1.0, 2], (3,))
    lg.sparse_coo_tensor(*bad)
    with pytest.raises(RuntimeError, match="found index 7"):
        lg.sparse_coo_tensor(*bad, check_invariants=True)
    with lg.sparse.check_sparse_tensor_invariants(), pytest.raises(RuntimeError):
        lg.sparse_coo_tensor(*bad)
    assert not lg.sparse.check_sparse_tensor_invariants.is_enabled()


def test_dense_functions_keep_working() -> None:
    X.to_sparse()
    assert lg.add(X, X).tolist() == (X * 2).tolist()
    out = lg.empty(0)
    lg.mm(X, X.t(), out=out)
    assert out.tolist() == (X @ X.t()).tolist()
    assert lg.sum(X, axis=0).tolist() == X.sum(0).tolist()
    assert np.asarray(lg.cat([X, X])).shape == (6, 4)


# ------------------------------------------------------------------------ arguments of to_sparse


def test_one_number_is_the_size_of_square_blocks() -> None:
    x = lg.eye(4)
    for size in (2, [2, 2], lg.tensor(2)):
        for made in (x.to_sparse_bsr(size), x.to_sparse(layout=lg.sparse_bsr, blocksize=size)):
            assert made.values().shape == (2, 2, 2)
            assert made.to_dense().tolist() == x.tolist()


def test_dims_of_elements_by_their_number() -> None:
    x = lg.arange(24.0).reshape(2, 3, 4)
    made = x.to_sparse(dense_dim=1)
    assert (made.sparse_dim(), made.dense_dim()) == (2, 1)
    assert made.to_dense().tolist() == x.tolist()


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda x: x.to_sparse_bsr("a"), TypeError, "'blocksize' must be tuple of ints, not str"),
        (lambda x: x.to_sparse_bsc((2.0, 2)), TypeError, "found element of type float at pos 0"),
        (lambda x: x.to_sparse_bsr(True), TypeError, "'blocksize' must be tuple of ints, not bool"),
        (lambda x: x.to_sparse_bsr((2,)), RuntimeError, "a tuple of size 2, but got 1"),
        (lambda x: x.to_sparse_bsc(0), RuntimeError, r"to be positive, but got \[0, 0\]"),
        (lambda x: x.to_sparse_csr("a"), TypeError, "'dense_dim' must be int, not str"),
        (lambda x: x.to_sparse_csr(1), RuntimeError, r"must be in \[0,0\] range, but 1 is given"),
        (lambda x: x.to_sparse_csr().to_sparse_csc(0), RuntimeError, "with dense_dim argument"),
        (lambda x: x.to_sparse(1.5), TypeError, "'sparse_dim' must be int, not float"),
        (lambda x: x.to_sparse(1, layout=lg.sparse_csr), TypeError, "sparse_dim is taken alone"),
        (lambda x: x.to_sparse(layout=3), TypeError, "'layout' must be layout, not int"),
        (lambda x: x.to_sparse(blocksize=2), RuntimeError, "to Sparse with blocksize argument"),
        (lambda x: x.to_sparse(layout=lg.sparse_bsr), RuntimeError, "without blocksize argument"),
        (lambda x: x.to_sparse(dense_dim=3), RuntimeError, r"in \[0,2\] range, but 3 is given"),
        (lambda x: x.to_sparse(dense_dim=2), RuntimeError, "must be !=self.dim"),
    ],
)
def test_arguments_are_checked(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call(lg.eye(4))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 3), (2, 3, 0)], ids=str)
@pytest.mark.parametrize("name", ["to_sparse", "to_sparse_csr", "to_sparse_csc", "to_sparse_bsr"])
def test_nothing_by_every_layout(shape: tuple[int, ...], name: str) -> None:
    made = getattr(lg.ones(shape), name)(*[1] * name.endswith("bsr"))
    assert made.values().numel() == 0
    assert made.to_dense().shape == shape
