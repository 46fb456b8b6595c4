"""Uses of a weight by single rows: gradients that are added up several at a time, to the bit."""

from __future__ import annotations

import random

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad.runtime import sight
from livegrad.runtime.cpu.pieces import making
from livegrad.runtime.cpu.pieces.layout import USES_OFF, WORD
from livegrad.runtime.cpu.pieces.uses import LEAST_UNITED, MOST_UNITED


@pytest.fixture(autouse=True)
def by_pieces(monkeypatch):
    monkeypatch.setattr(sight.Policy, "pieces", True)


def drawn(seed, *shape, dtype=lg.float32):
    values = np.random.default_rng(seed).normal(size=shape) / 4
    return lg.tensor(values).to(dtype).requires_grad_()


def bits(*tensors):
    return [x.detach().to(lg.float64).numpy().tobytes() for x in tensors]


def one_by_one(program, monkeypatch):
    """What a program gives if no uses are merged."""
    with monkeypatch.context() as patched:
        patched.setattr(making, "uses_of", lambda question: None)
        before = {key: table[USES_OFF // WORD] for key, table in making._uses.items()}
        for table in making._uses.values():
            table[USES_OFF // WORD] = 1
        try:
            return program()
        finally:
            for key, off in before.items():
                making._uses[key][USES_OFF // WORD] = off


def in_whole_plans(program, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(sight.Policy, "whole", True)
        patched.setattr(sight.Runtime, "by_pieces", False)
        return program()


def check(program, monkeypatch, counted, merged):
    """The program has the same bits however it is run, and so many uses are merged."""
    with counted() as rise:
        found = program()
    assert rise.united == merged
    with counted() as rise:
        alone = one_by_one(program, monkeypatch)
    assert rise.united == 0
    assert found == alone
    assert found == in_whole_plans(program, monkeypatch)


def tree(chance, leaves, table, w, u):
    """The state of a random tree, written example by example."""
    if leaves == 1:
        return lg.tanh(table[chance.randrange(len(table))].unsqueeze(0) @ u)
    left = chance.randrange(1, leaves)
    parts = tree(chance, left, table, w, u), tree(chance, leaves - left, table, w, u)
    a, b = (lg.cat(parts, 1) @ w).chunk(2, 1)
    return lg.sigmoid(a) * lg.tanh(b) + parts[0]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", [lg.float32, lg.float64], ids=str)
def test_trees(seed, dtype, monkeypatch, counted):
    width = (64, 70, 96)[seed]

    def program():
        chance = random.Random(seed)
        table = drawn(1, 9, width, dtype=dtype)
        w, u = drawn(2, 2 * width, 2 * width, dtype=dtype), drawn(3, width, width, dtype=dtype)
        trees = [tree(chance, 7, table, w, u) for _ in range(5)]
        loss = lg.stack([x.square().sum() for x in trees]).mean()
        loss.backward()
        return bits(loss, table.grad, w.grad, u.grad)

    # All but the first of the 30 inner nodes and the 35 leaves.
    check(program, monkeypatch, counted, 29 + 34)


@pytest.mark.parametrize("dtype", [lg.float16, lg.bfloat16], ids=str)
def test_half_precisions_are_rounded_after_each_sum(dtype, monkeypatch, counted):
    def program():
        w = drawn(1, 64, 64, dtype=dtype)
        xs = [drawn(2 + i, 1, 64, dtype=dtype) for i in range(20)]
        lg.stack([lg.tanh(x @ w).sum() for x in xs]).sum().backward()
        return bits(w.grad, *[x.grad for x in xs])

    check(program, monkeypatch, counted, 19)


@pytest.mark.parametrize("count", [1, 8, 9, 10, 16, 17, 18, 23, 25])
def test_any_number_of_uses(count, monkeypatch, counted):
    def program():
        w = drawn(1, 64, 80)
        xs = [drawn(2 + i, 1, 64) for i in range(count)]
        lg.stack([lg.sin(x @ w).sum() for x in xs]).sum().backward()
        return bits(w.grad, *[x.grad for x in xs])

    check(program, monkeypatch, counted, count - 1 if count > MOST_UNITED else 0)


def test_inputs_without_a_gradient(monkeypatch, counted):
    def program():
        w = drawn(1, 64, 80)
        xs = [drawn(2 + i, 1, 64).detach() for i in range(12)]
        lg.stack([lg.sin(x @ w).sum() for x in xs]).sum().backward()
        return bits(w.grad)

    check(program, monkeypatch, counted, 11)


def test_linear_layers(monkeypatch, counted):
    def program():
        weight, bias = drawn(1, 80, 64), drawn(2, 80)
        xs = [drawn(3 + i, 1, 64) for i in range(21)]
        lg.stack([F.gelu(F.linear(x, weight, bias)).sum() for x in xs]).sum().backward()
        return bits(weight.grad, bias.grad, *[x.grad for x in xs])

    check(program, monkeypatch, counted, 20)


def test_other_uses_come_where_they_came(monkeypatch, counted):
    """What is no product with one row is added between those that are, in the order of the walk."""

    def program():
        w = drawn(1, 64, 80)
        terms = []
        for i in range(30):
            rows = 3 if i in (11, 12, 20) else 1
            terms.append(lg.tanh(drawn(2 + i, rows, 64) @ w).sum())
            if i == 15:
                terms.append(w.square().sum())
        total = terms[0]
        for term in terms[1:]:
            total = total * 0.9 + term
        total.backward()
        return bits(total, w.grad)

    with counted() as rise:
        found = program()
    assert 15 < rise.united < 27
    assert found == one_by_one(program, monkeypatch)
    assert found == in_whole_plans(program, monkeypatch)


def test_small_weights_are_left_alone(monkeypatch, counted):
    def program():
        w = drawn(1, 8, 9)
        assert w.numel() < LEAST_UNITED
        lg.stack([lg.tanh(drawn(2 + i, 1, 8) @ w).sum() for i in range(20)]).sum().backward()
        return bits(w.grad)

    check(program, monkeypatch, counted, 0)


def test_a_gradient_that_is_there_already(monkeypatch, counted):
    def program():
        w = drawn(1, 64, 80)
        for part in range(2):
            xs = [drawn(2 + 50 * part + i, 1, 64) for i in range(12)]
            lg.stack([lg.tanh(x @ w).sum() for x in xs]).sum().backward()
        return bits(w.grad)

    check(program, monkeypatch, counted, 22)


def test_long_lists_that_are_run_in_parts(monkeypatch, counted):
    def program():
        w = drawn(1, 64, 64)
        x, total = drawn(2, 1, 64), 0.0
        for _ in range(1200):
            x = lg.tanh(x @ w)
            total = total + x.sum()
        total.backward()
        return bits(w.grad)

    with counted() as rise:
        found = program()
    assert rise.united == 1199
    assert found == one_by_one(program, monkeypatch)


def test_what_was_merged_is_told(capsys):
    w = drawn(1, 64, 80)
    lg.stack([lg.tanh(drawn(2 + i, 1, 64) @ w).sum() for i in range(20)]).sum().backward()
    w.grad.numpy()
    lg.explain()
    assert "gradients of 19 uses of weights merged" in capsys.readouterr().out


def test_a_refused_value_names_its_line():
    w, table = drawn(1, 64, 80), drawn(2, 5, 64)
    # 9 is out of range, which shows when it is computed.
    places = [lg.tensor([9 if i == 13 else i % 5]) * 1 for i in range(20)]
    terms = []
    for place in places:
        row = table.index_select(0, place)  # the line to blame
        terms.append(lg.tanh(row @ w).sum())
    lg.stack(terms).sum().backward()
    for _ in range(2):
        with pytest.raises(IndexError) as caught:
            w.grad.numpy()
        assert caught.traceback[-1].statement.lines[0].endswith("# the line to blame")
    assert terms[12].item() == pytest.approx(lg.tanh(table[2:3] @ w).sum().item())


FIRST_LIST = """
import livegrad as lg
import livegrad.nn.functional as F
from livegrad.runtime import sight
from livegrad.runtime.counters import counters

sight.Policy.pieces = True
weight, bias = [lg.full(shape, 0.01, requires_grad=True) for shape in ((96, 133), (96,))]
hidden = lg.zeros(1, 96)
for letter in lg.ones(12, 1, 37):
    hidden = F.linear(lg.cat((letter, hidden), 1), weight, bias)
hidden.sum().backward()
weight.grad.sum().item()
print(counters.united, counters.plan_misses)
"""


def test_the_last_use_has_a_piece_for_what_is_left_when_it_waits(python):
    """Its input, unlike the others', is no part of the graph: another piece gives the bias's."""
    assert python(FIRST_LIST).stdout.split() == ["11", "0"]
