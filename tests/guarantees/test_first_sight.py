"""A graph that nobody has seen before runs at once, with the bits of a whole plan."""

from __future__ import annotations

import random
import re
from dataclasses import asdict

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim
from livegrad.autograd import pending
from livegrad.graph.handle import node_of
from livegrad.graph.watch import BLAMING
from livegrad.runtime import alone, sight
from livegrad.runtime.counters import counters
from livegrad.runtime.cpu.pieces import flushing
from livegrad.runtime.cpu.pieces.desk import DESK
from livegrad.runtime.cpu.pieces.families import family_of
from livegrad.runtime.cpu.pieces.layout import ENTRIES, ENTRY


@pytest.fixture
def by_pieces(monkeypatch):
    """Whatever can be is run piece by piece."""
    monkeypatch.setattr(sight.Policy, "pieces", True)


@pytest.fixture
def asking(monkeypatch):
    """Gradients are asked about, as they are for users."""
    monkeypatch.setattr(BLAMING, "enabled", True)
    monkeypatch.setattr(BLAMING, "reads", False)


def in_whole_plans(program, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(sight.Policy, "whole", True)
        patched.setattr(sight.Runtime, "by_pieces", False)
        return program()


# ------------------------------------------------------------------------------ random programs

UNARY = (
    lg.sin, lg.tanh, lg.sigmoid, lg.relu, lg.abs, F.softplus, F.gelu,
    lambda x: x * x, lambda x: x.softmax(-1), lambda x: x - x.mean(0),
    lambda x: x.t().contiguous().t(),
)  # fmt: skip
BINARY = (lg.add, lg.sub, lg.mul, lg.maximum, lambda a, b: lg.where(a > b, a, b * 2))


class Changing:
    """Another graph over the same weights at every step, of other sizes too."""

    def __init__(self, seed, widths=(8,), most=7):
        self.chance, self.widths, self.most = random.Random(seed), widths, most
        rng = np.random.default_rng(seed)
        shapes = [(8, 8), (8, 8), (8,)]
        self.weights = [
            lg.tensor(rng.normal(size=s).astype(np.float32) / 3, requires_grad=True) for s in shapes
        ]
        self.optimizer = optim.Adam(self.weights, lr=1e-2)
        self.data = rng.normal(size=(64, 8)).astype(np.float32)

    def loss(self):
        chance, (v, w, b) = self.chance, self.weights
        rows = chance.choice(self.widths)
        values = [lg.tensor(self.data[:rows])]
        for _ in range(chance.randrange(2, self.most)):
            kind = chance.randrange(4)
            if kind == 0:
                values.append(chance.choice(values) @ chance.choice((v, w)))
            elif kind == 1:
                values.append(chance.choice(values) + b)
            elif kind == 2:
                values.append(chance.choice(UNARY)(chance.choice(values)))
            else:
                values.append(chance.choice(BINARY)(chance.choice(values), chance.choice(values)))
        return ((values[-1] @ w + b) ** 2).mean()

    def step(self):
        self.optimizer.zero_grad()
        loss = self.loss()
        loss.backward()
        self.optimizer.step()
        return loss


def trained(seed, steps, widths, reads=False):
    """Losses, gradients and weights of some steps, as bytes."""
    program = Changing(seed, widths)
    found = []
    for _ in range(steps):
        loss = program.step()
        if reads:
            found.append(loss.detach().numpy().tobytes())
    grads = [w.grad for w in program.weights if w.grad is not None]
    found += [x.detach().numpy().tobytes() for x in (*program.weights, *grads, loss)]
    return found


@pytest.mark.parametrize("seed", range(12))
def test_pieces_give_the_bits_of_whole_plans(seed, by_pieces, monkeypatch):
    widths = (8,) if seed % 2 else (1, 2, 5, 8, 13, 40)
    before = counters.listed
    pieces = trained(seed, 5, widths, reads=seed % 3 == 0)
    assert counters.listed > before
    assert pieces == in_whole_plans(lambda: trained(seed, 5, widths, seed % 3 == 0), monkeypatch)


def test_a_read_before_backward_changes_no_bit(by_pieces, monkeypatch):
    def program():
        w = lg.tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4), requires_grad=True)
        y = (w @ w.t()).tanh()
        first = y.sum().item()
        (y * y).sum().backward()
        return first, w.grad.numpy().tobytes()

    assert program() == in_whole_plans(program, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_backward_pass_begins_with_one_in_every_dtype(dtype, by_pieces):
    x = lg.ones(3, dtype=getattr(lg, dtype), requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_new_structures_soon_compile_nothing(by_pieces):
    """Pieces are of ops, dtypes and how memory is walked, whatever they are put together to."""
    # A size of 1, or equal to another, is another structure. All ops and gradients occur early.
    program = Changing(7, tuple([n for n in range(2, 64) if n != 8]), most=40)
    for _ in range(100):
        program.step()
    before = counters.kernels_made, counters.compiles, counters.plan_misses
    made = counters.pieces_made
    for _ in range(900):
        program.step()
    assert (counters.kernels_made, counters.compiles, counters.plan_misses) == before
    assert counters.pieces_made - made < 30  # sizes that are 1, or equal, for the first time


@pytest.mark.parametrize("made_here", [True, False])
def test_a_part_of_what_is_large_is_changed_on_a_list_if_it_is_made_there(made_here, by_pieces):
    """A copy of zeros costs no more than making them; one of what was there before, much more."""
    rows, added = 4096, lg.ones(3, 64)

    def program(count):
        x = lg.zeros(rows, 64)
        if not made_here:
            x = x + 1
            x.sum().item()
        y = x.index_add(0, lg.arange(count), added[:count] * 2)
        return (y * 3).sum().item() - x.sum().item() * 3

    assert program(2) == 2 * 64 * 6
    before = counters.plan_misses
    assert program(3) == 3 * 64 * 6
    assert (counters.plan_misses == before) is made_here


CLIPS = (
    lambda weights: nn.utils.clip_grad_norm_(weights, 0.1),
    lambda weights: nn.utils.clip_grad_value_(weights, 0.01),
)


def clipped_steps(clip, reads, count, seed=3):
    """Losses and weights of steps that clip gradients; the norm, or a gradient, may be read."""
    program, found = Changing(seed), []
    for _ in range(count):
        program.optimizer.zero_grad()
        loss = program.loss() + sum([(w * w).mean() for w in program.weights])  # all have gradients
        loss.backward()
        norm = clip(program.weights)
        if reads:
            found.append((norm if norm is not None else program.weights[1].grad).tolist())
        program.optimizer.step()
        found.append(loss.item())
    return found, [w.tolist() for w in program.weights]


@pytest.mark.parametrize("clip", CLIPS, ids=["norm", "value"])
@pytest.mark.parametrize("reads", [False, True])
def test_what_clips_gradients_is_planned_once(clip, reads, asking, monkeypatch):
    """Gradients are asked about before they are clipped, in the middle of what is new of a step:
    the question is answered after the list."""
    clipped_steps(clip, reads, 4)
    found = clipped_steps(clip, reads, 20)
    before, listed = counters.plan_misses, counters.listed
    clipped_steps(clip, reads, 30, seed=4)
    assert counters.plan_misses == before
    assert counters.listed - listed >= 30
    assert in_whole_plans(lambda: clipped_steps(clip, reads, 20), monkeypatch) == found


def test_a_cat_of_many_parts_needs_kernels_of_few_kinds(by_pieces):
    def step(parts):
        w = lg.tensor([[0.5], [0.2], [0.3]], requires_grad=True)
        y = lg.cat([w * float(i) for i in range(parts)], 1)
        (y * y).sum().backward()
        return w.grad.tolist()

    # A kernel does eight of them, or what is left; more than 16 are joined in a tree.
    for parts in (*range(8, 17), 23, 41, 77, 100):
        step(parts)
    before = counters.kernels_made
    for parts in (22, 30, 40, 64, 75, 99):
        twice_squares = 2 * sum([i * i for i in range(parts)])
        np.testing.assert_allclose(
            np.ravel(step(parts)), [0.5 * twice_squares, 0.2 * twice_squares, 0.3 * twice_squares],
            rtol=1e-5,
        )  # fmt: skip
    assert counters.kernels_made == before


@pytest.mark.parametrize("uses", [2, 3, 9, 40])
def test_a_gradient_of_many_uses_needs_no_kernel_of_its_own(uses, by_pieces):
    def step(times):
        w = lg.tensor([[0.5, 0.1], [0.2, 0.3]], requires_grad=True)
        x = lg.ones(3, 2)
        for _ in range(times):
            x = (x @ w).tanh()
        x.sum().backward()
        return w.grad.tolist()

    step(5)
    before = counters.kernels_made, counters.pieces_made
    step(uses)
    assert (counters.kernels_made, counters.pieces_made) == before


# ---------------------------------------------------------------------------- what comes again


def test_what_repeats_is_planned_when_it_has_cost_enough(monkeypatch):
    monkeypatch.setattr(sight.Policy, "price", 1000)
    monkeypatch.setattr(sight.Policy, "patience", 1)
    sight.forget()
    x = lg.tensor(np.ones((7, 5), np.float32))

    def run():
        return (x.sin() * 3 + x.cos()).sum().numpy().tobytes()

    results = {run() for _ in range(4)}
    before = counters.listed, counters.plan_hits
    results |= {run() for _ in range(3)}
    assert counters.listed == before[0], "still run piece by piece"
    assert counters.plan_hits == before[1] + 3
    assert len(results) == 1


def test_one_slow_run_does_not_have_a_backward_pass_recorded_rule_by_rule(monkeypatch):
    monkeypatch.setattr(sight.Policy, "price", 1)
    monkeypatch.setattr(sight.Policy, "patience", 1)
    monkeypatch.setattr(sight.Policy, "rule", 100)
    times = [0]

    def tick(cost):
        """Each question for the time comes so much after the last."""
        monkeypatch.setattr(sight, "_now", lambda: times.append(times[-1] + cost) or times[-1])

    weight, x = lg.ones(3, requires_grad=True), lg.arange(3.0)

    def step():
        loss = (weight * x).tanh().exp().sum()
        loss.item()  # a read, so that backward goes over values
        loss.backward()
        with lg.no_grad():
            weight.sub_(weight.grad)
        weight.grad = None

    def refused():
        return any(spec.refused for spec in pending.GRADIENT.cache.values())

    pending.GRADIENT.cache.clear()
    for cost in [10] * 5 + [10**9] + [10] * 5:
        tick(cost)
        step()
    assert not refused()
    pending.GRADIENT.cache.clear()
    sight.forget()
    tick(10**9)
    for _ in range(4):
        step()
    assert refused()


@pytest.mark.parametrize(
    "op", [lambda x: x.sum(0), lambda x: x.flip(0), lambda x: x.cumsum(0), lambda x: x.amax(0)]
)
def test_what_is_its_input_for_some_sizes_is_computed_for_others(by_pieces, op):
    """A sum of one element is that element: other sums must not be written where it lies."""
    x, alone = lg.arange(3.0) + 1, lg.ones(1)
    expected = op(x).tolist()
    # As in the next process, where pieces are found, but not yet proven for the first sizes.
    family_of(node_of(op(x))).role = -1
    op(alone).tolist()
    result = op(x)
    assert result.tolist() == expected
    assert x.tolist() == [1, 2, 3]
    assert op(x).tolist() == expected


def test_which_leaves_are_one_tells_plans_apart(monkeypatch):
    """Rows drawn from a buffer: some are drawn twice, others each time."""
    monkeypatch.setattr(sight.Policy, "price", 1)
    monkeypatch.setattr(sight.Policy, "patience", 1)
    rows = [lg.full((3,), float(i)) for i in range(8)]
    for row in rows:
        row.tolist()

    def drawn(*numbers):
        return lg.stack([rows[i] for i in numbers]).sum().item()

    before = counters.plan_misses
    for _ in range(6):
        assert drawn(0, 1, 0, 2) == 9
    assert counters.plan_misses == before + 1
    monkeypatch.setattr(sight.Policy, "patience", 1 << 60)
    listed = counters.listed
    for numbers in [(0, 0, 1, 2), (3, 4, 4, 4), (5, 6, 7, 7), (1, 2, 3, 4)]:
        assert drawn(*numbers) == 3 * sum(numbers)
    assert (counters.plan_misses, counters.listed) == (before + 1, listed + 4)
    assert drawn(3, 4, 3, 5) == 45  # as at first
    assert (counters.plan_misses, counters.listed) == (before + 1, listed + 4)


def test_leaves_that_are_others_each_time_have_nothing_planned(monkeypatch):
    """What has cost enough is planned for leaves that come again, not for those of one batch."""
    monkeypatch.setattr(sight.Policy, "price", 1)
    monkeypatch.setattr(sight.Policy, "patience", 1)
    alone.forget()
    sight.forget()
    rows = [lg.full((2, 3), float(i)) for i in range(9)]
    for row in rows:
        row.tolist()
    before = counters.plan_misses
    for i in range(1, 7):
        drawn = [rows[i // 3 + 1], rows[0], rows[i % 3], rows[i // 2]]
        assert (lg.stack(drawn).exp().sum() > 0).item()
    assert counters.plan_misses == before


@pytest.mark.slow
def test_ever_new_structures_do_not_go_on_being_planned_on_a_new_machine(python, tmp_path):
    program = """
import livegrad as lg
x = lg.ones(3)
for length in range(1, 13):
    y = x
    for _ in range(length):
        y = y * 2 + x
    y.sum().item()
print(lg.stats().plan_misses)
"""
    planned = int(python(program, LIVEGRAD_CACHE_DIR=str(tmp_path)).stdout)
    assert planned <= sight._PLANS_BEFORE


def test_what_planning_takes_is_learnt(monkeypatch):
    monkeypatch.setattr(sight.Policy, "price", 100.0)
    sight.note_price(3000, 10)
    assert sight.Policy.price == 200
    sight.note_price(1_000_000, 1)  # an update
    assert sight.Policy.price == 200


def test_the_first_step_of_a_model_plans_only_its_updates():
    sight.forget()
    model = nn.Sequential(nn.Linear(6, 11), nn.GELU(), nn.Linear(11, 3))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    before = counters.listed, counters.plan_misses
    F.cross_entropy(model(lg.ones(5, 6)), lg.tensor([0, 1, 2, 0, 1])).backward()
    optimizer.step()
    assert counters.listed > before[0]
    assert counters.plan_misses <= before[1] + 1


# ------------------------------------------------------------------------------------- refusals


def message_of(program, error):
    with pytest.raises(error) as caught:
        program()
    return re.sub(r"0x\w+", "", str(caught.value))


def index_out_of_range():
    table, index = lg.zeros(3, 2), lg.tensor([1, 7]) * 1
    F.embedding(index, table).tolist()


def division_by_zero():
    ((lg.tensor([4, 2]) * 1) // (lg.tensor([1, 0]) * 1)).tolist()


@pytest.mark.parametrize(
    ("program", "error"), [(index_out_of_range, IndexError), (division_by_zero, RuntimeError)]
)
def test_an_error_says_the_same_however_it_is_run(program, error, by_pieces, monkeypatch):
    found = message_of(program, error)
    assert "test_first_sight.py" in found
    assert found == in_whole_plans(lambda: message_of(program, error), monkeypatch)


def test_what_does_not_depend_on_a_refused_value_is_computed(by_pieces):
    good = lg.ones(3) * 2
    bad = F.embedding(lg.tensor([9]) * 1, lg.zeros(3, 2))
    with pytest.raises(IndexError):
        bad.tolist()
    assert good.tolist() == [2.0, 2.0, 2.0]


# ------------------------------------------------------------------------------------ being told


def test_explain_says_that_it_was_piece_by_piece_and_why(by_pieces):
    sight.forget()
    x = lg.tensor(np.ones((3, 4), np.float32))
    (x.exp() @ x.t()).tolist()
    from livegrad.runtime.report import explanation

    text = explanation()
    assert "piece by piece: its structure is new" in text
    assert "exp" in text
    assert "product" in text
    assert "test_first_sight.py" in text


def test_stats_count_flushes_by_pieces(by_pieces):
    before = lg.stats()
    (lg.ones(3) * 2 + 1).tolist()
    assert lg.stats().flushes_by_pieces == before.flushes_by_pieces + 1


def test_views_that_few_read_ask_python_only_once(by_pieces, monkeypatch):
    def step(n):
        x = lg.ones(n, 6)
        return ((x * 2)[:, 1:3].t().reshape(2, n) + (x + 1)[:, 2:4].t()).sum().item()

    for n in range(3, 12):  # pieces are made, and proven for other sizes
        step(n)
    asked = []
    provide = flushing.Sight._provide_forward
    monkeypatch.setattr(
        flushing.Sight,
        "_provide_forward",
        lambda self, node, again: asked.append(node) or provide(self, node, again),
    )
    assert [step(n) for n in (12, 13, 14)] == [96.0, 104.0, 112.0]
    assert asked == []


def test_ways_of_backward_passes_are_not_kept_for_ever(by_pieces, monkeypatch):
    monkeypatch.setattr(pending.Ways, "most", 500)
    x = lg.ones(3, requires_grad=True)
    for depth in range(1, 60):
        y = x
        for _ in range(depth):
            y = y * 1.5
        y.sum().backward()
        x.grad.tolist()
    assert pending.Ways.nbytes <= 500
    assert sum([len(way) for _, way in pending.GRADIENT.cache]) <= 500


def test_what_a_flush_has_given_up_is_not_run_by_the_next(by_pieces):
    """A flush that ran a part of its list may give up the rest, whose memory is gone then."""
    x = lg.ones(5)

    def kernels():
        before = counters.kernels_run
        assert (x * 2).tolist() == [2] * 5
        return counters.kernels_run - before

    kernels()
    usual = kernels()
    DESK[ENTRIES] += ENTRY
    assert kernels() == usual


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("packed", [False, True])
def test_recurrent_layers_of_new_lengths_plan_and_compile_nothing(kind, packed, by_pieces):
    """No part of them is left to NumPy; so a new length is a list of pieces that are there."""
    layer = getattr(nn, kind)(5, 12, num_layers=2, bidirectional=True)
    head = nn.Linear(24, 7)
    optimizer = optim.SGD([*layer.parameters(), *head.parameters()], lr=0.1)
    rng = np.random.default_rng(0)

    def step(length):
        x = lg.tensor(rng.normal(size=(length, 3, 5)).astype(np.float32))
        if packed:
            x = nn.utils.rnn.pack_padded_sequence(x, [length, length - 3, length - 7])
        optimizer.zero_grad()
        y, _ = layer(x)
        out = head(y.data if packed else y.reshape(-1, 24))
        (out * out).mean().backward()
        optimizer.step()

    for length in (25, 27, 29):
        step(length)
    # A number of packed sequences is read at once, or, while something waits, by a piece.
    assert (lg.tensor([3, 4])[0] + lg.tensor([1, 2])[1]).item() == 5
    before = asdict(counters)
    # Odd, as are the numbers of rows: none is equal to the width of something.
    for length in range(51, 91, 2):
        step(length)
    rise = {name: value - before[name] for name, value in asdict(counters).items()}
    assert rise["plan_misses"] == rise["kernels_made"] == rise["pieces_made"] == 0
    assert rise["host_steps"] == 0
    assert rise["listed"] >= 20


def test_sizes_that_take_turns_are_computed_once_for_a_list(by_pieces):
    from livegrad.runtime.cpu.pieces.desk import DESK
    from livegrad.runtime.cpu.pieces.layout import STAMP

    small, large = lg.ones(1, 3), lg.ones(1, 5)
    narrow, wide = lg.ones(3, 3), lg.ones(5, 5)

    def step(times):
        x, y = small, large
        for _ in range(times):
            x, y = x @ narrow * 0.25, y @ wide * 0.125
        return (x.sum() + y.sum()).item()

    step(3)
    before = DESK[STAMP]
    step(40)
    few = DESK[STAMP] - before
    assert few <= 8  # of 160 nodes, of two sizes each kind


def test_cards_are_found_again_through_views_only_if_these_are_the_same(by_pieces):
    rng = np.random.default_rng(0)
    given = rng.standard_normal((4, 6)).astype("f")

    def values(xp, x):
        parts = []
        for k in range(3):
            view, other = x[:, k : k + 3], x.reshape(3, 8)[:, k : k + 3]
            parts += [(view * 2).sum(), (other[:, 0] * 2).sum(), (x[:, k] * 2).sum()]
            whole = view + 0
            parts += [(whole * 2).sum(), (whole.reshape(-1) * 2).sum()]
        return parts

    found = [part.item() for part in values(lg, lg.tensor(given))]
    np.testing.assert_allclose(found, [float(x) for x in values(np, given)], rtol=1e-5)
