"""Gradients of several small batches, added up by `backward`, are those of one large batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim

RNG = np.random.default_rng(0)
X = RNG.standard_normal((6, 24, 5))  # steps, samples, features
Y = RNG.standard_normal((6, 24, 2))
OPTIMIZERS = {
    "sgd": lambda params: optim.SGD(params, lr=0.05, momentum=0.9, nesterov=True),
    "adam": lambda params: optim.Adam(params, lr=0.01, weight_decay=0.1),
    "rmsprop": lambda params: optim.RMSprop(params, lr=0.01, centered=True),
}


def trained(name: str, parts: int, set_to_none: bool) -> tuple[list[Any], list[Any]]:
    """The parameters after some steps, and whether gradients were zeroed in place."""
    lg.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    optimizer = OPTIMIZERS[name](model.parameters())
    kept = []
    for x, y in zip(X, Y, strict=True):
        before = [(p, p.grad) for p in model.parameters()]
        optimizer.zero_grad(set_to_none=set_to_none)
        kept.append([p.grad is None or p.grad is g for p, g in before])
        for some, wanted in zip(np.split(x, parts), np.split(y, parts), strict=True):
            loss = F.mse_loss(model(lg.tensor(some)), lg.tensor(wanted)) / parts
            loss.backward()
        optimizer.step()
    return [p.detach().numpy() for p in model.parameters()], kept


@pytest.mark.parametrize("set_to_none", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_micro_batches_follow_one_large_batch(name: str, set_to_none: bool) -> None:
    wanted, _ = trained(name, 1, True)
    for parts in (2, 4, 24):
        got, kept = trained(name, parts, set_to_none)
        assert all(all(step) for step in kept)
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_zeroed_gradients_are_zero_and_still_move() -> None:
    """As in PyTorch: a gradient of zeros is a gradient, so momentum goes on; None is none."""
    moved = {}
    for set_to_none in (False, True):
        p = nn.Parameter(lg.ones(3))
        optimizer = optim.SGD([p], lr=0.1, momentum=0.9)
        p.grad = lg.ones(3)
        optimizer.step()
        optimizer.zero_grad(set_to_none=set_to_none)
        assert (p.grad is None) if set_to_none else p.grad.tolist() == [0, 0, 0]
        optimizer.step()
        moved[set_to_none] = p.detach().numpy()
    np.testing.assert_allclose(moved[True], 0.9, rtol=1e-6)
    np.testing.assert_allclose(moved[False], 0.81, rtol=1e-6)
