"""Sparse gradients of dense tables, and optimisers that take them."""

from __future__ import annotations

from typing import Any

import pytest

import livegrad as lg
from livegrad import nn

INDEX = [[1, 2, 2], [7, 9, 1]]


def table(sparse: bool, **options: Any) -> Any:
    out = nn.Embedding(10, 3, sparse=sparse, **options)
    with lg.no_grad():
        out.weight.copy_(lg.arange(30.0).reshape(10, 3) / 10)
    return out


@pytest.mark.parametrize("options", [{}, {"padding_idx": 1}, {"scale_grad_by_freq": True}])
def test_the_gradient_of_an_embedding(options: dict[str, Any]) -> None:
    grads = []
    for sparse in (False, True):
        e = table(sparse, **options)
        (e(lg.tensor(INDEX)) ** 2).sum().backward()
        grads.append(e.weight.grad)
    assert grads[1].is_sparse
    assert not grads[1].is_coalesced()
    lg.testing.assert_close(grads[1].to_dense(), grads[0])


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("padding", [None, 2])
def test_the_gradient_of_bags(mode: str, padding: int | None) -> None:
    found = []
    for sparse in (False, True):
        bags = nn.EmbeddingBag(10, 3, mode=mode, sparse=sparse, padding_idx=padding)
        with lg.no_grad():
            bags.weight.copy_(lg.arange(30.0).reshape(10, 3) / 10)
        out = bags(lg.tensor(INDEX))
        (out**2).sum().backward()
        found.append((out, bags.weight.grad.to_dense()))
    lg.testing.assert_close(found[1], found[0])


def test_gradients_add_up() -> None:
    e = table(True)
    e(lg.tensor([1, 2])).sum().backward()
    first = e.weight.grad
    assert first._nnz() == 2
    e(lg.tensor([2])).sum().backward()
    assert e.weight.grad.is_sparse
    assert e.weight.grad.to_dense()[:, 0].tolist() == [0, 1, 2, 0, 0, 0, 0, 0, 0, 0]
    (e.weight * 2).sum().backward()
    assert not e.weight.grad.is_sparse
    e(lg.tensor([0])).sum().backward()
    assert e.weight.grad[:, 0].tolist() == [3, 3, 4, 2, 2, 2, 2, 2, 2, 2]


def test_both_uses_in_one_pass() -> None:
    e = table(True)
    (e(lg.tensor([1, 1])).sum() + e.weight.sum()).backward()
    assert e.weight.grad[:, 0].tolist() == [1, 3, 1, 1, 1, 1, 1, 1, 1, 1]
    e.weight.grad = None
    (e(lg.tensor([1])).sum() + e(lg.tensor([1, 3])).sum()).backward()
    assert e.weight.grad.is_sparse
    assert e.weight.grad.to_dense()[:, 1].tolist() == [0, 2, 0, 1, 0, 0, 0, 0, 0, 0]


def test_a_table_that_is_computed_gets_a_dense_gradient() -> None:
    w = lg.ones(4, 2, requires_grad=True)
    nn.functional.embedding(lg.tensor([1, 3, 3]), w * 2, sparse=True).sum().backward()
    assert w.grad is not None
    assert w.grad[:, 0].tolist() == [0, 2, 0, 4]


def test_hooks_and_grad_see_sparse_gradients() -> None:
    e = table(True)
    seen = []
    e.weight.register_hook(lambda g: seen.append(g.is_sparse))
    e(lg.tensor([1])).sum().backward()
    assert seen == [True]
    (g,) = lg.autograd.grad(e(lg.tensor([4])).sum(), [e.weight])
    assert g.is_sparse
    e.weight.grad.zero_()
    assert e.weight.grad._nnz() == 0


def test_a_function_may_give_a_sparse_gradient() -> None:
    class Rows(lg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x[:1] * 1

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return lg.sparse_coo_tensor([[0]], grads[0], (3, 2))

    x = lg.ones(3, 2, requires_grad=True)
    Rows.apply(x).sum().backward()
    assert x.grad is not None
    assert x.grad.is_sparse
    assert x.grad.to_dense().tolist() == [[1, 1], [0, 0], [0, 0]]


# ------------------------------------------------------------------------------------ optimisers


def trained(optimizer: str, sparse: bool, **options: Any) -> Any:
    e = table(sparse)
    steps = getattr(lg.optim, optimizer)(e.parameters(), **options)
    for k in range(4):
        steps.zero_grad()
        (e(lg.tensor([[1, 2, 2], [k, 9, 1]])) ** 2).sum().backward()
        steps.step()
    return e.weight.detach()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"lr": 0.1}),
        ("SGD", {"lr": 0.1, "momentum": 0.9}),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
        ("SGD", {"lr": 0.1, "maximize": True}),
        ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}),
    ],
)
def test_the_same_as_with_dense_gradients(name: str, options: dict[str, Any]) -> None:
    lg.testing.assert_close(trained(name, True, **options), trained(name, False, **options))


def test_sparse_adam_moves_what_has_a_gradient() -> None:
    before, after = table(True).weight.detach(), trained("SparseAdam", True, lr=0.1)
    moved = (after != before).any(1).tolist()
    assert moved == [True, True, True, True, False, False, False, False, False, True]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Adam", "Adam does not support sparse gradients, please consider SparseAdam instead"),
        ("AdamW", "Adam does not support sparse gradients, please consider SparseAdam instead"),
        ("RMSprop", "RMSprop does not support sparse gradients"),
        ("Rprop", "Rprop does not support sparse gradients"),
    ],
)
def test_others_refuse(name: str, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        trained(name, True, lr=0.1)


def test_sparse_adam_refuses_dense_gradients() -> None:
    with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients"):
        trained("SparseAdam", False, lr=0.1)
