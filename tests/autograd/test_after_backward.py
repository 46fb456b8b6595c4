"""What a program does after backward() and before it reads a gradient changes no gradient.

The backward pass may not have been computed by then: it was recorded, and is planned at the flush.
"""

import gc

import pytest

import livegrad as lg
from livegrad.runtime.plans import forget_plans


@pytest.fixture(autouse=True)
def nothing_planned():
    """A plan that is found again would not be made from the graph as it is now."""
    forget_plans()


def a_graph():
    """Leaves w and b, values h and y on the way, and the loss 0.5 * sum(tanh(w x + b)²)."""
    w = lg.tensor([1.0, -2.0, 0.5], requires_grad=True)
    b = lg.tensor([0.1, 0.2, 0.3], requires_grad=True)
    x = lg.tensor([0.3, 0.1, -0.7])
    h = w * x + b
    y = h.tanh()
    return w, b, x, h, y, (y * y).sum() * 0.5


def gradients():
    w, b, *_, loss = a_graph()
    loss.backward()
    return w.grad.tolist(), b.grad.tolist()


def write(x):
    with lg.no_grad():
        x.fill_(100.0)


def replace_data(x):
    x.data = lg.zeros(3)


CHANGES = {
    "hook on a value": lambda w, b, x, h, y, loss: h.register_hook(lambda g: g * 1000),
    "hook on the loss": lambda w, b, x, h, y, loss: loss.register_hook(lambda g: g * 1000),
    "hook on a leaf": lambda w, b, x, h, y, loss: w.register_hook(lambda g: g * 1000),
    "retain_grad": lambda w, b, x, h, y, loss: y.retain_grad(),
    "retain_grad of the loss": lambda w, b, x, h, y, loss: loss.retain_grad(),
    "freezing a leaf": lambda w, b, x, h, y, loss: w.requires_grad_(False),
    "freezing the other leaf": lambda w, b, x, h, y, loss: b.requires_grad_(False),
    "a constant becomes a leaf": lambda w, b, x, h, y, loss: x.requires_grad_(True),
    "detach_ of a value": lambda w, b, x, h, y, loss: h.detach_(),
    "detach_ of a leaf": lambda w, b, x, h, y, loss: w.detach_(),
    "data of a leaf": lambda w, b, x, h, y, loss: replace_data(w),
    "writing to a leaf": lambda w, b, x, h, y, loss: write(w),
    "writing to a constant": lambda w, b, x, h, y, loss: write(x),
    "writing to a value": lambda w, b, x, h, y, loss: h.add_(1),
    "a second graph": lambda w, b, x, h, y, loss: (h * 3).sum(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("retain", [False, True])
def test_gradients_are_those_of_the_graph_that_backward_saw(change, retain):
    expected = gradients()
    forget_plans()
    w, b, x, h, y, loss = a_graph()
    loss.backward(retain_graph=retain)
    change(w, b, x, h, y, loss)
    assert (w.grad.tolist(), b.grad.tolist()) == expected
    assert x.grad is None


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_plans_made_after_a_change_serve_those_without(change):
    expected = gradients()
    forget_plans()
    for changed in (True, False):
        w, b, x, h, y, loss = a_graph()
        loss.backward()
        if changed:
            change(w, b, x, h, y, loss)
        assert (w.grad.tolist(), b.grad.tolist()) == expected


def test_a_hook_registered_after_backward_is_for_later_passes():
    w, _, _, h, _, loss = a_graph()
    seen = []
    loss.backward(retain_graph=True)
    h.register_hook(lambda g: seen.append(g.tolist()))
    first = w.grad.tolist()
    assert seen == []
    loss.backward()
    assert len(seen) == 1
    assert w.grad.tolist() == [2 * g for g in first]


def test_retain_grad_after_backward_is_for_later_passes():
    _, _, _, h, _, loss = a_graph()
    loss.backward(retain_graph=True)
    h.retain_grad()
    assert h.grad is None
    loss.backward()
    assert h.grad is not None


def test_one_flush_computes_passes_with_different_leaves():
    w, b, _x, _, _, loss = a_graph()
    loss.backward(retain_graph=True)
    w.requires_grad_(False)
    loss.backward(retain_graph=True)
    single_w, single_b = gradients()
    assert w.grad.tolist() == single_w
    assert b.grad.tolist() == [2 * g for g in single_b]


def test_leaves_that_are_gone_leave_the_others_their_gradient():
    _, expected = gradients()
    forget_plans()
    w, b, x, h, y, loss = a_graph()
    loss.backward()
    del w, x, h, y, loss
    gc.collect()
    assert b.grad.tolist() == expected
