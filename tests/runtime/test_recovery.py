"""After a refused value: what failed raises, everything else has its value, writes are undone."""

from __future__ import annotations

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad.graph.state import LOCAL


def unknown(*values: int) -> lg.Tensor:
    """Integers that are not computed yet."""
    return lg.tensor(list(values)) + 0


def test_a_failed_write_leaves_what_was_there():
    x = lg.zeros(3)
    x[unknown(5)] = 1.0
    with pytest.raises(IndexError, match="5 is out of bounds"):
        x.tolist()
    assert x.tolist() == [0.0, 0.0, 0.0]
    x[unknown(1)] = 2.0
    assert x.tolist() == [0.0, 2.0, 0.0]


def test_a_failed_write_does_not_count():
    x, base = lg.zeros(3), lg.zeros(2, 3)
    row = base[0]
    x.add_(1)
    base.add_(1)
    x[unknown(5)] = 1.0
    row[unknown(5)] = 1.0
    with pytest.raises(IndexError):
        x.tolist()
    assert (x._version, base._version, row._version) == (1, 1, 1)
    assert row.tolist() == [1.0, 1.0, 1.0]


def test_a_try_around_the_read_catches_it():
    x = lg.arange(3.0)
    try:
        x[unknown(7)] = 1.0
        total = x.sum().item()
    except IndexError:
        total = -1.0
    assert total == -1.0
    assert (x + 1).tolist() == [1.0, 2.0, 3.0]


def test_several_writes_go_back_to_before_the_first_that_failed():
    x = lg.zeros(3)
    x += 1
    x[unknown(9)] = 5.0
    x *= 10
    with pytest.raises(IndexError):
        x.tolist()
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_views_and_base_go_back_together():
    base = lg.zeros(2, 3)
    row, column = base[0], base[:, 1]
    row[unknown(4)] = 1.0
    with pytest.raises(IndexError):
        base.tolist()
    column += 3
    assert base.tolist() == [[0.0, 3.0, 0.0], [0.0, 3.0, 0.0]]
    assert row.tolist() == [0.0, 3.0, 0.0]
    base[unknown(2)] = 1.0
    with pytest.raises(IndexError):
        row.tolist()
    assert (row.tolist(), column.tolist()) == ([0.0, 3.0, 0.0], [3.0, 3.0])


def test_an_innocent_write_in_the_same_kernel_stays():
    a, b, c = lg.arange(1, 4), lg.arange(1, 4), lg.arange(1, 4)
    a //= unknown(1, 1, 2)
    b //= unknown(1, 0, 2)
    c %= unknown(3, 2, 2)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        c.tolist()
    assert a.tolist() == [1, 2, 1]
    assert b.tolist() == [1, 2, 3]
    assert c.tolist() == [1, 0, 1]


def test_two_failures_raise_the_first_line_and_both_are_undone():
    x, y = lg.zeros(2), lg.zeros(3)
    x[unknown(5)] = 1.0
    y[unknown(6)] = 1.0
    with pytest.raises(IndexError, match=r"5.*x\[unknown"):
        y.tolist()
    assert (x.tolist(), y.tolist()) == ([0.0, 0.0], [0.0, 0.0, 0.0])


def test_everything_else_is_computed_by_the_flush_that_fails():
    x = lg.arange(4.0)
    before, bad, after = x + 1, x[unknown(9)], x * 2
    needs_bad = bad.sum() + after
    with pytest.raises(IndexError):
        needs_bad.tolist()
    assert before._node.buffer is not None
    assert after._node.buffer is not None
    assert not LOCAL.state.nodes
    for failed in (bad, needs_bad):
        with pytest.raises(IndexError):
            failed.tolist()
    assert (before + after).tolist() == [1.0, 4.0, 7.0, 10.0]


def test_a_loss_that_fails_leaves_running_statistics_and_parameters():
    model = lg.nn.Sequential(lg.nn.Linear(3, 3), lg.nn.BatchNorm1d(3))
    optimizer = lg.optim.SGD(model.parameters(), lr=0.1)
    before = {name: x.clone() for name, x in model.state_dict().items()}
    lg.stack([x.sum() for x in before.values()]).tolist()
    optimizer.zero_grad()
    F.cross_entropy(model(lg.randn(4, 3)), unknown(0, 1, 2, 3)).backward()
    with pytest.raises(IndexError, match="Target 3"):
        optimizer.step()
    for name, parameter in model.named_parameters():
        assert parameter.tolist() == before[name].tolist()
    optimizer.zero_grad()
    F.cross_entropy(model(lg.randn(4, 3)), unknown(0, 1, 2, 0)).backward()
    optimizer.step()
    assert model[0].weight.tolist() != before["0.weight"].tolist()


def test_failures_of_one_backward_are_told_apart():
    weight = lg.ones(3, requires_grad=True)
    other = lg.ones(2, requires_grad=True)
    (weight * 2).sum().backward()
    (other * 3).sum().backward()
    bad = weight[unknown(3)]
    with pytest.raises(IndexError):
        bad.tolist()
    assert weight.grad.tolist() == [2.0, 2.0, 2.0]
    assert other.grad.tolist() == [3.0, 3.0]


def test_a_host_step_that_fails_is_taken_out_alone():
    good, bad = lg.eye(2) * 2, lg.zeros(2, 2) + 0
    x, y = lg.linalg.inv(good), lg.linalg.inv(bad)
    after = x + 1
    with pytest.raises(RuntimeError, match="singular"):
        after.tolist()
    np.testing.assert_allclose(after.tolist(), [[1.5, 1.0], [1.0, 1.5]])
    with pytest.raises(RuntimeError, match="singular"):
        y.tolist()


@pytest.mark.parametrize("repeat", range(4))
def test_a_plan_that_repeats_recovers_every_time(repeat):
    for number in range(6):
        x, y = lg.zeros(4), lg.ones(4)
        x[unknown(number)] = 1.0
        y += 1
        if number < 4:
            assert x.sum().item() == 1.0
        else:
            with pytest.raises(IndexError, match=f"index {number}"):
                x.sum().item()
            assert x.tolist() == [0.0] * 4
        assert y.tolist() == [2.0] * 4
