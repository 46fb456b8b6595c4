"""Optimisers against PyTorch's: same gradients, same parameters, interchangeable state."""

import itertools

import numpy as np
import pytest

import livegrad as lg
from livegrad import nn, optim

torch = pytest.importorskip("torch")

SHAPES = [(3, 4), (4,), (2, 2)]
SGD = [
    ("SGD", {"momentum": m, "dampening": d, "weight_decay": w, "nesterov": n, "maximize": x})
    for m, d, w, n, x in itertools.product((0, 0.9), (0, 0.3), (0, 0.1), *[(False, True)] * 2)
    if not n or (m and not d)
]
ADAM = [
    (name, {"weight_decay": w, "amsgrad": a, "maximize": x, "betas": (0.8, 0.99)})
    for name, w, a, x in itertools.product(
        ("Adam", "AdamW"), (0, 0.1), (False, True), (False, True)
    )
]


def parameters():
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(shape) for shape in SHAPES]
    ours = [nn.Parameter(lg.tensor(v)) for v in values]
    return ours, [torch.nn.Parameter(torch.tensor(v)) for v in values]


def steps(ours, theirs, a, b, numbers):
    for step in numbers:
        rng = np.random.default_rng([1, step])
        a.zero_grad()
        b.zero_grad()
        for i, (p, q) in enumerate(zip(ours, theirs, strict=True)):
            g = rng.standard_normal(SHAPES[i])
            if i < 2 or step % 3 != 1:
                p.grad, q.grad = lg.tensor(g), torch.tensor(g)
        a.step()
        b.step()
        for group in a.param_groups + b.param_groups:
            group["lr"] *= 0.95


def agree(ours, theirs):
    for p, q in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("name", "options"), SGD + ADAM, ids=str)
def test_twenty_steps(name, options):
    ours, theirs = parameters()
    a = getattr(optim, name)(ours, lr=0.05, **options)
    b = getattr(torch.optim, name)(theirs, lr=0.05, **options)
    steps(ours, theirs, a, b, range(20))
    agree(ours, theirs)


@pytest.mark.parametrize(("name", "options"), [SGD[-1], ADAM[2]], ids=str)
def test_state_of_pytorch_can_be_loaded(name, options):
    scratch, theirs = parameters()
    b = getattr(torch.optim, name)(theirs, lr=0.05, **options)
    steps(scratch, theirs, getattr(optim, name)(scratch, lr=0.05, **options), b, range(5))
    ours = [nn.Parameter(lg.tensor(q.detach().numpy())) for q in theirs]
    a = getattr(optim, name)(ours, lr=0.05, **options)
    saved = b.state_dict()
    saved["state"] = {
        number: {name: value.numpy() for name, value in values.items()}
        for number, values in saved["state"].items()
    }
    a.load_state_dict(saved)
    steps(ours, theirs, a, b, range(5, 10))
    agree(ours, theirs)
