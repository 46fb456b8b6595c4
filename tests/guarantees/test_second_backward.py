"""A second backward: works while the values exist, else names the two lines that ended it."""

from __future__ import annotations

import inspect

import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim


def here():
    """The number of the line that calls this."""
    return inspect.currentframe().f_back.f_lineno


def parameter():
    return lg.tensor([1.0, 2.0, 3.0], requires_grad=True)


@pytest.mark.parametrize("read", [False, True])
def test_twice_without_retain_graph(read):
    p = parameter()
    loss = (p * p * p).sum()
    loss.backward()
    if read:
        loss.item(), p.grad.tolist()
    loss.backward()
    assert p.grad.tolist() == [6.0, 24.0, 54.0]
    loss.backward()
    assert p.grad.tolist() == [9.0, 36.0, 81.0]


def test_many_times_on_a_model():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    loss = F.cross_entropy(model(lg.ones(5, 3)), lg.zeros(5, dtype=lg.int64))
    loss.backward()
    once = [p.grad.clone() for p in model.parameters()]
    loss.backward()
    for p, g in zip(model.parameters(), once, strict=True):
        assert p.grad.tolist() == (g + g).tolist()


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize("make", [optim.SGD, optim.Adam])
def test_after_a_step_both_lines_are_named(read, make):
    p = parameter()
    optimizer = make([p], lr=0.25)
    loss = (p * p * p).sum()
    if read:
        loss.item()
    first = here() + 1
    loss.backward()
    step = here() + 1
    optimizer.step()
    with pytest.raises(RuntimeError) as error:
        loss.backward()
    message = str(error.value)
    assert "Trying to backward through the graph a second time" in message
    assert f"{__file__}:{first}: loss.backward()" in message
    assert f"{__file__}:{step}: optimizer.step()" in message
    assert "retain_graph=True" in message


def test_after_the_error_everything_is_usable():
    p = parameter()
    optimizer = optim.SGD([p], lr=0.25)
    loss = (p * p).sum()
    loss.backward()
    optimizer.step()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
    assert loss.item() == 14.0
    assert p.tolist() == [0.5, 1.0, 1.5]
    assert p.grad.tolist() == [2.0, 4.0, 6.0]
    optimizer.zero_grad()
    (p * p).sum().backward()
    optimizer.step()
    assert p.tolist() == [0.25, 0.5, 0.75]


def test_a_shared_part_is_spent_too():
    p = parameter()
    optimizer = optim.SGD([p], lr=0.25)
    shared = p * p
    one, two = shared.sum(), (shared * 2).sum()
    one.backward()
    optimizer.step()
    with pytest.raises(RuntimeError, match="second time"):
        two.backward()


@pytest.mark.filterwarnings("ignore:.*livegrad.lint")
def test_a_new_graph_each_step_never_raises():
    p = parameter()
    optimizer = optim.SGD([p], lr=0.0)
    for _ in range(5):
        (p * p).sum().backward()
        optimizer.step()
    assert p.grad.tolist() == [10.0, 20.0, 30.0]
