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


# ------------------------------------------------------------------- PyTorch's own list of options

# How PyTorch is to run, not what it is to compute.
WAYS_TO_RUN = ("foreach", "fused", "capturable", "differentiable")


def configurations():
    pytest.importorskip("expecttest")
    from torch.testing._internal.common_optimizers import optim_db

    for info in optim_db:
        for number, given in enumerate(info.optim_inputs_func(device="cpu", dtype=torch.float32)):
            options = {
                k: v.item() if isinstance(v, torch.Tensor) else v
                for k, v in given.kwargs.items()
                if k not in WAYS_TO_RUN
            }
            yield pytest.param(info.optim_cls, options, id=f"{info.optim_cls.__name__}-{number}")


def test_all_optimisers_of_pytorch_are_there():
    names = {cls.values[0].__name__ for cls in configurations()}
    assert len(names) == 15
    assert [name for name in names if not hasattr(optim, name)] == []


def follow(cls, options, shapes, steps=20):
    """Parameters of both after the same gradients."""
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(shape).astype("f") for shape in shapes]
    ours = [nn.Parameter(lg.tensor(v)) for v in values]
    theirs = [torch.nn.Parameter(torch.tensor(v)) for v in values]
    a, b = getattr(optim, cls.__name__)(ours, **options), cls(theirs, **options)
    for _ in range(steps):
        for p, q in zip(ours, theirs, strict=True):
            g = rng.standard_normal(p.shape).astype("f")
            p.grad, q.grad = lg.tensor(g), torch.tensor(g)
            if cls.__name__ == "SparseAdam":
                some = (rng.random(p.shape[0]) > 0.5).reshape(-1, *[1] * (p.ndim - 1))
                p.grad, q.grad = [T.tensor(g * some).to_sparse(1) for T in (lg, torch)]
        a.step()
        b.step()
    return [(p.detach().numpy(), q.detach().numpy()) for p, q in zip(ours, theirs, strict=True)]


@pytest.mark.parametrize(("cls", "options"), list(configurations()))
def test_every_option(cls, options):
    if cls.__name__ == "LBFGS":
        pytest.skip("needs a closure: see below")
    shapes = [(3, 4), (5, 4), (2, 2)] if cls.__name__ == "Muon" else [(3, 4), (4,), (2, 2)]
    # Muon iterates in bfloat16: a step of size lr is known to a few times 2^-9.
    atol = 20 * options.get("lr", 1e-3) * 0.02 if cls.__name__ == "Muon" else 2e-6
    for p, q in follow(cls, options, shapes):
        np.testing.assert_allclose(p, q, rtol=2e-5, atol=atol)


@pytest.mark.parametrize(
    "options", [{}, {"lr": 0.01}, {"line_search_fn": "strong_wolfe"}, {"history_size": 2}], ids=str
)
def test_lbfgs(options):
    rng = np.random.default_rng(0)
    start, target = rng.standard_normal(6), rng.standard_normal(6)
    scale = np.array([1.0, 2.0, 0.5, 3.0, 1.5, 1.0])
    ours = nn.Parameter(lg.tensor(start))
    theirs = torch.nn.Parameter(torch.tensor(start))

    def closure(p, optimizer, make):
        def loss():
            optimizer.zero_grad()
            away = p - make(target)
            value = (make(scale) * away * away).sum() + 0.1 * (away**4).sum()
            value.backward()
            return value

        return loss

    a, b = optim.LBFGS([ours], **options), torch.optim.LBFGS([theirs], **options)
    for _ in range(3):
        first = a.step(closure(ours, a, lg.tensor))
        other = b.step(closure(theirs, b, torch.tensor))
        assert first.item() == pytest.approx(other.item(), rel=1e-7, abs=1e-12)
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-6)
