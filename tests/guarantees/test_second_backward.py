"""A second backward: works while the values exist, else names the two lines that ended it."""

from __future__ import annotations

import inspect
import json

import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim
from livegrad.runtime import flush


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


@pytest.mark.usefixtures("whole_plans")
def test_nothing_is_missing_where_a_graph_is_walked_again_and_again(monkeypatch):
    """The gradient that backward begins with is kept with its graph, though it costs nothing."""
    w = lg.linspace(0.1, 1.0, 5).requires_grad_()
    x = lg.arange(20.0).reshape(4, 5) / 7
    loss = (x @ w).tanh().square().mean()
    (g,) = lg.autograd.grad(loss, w, create_graph=True)
    found = []
    for k in range(8):
        if k == 3:
            monkeypatch.setattr(flush, "adopt_missing", None)
        v = lg.full((5,), k + 1.0)
        (product,) = lg.autograd.grad(g @ v, w, retain_graph=True)
        found.append(product.sum().item())
    assert found == pytest.approx([found[0] * (k + 1) for k in range(8)], rel=1e-5)


MISSING_ONCE = """
import json
import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn
from livegrad.runtime import flush, sight

net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
parameters = list(net.parameters())
x, y = lg.arange(24.0).reshape(6, 4) / 7, lg.ones(6, 1)
sight.Policy.whole, sight.Policy.pieces = False, True
gradients = lg.autograd.grad(F.mse_loss(net(x), y), parameters, create_graph=True)
g = lg.cat([each.reshape(-1) for each in gradients])
g.sum().item()
sight.Policy.whole = True
found, missing = [], []
adopt = flush.adopt_missing
flush.adopt_missing = lambda *a: missing.append(k) or adopt(*a)
for k in range(6):
    products = lg.autograd.grad((g * (k + 1.0)).sum(), parameters, retain_graph=True)
    found.append(sum([product.sum() for product in products]).item())
print(json.dumps([missing, found]))
"""


def test_what_was_missing_once_is_there_the_next_time(python, tmp_path):
    """Lists keep what views are views of: a plan that reads the view computes it, and keeps it.

    In a process of its own: what others have learnt about views, lists keep as views.
    """
    missing, found = json.loads(python(MISSING_ONCE, LIVEGRAD_CACHE_DIR=str(tmp_path)).stdout)
    assert missing == [0]
    assert found == pytest.approx([found[0] * (k + 1) for k in range(6)], rel=1e-5)
