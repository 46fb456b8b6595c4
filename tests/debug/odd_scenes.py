"""More programs that go wrong, in places that are not the forward of a model: see `scenes.py`."""

from __future__ import annotations

import copy
import math
from typing import Any

import livegrad as lg
import livegrad.nn as nn
import livegrad.nn.functional as F
from livegrad import func
from livegrad.utils.checkpoint import checkpoint
from tests.debug.scenes import INF, NAN, scene, with_loss

X = lg.linspace(-1, 1, 24).reshape(4, 6)


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))


# ------------------------------------------------------------------------ rules of the user's own


@scene("div", how="backward")
def a_rule_that_divides_by_nothing() -> Any:
    class Halved(lg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, by: float) -> Any:
            ctx.by = by
            return x * 0.5

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return gradients[0] / lg.tensor(ctx.by), None  # here

    def loss(model: Any, bad: float) -> Any:
        return Halved.apply(model(X), 1.0 - bad).square().mean()

    return with_loss(net(), loss)


@scene("log", how="backward")
def a_rule_with_a_logarithm_of_what_was_saved() -> Any:
    class Twice(lg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            (x,) = ctx.saved_tensors
            return gradients[0] * x.square().log()  # here

    return with_loss(net(), lambda model, bad: Twice.apply(model(X) * (1 - bad)).sum())


# ------------------------------------------------------------------------------------------ hooks


@scene("div", how="any")
def a_hook_on_a_parameter() -> Any:
    model = nn.Linear(6, 2)
    bad_now = [0.0]
    model.weight.register_hook(lambda g: g / (1.0 - lg.tensor(bad_now[0])))  # here

    def loss(model: Any, bad: float) -> Any:
        bad_now[0] = bad
        return model(X).square().mean()

    return with_loss(model, loss)


@scene("sqrt", how="any")
def a_backward_hook_of_a_module() -> Any:
    model = net()
    bad_now = [0.0]

    def turned(module: Any, given: Any, gradients: Any) -> Any:
        return (given[0] * (1 - bad_now[0] * lg.ones(1) * 2).sqrt(),)  # here

    model[2].register_full_backward_hook(turned)

    def loss(model: Any, bad: float) -> Any:
        bad_now[0] = bad
        return model(X).square().mean()

    return with_loss(model, loss)


@scene("log", how="any")
def a_hook_that_runs_when_a_gradient_is_there() -> Any:
    model = nn.Linear(6, 2)
    bad_now = [0.0]

    def weighed(p: Any) -> None:
        p.grad.mul_((1 - lg.full((), bad_now[0])).log().neg() + 1)  # here

    model.bias.register_post_accumulate_grad_hook(weighed)

    def loss(model: Any, bad: float) -> Any:
        bad_now[0] = bad
        return model(X).square().mean()

    return with_loss(model, loss)


# ------------------------------------------------------------------- between backward and the step


@scene("add", "add_", "mul", how="any")
def gradients_that_are_accumulated_beyond_all_bounds() -> Any:
    model = nn.Linear(6, 2)

    def step(bad: float) -> None:
        for _ in range(2):
            (model(X[:1] * 0).sum() * (1 + bad * 2e38)).backward()  # here

    return {"model": model, "step": step}


@scene("div", "mul", how="any")
def gradients_divided_by_how_many_there_were() -> Any:
    def after(model: Any, bad: float) -> None:
        count = lg.tensor(4.0 * (1 - bad))
        for p in model.parameters():
            p.grad = p.grad * 0 / count  # here

    return with_loss(net(), lambda model, bad: model(X).square().mean(), after=after)


@scene("div", how="any")
def noise_scaled_by_a_norm_of_zero() -> Any:
    def after(model: Any, bad: float) -> None:
        for p in model.parameters():
            scale = p.grad.norm() * (1 - bad)
            p.grad.add_(lg.zeros_like(p) / scale)  # here

    return with_loss(net(), lambda model, bad: model(X).square().mean(), after=after)


# ------------------------------------------------------------------------------- precision, scaling


@scene("exp", module="1 (Grow)")
def half_precision_that_overflows() -> Any:
    class Grow(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.exp()  # here

    model = nn.Sequential(nn.Linear(6, 4), Grow(), nn.Linear(4, 2))

    def loss(model: Any, bad: float) -> Any:
        with lg.autocast("cpu", dtype=lg.float16):
            return model(X + bad * 3e4).float().square().mean()

    return with_loss(model, loss)


@scene("mul", how="any")
def a_loss_scaled_by_hand() -> Any:
    def loss(model: Any, bad: float) -> Any:
        return (model(X).square().mean() + 1) * (1e30 ** (2 * bad))  # here

    return with_loss(net(), loss)


# ------------------------------------------------------------------------- checkpoints, transforms


@scene("sqrt", "sqrt (div)", how="backward", module="root (Root)")
def a_checkpoint_of_a_module() -> Any:
    class Root(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(6, 4)

        def forward(self, x: Any, bad: float) -> Any:
            return (self.inner(x).square() * (1 - bad)).sqrt()  # here

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.root = nn.Linear(6, 6), Root()

        def forward(self, x: Any, bad: float) -> Any:
            return checkpoint(self.root, self.first(x), bad, use_reentrant=False).sum()

    return with_loss(Outer(), lambda model, bad: model(X, bad))


@scene("log", "log (div)", how="any")
def a_step_by_functional_call_and_grad() -> Any:
    model = nn.Linear(6, 2)

    def step(bad: float) -> None:
        def loss(params: Any, x: Any) -> Any:
            y = func.functional_call(model, params, (x,))
            return (y.square() * (1 - bad)).log().mean()  # here

        params = {name: p.detach() for name, p in model.named_parameters()}
        gradients = func.grad(loss)(params, X)
        for name, p in model.named_parameters():
            p.grad = gradients[name]

    return {"model": model, "step": step}


@scene("reciprocal", "div", how="any")
def gradients_example_by_example() -> Any:
    model = nn.Linear(6, 2)

    def step(bad: float) -> None:
        def loss(params: Any, x: Any) -> Any:
            y = func.functional_call(model, params, (x,))
            return 1 / (y.square().sum() * (1 - bad))  # here

        params = {name: p.detach() for name, p in model.named_parameters()}
        gradients = func.vmap(func.grad(loss), in_dims=(None, 0))(params, X)
        for name, p in model.named_parameters():
            p.grad = gradients[name].mean(0)

    return {"model": model, "step": step}


@scene("sqrt", how="any")
def a_second_gradient() -> Any:
    def loss(model: Any, bad: float) -> Any:
        x = X.clone().requires_grad_()
        (slope,) = lg.autograd.grad(model(x).sum(), x, create_graph=True)
        return (slope.square().sum(1) * (1 - bad)).sqrt().mean()  # here

    return with_loss(net(), loss)


# ------------------------------------------------------------------------- state beside the network


@scene("copy_", how="any")
def a_teacher_that_is_a_mean_of_the_past() -> Any:
    model = nn.Linear(6, 2)
    teacher = copy.deepcopy(model).requires_grad_(False)

    def loss(model: Any, bad: float) -> Any:
        return (model(X) - teacher(X)).square().mean() + model(X).square().mean()

    def before(steps: Any, i: int, wrong: int) -> None:
        with lg.no_grad():
            for p, q in zip(teacher.parameters(), model.parameters(), strict=True):
                p.copy_((p * 0.9 + q * 0.1) / lg.tensor(float(i != wrong - 1)))  # here

    return with_loss(model, loss, before=before)


@scene("SGD", "lr", how="update", step=0)
def a_schedule_that_is_not_a_number() -> Any:
    def before(steps: Any, i: int, wrong: int) -> None:
        for group in steps.param_groups:
            group["lr"] = math.nan if i == wrong else 1e-3

    return with_loss(net(), lambda model, bad: model(X).square().mean(), before=before)


@scene("norm_with_statistics", how="any", module="1 (BatchNorm1d)")
def a_batch_norm_whose_statistics_were_written() -> Any:
    model = nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3), nn.Linear(3, 2)).eval()

    def loss(model: Any, bad: float) -> Any:
        if bad:
            model[1].running_var.fill_(-1.0)
        return model(X).square().mean()  # here

    return with_loss(model, loss)


# --------------------------------------------------------------------------------------- in place


@scene("div_", "div", "index_write", how="any")
def a_row_that_is_divided_in_place() -> Any:
    def loss(model: Any, bad: float) -> Any:
        y = model(X).clone()
        y[1] /= (1 - bad) * lg.ones(2)  # here
        return y.square().mean()

    return with_loss(net(), loss)


@scene("masked_fill", "mul", "sum", how="any")
def masked_with_infinity_and_multiplied_by_zero() -> Any:
    def loss(model: Any, bad: float) -> Any:
        y = model(X)
        mask = lg.zeros(4, 2, dtype=lg.bool)
        mask[0] = bool(bad)
        return (y.masked_fill(mask, -INF).exp() * y.masked_fill(mask, -INF)).sum()  # here

    return with_loss(net(), loss)


# ------------------------------------------------------------------- complex, sparse, other layers


@scene("log", how="any")
def the_logarithm_of_a_complex_zero() -> Any:
    def loss(model: Any, bad: float) -> Any:
        y = model(X) * (1 - bad)
        return lg.complex(y, y).log().abs().mean()  # here

    return with_loss(net(), loss)


@scene("log", how="any", module="Words")
def sparse_gradients() -> Any:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(9, 4, sparse=True)

        def forward(self, i: Any, bad: float) -> Any:
            return self.table(i).square().sum(1).mul(1 - bad).log().mean()  # here

    return with_loss(Words(), lambda model, bad: model(lg.tensor([1, 2, 3]), bad))


@scene("div", "norm", "weight_norm", how="any")
def a_weight_norm_whose_direction_was_lost() -> Any:
    model = nn.utils.parametrizations.weight_norm(nn.Linear(6, 2))

    def loss(model: Any, bad: float) -> Any:
        if bad:
            with lg.no_grad():
                model.parametrizations.weight.original1.zero_()
        return model(X).square().mean()  # here

    return with_loss(model, loss)


class Ratio(lg.optim.Optimizer):
    """Steps by the size of the weights over that of the gradients."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr})

    @lg.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                p -= group["lr"] * p.norm() / p.grad.norm() * p.grad


@scene("log_softmax", "logsumexp", "cross_entropy", "nll_loss", "mul", how="any")
def before_a_step_of_its_own() -> Any:
    def loss(model: Any, bad: float) -> Any:
        logits = model(X) * (1 + bad * 1e38 * 1e38)  # here
        return F.cross_entropy(logits, lg.tensor([0, 1, 0, 1]))

    return with_loss(net(), loss, optimizer=Ratio)


@scene("data", "full", how="any")
def targets_from_a_loader() -> Any:
    def loss(model: Any, bad: float) -> Any:
        target = lg.full((4, 2), NAN if bad else 0.0)  # here
        return F.smooth_l1_loss(model(X), target)

    return with_loss(net(), loss)


@scene("atanh", how="any")
def an_activation_at_its_edge() -> Any:
    def loss(model: Any, bad: float) -> Any:
        return (model(X).tanh() * (1 - bad) + bad).atanh().clamp(-3, 3).mean()  # here

    return with_loss(net(), loss)
