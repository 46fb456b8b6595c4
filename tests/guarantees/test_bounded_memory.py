"""Nothing grows without bound: nodes, buffers, arena; parameters stay where they are."""

from __future__ import annotations

import gc
import os
from itertools import pairwise

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim
from livegrad.compiler import sizes
from livegrad.compiler.kept import KEPT, size_of_plan
from livegrad.graph.node import Node
from livegrad.graph.op import REGISTRY, Specs
from livegrad.graph.state import LOCAL, MOST_PENDING_NODES, flush
from livegrad.runtime import plans as runtime_plans
from livegrad.runtime.cpu import assemble, jit
from livegrad.runtime.cpu.segments import ARENA
from livegrad.runtime.memory import memory_in_use
from livegrad.runtime.plans import forget_plans

pytestmark = pytest.mark.usefixtures("nodes_to_be_seen")


def live_nodes():
    gc.collect()
    return sum(type(x) is Node for x in gc.get_objects())


def address(x):
    return x._node.buffer.ptr


def regression():
    """A model, an optimiser of it, and one batch."""
    lg.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    rng = np.random.default_rng(0)
    x = lg.tensor(rng.normal(size=(16, 6)).astype(np.float32))
    y = lg.tensor(rng.normal(size=(16, 1)).astype(np.float32))
    return model, x, y


# ------------------------------------------------------------------- programs that read nothing


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def never_reads(chunks, body, x):
    """Runs `body`, which records one op, many times; what is alive must not depend on how many."""
    x.tolist()
    chunk = 0  # recorded one by one, so many ops are flushed by themselves
    while not chunk or LOCAL.state.nodes:
        x = body(x)
        chunk += 1
    assert chunk <= MOST_PENDING_NODES + 2
    for _ in range(2 * chunk):  # plans exist, caches are filled
        x = body(x)
    nodes, used, resident = live_nodes(), memory_in_use(), resident_bytes()
    for _ in range(chunks):
        for _ in range(chunk):
            x = body(x)
        assert LOCAL.state.nodes == []
    assert live_nodes() == nodes
    assert memory_in_use() == used
    assert resident_bytes() - resident < 32 << 20
    return x, chunk * (chunks + 3)


@pytest.mark.parametrize("chunks", [25, pytest.param(125, marks=pytest.mark.slow)])
def test_recording_without_reading(chunks):
    x, ops = never_reads(chunks, lambda x: x + 0.5, lg.zeros(4).clone())
    assert x.tolist() == [0.5 * ops] * 4


def test_recording_in_place_without_reading():
    x, ops = never_reads(4, lambda x: x.add_(0.5), lg.zeros(4).clone())
    assert x.tolist() == [0.5 * ops] * 4


def test_dead_results_without_reading():
    def discard(x):
        x.exp()
        return x

    x = lg.zeros(4)
    x.tolist()
    never_reads(4, discard, x)


def test_pending_nodes_are_capped():
    x = lg.zeros(2)
    for _ in range(3 * MOST_PENDING_NODES):
        x = x + 1
        assert len(LOCAL.state.nodes) <= MOST_PENDING_NODES + 1
    assert x.tolist() == [3.0 * MOST_PENDING_NODES] * 2


def test_pending_bytes_are_capped():
    # A loop over fresh data that never reads: a gigabyte passes, a bounded part is held.
    total = lg.zeros(())
    data = np.ones(1 << 20, np.float32)
    gc.collect()
    start = memory_in_use()
    most = 0
    for _ in range(256):
        total = total + lg.tensor(data).sum()
        most = max(most, memory_in_use() - start)
    assert total.item() == 256.0 * (1 << 20)
    assert most <= 300 << 20


# --------------------------------------------------------------------------------- deep graphs


@pytest.mark.slow
def test_backward_through_a_chain_of_100_000():
    x = lg.tensor([1.0, 2.0], dtype=lg.float64, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y * 1.00001
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [1.00001**100_000] * 2, rtol=1e-9)


def test_backward_through_a_wide_sum():
    x = lg.tensor(1.0, requires_grad=True)
    total = lg.zeros(())
    for _ in range(10_000):
        total = total + x
    total.backward()
    assert x.grad.item() == 10_000.0


# ------------------------------------------------------------------------------- training loops


class Recomputed:
    """The regression of `regression()` with SGD, in float64 NumPy."""

    def __init__(self, model, x, y, lr):
        self.p = [p.detach().numpy().astype(np.float64) for p in model.parameters()]
        self.x, self.y, self.lr = (
            np.asarray(a, np.float64) if a is not lr else a for a in (x, y, lr)
        )

    def step(self):
        w1, b1, w2, b2 = self.p
        h = np.tanh(self.x @ w1.T + b1)
        error = h @ w2.T + b2 - self.y
        g = 2 * error / error.size
        gh = (g @ w2) * (1 - h * h)
        grads = [gh.T @ self.x, gh.sum(0), g.T @ h, g.sum(0)]
        self.p = [p - self.lr * d for p, d in zip(self.p, grads, strict=True)]
        return (error**2).mean()


def test_total_of_losses_over_1000_steps():
    model, x, y = regression()
    optimizer = optim.SGD(model.parameters(), lr=0.05)
    oracle = Recomputed(model, x, y, 0.05)
    total, wanted, counts = 0.0, 0.0, []
    for i in range(1000):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss
        wanted += oracle.step()
        if i % 100 == 50:
            counts.append(live_nodes())
    assert max(counts) - counts[0] <= 50
    np.testing.assert_allclose(total.item(), wanted, rtol=2e-5)
    for p, want in zip(model.parameters(), oracle.p, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), want, rtol=1e-3, atol=1e-5)


@pytest.mark.usefixtures("whole_plans")
def test_in_place_total_of_losses():
    model, x, y = regression()
    optimizer = optim.SGD(model.parameters(), lr=0.05)
    oracle = Recomputed(model, x, y, 0.05)
    total, wanted, counts = lg.zeros(()), 0.0, []
    for i in range(200):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        total.add_(loss.detach())
        wanted += oracle.step()
        if i % 50 == 25:
            counts.append(live_nodes())
    assert max(counts) - counts[0] <= 20
    np.testing.assert_allclose(total.item(), wanted, rtol=2e-5)


@pytest.mark.usefixtures("whole_plans")
def test_list_of_losses():
    model, x, y = regression()
    optimizer = optim.Adam(model.parameters(), lr=0.05)
    losses, counts = [], []
    for i in range(300):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss)
        if i % 100 == 50:
            counts.append(live_nodes())
    # One node per loss that is kept, and nothing of the step that made it.
    assert [b - a for a, b in pairwise(counts)] == [100, 100]
    values = [loss.item() for loss in losses]
    assert values[-1] < 0.5 * values[0]
    assert len(set(values)) > 290  # each has its own value, not the last one's


def test_losses_read_late_are_those_of_their_step():
    late, early = [], []
    for keep in (late, early):
        model, x, y = regression()
        optimizer = optim.Adam(model.parameters(), lr=0.05)
        for _ in range(20):
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            keep.append(loss if keep is late else loss.item())
    assert [loss.item() for loss in late] == early


@pytest.mark.parametrize(
    ("make", "options", "streams"),
    [
        (optim.SGD, {"lr": 0.1}, 1),
        (optim.SGD, {"lr": 0.1, "momentum": 0.9}, 2),
        (optim.Adam, {}, 3),
        (optim.AdamW, {}, 3),
    ],
)
def test_parameters_and_state_are_updated_in_place(counted, make, options, streams):
    model, x, y = regression()
    optimizer = make(model.parameters(), **options)

    def step():
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()

    for _ in range(3):
        step()

    def tensors():
        state = [v for s in optimizer.state.values() for v in s.values()]
        # Counts of steps are numbers: each step makes one for all parameters.
        return [*model.parameters(), *[v for v in state if isinstance(v, lg.Tensor) and v.ndim]]

    places = [address(t) for t in tensors()]
    assert len(places) == 4 * streams
    with counted() as c:
        for _ in range(10):
            step()
    assert [address(t) for t in tensors()] == places
    assert c.donations == 10 * 4 * streams


def test_in_place_with_the_loss_kept_and_read(counted):
    model, x, y = regression()
    optimizer = optim.Adam(model.parameters())
    losses = []

    def step(read):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        if read == "before":
            loss.item()
        loss.backward()
        if read == "between":
            loss.item()
        optimizer.step()
        if read == "after":
            loss.item()
        losses.append(loss)

    for read in ("before", "between", "after"):
        for _ in range(3):
            step(read)
        with counted() as c:
            for _ in range(5):
                step(read)
        assert (c.donations, c.kernels_made, c.plan_misses) == (5 * 12, 0, 0)


@pytest.mark.usefixtures("whole_plans")
def test_memory_does_not_grow_over_steps():
    model, x, y = regression()
    optimizer = optim.Adam(model.parameters())

    def step():
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()

    for _ in range(5):
        step()
    gc.collect()
    arena, used, nodes = ARENA.nbytes, memory_in_use(), live_nodes()
    for _ in range(100):
        step()
    gc.collect()
    assert (ARENA.nbytes, memory_in_use(), live_nodes()) == (arena, used, nodes)


# ---------------------------------------------------------------------- old values that are seen


def one_step(p, optimizer):
    optimizer.zero_grad()
    (p * p).sum().backward()
    optimizer.step()


def keep_clone(p):
    return p.detach().clone()


def keep_array(p):
    return np.array(p.detach())


def keep_sum(p):
    return p.detach() + 0


def keep_product(p):
    return p * 1


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("keep", [keep_clone, keep_array, keep_sum, keep_product])
def test_old_value_is_kept_for_those_who_see_it(keep, computed):
    p = lg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    optimizer = optim.SGD([p], lr=0.25)
    one_step(p, optimizer)
    old = keep(p)
    if computed and isinstance(old, lg.Tensor):
        old.tolist()
    one_step(p, optimizer)
    assert old.tolist() == [0.5, 1.0, 1.5]
    assert p.tolist() == [0.25, 0.5, 0.75]
    one_step(p, optimizer)
    assert old.tolist() == [0.5, 1.0, 1.5]
    assert p.tolist() == [0.125, 0.25, 0.375]


def test_detach_shares_its_values_with_the_parameter():
    p = lg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    shared, row = p.detach(), p[0]
    one_step(p, optim.SGD([p], lr=0.25))
    assert shared.tolist() == [0.5, 1.0, 1.5]  # as in PyTorch: one storage
    assert row.item() == 0.5


def test_retained_graph_after_a_step_uses_the_old_values():
    p = lg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    optimizer = optim.SGD([p], lr=0.25)
    loss = (p * p * p).sum()
    loss.backward(retain_graph=True)
    optimizer.step()
    assert p.tolist() == [0.25, -1.0, -3.75]
    p.grad = None
    loss.backward()  # PyTorch raises here; the gradient at the value that was there is right
    assert p.grad.tolist() == [3.0, 12.0, 27.0]
    assert loss.item() == 36.0


def test_graph_not_walked_before_the_step_uses_the_old_values():
    p = lg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    optimizer = optim.SGD([p], lr=0.25)
    other = (p * p * p).sum()
    one_step(p, optimizer)
    p.grad = None
    other.backward()
    assert p.grad.tolist() == [3.0, 12.0, 27.0]


def test_writing_to_data_given_by_the_user_leaves_the_users_array():
    array = np.ones(4, np.float32)
    p = lg.tensor(array, requires_grad=True)
    one_step(p, optim.SGD([p], lr=0.25))
    assert p.tolist() == [0.5] * 4
    assert array.tolist() == [1.0] * 4


# ----------------------------------------------------------------------------------- plans


@pytest.mark.slow
def test_plans_do_not_hold_memory_without_bound(monkeypatch):
    # Chains of ever new lengths are ever new plans; they are forgotten by their size, not by
    # their number alone.
    assert KEPT.limit <= 128 << 20
    forget_plans()
    monkeypatch.setattr(KEPT, "limit", KEPT.loaded + size_of_plan(10_000, 10, 0))
    flush("test")
    before = live_nodes()
    for n in range(1000, 1045):
        x = lg.zeros(2)
        for _ in range(n):
            x = x + 0.5
        assert x.tolist() == [0.5 * n] * 2
    assert live_nodes() - before <= 20_000


FUNCTIONS = [lg.tanh, lg.sigmoid, lg.exp, lg.sin, lg.cos, lg.abs, lg.square, lg.erf]


def different_program(number):
    """A program, one of thousands, whose kernels are its own."""
    x = y = lg.ones(3, 4, requires_grad=True)
    for digit in np.base_repr(number + 8**3, 8):
        y = FUNCTIONS[int(digit)](y)
        if digit in "0246":
            y = y + y.sum(int(digit) % 4 // 2, keepdim=True)
    y.sum().backward()
    x.grad.sum().item()


def kept():
    """Plans, structures and kernels in memory, and the bytes they take by our own account."""
    gc.collect()
    plans = sum(map(len, runtime_plans._executables.values()))
    return plans, len(sizes._structures), len(assemble._kernels), KEPT.nbytes


@pytest.mark.slow
@pytest.mark.usefixtures("whole_plans")
def test_what_is_kept_of_many_programs_is_bounded(monkeypatch):
    forget_plans()
    gc.collect()
    start, others = KEPT.loaded, kept()[2]  # kernels of pieces stay
    monkeypatch.setattr(KEPT, "limit", start + (2 << 20))
    seen = []
    for number in range(160):
        different_program(number)
        if number % 20 == 19:
            seen.append(kept())
    plans, structures, kernels, nbytes = map(list, zip(*seen, strict=True))
    kernels = [count - others for count in kernels]
    for counts in (plans, structures, kernels):
        assert max(counts[3:]) <= 1.5 * max(counts[:3])
        assert max(counts) < 100
    assert max(nbytes) <= KEPT.limit + (1 << 20)
    assert KEPT.planned == sum(entry.nbytes for entry in KEPT.entries.values())
    # What was let go of is computed as before, and used again.
    for _ in range(2):
        different_program(0)


def test_what_is_used_stays(monkeypatch, counted):
    forget_plans()
    monkeypatch.setattr(KEPT, "limit", KEPT.loaded + (1 << 20))
    different_program(1)
    for number in range(100, 160):
        different_program(number)
        with counted() as c:
            different_program(1)
        assert c.plan_misses == 0


@pytest.mark.usefixtures("whole_plans")
def test_kernels_are_unloaded_with_the_last_plan_that_runs_them():
    forget_plans()
    x = lg.ones(3, 5)
    x.tolist()  # the last flush is remembered for explain()
    gc.collect()
    before, known = KEPT.loaded, set(assemble._kernels)
    first = (x.sin() * 2 + x.cos()).tolist()
    assert KEPT.loaded > before
    assert set(assemble._kernels) > known
    forget_plans()
    lg.ones(3, 5).tolist()
    gc.collect()
    assert KEPT.loaded == before
    assert set(assemble._kernels) == known
    assert (x.sin() * 2 + x.cos()).tolist() == first


def test_specs_that_nobody_uses_are_forgotten(monkeypatch):
    monkeypatch.setattr(Specs, "sweep_at", Specs.made + 100)
    x = lg.ones(7)
    kept = x + 1
    spec = kept._node.spec
    for n in range(2, 300):
        lg.ones(1, n, 1, 3, 1) + 1  # as in no other test, which may still have it
        if n % 50 == 0:
            flush("test")
            forget_plans()
    Specs.sweep()
    metas = [s.meta for s in REGISTRY["add"].cache.values()]
    left = [m for m in metas if m.shape[2:] == (1, 3, 1) and m.shape[1] in range(10, 200)]
    assert left == []
    assert (x + 2)._node.spec is spec


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_memory_of_kernels_is_given_back():
    """Linking and letting go of the same code many times takes no more memory than once."""
    forget_plans()
    code = jit.object_code(CODE)

    def link(count):
        kernels = [jit.Kernel(code, "f") for _ in range(count)]
        assert len({kernel.address for kernel in kernels}) == count

    for _ in range(3):
        link(200)
    gc.collect()
    before = resident_bytes()
    for _ in range(10):
        link(200)
    gc.collect()
    # Kept, these would be 2000 times two pages at least.
    assert resident_bytes() - before < 4 << 20


CODE = "define i64 @f(i64 %x) {\n  %y = add i64 %x, 41\n  ret i64 %y\n}"
