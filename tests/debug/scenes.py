"""Programs of many kinds that go wrong in a step we know, at a line that is marked by `# here`.

A scene is a function that makes a model and gives it with a loss; `bad` is 1 in the step that goes
wrong and 0 before. What blame is to say stands in the decorator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import livegrad as lg
import livegrad.nn as nn
import livegrad.nn.functional as F
from livegrad import func
from livegrad.utils.checkpoint import checkpoint
from tests.debug.faults import marked_line

INF, NAN = float("inf"), float("nan")


class Scene(NamedTuple):
    """What a scene is made of, and what is to be found: of operations, one of several."""

    make: Callable[[], Any]
    ops: tuple[str, ...]
    how: str
    module: str | None
    step: int  # counted from the one that goes wrong

    @property
    def line(self) -> int:
        return marked_line(self.make)

    @property
    def file(self) -> str:
        found: str = self.make.__code__.co_filename
        return found


SCENES: dict[str, Scene] = {}


def scene(
    *ops: str, how: str = "forward", module: str | None = None, step: int = 0
) -> Callable[[Any], Any]:
    def add(make: Any) -> Any:
        SCENES[make.__name__] = Scene(make, ops, how, module, step)
        return make

    return add


def with_loss(model: Any, loss: Callable[[Any, float], Any], **more: Any) -> dict[str, Any]:
    return {"model": model, "loss": loss, **more}


# ------------------------------------------------------------------------- words and attention


@scene("div", module="Sentences")
def a_sentence_of_padding_alone() -> Any:
    class Sentences(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.head = nn.Embedding(9, 6, padding_idx=0), nn.Linear(6, 2)

        def forward(self, tokens: Any) -> Any:
            there = (tokens != 0).float()[..., None]
            mean = (self.words(tokens) * there).sum(1) / there.sum(1)  # here
            return self.head(mean)

    tokens = lg.arange(12).reshape(3, 4) % 8 + 1

    def loss(model: Any, bad: float) -> Any:
        given = tokens.clone()
        given[1] *= int(1 - bad)
        return F.cross_entropy(model(given), lg.tensor([0, 1, 0]))

    return with_loss(Sentences(), loss, optimizer=lg.optim.AdamW)


@scene("softmax", module="attend (MultiheadAttention)")
def keys_that_are_all_padding() -> Any:
    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
            self.head = nn.Linear(8, 1)

        def forward(self, x: Any, padding: Any) -> Any:
            y, _ = self.attend(x, x, x, key_padding_mask=padding)  # here
            return self.head(y).mean()

    x = lg.randn(2, 5, 8)

    def loss(model: Any, bad: float) -> Any:
        padding = lg.zeros(2, 5, dtype=lg.bool)
        padding[1, 5 - int(5 * bad) :] = True
        return model(x, padding)

    return with_loss(Reader(), loss)


@scene("amax")
def the_largest_of_nothing() -> Any:
    def loss(model: Any, bad: float) -> Any:
        z = model(lg.ones(3, 6))
        z = z.masked_fill(lg.arange(6) >= 6 * (1 - bad), -INF)
        top = z.amax(1, keepdim=True)  # here
        e = (z - top).exp()
        return (e / e.sum(1, keepdim=True)).square().mean()

    return with_loss(nn.Linear(6, 6), loss)


@scene("cross_entropy")
def targets_that_are_all_ignored() -> Any:
    x = lg.randn(4, 6)

    def loss(model: Any, bad: float) -> Any:
        target = lg.full((4,), -100 if bad else 1)
        return F.cross_entropy(model(x), target)  # here

    return with_loss(nn.Linear(6, 3), loss)


@scene("ctc_loss")
def a_label_longer_than_the_sound() -> Any:
    x = lg.randn(6, 2, 5)

    def loss(model: Any, bad: float) -> Any:
        log_p = model(x).log_softmax(2)
        lengths = lg.tensor([6, 1 if bad else 6])
        labels = lg.tensor([[1, 2, 3], [1, 1, 2]])
        return F.ctc_loss(log_p, labels, lengths, lg.tensor([3, 3]))  # here

    return with_loss(nn.Linear(5, 5), loss)


# ---------------------------------------------------------------- statistics, norms and distances


@scene("var")
def variance_of_one() -> Any:
    x = lg.randn(4, 6)

    def loss(model: Any, bad: float) -> Any:
        z = model(x[: 1 if bad else 4])
        return z.var(0).mean()  # here

    return with_loss(nn.Linear(6, 6), loss)


@scene("div")
def a_mask_that_counts_nothing() -> Any:
    x = lg.randn(4, 6)

    def loss(model: Any, bad: float) -> Any:
        mask = lg.ones(4, 1) * (1 - bad)
        per_row = model(x).square()
        return (per_row * mask).sum() / mask.sum()  # here

    return with_loss(nn.Linear(6, 1), loss, optimizer=lg.optim.Adam)


@scene("sqrt", how="backward")
def distances_of_points_that_are_one() -> Any:
    x = lg.randn(4, 6)

    def loss(model: Any, bad: float) -> Any:
        z = model(x)
        other = z.roll(1, 0) * (1 - bad) + z * bad
        distances = ((z - other) ** 2).sum(-1).sqrt()  # here
        return distances.mean()

    return with_loss(nn.Linear(6, 6), loss)


@scene("normalize")
def normalised_zero_without_eps() -> Any:
    x = lg.randn(4, 6)

    def loss(model: Any, bad: float) -> Any:
        z = model(x) * (1 - bad)
        return F.normalize(z, dim=1, eps=0.0).sum()  # here

    return with_loss(nn.Linear(6, 6), loss)


@scene("layer_norm", module="1 (LayerNorm)")
def a_layer_norm_of_one_value() -> Any:
    model = nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5, eps=0.0), nn.Linear(5, 1))
    x = lg.randn(4, 6)

    def loss(model: Any, bad: float) -> Any:
        with lg.no_grad():
            model[0].weight.mul_(1 - bad)
            model[0].bias.mul_(1 - bad)
        return model(x).mean()  # here

    return with_loss(model, loss)


@scene("div", module="0.parametrizations.weight")
def a_weight_norm_of_zeros() -> Any:
    first = nn.utils.parametrizations.weight_norm(nn.Linear(6, 5))
    x = lg.randn(4, 6)

    def loss(model: Any, bad: float) -> Any:
        with lg.no_grad():
            first.parametrizations.weight.original1.mul_(1 - bad)
        return model(x).square().mean()  # here

    return with_loss(nn.Sequential(first, nn.Linear(5, 1)), loss)


@scene("hypot", how="backward")
def the_length_of_nothing() -> Any:
    x = lg.randn(4, 6)

    def loss(model: Any, bad: float) -> Any:
        z = model(x) * (1 - bad)
        return lg.hypot(z[:, 0], z[:, 1]).sum()  # here

    return with_loss(nn.Linear(6, 2), loss)


@scene("acos", how="backward")
def the_angle_between_equals() -> Any:
    x = lg.randn(4, 6)

    def loss(model: Any, bad: float) -> Any:
        z = model(x).tanh() * (1 - bad) + bad
        return z.acos().mean()  # here

    return with_loss(nn.Linear(6, 2), loss)


# ------------------------------------------------------------------------- losses and likelihoods


@scene("log")
def a_saturated_cross_entropy_by_hand() -> Any:
    x = lg.randn(4, 6)

    def loss(model: Any, bad: float) -> Any:
        p = (model(x) + 200 * bad).sigmoid()
        y = lg.ones(4, 1)
        one, other = p.log(), (1 - p).log()  # here
        return -(y * one + (1 - y) * other).mean()

    return with_loss(nn.Linear(6, 1), loss, optimizer=lg.optim.Adam)


@scene("mul")
def infinite_logits_for_bce() -> Any:
    x = lg.randn(4, 6)

    def loss(model: Any, bad: float) -> Any:
        z = model(x)
        z = (z + 2 * bad) * (1 + 3e38 * bad)  # here
        return F.binary_cross_entropy_with_logits(z, lg.zeros(4, 1))

    model = nn.Linear(6, 1)
    nn.init.zeros_(model.weight)
    return with_loss(model, loss)


@scene("exp")
def a_variance_that_overflows() -> Any:
    def divergence(mean: Any, log_var: Any) -> Any:
        return -0.5 * (1 + log_var - mean**2 - log_var.exp()).sum(1).mean()  # here

    x = lg.randn(4, 6)

    def loss(model: Any, bad: float) -> Any:
        mean, log_var = model(x).chunk(2, 1)
        return divergence(mean, log_var + 100 * bad)

    return with_loss(nn.Linear(6, 4), loss)


@scene("div", "log", "mul", "pow", "reciprocal", "square")
def a_normal_without_width() -> Any:
    x = lg.randn(4, 6)

    def loss(model: Any, bad: float) -> Any:
        z = model(x)
        width = lg.ones(4, 2) * (1 - bad)
        return -lg.distributions.Normal(z, width, validate_args=False).log_prob(z).mean()  # here

    return with_loss(nn.Linear(6, 2), loss)


@scene("log", "poisson_nll_loss")
def a_rate_of_zero() -> Any:
    x = lg.randn(4, 6)

    def loss(model: Any, bad: float) -> Any:
        rate = model(x).exp() * (1 - bad)
        return F.poisson_nll_loss(rate, lg.ones(4, 1), log_input=False, eps=0.0)  # here

    return with_loss(nn.Linear(6, 1), loss)


@scene("exp")
def logits_that_overflow_before_log_softmax() -> Any:
    x = lg.randn(4, 6)

    def loss(model: Any, bad: float) -> Any:
        z = (model(x).abs() + 100 * bad).exp()  # here
        return F.nll_loss(F.log_softmax(z, 1), lg.tensor([0, 1, 2, 0]))

    return with_loss(nn.Linear(6, 3), loss)


@scene("logit", "div", "log")
def the_logit_of_one() -> Any:
    x = lg.randn(4, 6)

    def loss(model: Any, bad: float) -> Any:
        p = model(x).sigmoid() * (1 - bad) + bad
        return p.logit().square().mean()  # here

    return with_loss(nn.Linear(6, 3), loss)


# ---------------------------------------------------------------------- long and repeated things


@scene("matmul", "mul")
def five_hundred_steps_of_a_recurrence() -> Any:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(lg.eye(3))

        def forward(self, x: Any, grow: float) -> Any:
            for _ in range(500):
                x = x @ self.w * (1 + grow)  # here
            return x.mean()

    return with_loss(Recurrent(), lambda m, bad: m(lg.ones(2, 3), 0.5 * bad) * 1e-3)


@scene("recurrent", module="rnn (RNN)")
def a_long_rnn_that_grows() -> Any:
    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.head = nn.RNN(3, 4, nonlinearity="relu"), nn.Linear(4, 1)

        def forward(self, x: Any) -> Any:
            y, _ = self.rnn(x)  # here
            return self.head(y[-1]).mean()

    model = Reader()
    x = lg.ones(300, 2, 3)

    def loss(model: Any, bad: float) -> Any:
        with lg.no_grad():
            model.rnn.weight_hh_l0.copy_(lg.eye(4) * (0.5 + 1.5 * bad))
            model.rnn.weight_ih_l0.fill_(1.0)
        return model(x)

    return with_loss(model, loss)


@scene("exp", module="cell (Cell)")
def exponential_gates() -> Any:
    class Cell(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(3, 3)

        def forward(self, x: Any, h: Any) -> Any:
            weight = (self.gate(x) + h).exp()  # here
            return weight * 0.1 + h * 0.5

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = Cell()

        def forward(self, x: Any) -> Any:
            h = lg.zeros(2, 3)
            for t in range(x.shape[0]):
                h = self.cell(x[t], h)
            return h.mean()

    x = lg.randn(40, 2, 3)
    return with_loss(Reader(), lambda m, bad: m(x + bad * 50))


@scene("cumprod")
def a_product_of_many() -> Any:
    x = lg.randn(4, 60)

    def loss(model: Any, bad: float) -> Any:
        z = model(x).tanh() + 10 * bad
        return z.cumprod(1).sum()  # here

    return with_loss(nn.Linear(60, 60), loss)


# --------------------------------------------------------------------- transforms and checkpoints


@scene("log (div)", how="backward")
def inside_a_checkpoint() -> Any:
    def block(x: Any, bad: float) -> Any:
        return (x.sigmoid() * (1 - bad)).log()  # here

    x = lg.randn(4, 6)
    return with_loss(
        nn.Linear(6, 6), lambda m, bad: checkpoint(block, m(x), bad, use_reentrant=False).mean()
    )


@scene("sqrt (div)", how="backward")
def the_gradient_of_a_checkpoint() -> Any:
    def block(x: Any, bad: float) -> Any:
        return (x.square() * (1 - bad)).sqrt()  # here

    x = lg.randn(4, 6)
    return with_loss(
        nn.Linear(6, 6), lambda m, bad: checkpoint(block, m(x), bad, use_reentrant=False).mean()
    )


@scene("log")
def inside_vmap() -> Any:
    def of_one(row: Any, bad: Any) -> Any:
        return (row.sigmoid() * (1 - bad)).log().sum()  # here

    x = lg.randn(4, 6)

    def loss(model: Any, bad: float) -> Any:
        return func.vmap(of_one, in_dims=(0, None))(model(x), lg.tensor(bad)).mean()

    return with_loss(nn.Linear(6, 6), loss)


@scene("log (div)", how="backward")
def gradients_of_func_given_by_hand() -> Any:
    model = nn.Linear(6, 6)
    x = lg.randn(4, 6)

    def of(params: Any, bad: float) -> Any:
        z = func.functional_call(model, params, (x,))
        return (z.sigmoid() * (1 - bad)).log().mean()  # here

    def step(bad: float) -> None:
        grads = func.grad(of)(dict(model.named_parameters()), bad)
        for name, p in model.named_parameters():
            p.grad = grads[name]

    return {"model": model, "step": step}


@scene("sqrt", how="backward")
def a_gradient_penalty() -> Any:
    x = lg.randn(4, 6)

    def loss(model: Any, bad: float) -> Any:
        given = x.clone().requires_grad_()
        score = (model(given) * (1 - bad)).sum()
        (g,) = lg.autograd.grad(score, given, create_graph=True)
        norm = (g**2).sum(1).sqrt()  # here
        return score + (norm - 1).square().mean()

    return with_loss(nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1)), loss)


# ----------------------------------------------------------------------------- written in place


@scene("div")
def activations_divided_in_place() -> Any:
    x = lg.randn(4, 6)

    def loss(model: Any, bad: float) -> Any:
        z = model(x) * 1
        z.div_(1 - bad)  # here
        return z.square().mean()

    return with_loss(nn.Linear(6, 6), loss)


@scene("log")
def a_part_that_is_written() -> Any:
    x = lg.randn(4, 6)

    def loss(model: Any, bad: float) -> Any:
        z = model(x) * 1
        z[:, 2] = (z[:, 1].sigmoid() * (1 - bad)).log()  # here
        return z.square().mean()

    return with_loss(nn.Linear(6, 6), loss)


@scene("rsqrt", module="Convolution")
def nodes_without_neighbours() -> Any:
    class Convolution(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(6, 3)

        def forward(self, x: Any, sources: Any, targets: Any) -> Any:
            degree = lg.zeros(5).index_add_(0, targets, lg.ones(len(targets)))
            scale = degree**-0.5  # here
            y = self.linear(x) * scale[:, None]
            return lg.zeros(5, 3).index_add_(0, targets, y[sources]) * scale[:, None]

    x = lg.randn(5, 6)
    sources = lg.tensor([0, 1, 2, 3, 4])

    def loss(model: Any, bad: float) -> Any:
        targets = lg.tensor([1, 2, 3, 4, 1 if bad else 0])
        return model(x, sources, targets).square().mean()

    return with_loss(Convolution(), loss)


# ------------------------------------------------------------------ hooks, Functions, several steps


@scene("div")
def in_a_hook_of_a_module() -> Any:
    model = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 1))
    x, state = lg.randn(4, 6), {"bad": 0.0}
    model[0].register_forward_hook(lambda m, i, y: y / (1 - state["bad"]))  # here

    def loss(model: Any, bad: float) -> Any:
        state["bad"] = bad
        return model(x).mean()

    return with_loss(model, loss)


@scene("data", how="data")
def a_function_that_computes_with_numpy() -> Any:
    import numpy as np

    class Logarithm(lg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            with np.errstate(all="ignore"):
                return lg.tensor(np.log(x.detach().numpy()))  # here

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    x = lg.randn(4, 6)
    return with_loss(
        nn.Linear(6, 6), lambda m, bad: Logarithm.apply(m(x).sigmoid() - 2 * bad).mean()
    )


@scene("log")
def the_second_of_four_small_batches() -> Any:
    model = nn.Linear(6, 3)
    x = lg.randn(4, 8, 6)

    def step(bad: float) -> None:
        for i, part in enumerate(x):
            p = model(part).sigmoid() * (1 - (bad if i == 1 else 0.0))
            p.log().mean().backward()  # here

    return {"model": model, "step": step, "optimizer": lg.optim.AdamW}


@scene("log")
def two_optimisers() -> Any:
    make, judge = nn.Linear(3, 6), nn.Linear(6, 1)
    steps = lg.optim.Adam(judge.parameters(), lr=1e-3)
    noise, real = lg.randn(4, 3), lg.randn(4, 6)

    def step(bad: float) -> None:
        steps.zero_grad()
        (judge(make(noise).detach()).mean() - judge(real).mean()).backward()
        steps.step()
        p = (judge(make(noise)) + 200 * bad).sigmoid()
        (1 - p).log().mean().backward()  # here

    return {"model": make, "step": step}


# ------------------------------------------------------------- parameters, their updates and state


@scene("full")
def weights_that_were_loaded() -> Any:
    model = nn.Sequential()
    model.add_module("lin", nn.Linear(6, 3))
    x = lg.randn(4, 6)
    broken = {"lin.weight": lg.full((3, 6), NAN), "lin.bias": lg.zeros(3)}  # here

    def loss(model: Any, bad: float) -> Any:
        if bad:
            model.load_state_dict(broken)
        return model(x).square().mean()

    return with_loss(model, loss)


@scene("full")
def a_row_of_an_embedding_that_was_written() -> Any:
    model = nn.Sequential()
    model.add_module("words", nn.Embedding(9, 4))

    def loss(model: Any, bad: float) -> Any:
        if bad:
            model.words.weight.data[3] = NAN  # here
        return model(lg.tensor([[1, 3], [2, 0]])).square().mean()

    return with_loss(model, loss)


@scene("linear", module="1 (Linear)", step=1)
def a_schedule_beyond_all_bounds() -> Any:
    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 3))
    x = lg.randn(4, 6)

    def loss(model: Any, bad: float) -> Any:
        return model(x).square().mean()  # here

    def schedule(steps: Any, i: int, wrong: int) -> None:
        for group in steps.param_groups:
            group["lr"] = 1e37 if i == wrong else 1e-3

    return with_loss(model, loss, before=schedule)


@scene("Adam", how="update")
def a_state_that_is_not_finite() -> Any:
    model = nn.Linear(6, 3)
    x = lg.randn(4, 6)

    def spoil(steps: Any, i: int, wrong: int) -> None:
        if i == wrong:
            steps.state[model.weight]["exp_avg"].fill_(NAN)

    return with_loss(
        model, lambda m, bad: m(x).square().mean(), before=spoil, optimizer=lg.optim.Adam
    )


@scene("div")
def clipped_to_nan() -> Any:
    x = lg.randn(4, 6)

    def clip(model: Any, bad: float) -> None:
        nn.utils.clip_grad_norm_(model.parameters(), NAN if bad else 1.0)  # here

    return with_loss(nn.Linear(6, 3), lambda m, bad: m(x).square().mean(), after=clip)


@scene("full_like", "data", "fill", "full", how="any")
def a_gradient_given_by_hand() -> Any:
    x = lg.randn(4, 6)

    def give(model: Any, bad: float) -> None:
        if bad:
            model.bias.grad = lg.full_like(model.bias, NAN)  # here

    return with_loss(nn.Linear(6, 3), lambda m, bad: m(x).square().mean(), after=give)


# ------------------------------------------------------------------------------ images, algebra


@scene("conv", module="0 (Conv2d)")
def a_convolution_that_overflows() -> Any:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))
    x = lg.rand(2, 3, 6, 6)
    nn.init.ones_(model[0].weight)

    def loss(model: Any, bad: float) -> Any:
        return F.cross_entropy(model(x + 1e38 * bad), lg.tensor([0, 1]))  # here

    return with_loss(model, loss)


@scene("slogdet", "linalg_slogdet", "log", how="any")
def a_determinant_of_zero() -> Any:
    x = lg.randn(4, 4)

    def loss(model: Any, bad: float) -> Any:
        m = model(x) * (1 - bad)
        return lg.linalg.slogdet(m + lg.eye(4) * (1 - bad) * 3).logabsdet  # here

    return with_loss(nn.Linear(4, 4), loss)


@scene("eigh", "linalg_eigh", how="backward")
def the_gradient_of_equal_eigenvalues() -> Any:
    x = lg.randn(4, 4)

    def loss(model: Any, bad: float) -> Any:
        m = model(x)
        m = (m + m.T) * (1 - bad) + lg.eye(4)
        return lg.linalg.eigh(m).eigenvectors[0].sum()  # here

    return with_loss(nn.Linear(4, 4), loss, steps_after=0)  # it would refuse NaN


@scene("erfinv")
def beyond_the_error_function() -> Any:
    x = lg.randn(4, 6)

    def loss(model: Any, bad: float) -> Any:
        u = model(x).tanh() * 0.5 * (1 - bad) + bad
        return u.erfinv().mean()  # here

    return with_loss(nn.Linear(6, 3), loss)
