"""Nested tensors against the same computations component by component."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nested, nn

RNG = np.random.default_rng(3)


def made(counts: Any = (2, 4, 1), width: int = 6, grad: bool = True) -> tuple[list[Any], Any]:
    parts = [lg.tensor(RNG.standard_normal((n, width)), dtype=lg.float32) for n in counts]
    parts = [p.requires_grad_(grad) for p in parts]
    return parts, nested.as_nested_tensor(parts, layout=lg.jagged)


EACH: dict[str, Any] = {
    "softmax over ragged": (lambda n: n.softmax(1), lambda p: p.softmax(0)),
    "log softmax over ragged": (lambda n: n.log_softmax(1), lambda p: p.log_softmax(0)),
    "sum": (lambda n: n.sum(1), lambda p: p.sum(0)),
    "mean": (lambda n: n.mean(1), lambda p: p.mean(0)),
    "mean of rows": (lambda n: n.mean(-1), lambda p: p.mean(-1)),
    "amax": (lambda n: n.amax(1), lambda p: p.amax(0)),
    "logsumexp": (lambda n: n.logsumexp(1), lambda p: p.logsumexp(0)),
    "prod": (lambda n: n.prod(1), lambda p: p.prod(0)),
    "std of rows": (lambda n: n.std(-1), lambda p: p.std(-1)),
    "cumsum of rows": (lambda n: n.cumsum(-1), lambda p: p.cumsum(-1)),
    "split": (lambda n: n.split([2, 4], -1)[1], lambda p: p.split([2, 4], -1)[1]),
    "part": (lambda n: n[:, :, 1:3], lambda p: p[:, 1:3]),
    "a new dim": (lambda n: n[:, :, None, 0], lambda p: p[:, None, 0]),
    "stack": (lambda n: lg.stack([n, n * 2], -1), lambda p: lg.stack([p, p * 2], -1)),
    "stack before": (lambda n: lg.stack([n, n * 2], 1), lambda p: lg.stack([p, p * 2], 0)),
    "attention": (
        lambda n: F.scaled_dot_product_attention(*[heads(n * k) for k in (1, 2, 3)]),
        lambda p: F.scaled_dot_product_attention(*[p_heads(p * k) for k in (1, 2, 3)]),
    ),
    "causal attention": (
        lambda n: F.scaled_dot_product_attention(*[heads(n)] * 3, is_causal=True),
        lambda p: F.scaled_dot_product_attention(*[p_heads(p)] * 3, is_causal=True),
    ),
}


def heads(n: Any) -> Any:
    return n.unflatten(-1, (2, 3)).transpose(1, 2)


def p_heads(p: Any) -> Any:
    return p.unflatten(-1, (2, 3)).transpose(0, 1)


@pytest.mark.parametrize("name", EACH)
@pytest.mark.parametrize("counts", [(2, 4, 1), (3,), (1, 1, 2, 5)])
def test_as_component_by_component(name: str, counts: Any) -> None:
    whole, one = EACH[name]
    parts, n = made(counts)
    result = whole(n)
    expected = [one(p) for p in parts]
    for a, b in zip(result.unbind(), expected, strict=True):
        assert a.shape == b.shape
        lg.testing.assert_close(a, b)
    weights = [lg.randn(b.shape) for b in expected]
    total = sum([(a * w).sum() for a, w in zip(result.unbind(), weights, strict=True)])
    ours = lg.autograd.grad(total, parts)
    total = sum([(b * w).sum() for b, w in zip(expected, weights, strict=True)])
    for a, b in zip(ours, lg.autograd.grad(total, parts), strict=True):
        lg.testing.assert_close(a, b)


def test_a_leaf_and_its_gradient() -> None:
    n = nested.nested_tensor([[1.0, 2.0], [3.0]], layout=lg.jagged, requires_grad=True)
    assert isinstance(n, lg.Tensor)
    assert n.is_leaf
    assert n.grad is None
    (n * n).sum().backward()
    assert isinstance(n.grad, nested.NestedTensor)
    assert n.grad.shape == n.shape
    assert n.grad.values().tolist() == [2, 4, 6]
    (g,) = lg.autograd.grad(n.exp().sum(), n)
    assert g.shape == n.shape
    n.grad = None
    assert n.grad is None
    n.grad = n.detach() * 2
    assert n.grad.values().tolist() == [2, 4, 6]


def test_writes_in_place() -> None:
    n = nested.nested_tensor([[1.0, 2.0], [3.0]], layout=lg.jagged)
    same = n.mul_(2)
    assert same is n
    n += 1
    assert n.values().tolist() == [3, 5, 7]
    n.relu_().zero_()
    assert n.values().tolist() == [0, 0, 0]
    values = lg.arange(4.0)
    view = nested.nested_tensor_from_jagged(values, lg.tensor([0, 1, 4]))
    view.add_(1)
    assert values.tolist() == [1, 2, 3, 4]


def test_gaps_between_components() -> None:
    dense = lg.arange(12.0).reshape(3, 4).requires_grad_()
    n = nested.narrow(dense, 1, lg.tensor([0, 1, 2]), lg.tensor([2, 3, 1]), layout=lg.jagged)
    assert not n.is_contiguous()
    assert n.numel() == 6
    assert [p.tolist() for p in n.unbind()] == [[0, 1], [5, 6, 7], [10]]
    assert n.contiguous().values().tolist() == [0, 1, 5, 6, 7, 10]
    assert n.sum(1).tolist() == [1, 18, 10]
    assert n.sum().item() == 29
    n.to_padded_tensor(0.0).sum().backward()
    assert dense.grad.tolist() == [[1, 1, 0, 0], [0, 1, 1, 1], [0, 0, 1, 0]]


def test_a_model() -> None:
    model = nn.Sequential(nn.Embedding(7, 8), nn.LayerNorm(8), nn.Linear(8, 4), nn.GELU())
    ids = [lg.tensor([1, 2, 3]), lg.tensor([4]), lg.tensor([5, 6])]
    out = model(nested.nested_tensor(ids, layout=lg.jagged))
    assert out.size(0) == 3
    assert out.size(-1) == 4
    for a, b in zip(out.unbind(), ids, strict=True):
        lg.testing.assert_close(a, model(b))
    out.mean(1).sum().backward()
    assert all([p.grad is not None for p in model.parameters()])


@pytest.mark.parametrize("layout", [lg.jagged, lg.strided])
def test_copies(layout: Any) -> None:
    n = nested.nested_tensor([[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]], layout=layout)
    for make in (copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)), saved):
        same = make(n)
        assert type(same) is type(n)
        assert same.layout is layout
        assert [p.tolist() for p in same.unbind()] == [p.tolist() for p in n.unbind()]


def saved(x: Any) -> Any:
    file = io.BytesIO()
    lg.save({"x": x}, file)
    file.seek(0)
    return lg.load(file)["x"]


def test_saved_with_gaps_and_other_dims(tmp_path: Any) -> None:
    dense = lg.arange(12.0).reshape(3, 4)
    n = nested.narrow(dense, 1, 1, lg.tensor([2, 3, 1]), layout=lg.jagged).requires_grad_()
    back = saved(n)
    assert back.requires_grad
    assert back.lengths().tolist() == [2, 3, 1]
    _, n = made()
    back = saved(heads(n).detach())
    assert [p.tolist() for p in back.unbind()] == [p.tolist() for p in heads(n).unbind()]
    lg.save({"n": n.detach()}, tmp_path / "x.pt")
    assert lg.load(tmp_path / "x.pt")["n"].is_nested


def test_strided_components_of_any_shape() -> None:
    a, b = lg.randn(2, 3, requires_grad=True), lg.randn(4, 3, requires_grad=True)
    n = nested.as_nested_tensor([a, b])
    assert n.layout is lg.strided
    weight = lg.randn(5, 3)
    for x, y in zip(F.linear(n, weight).relu().unbind(), (a, b), strict=True):
        lg.testing.assert_close(x, F.linear(y, weight).relu())
    padded = nested.to_padded_tensor(n.softmax(-1), 0.0)
    assert padded.shape == (2, 4, 3)
    padded.square().sum().backward()
    assert a.grad.shape == a.shape
    assert [tuple(p.shape) for p in n.transpose(1, 2).unbind()] == [(3, 2), (3, 4)]
    assert len(nested.nested_tensor([])) == 0


def test_errors() -> None:
    _, n = made()
    with pytest.raises(NotImplementedError, match=r"nn.functional.conv1d: not supported"):
        F.conv1d(n, lg.ones(1, 1, 1))
    with pytest.raises(RuntimeError, match="At least one of offsets or lengths"):
        nested.nested_tensor_from_jagged(lg.ones(3))
    with pytest.raises(RuntimeError, match="single ragged dimension"):
        nested.nested_tensor([lg.ones(2, 3), lg.ones(3, 4)], layout=lg.jagged)
    with pytest.raises(TypeError, match="got .NestedInt"):
        lg.ones(n.size(1))
    with pytest.raises(ValueError, match="out= is not supported"):
        lg.sin(n, out=n)


def test_new_lengths_compile_nothing(counted: Any) -> None:
    model = nn.Linear(6, 6)

    def step(counts: list[int]) -> None:
        _, n = made(counts, grad=False)
        x = model(n).relu()
        y = F.scaled_dot_product_attention(*[heads(x)] * 3).transpose(1, 2).flatten(-2)
        (y.softmax(1) + n).sum(1).square().mean().backward()
        model.weight.grad.tolist()
        model.zero_grad()

    lengths = [[int(k) for k in RNG.integers(2, 9, 3)] for _ in range(24)]
    for counts in lengths[:3]:
        step(counts)
    with counted() as c:
        for counts in lengths[3:]:
            step(counts)
    assert c.flushes >= 21
    assert (c.kernels_made, c.compiles) == (0, 0)


def test_ordinary_tensors_pay_nothing(python: Any) -> None:
    run = python(
        "import livegrad as lg, sys\n"
        "lg.nn.Linear(2, 2)(lg.ones(1, 2)).tolist()\n"
        "assert 'livegrad.nested' not in sys.modules\n"
        "from livegrad.ops.support.strangers import Asking\n"
        "assert not Asking.installed\n"
        "lg.nested.nested_tensor([[1.0]])\n"
        "assert Asking.installed\n"
    )
    assert run.returncode == 0
