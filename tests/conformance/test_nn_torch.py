"""nn against PyTorch: same weights, same inputs, same outputs, gradients and text."""

import itertools

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn

torch = pytest.importorskip("torch")


def build(nn):
    return nn.Sequential(
        nn.Linear(6, 8),
        nn.GELU(),
        nn.LayerNorm(8),
        nn.Sequential(nn.Linear(8, 8, bias=False), nn.SiLU(), nn.Dropout(0.0)),
        nn.RMSNorm(8),
        nn.Linear(8, 3),
        nn.LogSoftmax(1),
    )


def test_a_network_forward_backward_and_repr():
    ours, theirs = build(nn), build(torch.nn)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    x = np.random.default_rng(0).standard_normal((5, 6)).astype(np.float32)
    t = np.array([0, 1, 2, 0, 1])
    loss = F.nll_loss(ours(lg.tensor(x)), lg.tensor(t))
    expected = torch.nn.functional.nll_loss(theirs(torch.tensor(x)), torch.tensor(t))
    loss.backward()
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-4, atol=1e-6)


PRINTED = [
    "ReLU(inplace=True)", "ReLU6()", "ELU()", "CELU(0.5)", "LeakyReLU(0.2, True)", "RReLU()",
    "PReLU()", "Hardtanh()", "Threshold(0.1, 20)", "GELU('tanh')", "Softplus()", "Hardshrink()",
    "Softshrink()", "GLU()", "Softmax(1)", "LogSoftmax(-1)", "Identity()", "Linear(3, 4, False)",
    "Bilinear(2, 3, 4)", "Flatten()", "Unflatten(1, (2, 3))", "Dropout()",
    "Embedding(4, 5, padding_idx=-1, max_norm=2.0)", "LayerNorm((3, 4), bias=False)",
    "LayerNorm(4, elementwise_affine=False)", "RMSNorm(4)", "MSELoss()", "CrossEntropyLoss()",
    "ModuleList([nn.Linear(2, 3) for _ in range(3)] + [nn.ReLU()])", "ModuleDict({'a': nn.ReLU()})",
]  # fmt: skip


@pytest.mark.parametrize("text", PRINTED)
def test_repr(text):
    assert repr(eval(f"nn.{text}", {"nn": nn})) == repr(eval(f"nn.{text}", {"nn": torch.nn}))


@pytest.mark.parametrize("options", [{}, {"padding_idx": 2}, {"max_norm": 1.0}], ids=str)
def test_embedding(options):
    ours, theirs = nn.Embedding(5, 3, **options), torch.nn.Embedding(5, 3, **options)
    ours.load_state_dict({k: v.numpy() for k, v in theirs.state_dict().items()})
    index = np.array([[0, 2], [4, 2]])
    a, b = ours(lg.tensor(index)), theirs(torch.tensor(index))
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5)
    (a * a).sum().backward()
    (b * b).sum().backward()
    np.testing.assert_allclose(ours.weight.grad.numpy(), theirs.weight.grad.numpy(), rtol=1e-5)


def both(function, expected, arrays, integers=(), second=True):
    """Value, gradients and gradients of gradients of two programs agree."""
    ours = [lg.tensor(a, requires_grad=True) for a in arrays]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    y = function(*ours, *map(lg.tensor, integers))
    t = expected(*theirs, *map(torch.tensor, integers))
    np.testing.assert_allclose(y.detach().numpy(), t.detach().numpy(), rtol=1e-7, atol=1e-10)
    w = np.random.default_rng(9).standard_normal(tuple(t.shape))
    g = lg.autograd.grad(y, ours, lg.tensor(w), create_graph=True)
    h = torch.autograd.grad(t, theirs, torch.tensor(w), create_graph=True)
    for a, b in zip(g, h, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-9)
    if second and all(b.requires_grad for b in h):
        g2 = lg.autograd.grad(
            sum((a * a).sum() for a in g), ours, allow_unused=True, materialize_grads=True
        )
        h2 = torch.autograd.grad(
            sum((b * b).sum() for b in h), theirs, allow_unused=True, materialize_grads=True
        )
        for a, b in zip(g2, h2, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(force=True), rtol=1e-5, atol=1e-8)


def draw(*shape, low=-2.0, high=2.0, seed=0):
    return np.random.default_rng([seed, *shape]).uniform(low, high, shape)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
@pytest.mark.parametrize(("shape", "dim"), [((3, 7), -1), ((2, 3, 4), 1), ((3, 7), 0)])
def test_softmax(name, shape, dim):
    theirs = getattr(torch.nn.functional, name)
    both(lambda x: getattr(F, name)(x, dim), lambda x: theirs(x, dim), [draw(*shape)])


@pytest.mark.parametrize("shape", [(7,), (3, 7), (2, 3, 7)])
def test_norms(shape):
    T = torch.nn.functional
    x, w, b = draw(*shape), draw(7, seed=1), draw(7, seed=2)
    both(
        lambda x, w, b: F.layer_norm(x, (7,), w, b),
        lambda x, w, b: T.layer_norm(x, (7,), w, b),
        [x, w, b],
    )
    both(lambda x: F.layer_norm(x, (7,)), lambda x: T.layer_norm(x, (7,)), [x])
    both(lambda x, w: F.rms_norm(x, (7,), w), lambda x, w: T.rms_norm(x, (7,), w), [x, w])


CROSS = list(itertools.product(("mean", "sum", "none"), (-100, 2), (False, True), (0.0, 0.3)))


@pytest.mark.parametrize(("reduction", "ignore", "weighted", "smoothing"), CROSS)
@pytest.mark.parametrize(
    ("shape", "rows"), [((6, 5), (6,)), ((3, 5, 2), (3, 2)), ((2, 5, 2, 3), (2, 2, 3))]
)
def test_cross_entropy(reduction, ignore, weighted, smoothing, shape, rows):
    target = np.random.default_rng(1).integers(0, 5, rows)
    weight = draw(5, low=0.5)
    options = {"reduction": reduction, "ignore_index": ignore, "label_smoothing": smoothing}
    both(
        lambda x, t: F.cross_entropy(x, t, lg.tensor(weight) if weighted else None, **options),
        lambda x, t: torch.nn.functional.cross_entropy(
            x, t, torch.tensor(weight) if weighted else None, **options
        ),
        [draw(*shape)],
        [target],
    )


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_cross_entropy_of_probabilities(reduction, smoothing):
    options = {"reduction": reduction, "label_smoothing": smoothing}
    both(
        lambda x, t: F.cross_entropy(x, t, **options),
        lambda x, t: torch.nn.functional.cross_entropy(x, t, **options),
        [draw(4, 5), draw(4, 5, low=0.0, seed=1)],
    )


LOSSES = [
    ("mse_loss", {}),
    ("smooth_l1_loss", {"beta": 0.3}),
    ("huber_loss", {"delta": 0.3}),
    ("binary_cross_entropy", {}),
    ("binary_cross_entropy_with_logits", {}),
    ("kl_div", {}),
    ("kl_div", {"log_target": True}),
]


@pytest.mark.parametrize(("name", "options"), LOSSES, ids=str)
@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_losses(name, options, reduction):
    x, t = draw(4, 5, low=0.05, high=0.95), draw(4, 5, low=0.05, high=0.95, seed=1)
    both(
        lambda x, t: getattr(F, name)(x, t, reduction=reduction, **options),
        lambda x, t: getattr(torch.nn.functional, name)(x, t, reduction=reduction, **options),
        [x, t],
    )


def test_clip_grad_norm():
    grads = [draw(3, 2), draw(4)]
    ours = [nn.Parameter(lg.tensor(g)) for g in grads]
    theirs = [torch.nn.Parameter(torch.tensor(g)) for g in grads]
    for p, q, g in zip(ours, theirs, grads, strict=True):
        p.grad, q.grad = lg.tensor(g), torch.tensor(g)
    for kind in (2.0, 1.0, float("inf")):
        a = nn.utils.clip_grad_norm_(ours, 0.5, kind).item()
        assert a == pytest.approx(torch.nn.utils.clip_grad_norm_(theirs, 0.5, kind).item())
        for p, q in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-6)
