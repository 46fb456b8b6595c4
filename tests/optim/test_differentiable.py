"""Gradients through optimiser steps, against finite differences; hooks and states of optimisers."""

import numpy as np
import pytest

import livegrad as lg
from livegrad import nn, optim

CASES = [
    ("SGD", {"momentum": 0.9, "dampening": 0.1, "weight_decay": 0.1}),
    ("SGD", {"momentum": 0.9, "nesterov": True}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {"maximize": True}),
    ("NAdam", {"decoupled_weight_decay": True, "weight_decay": 0.1}),
    ("RAdam", {"betas": (0.6, 0.7)}),
    ("Adamax", {"weight_decay": 0.1}),
    ("RMSprop", {"momentum": 0.8, "centered": True}),
    ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.3}),
    ("Adadelta", {}),
    ("ASGD", {"t0": 1, "lambd": 0.1}),
    ("Rprop", {}),
]


@pytest.fixture
def counts_in_double():
    """Numbers in a state have the default dtype: slopes need one that does not round much."""
    lg.set_default_dtype(lg.float64)
    yield
    lg.set_default_dtype(lg.float32)


def outer_loss(name, options, start, lr, steps=3):
    weight = start.clone()
    optimizer = getattr(optim, name)([weight], lr=lr, differentiable=True, **options)
    for _ in range(steps):
        loss = (weight**2 * lg.tensor([0.5, 1.0, 2.0], dtype=lg.float64)).sum() + weight.sin().sum()
        (weight.grad,) = lg.autograd.grad(loss, weight, create_graph=True)
        optimizer.step()
    return (weight**2).sum()


def asked(values):
    return lg.tensor(values, requires_grad=True)


def slopes(f, values, step=1e-6):
    result = np.zeros_like(values)
    for i in np.ndindex(values.shape):
        up, down = values.copy(), values.copy()
        up[i] += step
        down[i] -= step
        result[i] = (f(up) - f(down)) / (2 * step)
    return result


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_gradient_to_the_start(name, options):
    if name == "SGD":  # the first buffer is cut off, as in PyTorch: slopes show the whole
        options = {**options, "momentum": 0}
        options.pop("nesterov", None)
    values = np.array([0.4, -0.7, 1.1])
    start = lg.tensor(values, requires_grad=True)
    (got,) = lg.autograd.grad(outer_loss(name, options, start, 0.1), start)
    expected = slopes(lambda v: outer_loss(name, options, asked(v), 0.1).item(), values)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "options"), [c for c in CASES if c[0] not in ("SGD", "Rprop")], ids=str
)
def test_gradient_to_the_rate(name, options, counts_in_double):
    start = lg.tensor([0.4, -0.7, 1.1], dtype=lg.float64, requires_grad=True)
    rate = lg.tensor([0.1], dtype=lg.float64, requires_grad=True)
    (got,) = lg.autograd.grad(outer_loss(name, options, start, rate), rate)
    expected = slopes(lambda v: outer_loss(name, options, start, float(v)).item(), np.array(0.1))
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-5, atol=1e-7)


def test_momentum_starts_without_a_gradient():
    start = lg.tensor([3.0], requires_grad=True)
    weight = start.clone()
    optimizer = optim.SGD([weight], lr=0.5, momentum=0.9, differentiable=True)
    for _ in range(2):
        (weight.grad,) = lg.autograd.grad((weight**2).sum(), weight, create_graph=True)
        optimizer.step()
    # p1 = p0 - c with c constant; p2 = p1 - 0.5 (0.9 c' + 2 p1): dp2/dp0 = 1 - 1 = 0
    (got,) = lg.autograd.grad(weight, start)
    assert got.item() == 0.0


def test_gradients_reach_the_outer_loss_over_several_groups_and_dtypes():
    a, b = lg.ones(2, requires_grad=True), lg.ones(2, dtype=lg.float64, requires_grad=True)
    p, q = a * 1, b * 1
    optimizer = optim.SGD([{"params": [p]}, {"params": [q], "lr": 0.25}], 0.5, differentiable=True)
    p.grad, q.grad = p * 2, q * 2
    optimizer.step()
    (p.sum() + q.sum()).backward()
    assert a.grad.tolist() == [0.0, 0.0]
    assert b.grad.tolist() == [0.5, 0.5]
    assert p.tolist() == [0.0, 0.0]


def test_complex_parameters():
    start = lg.tensor([1 + 2j], requires_grad=True)
    weight = start * 1
    optimizer = optim.SGD([weight], lr=0.25, differentiable=True)
    weight.grad = weight * 2
    optimizer.step()
    assert weight.tolist() == [0.5 + 1j]
    weight.abs().pow(2).sum().backward()
    assert start.grad.tolist() == [0.5 + 1j]


def test_the_rate_is_read_without_differentiable():
    p = nn.Parameter(lg.ones(2))
    p.grad = lg.ones(2)
    optim.SGD([p], lr=lg.tensor(0.5, requires_grad=True)).step()
    assert p.tolist() == [0.5, 0.5]
    assert p.is_leaf


def test_gradient_mode_is_as_before_after_a_step():
    p = nn.Parameter(lg.ones(2))
    p.grad = lg.ones(2)
    optimizer = optim.Adam([p])
    optimizer.step()
    assert lg.is_grad_enabled()
    with lg.no_grad():
        optimizer.step()
        assert not lg.is_grad_enabled()


def test_hooks_run_around_a_step_that_a_user_wrote():
    seen = []

    class Mine(optim.SGD):
        def step(self, closure=None):
            seen.append("mine")
            return super().step(closure)

    optimizer = Mine([nn.Parameter(lg.ones(1))], lr=0.1)
    optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append("before"))
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("after"))
    optimizer.step()
    assert seen == ["before", "mine", "after"]
    assert optimizer.steps_taken == 1


def test_a_state_of_tensors_is_taken():
    """Programs write `state[p]["step"]` as PyTorch has it."""
    ends = []
    for step in (3, lg.tensor(3.0)):
        p = nn.Parameter(lg.ones(2))
        p.grad = lg.ones(2)
        optimizer = optim.Adam([p], lr=0.1)
        optimizer.state[p].update(step=step, exp_avg=lg.ones(2), exp_avg_sq=lg.ones(2))
        optimizer.step()
        ends.append(p.tolist())
    assert ends[0] == ends[1]


def test_a_hook_may_remove_itself():
    seen = []
    optimizer = optim.SGD([nn.Parameter(lg.ones(1))], lr=0.1)

    def once(*given):
        seen.append(len(seen))
        handle.remove()

    handle = optimizer.register_step_pre_hook(once)
    optimizer.step()
    optimizer.step()
    assert seen == [0]
