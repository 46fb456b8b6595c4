"""Plans without sizes: what is filled in for new sizes computes what a plan made for them would."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim
from livegrad.compiler import sizes
from livegrad.runtime.counters import counters
from livegrad.runtime.plans import _executables, forget_plans


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Outlines are learnt from the first plan of a structure, and trusted without a check.

    The verifier compares all of them nevertheless, so a symbol that gets lost is an error.
    """
    monkeypatch.setattr(sizes, "FEW", 0)
    monkeypatch.setattr(sizes, "CHECKS", 0)
    forget_plans()
    yield
    forget_plans()


def data(*shape: int) -> lg.Tensor:
    return lg.tensor(np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32))


def indices(high: int, *shape: int) -> lg.Tensor:
    return lg.tensor(np.random.default_rng(sum(shape)).integers(0, high, shape))


def with_gradient(f: Callable[..., Any], *inputs: lg.Tensor) -> list[Any]:
    """Values of `f` and of its gradient."""
    leaves = [x.requires_grad_() if x.is_floating_point() else x for x in inputs]
    y = f(*leaves)
    y = y[0] if isinstance(y, tuple) else y
    (y * y).sum().backward()
    return [y.tolist(), *[x.grad.tolist() for x in leaves if x.grad is not None]]


Program = Callable[[int, int], Any]
PROGRAMS: dict[str, Program] = {
    "elementwise": lambda b, t: with_gradient(lambda x: (x * 2).tanh() + x.mean(), data(b, t)),
    "broadcast": lambda b, t: with_gradient(lambda x, y: x * y + 1, data(b, t), data(t)),
    "reductions": lambda b, t: with_gradient(
        lambda x: x.sum(0).exp() + x.mean(0) + x.amax(0) + x.logsumexp(0), data(b, t)
    ),
    "softmax": lambda b, t: with_gradient(lambda x: F.softmax(x, -1), data(b, t)),
    "layer norm": lambda b, t: with_gradient(lambda x: F.layer_norm(x, (8,)), data(b, t, 8)),
    "variance": lambda b, t: with_gradient(lambda x: x.var(1) + x.std((0, 1)), data(b, t)),
    "norms": lambda b, t: with_gradient(lambda x: x.norm(dim=1) + x.norm(p=3), data(b, t)),
    "matmul": lambda b, t: with_gradient(lambda x, w: x @ w, data(b, t), data(t, 5)),
    "batched matmul": lambda b, t: with_gradient(lambda x: x @ x.mT, data(b, t, 4)),
    "einsum": lambda b, t: with_gradient(
        lambda x, y: lg.einsum("btd,dk->bkt", x, y), data(b, t, 4), data(4, 3)
    ),
    "linear": lambda b, t: with_gradient(F.linear, data(b, t, 6), data(3, 6), data(3)),
    "cross entropy": lambda b, t: with_gradient(
        lambda x, y: F.cross_entropy(x.flatten(0, 1), y.flatten()),
        data(b, t, 7),
        indices(7, b, t),
    ),
    "smoothed loss": lambda b, t: with_gradient(
        lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), data(b * t, 7), indices(7, b * t)
    ),
    "losses": lambda b, t: with_gradient(
        lambda x, y: F.mse_loss(x, y) + F.l1_loss(x, y) + F.huber_loss(x, y, reduction="sum"),
        data(b, t),
        data(b, t) + 1,
    ),
    "embedding": lambda b, t: with_gradient(
        lambda i, w: F.embedding(i, w), indices(9, b, t), data(9, 4)
    ),
    "gather": lambda b, t: with_gradient(lambda x, i: x.gather(1, i), data(b, t), indices(t, b, 2)),
    "indexing": lambda b, t: with_gradient(lambda x: x[1:, :-1] + x[:-1, 1:], data(b, t)),
    "advanced indexing": lambda b, t: with_gradient(
        lambda x, i: x[:, i], data(b, t), indices(t, 5)
    ),
    "joining": lambda b, t: with_gradient(
        lambda x: lg.cat([x, x * 2, lg.stack([x[:, 0], x[:, 1]], 1)], 1), data(b, t)
    ),
    "movement": lambda b, t: with_gradient(
        lambda x: x.mT.flip(0).roll(1, 0).reshape(-1)[::2], data(b, t)
    ),
    "reshape": lambda b, t: with_gradient(
        lambda x: x.view(b, t, 2, 3).permute(2, 0, 1, 3).reshape(2, b * t, 3).sum(0), data(b, t, 6)
    ),
    "padding": lambda b, t: with_gradient(lambda x: F.pad(x, (1, 2, 0, 1)), data(b, t)),
    "writing": lambda b, t: with_gradient(_written, data(b, t)),
    "cumsum": lambda b, t: with_gradient(lambda x: x.cumsum(1) + x.cumprod(0), data(b, t)),
    "attention": lambda b, t: with_gradient(
        lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), data(b, 2, t, 4)
    ),
    "convolution": lambda b, t: with_gradient(
        lambda x, w: F.conv1d(x, w, padding=1), data(b, 3, t), data(2, 3, 3)
    ),
    "convolution 2d": lambda b, t: with_gradient(
        lambda x, w: F.conv2d(x, w, stride=2), data(2, 2, b + 3, t + 3), data(3, 2, 3, 3)
    ),
    "pooling": lambda b, t: with_gradient(
        lambda x: F.avg_pool1d(x, 2) + F.max_pool1d(x, 2), data(b, 3, t)
    ),
    "batch norm": lambda b, t: with_gradient(
        lambda x: F.batch_norm(x, None, None, training=True), data(b, 3, t)
    ),
    "group norm": lambda b, t: with_gradient(lambda x: F.group_norm(x, 2), data(b, 4, t)),
    "masks": lambda b, t: with_gradient(
        lambda x: x.masked_fill(x > 0, 0.5) + x.tril() + lg.where(x > 1, x, 0), data(b, t)
    ),
    "counting": lambda b, t: [lg.arange(b * t).view(b, t).sum(0).tolist(), lg.eye(b, t).tolist()],
    "random": lambda b, t: _seeded(lambda: F.dropout(data(b, t), 0.5).tolist()),
    "adaptive pooling": lambda b, t: with_gradient(
        lambda x: F.adaptive_avg_pool1d(x, 2), data(b, 2, t)
    ),
    "interpolation": lambda b, t: with_gradient(
        lambda x: F.interpolate(x, scale_factor=2, mode="linear"), data(b, 2, t)
    ),
    "distances": lambda b, t: with_gradient(
        lambda x: F.cosine_similarity(x, x + 1) + F.normalize(x).sum(1), data(b, t)
    ),
    "sorting": lambda b, t: with_gradient(lambda x: x.sort(1)[0] + x.topk(2)[0].sum(), data(b, t)),
    "complex": lambda b, t: with_gradient(lambda x: lg.fft.rfft(x * 2).abs() + 1, data(b, t)),
    "recurrent": lambda b, t: _seeded(
        lambda: with_gradient(nn.LSTM(3, 4, batch_first=True), data(b, t, 3))
    ),
    "solving": lambda b, t: with_gradient(
        lambda x, y: lg.linalg.solve(x @ x.mT + 3 * lg.eye(4), y), data(4, t), data(4, b)
    ),
    "integers": lambda b, t: [((indices(99, b, t) + b) % t).sum(0).tolist()],
    "double": lambda b, t: with_gradient(lambda x: x.mean(0).sin() * t, data(b, t).double()),
    "half": lambda b, t: with_gradient(lambda x: (x * 2).mean(0), data(b, t).half()),
}
# Sizes are among their attributes, or decide how they are computed.
SIZES_ARE_STRUCTURE = {"convolution 2d", "pooling", "adaptive pooling"}
SIZES = [(3, 5), (4, 6), (4, 9), (7, 5), (2, 3), (5, 64), (64, 7), (3, 700), (130, 130)]


def _written(x: lg.Tensor) -> lg.Tensor:
    y = x * 1
    y[:, 1] = 3
    y[1:].mul_(2)
    return y


def _seeded(f: Callable[[], Any]) -> Any:
    lg.manual_seed(0)
    return f()


def planned_one_by_one(program: Program, b: int, t: int) -> Any:
    known, sizes._structures = sizes._structures, {}
    _executables.clear()
    try:
        return program(b, t)
    finally:
        sizes._structures = known
        _executables.clear()


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.usefixtures("at_once")
def test_filled_plans_compute_the_same_bits(name: str) -> None:
    program = PROGRAMS[name]
    before = counters.plans_filled
    for b, t in SIZES:
        got = program(b, t)
        assert got == planned_one_by_one(program, b, t), (b, t)
    assert counters.plans_filled > before or name in SIZES_ARE_STRUCTURE


def step_of(net: nn.Module, optimizer: optim.Optimizer, batch: int) -> float:
    x, y = data(batch, 6), indices(3, batch)
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def trained(batches: list[int]) -> tuple[list[float], list[int]]:
    """Losses of training with these batch sizes, and how many plans each step filled in."""
    lg.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3))
    optimizer = optim.Adam(net.parameters(), lr=0.01)
    losses, filled = [], []
    for batch in batches:
        before = counters.plans_filled
        losses.append(step_of(net, optimizer, batch))
        filled.append(counters.plans_filled - before)
    return losses, filled


def test_training_with_ever_new_batch_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = list(range(20, 40))
    forget_plans()
    monkeypatch.setattr(sizes, "FEW", 1 << 60)
    wanted, filled = trained(batches)
    assert sum(filled) == 0
    monkeypatch.undo()
    forget_plans()
    losses, filled = trained(batches)
    assert losses == wanted
    # Adam's first step makes its state: it is another plan than those of later steps.
    few = 1 + sizes.FEW + sizes.CHECKS
    assert filled == [0] * few + [1] * (len(batches) - few)


@pytest.mark.usefixtures("at_once")
def test_filled_plans_are_explained_with_their_own_sizes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for n in (5, 7):
        (data(n, 3) * 2).exp().tolist()
    lg.explain()
    line = test_filled_plans_are_explained_with_their_own_sizes.__code__.co_firstlineno + 5
    text = capsys.readouterr().out
    assert "plan filled in" in text
    assert "[7, 3]" in text
    assert f"test_sizes.py:{line}" in text


@pytest.mark.usefixtures("at_once")
def test_faults_of_filled_plans_name_their_own_sizes() -> None:
    def pick(rows: int, at: int) -> Any:
        return (data(rows, 4) + 1)[lg.tensor([0, at]) + 0].tolist()

    for rows in (5, 7, 9):
        pick(rows, rows - 1)
    for rows in (11, 13):
        with pytest.raises(IndexError, match=f"index {rows} is out of bounds .* with size {rows}"):
            pick(rows, rows)


def test_an_outline_that_gives_another_plan_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_plans()
    learnt = sizes.learn

    def wrong(recorded: Any, given: list[int]) -> Any:
        outline = learnt(recorded, given)
        assert outline is not None
        outline._buffers = [(slot, 0, leaf) for slot, _, leaf in outline._buffers]
        return outline

    monkeypatch.setattr(sizes, "learn", wrong)
    before = counters.plans_filled
    for n in range(20, 40):
        assert (data(n) * 3 + 1).tolist() == (data(n).numpy() * np.float32(3) + 1).tolist()
    assert counters.plans_filled == before
    assert [s.outlines for s in sizes._structures.values()] == [None]
