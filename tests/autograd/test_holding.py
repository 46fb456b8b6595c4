"""What may be assigned to `.grad`."""

from __future__ import annotations

import copy

import pytest

import livegrad as lg


@pytest.mark.parametrize(
    ("gradient", "error", "match"),
    [
        (3, TypeError, "Tensor or None"),
        ([1.0, 2.0], TypeError, "list"),
        (lg.ones(3), RuntimeError, r"\[3\]"),
        (lg.ones(2, 1), RuntimeError, r"\[2, 1\]"),
        (lg.ones(2, dtype=lg.float64), RuntimeError, "Double"),
        (lg.ones(2, dtype=lg.int64), RuntimeError, "Long"),
    ],
)
def test_what_is_no_gradient_is_refused(gradient, error, match):
    x = lg.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    with pytest.raises(error, match=match):
        x.grad = gradient
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_tensor_is_not_its_own_gradient():
    x = lg.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="its own grad"):
        x.grad = x


def test_assigned_gradients_are_used_and_forgotten():
    x = lg.ones(2, requires_grad=True)
    given = lg.full((2,), 3.0)
    x.grad = given
    assert x.grad is given
    (x * 2).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]
    lg.optim.SGD([x], lr=1.0).step()
    assert x.tolist() == [-4.0, -4.0]
    del x.grad
    assert x.grad is None
    x.grad = None
    assert x.grad is None


def test_copies_hold_gradients_of_their_own():
    x = lg.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    copy.deepcopy(x).grad.zero_()
    assert x.grad.tolist() == [2.0, 2.0]


def test_copies_of_parameters_have_no_gradients():
    module = lg.nn.Linear(2, 1)
    module(lg.ones(1, 2)).sum().backward()
    module.weight.note = "mine"
    twin = copy.deepcopy(module)
    assert twin.weight.grad is None
    assert not hasattr(twin.weight, "note")
    assert twin.weight.requires_grad
    assert module.weight.grad.tolist() == [[1.0, 1.0]]
    module.zero_grad()
    assert module.weight.grad is None


def test_other_attributes_that_are_checked():
    x = lg.ones(2)
    with pytest.raises(TypeError, match="has to be a tensor"):
        x.data = 3
    with pytest.raises(RuntimeError, match="must be a bool"):
        x.requires_grad = 1
