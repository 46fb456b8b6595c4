"""Operations on little data are run when they are recorded, once a program reads often."""

from __future__ import annotations

import gc
import random

import numpy as np
import pytest

import livegrad as lg
from livegrad.graph.events import listen
from livegrad.graph.state import AT_ONCE, LOCAL
from livegrad.runtime import alone
from livegrad.runtime.counters import counters


def read_often(times=2 * alone.ENOUGH):
    """What a program does until its operations are run when recorded."""
    x = lg.tensor([1.0, 2.0, 3.0])
    for _ in range(times):
        assert (x.sum() * 2).item() == 12.0


@pytest.fixture(autouse=True)
def as_in_a_new_process():
    """What threads of earlier tests have left keeps operations lazy."""
    gc.collect()


@pytest.fixture
def at_once():
    alone.turn_on()
    assert AT_ONCE.is_on
    yield
    alone.forget()


def often(operation, times=2 * alone._SIGHTS):
    """The result of an operation, and of it again when it has been seen often."""
    first = operation()
    first.tolist()
    for _ in range(times):
        operation()
    return first, operation()


def is_computed(x):
    return x._node.buffer is not None


def test_explain_leaves_it_on(capsys):
    read_often()
    lg.explain()
    before = counters.flushes
    read_often()
    assert counters.flushes - before <= alone._SIGHTS + 1


def test_small_flushes_turn_it_on():
    read_often()
    assert AT_ONCE.is_on
    before = counters.flushes
    read_often()
    assert counters.flushes - before <= alone._SIGHTS + 1


def test_large_flushes_that_repeat_do_not():
    x = lg.tensor([1.0, 2.0])
    for _ in range(3 * alone.ENOUGH):
        y = x
        for _ in range(2 * alone.FEW):
            y = y + 1
        y.sum().item()
    assert not AT_ONCE.is_on


def test_after_a_while_the_program_is_looked_at_again(at_once):
    alone._EVIDENCE.left = 20
    x = lg.tensor([1.0, 2.0])
    for _ in range(22):
        x[1].item()
    assert not AT_ONCE.is_on


def test_nothing_is_pending(at_once):
    x = lg.tensor([[1.0, 2.0], [3.0, 4.0]])
    _, y = often(lambda: x[1, 0] + 2.5)
    assert is_computed(y)
    assert y.item() == 5.5
    assert not LOCAL.state.nodes or LOCAL.state.nodes[-1] is not y._node


OPERATIONS = {
    "add": lambda x, y: x + y,
    "number": lambda x, y: x * 3,
    "compare": lambda x, y: x > y,
    "exp": lambda x, y: lg.exp(x),
    "row": lambda x, y: x[1],
    "column": lambda x, y: x[:, 1],
    "element": lambda x, y: x[1, 2],
    "sum": lambda x, y: x.sum(1),
    "argmax": lambda x, y: x.argmax(0),
    "view": lambda x, y: x.view(-1),
    "transposed": lambda x, y: x.t() + 1,
    "cat": lambda x, y: lg.cat([x, y], 1),
    "where": lambda x, y: lg.where(x > y, x, y),
    "matmul": lambda x, y: x @ y.t(),
    "cast": lambda x, y: x.to(lg.float64),
    "softmax": lambda x, y: x.softmax(1),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool"])
def test_the_bits_are_those_of_a_flush(name, dtype, at_once):
    rng = np.random.default_rng(3)
    x, y = (lg.tensor(rng.uniform(-2, 3, (2, 3)).round(2).astype(dtype)) for _ in range(2))
    try:
        lazily, now = often(lambda: OPERATIONS[name](x, y))
    except (RuntimeError, NotImplementedError):
        return  # not an operation of this dtype
    assert now.dtype is lazily.dtype
    assert now.numpy().tobytes() == lazily.numpy().tobytes()
    assert now.stride() == lazily.stride()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float32", "float64"])
def test_elements_are_written_where_they_lie(dtype, at_once):
    values = np.arange(12).reshape(3, 4).astype(dtype)
    x, wanted = lg.tensor(values), values.copy()
    chance = random.Random(1)
    for _ in range(200):
        i, j, k, m = [chance.randrange(n) for n in (3, 4, 3, 4)]
        x[i, j] = x[k, m]
        wanted[i, j] = wanted[k, m]
    assert x.numpy().tobytes() == wanted.tobytes()


def test_elements_are_changed_where_they_lie(at_once):
    x, wanted = lg.zeros(1000), np.zeros(1000, "f")
    chance = random.Random(0)
    address = None
    for number in range(300):
        i = chance.randrange(1000)
        x[i] += 1
        wanted[i] += 1
        assert x[i].item() == wanted[i]
        if number == 100:
            address = x._node.buffer.ptr
    assert x._node.buffer.ptr == address
    assert x.tolist() == wanted.tolist()
    assert x._version == 2 * 300


def test_a_copy_keeps_the_old_value(at_once):
    x = lg.zeros(4)
    for _ in range(3 * alone._SIGHTS):
        x[1] += 1
        x[1].item()
    kept, detached, other = x.clone(), x.detach(), x
    view, old = x[1], x[1] * 1
    before = x[1].item()
    x[1] += 1
    assert kept[1].item() == old.item() == before
    assert view.item() == detached[1].item() == other[1].item() == x[1].item() == before + 1


def test_what_somebody_else_sees_is_not_overwritten(at_once):
    x = lg.zeros(4)
    for _ in range(3 * alone._SIGHTS):
        x[1] += 1
        x[1].item()
    pending = x * 2 + lg.ones(4)
    held = x._node.buffer
    before = x.tolist()
    x[1] += 1
    assert held is not x._node.buffer or not is_computed(x)
    assert pending.tolist() == [2 * number + 1 for number in before]


def test_graphs_are_recorded(at_once):
    w = lg.tensor([1.0, 2.0], requires_grad=True)
    for _ in range(3 * alone._SIGHTS):
        y = w[1] * 3
        assert y.requires_grad
        y.item()
    y.backward()
    assert w.grad.tolist() == [0.0, 3.0]


def test_a_table_filled_cell_by_cell_needs_no_flush(at_once):
    def filled():
        table = lg.zeros(4, 5)
        table[:, 0] = lg.arange(4)
        table[0, :] = lg.arange(5)
        for i in range(1, 4):
            for j in range(1, 5):
                gap = lg.minimum(table[i - 1, j], table[i, j - 1]) + 1
                changed = table[i - 1, j - 1] + (i != j)
                table[i, j] = lg.minimum(gap, changed)
        return table[-1, -1]

    for _ in range(2 * alone._SIGHTS):
        assert filled().item() == 1.0
    before = counters.flushes
    assert filled().item() == 1.0
    assert counters.flushes == before


def test_refused_values_are_told_as_ever(at_once):
    x, zero = lg.tensor([4, 6]), lg.tensor(0)
    for _ in range(3 * alone._SIGHTS):
        assert (x[1] // 2).item() == 3
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        (x[1] // (zero * 1)).item()
    assert (x[0] // 2).item() == 2


def test_who_listens_hears_of_everything(at_once):
    x = lg.tensor([1.0, 2.0])
    often(lambda: x + 1)
    heard = []
    with listen("recorded", heard.append):
        y = x + 1
    assert not is_computed(y)
    assert len(heard) == 1


def test_as_python_it_means_the_same(at_once, untranslated):
    alone.turn_on()  # as Python's functions
    x, total = lg.tensor([1.0, 2.0, 4.0]), 0.0
    for k in range(100):
        x[k % 3] += 1
        total += (x[k % 3] * 2).item()
    assert x.tolist() == [35.0, 35.0, 37.0]
    assert total == sum(
        2 * (v + n) for v, c in ((1, 34), (2, 33), (4, 33)) for n in range(1, c + 1)
    )


def test_places_that_tensors_name_take_no_other_dtype():
    """As in PyTorch: slices convert what is written, index tensors do not."""
    x = lg.zeros(6)
    x[1:3] = lg.tensor([4, 2])
    assert x.tolist() == [0.0, 4.0, 2.0, 0.0, 0.0, 0.0]
    for places, values in (([1, 2], [4, 2]), ([[1], [2]], [[4], [2]]), ([1, 2], 4)):
        with pytest.raises(RuntimeError, match="Index put requires"):
            x[lg.tensor(places)] = lg.tensor(values)
    assert x.tolist() == [0.0, 4.0, 2.0, 0.0, 0.0, 0.0]
