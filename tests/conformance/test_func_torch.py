"""Function transforms: the same program with torch.func and with livegrad.func."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import livegrad as lg

torch = pytest.importorskip("torch")


def values(*shape: int) -> Any:
    return np.random.default_rng(list(shape)).normal(size=shape)


def flat(x: Any) -> list[Any]:
    if isinstance(x, dict):
        return [y for key in sorted(x) for y in flat(x[key])]
    if isinstance(x, list | tuple):
        return [z for y in x for z in flat(y)]
    return [np.asarray(x.detach())]


def mlp(m: Any) -> Callable[..., Any]:
    def loss(p: Any, x: Any, y: Any) -> Any:
        hidden = m.nn.functional.gelu(m.nn.functional.linear(x, p["w1"], p["b1"]))
        return m.nn.functional.cross_entropy(hidden @ p["w2"], y)

    return loss


def attention(m: Any) -> Callable[..., Any]:
    def one(x: Any, w: Any) -> Any:
        q, k, v = (x @ w).chunk(3, -1)
        scores = m.softmax(q @ k.transpose(-1, -2) / 2, -1)
        return m.nn.functional.layer_norm(scores @ v, (2,))

    return one


def parameters(t: Any) -> Any:
    return {"w1": t(6, 4), "b1": t(6), "w2": t(6, 3)}


def hidden_state(m: Any) -> Callable[..., Any]:
    def run(x: Any, h: Any, w: Any) -> Any:
        for step in x.unbind(0):
            h = m.tanh(h @ w + step)
        return h

    return run


PROGRAMS: dict[str, Callable[..., Any]] = {
    "grad": lambda m, t: m.func.grad(lambda x: (x.sin() * x).sum())(t(4)),
    "grad_and_value": lambda m, t: m.func.grad_and_value(lambda x: (x**3).sum())(t(4)),
    "grad of grad": lambda m, t: m.func.grad(m.func.grad(lambda x: x.exp() * x.sin()))(t()),
    "aux": lambda m, t: m.func.grad(lambda x: ((x * x).sum(), x.cos()), has_aux=True)(t(3)),
    "vjp": lambda m, t: m.func.vjp(lambda x, w: x @ w, t(2, 3), t(3, 4))[1](t(2, 4)),
    "jvp": lambda m, t: m.func.jvp(lambda x, w: x @ w, (t(2, 3), t(3, 4)), (t(2, 3), t(3, 4))),
    "linearize": lambda m, t: m.func.linearize(lambda x: x.sin(), t(3))[1](t(3)),
    "jacrev": lambda m, t: m.func.jacrev(lambda x: m.softmax(x, 0))(t(4)),
    "jacfwd": lambda m, t: m.func.jacfwd(lambda x: m.softmax(x, 0))(t(4)),
    "jacrev of two": lambda m, t: m.func.jacrev(lambda a, b: (a @ b, b * 2), (0, 1))(t(2, 3), t(3)),
    "jacfwd of two": lambda m, t: m.func.jacfwd(lambda a, b: (a @ b, b * 2), (0, 1))(t(2, 3), t(3)),
    "hessian": lambda m, t: m.func.hessian(lambda x: x.logsumexp(0) * x.sum())(t(4)),
    "hessian of a dict": lambda m, t: m.func.hessian(lambda p: (p["a"] @ p["b"]) ** 2)(
        {"a": t(3), "b": t(3)}
    ),
    "vmap dims": lambda m, t: m.func.vmap(lambda a, b: a @ b, (0, 2), 1)(t(5, 2, 3), t(3, 4, 5)),
    "vmap reductions": lambda m, t: m.func.vmap(
        lambda x: (x.sum(), x.amax(-1), x.argmax(), x.var(0), x.norm(), x.cumsum(0), x.prod())
    )(t(3, 4, 5)),
    "vmap movement": lambda m, t: m.func.vmap(
        lambda x: (x.T, x[1:, ::2], x.flip(0), x[None], x.reshape(-1), x.diagonal(), x.unsqueeze(1),
                   m.cat([x, x * 2]), m.stack([x, x]), x.expand(2, 4, 5), x.tril(), x.roll(1, 0),
                   x.permute(1, 0), x.squeeze(), m.nn.functional.pad(x, (1, 2)))
    )(t(3, 4, 5)),
    "vmap sorting": lambda m, t: m.func.vmap(
        lambda x: (x.sort(0).values, x.argsort(), x.topk(2).values, x.median(),
                   m.where(x > 0, x, 0))
    )(t(3, 5)),
    "vmap linalg": lambda m, t: m.func.vmap(
        lambda x: (m.linalg.inv(x + 4 * m.eye(3)), m.linalg.det(x), m.linalg.svdvals(x),
                   m.linalg.solve(x + 4 * m.eye(3), x), m.linalg.cholesky(x @ x.T + m.eye(3)))
    )(t(4, 3, 3)),
    "vmap of 0-d": lambda m, t: m.func.vmap(lambda x: (x.sin(), x.sum(), x.max(), m.softmax(x, 0)))(
        t(4)
    ),
    "per-example gradients": lambda m, t: m.func.vmap(m.func.grad(mlp(m)), (None, 0, 0))(
        parameters(t), t(8, 4), m.arange(8) % 3
    ),
    "gradient of vmap": lambda m, t: m.func.grad(
        lambda p: m.func.vmap(mlp(m), (None, 0, 0))(p, t(8, 4), m.arange(8) % 3).mean()
    )(parameters(t)),
    "vmap of jacrev": lambda m, t: m.func.vmap(m.func.jacrev(attention(m)), (0, None))(
        t(3, 4, 2), t(2, 6)
    ),
    "vmap of hessian": lambda m, t: m.func.vmap(m.func.hessian(lambda x: (x.tanh() ** 2).sum()))(
        t(3, 4)
    ),
    "vmap of vmap": lambda m, t: m.func.vmap(m.func.vmap(attention(m), (0, None)), (0, None))(
        t(2, 3, 4, 2), t(2, 6)
    ),
    "vmap of jvp": lambda m, t: m.func.vmap(
        lambda x, v: m.func.jvp(lambda z: m.log_softmax(z, 0), (x,), (v,))[1]
    )(t(3, 4), t(3, 4)),
    "jacobian of a recurrence": lambda m, t: m.func.jacfwd(hidden_state(m), 1)(
        t(5, 3), t(3), t(3, 3)
    ),
    "vmap of a convolution": lambda m, t: m.func.vmap(
        m.func.grad(lambda x, w: m.nn.functional.conv2d(x[None], w, padding=1).sin().sum(), (0, 1)),
        (0, None),
    )(t(3, 2, 5, 5), t(4, 2, 3, 3)),
    "vmap of indexing": lambda m, t: m.func.vmap(
        lambda x, i: (x[i], x.gather(0, i), x.index_select(0, i), x.scatter(0, i, x * 2))
    )(t(3, 5), m.tensor([[0, 2], [4, 4], [1, 3]])),
    "functional.jacobian": lambda m, t: m.autograd.functional.jacobian(lambda x: x.exp(), t(3)),
    "functional.hessian": lambda m, t: m.autograd.functional.hessian(lambda x: (x**4).sum(), t(3)),
    "functional.hvp": lambda m, t: m.autograd.functional.hvp(lambda x: (x**4).sum(), t(3), t(3)),
    "functional.vhp": lambda m, t: m.autograd.functional.vhp(lambda x: (x**4).sum(), t(3), t(3)),
    "functional.jvp": lambda m, t: m.autograd.functional.jvp(lambda x: x.exp(), t(3), t(3)),
    "functional.vjp": lambda m, t: m.autograd.functional.vjp(lambda x: x.exp(), t(3), t(3)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_same_results(name: str) -> None:
    program = PROGRAMS[name]
    lg.set_default_dtype(lg.float64)
    torch.set_default_dtype(torch.float64)
    try:
        got = flat(program(lg, lambda *shape: lg.tensor(values(*shape))))
        wanted = flat(program(torch, lambda *shape: torch.tensor(values(*shape))))
    finally:
        lg.set_default_dtype(lg.float32)
        torch.set_default_dtype(torch.float32)
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)
