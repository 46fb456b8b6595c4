"""Which gradients made with `create_graph=True` can be differentiated again is as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import livegrad as lg

torch = pytest.importorskip("torch")


def points(T: Any) -> Any:
    return T.tensor([[1.0, 2.0], [3.0, 5.0]])


def filled_through_a_view(x: Any) -> Any:
    x.view(2).fill_(2)
    return x


def compared_through_a_view(x: Any) -> Any:
    x.view(2).eq_(x)
    return x


def stepped(name: str, through_a_view: bool) -> Callable[[Any, Any], Any]:
    """The square of a step function, written in place."""

    def function(T: Any, a: Any) -> Any:
        x = a * a
        getattr(x.view(1, 2) if through_a_view else x, name)()
        return x**2

    return function


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "min": lambda T, a: a.min(),
    "amin": lambda T, a: a.amin(),
    "max over a dim": lambda T, a: a.max(0).values,
    "amax": lambda T, a: a.amax(0),
    "aminmax": lambda T, a: a.aminmax().min,
    "maximum": lambda T, a: T.maximum(a, T.zeros(2)),
    "minimum of two": lambda T, a: T.minimum(a, a * 2),
    "fmax": lambda T, a: T.fmax(a, T.zeros(2)),
    "clamp": lambda T, a: a.clamp(0, 1),
    "clamp to tensors": lambda T, a: a.clamp(T.zeros(2), T.ones(2)),
    "abs": lambda T, a: a.abs(),
    "median": lambda T, a: a.median(),
    "sum": lambda T, a: a.sum(),
    "prod": lambda T, a: a.prod(),
    "prod of numbers": lambda T, a: a[0].prod() + a[1].prod(),
    "kl_div": lambda T, a: T.nn.functional.kl_div(a, T.ones(2), reduction="sum"),
    "kl_div of log": lambda T, a: T.nn.functional.kl_div(
        a, T.ones(2), reduction="sum", log_target=True
    ),
    "target of kl_div": lambda T, a: T.nn.functional.kl_div(T.ones(2), a.exp(), reduction="sum"),
    "l1_loss": lambda T, a: T.nn.functional.l1_loss(a, T.zeros(2)),
    "margin_ranking_loss": lambda T, a: T.nn.functional.margin_ranking_loss(a, a * 2, T.ones(2)),
    "hinge_embedding_loss": lambda T, a: T.nn.functional.hinge_embedding_loss(a, T.ones(2)),
    "prelu": lambda T, a: T.nn.functional.prelu(a, T.tensor([0.2])),
    "prelu with a weight that is learnt": lambda T, a: T.nn.functional.prelu(
        a, T.tensor([0.2], requires_grad=True)
    ),
    "weight of prelu": lambda T, a: T.nn.functional.prelu(T.ones(1, 2) - 2, a),
    "weight of layer_norm": lambda T, a: T.nn.functional.layer_norm(points(T), (2,), a),
    "bias of layer_norm": lambda T, a: T.nn.functional.layer_norm(points(T), (2,), None, a),
    "weight of batch_norm": lambda T, a: T.nn.functional.batch_norm(
        points(T), None, None, a, training=True
    ),
    "bias of batch_norm": lambda T, a: T.nn.functional.batch_norm(
        points(T), T.zeros(2), T.ones(2), T.ones(2), a
    ),
    "bias and weight of batch_norm": lambda T, a: T.nn.functional.batch_norm(
        points(T), None, None, a, a, training=True
    ),
    "input of conv1d": lambda T, a: T.nn.functional.conv1d(a[None, None], points(T)[:, None]),
    "weight of conv1d": lambda T, a: T.nn.functional.conv1d(points(T)[:, None], a[None, None]),
    "bias of conv1d": lambda T, a: T.nn.functional.conv1d(points(T)[:, None], T.ones(2, 1, 2), a),
    "weight of conv_transpose1d": lambda T, a: T.nn.functional.conv_transpose1d(
        points(T)[:, None], a[None, None]
    ),
    "avg_pool1d": lambda T, a: T.nn.functional.avg_pool1d(a[None], 2),
    "power 0": lambda T, a: a**0,
    "power 1": lambda T, a: a**1,
    "filled": lambda T, a: (a * a).fill_(2) ** 2,
    "filled through a view": lambda T, a: filled_through_a_view(a * a) ** 2,
    "compared": lambda T, a: (a * a).eq_(a) ** 2,
    "compared through a view": lambda T, a: compared_through_a_view(a * a) ** 2,
    "cumprod of one each": lambda T, a: a[:, None].cumprod(1),
    "cumprod": lambda T, a: a.cumprod(0),
    "max_pool1d": lambda T, a: T.nn.functional.max_pool1d(a[None], 2),
    "adaptive_avg_pool1d": lambda T, a: T.nn.functional.adaptive_avg_pool1d(a[None], 2),
    "adaptive_max_pool1d": lambda T, a: T.nn.functional.adaptive_max_pool1d(a[None], 1),
    "uneven adaptive_avg_pool1d": lambda T, a: T.nn.functional.adaptive_avg_pool1d(
        T.cat([a, a[:1]])[None], 2
    ),
    "uneven adaptive_max_pool1d": lambda T, a: T.nn.functional.adaptive_max_pool1d(
        T.cat([a, a[:1]])[None], 2
    ),
    "fractional_max_pool2d": lambda T, a: T.nn.functional.fractional_max_pool2d(
        T.stack([a, a])[None], 1, output_size=2
    ),
    "reflected": lambda T, a: T.nn.functional.pad(a[None], (1, 0), mode="reflect"),
    "replicated": lambda T, a: T.nn.functional.pad(a[None], (1, 2), mode="replicate"),
    "var of too few": lambda T, a: a.var(0, correction=2),
    "var of too few in all": lambda T, a: a.var(correction=2),
    "var of numbers": lambda T, a: a[0].var() + a[1].var(0),
    "var of numbers, uncorrected": lambda T, a: a[0].var(correction=0) + a[1].var(0, correction=0),
    "std of numbers": lambda T, a: a[0].std() + a[1].std(0),
    "rrelu": lambda T, a: T.nn.functional.rrelu(a, 0.25, 0.25, training=True),
    "rrelu, not trained": lambda T, a: T.nn.functional.rrelu(a),
    "logcumsumexp of numbers": lambda T, a: a[0].logcumsumexp(0) + a[1].logcumsumexp(0),
    "frexp": lambda T, a: a.frexp().mantissa,
    "bias of group_norm": lambda T, a: T.nn.functional.group_norm(
        (points(T) * a.detach().requires_grad_())[None], 2, T.ones(2), a
    ),
    "adaptive_avg_pool1d of all": lambda T, a: T.nn.functional.adaptive_avg_pool1d(a[None], 1),
    "adaptive_avg_pool2d of all": lambda T, a: T.nn.functional.adaptive_avg_pool2d(
        a[None, None], 1
    ),
    "adaptive_avg_pool2d": lambda T, a: T.nn.functional.adaptive_avg_pool2d(a[None, None], (1, 2)),
    "circular": lambda T, a: T.nn.functional.pad(a[None], (1, 2), mode="circular"),
    "padded by nothing": lambda T, a: T.nn.functional.pad(a[None], (0, 0), mode="reflect"),
    "grid_sample": lambda T, a: T.nn.functional.grid_sample(
        a[None, None, None], T.zeros(1, 1, 2, 2), align_corners=True
    ),
    "logcumsumexp of one each": lambda T, a: a[:, None].logcumsumexp(1),
    "nll_loss": lambda T, a: T.nn.functional.nll_loss(a[None], T.tensor([1])),
    "nll_loss of each": lambda T, a: T.nn.functional.nll_loss(
        a[None], T.tensor([1]), reduction="none"
    ),
}
for step in ("sign_", "sgn_", "floor_", "ceil_", "round_", "trunc_", "fix_"):
    FUNCTIONS[step] = stepped(step, through_a_view=False)
    FUNCTIONS[f"{step} through a view"] = stepped(step, through_a_view=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient_of_a_gradient(name: str) -> None:
    found = []
    for T in (torch, lg):
        a = T.tensor([1.5, -2.0], requires_grad=True)
        (first,) = T.autograd.grad(FUNCTIONS[name](T, a).sum(), a, create_graph=True)
        second = None
        if first.requires_grad:
            weights = T.tensor([2.0, 3.0])
            (second,) = T.autograd.grad((first * weights).sum(), a, allow_unused=True)
        # PyTorch's zeros may be without memory.
        second = None if second is None else (second + T.zeros(2)).tolist()
        found.append(((first + T.zeros(2)).tolist(), first.requires_grad, second))
    wanted, got = found
    assert got[1] == wanted[1]
    assert got[0] == pytest.approx(wanted[0], nan_ok=True)
    assert (got[2] is None) == (wanted[2] is None)
    assert got[2] is None or got[2] == pytest.approx(wanted[2], nan_ok=True)


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("retained", [False, True])
@pytest.mark.parametrize("create", [(True, False), (False, True), (True, True), (False, False)])
def test_accumulated_gradients(retained: bool, create: tuple[bool, bool]) -> None:
    found = []
    for T in (torch, lg):
        a = T.tensor([1.5, -2.0], requires_grad=True)
        x = a * 1 if retained else a
        if retained:
            x.retain_grad()
        (x * x).sum().backward(create_graph=create[0], retain_graph=True)
        before = x.grad
        (x * x).sum().backward(create_graph=create[1], retain_graph=True)
        found.append((x.grad.requires_grad, x.grad is before, x.grad.tolist(), before.tolist()))
        a.grad = x.grad = None  # PyTorch's graphs refer to their gradients
    assert found[1] == found[0]


def test_heaviside_has_no_derivative() -> None:
    for T in (torch, lg):
        a = T.tensor([1.5, -2.0], requires_grad=True)
        y = T.heaviside(a, T.ones(2))
        assert y.requires_grad
        with pytest.raises(RuntimeError, match="derivative for aten::heaviside is not implemented"):
            y.sum().backward()


RULES_OF_OPERANDS: dict[str, Callable[[Any, Any], Any]] = {
    "a quotient": lambda T, a: (a * 2) / (a + 3),
    "a number divided": lambda T, a: 0.5 / a,
}


@pytest.mark.parametrize("name", RULES_OF_OPERANDS)
def test_gradients_of_gradients_pass_by_results_that_rules_do_not_read(name: str) -> None:
    """A result that retains its gradient shows whether the rule is one of it, or of operands."""

    def retained(T: Any) -> Any:
        a = T.tensor([0.25, 1.5], requires_grad=True)
        y = RULES_OF_OPERANDS[name](T, a)
        y.retain_grad()
        (g,) = T.autograd.grad((y**2).sum(), a, create_graph=True)
        (g**2).sum().backward()
        return y.grad.tolist(), a.grad.tolist()

    for got, want in zip(retained(lg), retained(torch), strict=True):
        assert got == pytest.approx(want, rel=1e-5)


RETAINED: dict[str, Callable[[Any, Any], Any]] = {
    "erfinv": lambda T, a: T.erfinv(a),
    "ndtri": lambda T, a: T.special.ndtri(a),
    "sinc": lambda T, a: T.sinc(a),
    "softsign": lambda T, a: T.nn.functional.softsign(a),
    "logcumsumexp": lambda T, a: a.logcumsumexp(0),
    "quotient": lambda T, a: a / (a + 2),
    "tanh": lambda T, a: a.tanh(),
}


@pytest.mark.parametrize("name", RETAINED)
def test_second_gradient_of_a_result(name: str) -> None:
    """It comes to the result where PyTorch's rule for the first one has saved that."""
    found = []
    for T in (torch, lg):
        a = T.tensor([0.3, 0.6, 0.2], dtype=T.float64, requires_grad=True)
        y = RETAINED[name](T, a)
        y.retain_grad()
        (first,) = T.autograd.grad((y * y).sum(), a, create_graph=True)
        (first * first).sum().backward()
        found.append((y.grad.tolist(), a.grad.tolist()))
    assert found[1][0] == pytest.approx(found[0][0])
    assert found[1][1] == pytest.approx(found[0][1])
