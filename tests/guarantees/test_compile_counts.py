"""What changes in a loop must not be compiled again: sizes, scalars, seeds, bounds."""

from __future__ import annotations

import json

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim

# Around vector widths, and well past them; 1 is a different structure (it broadcasts).
SIZES = [6, 9, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 100, 129, 200]
RATES = [0.1, 0.05, 1.0, 0.0, 2.0, 0.5, 1e-8, 1e3, -0.0, *np.linspace(0.01, 0.9, 11).tolist()]


@pytest.fixture(autouse=True, scope="module")
def workers():
    """Starts the thread pool, whose own code is compiled when work is first large enough."""
    (lg.ones(1 << 20) + 1).tolist()


@pytest.fixture
def compiles_nothing_new(counted):
    """Runs `step` on all values; no kernel may be new after the first two."""

    def run(step, values):
        assert len(values) >= 20
        for value in values[:2]:
            step(value)
        with counted() as c:
            for value in values[2:]:
                step(value)
        assert c.flushes >= len(values) - 2, "the step computes nothing"
        assert (c.kernels_made, c.compiles) == (0, 0)

    return run


def array(*shape):
    return lg.tensor(np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32))


def trainer(model, optimizer, loss=F.cross_entropy):
    def step(x, t):
        optimizer.zero_grad()
        value = loss(model(x), t)
        value.backward()
        optimizer.step()
        return value

    return step


def classifier():
    return nn.Sequential(nn.Linear(12, 24), nn.LayerNorm(24), nn.GELU(), nn.Linear(24, 5))


def classes(n):
    return lg.tensor(np.arange(n) % 5)


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam, optim.AdamW])
def test_batch_size(compiles_nothing_new, make):
    model = classifier()
    step = trainer(model, make(model.parameters(), lr=0.01))
    compiles_nothing_new(lambda n: step(array(n, 12), classes(n)).item(), SIZES)


def test_last_batch_of_one(counted):
    # The one size that is another structure: it may compile when first met, and never again.
    model = classifier()
    step = trainer(model, optim.Adam(model.parameters()))
    for n in (8, 1, 8, 1):
        step(array(n, 12), classes(n))
    with counted() as c:
        for n in (8, 1) * 10:
            step(array(n, 12), classes(n))
    assert (c.kernels_made, c.plan_misses) == (0, 0)


def test_sequence_length(compiles_nothing_new):
    tokens = lg.tensor(np.arange(4 * 256).reshape(4, 256) % 11)
    embedding, head = nn.Embedding(11, 8), nn.Linear(8, 11)
    optimizer = optim.Adam([*embedding.parameters(), *head.parameters()])

    def step(n):
        optimizer.zero_grad()
        x = embedding(tokens[:, :n])
        weights = F.softmax(x @ x.transpose(-2, -1) / 8**0.5, -1)
        logits = head(weights @ x).reshape(-1, 11)
        loss = F.cross_entropy(logits, tokens[:, 1 : n + 1].reshape(-1))
        loss.backward()
        optimizer.step()
        assert np.isfinite(loss.item())

    compiles_nothing_new(step, SIZES)


def test_growing_reshape_and_permute(compiles_nothing_new):
    def step(n):
        x = array(3, n, 4)
        y = x.permute(1, 0, 2).reshape(n, 12).flip(0) * 2
        assert y.shape == (n, 12)
        np.testing.assert_array_equal(
            y.numpy(), np.asarray(x).transpose(1, 0, 2).reshape(n, 12)[::-1] * 2
        )

    compiles_nothing_new(step, SIZES)


@pytest.mark.usefixtures("whole_plans")
def test_learning_rate(compiles_nothing_new):
    model = classifier()
    x, t = array(9, 12), classes(9)
    for make, options in [
        (optim.SGD, {}),
        (optim.SGD, {"momentum": 0.9}),
        (optim.Adam, {}),
        (optim.AdamW, {}),
    ]:
        optimizer = make(model.parameters(), lr=0.1, **options)
        step = trainer(model, optimizer)

        def scheduled(rate, step=step, optimizer=optimizer):
            optimizer.param_groups[0]["lr"] = abs(rate) * 1e-3
            step(x, t)

        scheduled(0.3)  # the first step makes the state
        compiles_nothing_new(scheduled, RATES)


def test_dropout_seed(compiles_nothing_new, counted):
    model = nn.Sequential(nn.Linear(12, 24), nn.Dropout(0.3), nn.Linear(24, 5))
    step = trainer(model, optim.SGD(model.parameters(), lr=0.1))
    x, t = array(9, 12), classes(9)
    compiles_nothing_new(lambda seed: (lg.manual_seed(seed), step(x, t)), range(20))
    with counted() as c:
        for _ in range(20):
            step(x, t)
    assert c.plan_misses == 0


def test_slice_bounds(compiles_nothing_new):
    x = array(300, 7)
    want = np.asarray(x)

    def part(n):
        np.testing.assert_array_equal((x[n : n + 40] * 2).numpy(), want[n : n + 40] * 2)
        np.testing.assert_array_equal((x[:n] + 1).numpy(), want[:n] + 1)
        np.testing.assert_array_equal((x[n::3] + 1).numpy(), want[n::3] + 1)
        np.testing.assert_array_equal((x[n] + 1).numpy(), want[n] + 1)
        np.testing.assert_array_equal((x[-n] + 1).numpy(), want[-n] + 1)

    compiles_nothing_new(part, SIZES)


def test_writes_at_changing_places(compiles_nothing_new):
    want = np.zeros((300, 7), np.float32)
    x = lg.zeros(300, 7)

    def write(n):
        x[n] = float(n)
        x[n : n + 5, 1:3] += 1
        want[n] = n
        want[n : n + 5, 1:3] += 1
        np.testing.assert_array_equal(x.numpy(), want)

    compiles_nothing_new(write, SIZES)


def test_shifts_and_pads(compiles_nothing_new):
    x = array(9, 300)
    want = np.asarray(x)

    def move(n):
        np.testing.assert_array_equal(lg.roll(x, n, 1).numpy(), np.roll(want, n, 1))
        np.testing.assert_array_equal(F.pad(x, (n, 2)).numpy(), np.pad(want, [(0, 0), (n, 2)]))

    compiles_nothing_new(move, SIZES)


@pytest.mark.parametrize("dtype", [lg.float32, lg.float64, lg.bfloat16])
def test_scalar_constants(compiles_nothing_new, dtype):
    x = array(33).to(dtype)

    def use(c):
        y = ((x * c + c) / (2.0 + abs(c))).clamp(-c, c + 1)
        (y - c).sum().item()

    compiles_nothing_new(use, RATES)


def test_scalar_power(compiles_nothing_new):
    # Powers with a meaning of their own (0, 1, 2, 0.5, -1) may be special; the rest are one.
    x = array(33).abs() + 0.5
    compiles_nothing_new(lambda c: (x ** (5.1 + c)).tolist(), RATES)


def test_integer_constants(compiles_nothing_new):
    x = lg.arange(33)
    compiles_nothing_new(lambda n: ((x + n) // (n + 1) % 5).tolist(), SIZES)


def test_creation(compiles_nothing_new):
    def make(n):
        assert (lg.full((n,), float(n)) + lg.arange(n)).tolist() == [n + i for i in range(n)]
        assert lg.linspace(0, n, n).shape == (n,)
        lg.linspace(0, n, n).tolist()
        lg.rand(n, 3).tolist()
        lg.randn(n).tolist()

    compiles_nothing_new(make, SIZES)


def test_repeated_step_is_found_again(counted):
    model = classifier()
    step = trainer(model, optim.Adam(model.parameters()))
    x, t = array(9, 12), classes(9)
    for _ in range(3):
        step(x, t)
    with counted() as c:
        for _ in range(20):
            step(x, t)
    assert (c.flushes, c.plan_hits, c.plan_misses, c.kernels_made) == (20, 20, 0, 0)


def test_same_leaf_twice_is_another_plan(counted):
    a, b = array(5), array(1, 5)[0].clone()
    b.tolist()
    for _ in range(2):
        assert (a * a - a).tolist() == ((np.asarray(a) * np.asarray(a)) - np.asarray(a)).tolist()
        assert (a * b - a).tolist() == ((np.asarray(a) * np.asarray(b)) - np.asarray(a)).tolist()
        assert (a * b - b).tolist() == ((np.asarray(a) * np.asarray(b)) - np.asarray(b)).tolist()


PROGRAM = """
import json, numpy as np, livegrad as lg, livegrad.nn.functional as F
from livegrad import nn, optim
lg.manual_seed(0)
model = nn.Sequential(
    nn.Linear(12, 24), nn.LayerNorm(24), nn.GELU(), nn.Dropout(0.1), nn.Linear(24, 5)
)
optimizer = optim.AdamW(model.parameters())
x = lg.tensor(np.random.default_rng(0).normal(size=(64, 12)).astype(np.float32))
t = lg.arange(64) % 5
for n in (8, 64, 33):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x[:n]), t[:n])
    loss.backward()
    optimizer.step()
s = lg.stats()
print(json.dumps([s.kernels_compiled, s.kernels_loaded, loss.item().hex()]))
"""


@pytest.mark.slow
def test_second_process_compiles_nothing(python, tmp_path):
    cache = str(tmp_path / "cache")
    first = json.loads(python(PROGRAM, LIVEGRAD_CACHE_DIR=cache).stdout)
    second = json.loads(python(PROGRAM, LIVEGRAD_CACHE_DIR=cache).stdout)
    assert first[0] > 0
    assert second[:2] == [0, first[0] + first[1]]
    assert second[2] == first[2]
