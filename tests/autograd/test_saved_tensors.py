"""`saved_tensors_hooks` and what else `autograd.graph` has for programs."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn
from livegrad.autograd import graph
from livegrad.graph import events


class Log(graph.saved_tensors_hooks):
    """Keeps arrays, as programs do that write to disk."""

    def __init__(self) -> None:
        self.shapes: list[tuple[int, ...]] = []
        self.unpacked = 0
        super().__init__(self.pack, self.unpack)

    def pack(self, x: Any) -> Any:
        self.shapes.append(tuple(x.shape))
        return x.detach().numpy().copy()

    def unpack(self, x: Any) -> Any:
        self.unpacked += 1
        return lg.tensor(x)


def through(program: Any, *leaves: Any) -> tuple[list[Any], Log]:
    log = Log()
    with log:
        y = program(*leaves)
    return list(lg.autograd.grad(y, leaves)), log


PROGRAMS: dict[str, Any] = {
    "product": lambda x, w: (x * w).sum(),
    "same twice": lambda x, w: (x * x + w).sum(),
    "chain": lambda x, w: (x.exp() * w).tanh().sum(),
    "linear": lambda x, w: F.linear(x, w).relu().square().mean(),
    "softmax": lambda x, w: (x @ w).softmax(-1).log().mean(),
    "cross entropy": lambda x, w: F.cross_entropy(x @ w, lg.tensor([0, 1, 2])),
    "norm": lambda x, w: F.layer_norm(x @ w, (3,)).sin().sum(),
    "attention": lambda x, w: F.scaled_dot_product_attention(x[None], w[None], x[None]).sum(),
    "numbers": lambda x, w: (2 / (x.abs() + 1) ** 1.5 + w).sin().sum(),
    "division": lambda x, w: (x / (w.abs() + 1)).sum(),
    "indices": lambda x, w: (x[lg.tensor([0, 2])] * w[:2]).sum(),
    "views": lambda x, w: (x.t().reshape(-1) * w.flatten()).sum(),
    "logsumexp": lambda x, w: (x * w).logsumexp(0).sum(),
    "where": lambda x, w: lg.where(x > 0, x * w, w).sum(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_from_what_was_unpacked(name: str) -> None:
    rng = np.random.default_rng(1)
    x, w = [lg.tensor(rng.standard_normal((3, 3)), requires_grad=True) for _ in range(2)]
    found, log = through(PROGRAMS[name], x, w)
    expected = lg.autograd.grad(PROGRAMS[name](x, w), [x, w])
    assert log.shapes
    assert log.unpacked == len(log.shapes)
    for a, b in zip(found, expected, strict=True):
        lg.testing.assert_close(a, b)


def test_what_is_unpacked_is_what_is_used() -> None:
    x = lg.tensor([1.0, 2.0], requires_grad=True)
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t * 10):
        y = (x * x).sum()
    y.backward()
    assert x.grad.tolist() == [20, 40]


def test_when_they_are_called() -> None:
    x = lg.ones(2, requires_grad=True)
    seen: list[str] = []
    with graph.saved_tensors_hooks(
        lambda t: seen.append("pack") or t, lambda t: seen.append("unpack") or t
    ):
        x + 1
        assert seen == []  # nothing is saved
        y = x.exp()
        assert seen == ["pack"]
        z = x * 2
        with lg.no_grad():
            x.exp()
        assert seen == ["pack"]
    x.sin()
    assert seen == ["pack"]
    (y + z).sum().backward()
    assert seen == ["pack", "unpack"]
    assert x.grad.tolist() == pytest.approx([np.e + 2] * 2)


def test_leaves_are_shown_themselves() -> None:
    weight = nn.Parameter(lg.ones(2, 2))
    seen: list[Any] = []
    with graph.saved_tensors_hooks(lambda t: seen.append(t) or t, lambda t: t):
        F.linear(lg.ones(1, 2, requires_grad=True), weight).sum().backward()
    assert any([t is weight for t in seen])
    assert weight.grad is not None


def test_the_innermost_counts() -> None:
    x = lg.ones(2, requires_grad=True)
    outer, inner = Log(), Log()
    with outer:
        x.exp()
        with inner:
            x.exp()
        x.exp()
    assert (len(outer.shapes), len(inner.shapes)) == (2, 1)


def test_functions_of_ones_own() -> None:
    class Square(lg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x * x
            ctx.save_for_backward(x, None, y)
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, none, y = ctx.saved_tensors
            assert none is None
            assert y.tolist() == [9]
            return 2 * x * g

    x = lg.tensor([3.0], requires_grad=True)
    log = Log()
    with log:
        y = Square.apply(x)
    assert log.shapes == [(1,), (1,)]
    y.backward()
    assert log.unpacked == 2
    assert x.grad.tolist() == [6]


def test_a_model_trains_alike() -> None:
    def losses(context: Any) -> list[float]:
        lg.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3))
        optimizer = lg.optim.SGD(model.parameters(), 0.1)
        out = []
        for _ in range(4):
            with context():
                loss = F.cross_entropy(model(lg.ones(5, 4)), lg.tensor([0, 1, 2, 0, 1]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            out.append(loss.item())
        return out

    plain = losses(lg.enable_grad)
    assert losses(Log) == pytest.approx(plain, rel=1e-5)
    assert losses(graph.save_on_cpu) == pytest.approx(plain, rel=1e-6)


def test_second_gradients() -> None:
    x = lg.tensor([2.0], requires_grad=True)
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = (x * x * x).sum()
    (g,) = lg.autograd.grad(y, x, create_graph=True)
    (h,) = lg.autograd.grad(g, x)
    assert (g.item(), h.item()) == (12, 12)


def test_they_belong_to_a_thread() -> None:
    log = Log()
    with log:
        thread = threading.Thread(target=lambda: lg.ones(2, requires_grad=True).exp())
        thread.start()
        thread.join()
    assert log.shapes == []


def test_disabled() -> None:
    with (
        graph.disable_saved_tensors_hooks("not here"),
        pytest.raises(RuntimeError, match="not here"),
        Log(),
    ):
        pass
    with Log():
        pass


def test_nobody_listens_afterwards() -> None:
    with Log(), Log():
        assert len(events.RECORDED) == len(events.NOTED) == 1
    assert not events.RECORDED
    assert not events.NOTED


def test_unpacked_to_something_else() -> None:
    x = lg.ones(2, requires_grad=True)
    with graph.saved_tensors_hooks(lambda t: t, lambda t: 3):
        y = x.exp().sum()
    with pytest.raises(TypeError, match="expected to be a Tensor but got result of type int"):
        y.backward()


def test_nothing_stays() -> None:
    """A result that is kept by its own node goes when nobody else has it."""
    x = lg.ones(2, requires_grad=True)
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = x.exp()
    y.sum().tolist()
    gone = weakref.ref(y._node)
    del y
    gc.collect()
    assert gone() is None


def test_edges_and_versions() -> None:
    x = lg.ones(2, requires_grad=True)
    y = x * 2
    edge = graph.get_gradient_edge(y)
    assert edge.node.name() == "MulBackward0"
    assert edge.output_nr == 0
    (g,) = lg.autograd.grad(y.square().sum(), [edge])
    assert g.tolist() == [4, 4]
    leaf = graph.get_gradient_edge(x)
    assert leaf.node.name() == "torch::autograd::AccumulateGrad"
    with pytest.raises(RuntimeError, match="does not require gradients"):
        graph.get_gradient_edge(lg.ones(1))
    z = lg.zeros(2)
    before = z._version
    graph.increment_version(z)
    graph.increment_version([z])
    assert z._version == before + 2
    with graph.allow_mutation_on_saved_tensors() as context:
        w = x * 1
        loss = (w * w).sum()
        w.mul_(0)
        loss.backward()
        context.clear()
    assert x.grad.tolist() == [2, 2]
