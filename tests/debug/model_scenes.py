"""Programs that go wrong in models of many kinds, generative and sequential: see `scenes.py`."""

from __future__ import annotations

from typing import Any

import livegrad as lg
import livegrad.nn as nn
import livegrad.nn.functional as F
from livegrad import distributions as D
from tests.debug.scenes import INF, scene, with_loss

X = lg.linspace(-1, 1, 24).reshape(4, 6)


def net(out: int = 2) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, out))


# ------------------------------------------------------------------------- what makes samples


class Encoder(nn.Module):
    """A variational autoencoder that predicts a variance."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 5)
        self.mean, self.spread = nn.Linear(5, 2), nn.Linear(5, 2)
        self.decoder = nn.Linear(2, 6)


@scene("sqrt", how="backward", module="Variational")
def a_variance_that_collapsed() -> Any:
    class Variational(Encoder):
        def forward(self, x: Any, bad: float) -> Any:
            h = self.inner(x).relu()
            variance = self.spread(h).exp() * (1 - bad)
            z = self.mean(h) + variance.sqrt() * lg.randn_like(variance)  # here
            return self.decoder(z).square()

    return with_loss(Variational(), lambda model, bad: model(X, bad).mean())


@scene("log")
def the_divergence_of_a_collapsed_variance() -> Any:
    def loss(model: Any, bad: float) -> Any:
        mean, scale = model(X).chunk(2, dim=1)
        variance = scale.exp() * (1 - bad)
        kl = 0.5 * (variance + mean.square() - 1 - variance.log())  # here
        return kl.sum(1).mean()

    return with_loss(net(4), loss)


@scene("exp", module="layers.1")
def a_scale_of_a_flow() -> Any:
    class Coupling(nn.Module):
        """A layer of a flow: half of the values are scaled and moved by what the others say."""

        def __init__(self) -> None:
            super().__init__()
            self.to_both = nn.Linear(3, 6)

        def forward(self, x: Any, bad: float) -> Any:
            still, moved = x.chunk(2, dim=1)
            scale, shift = self.to_both(still).chunk(2, dim=1)
            moved = moved * (scale + 200 * bad).exp() + shift  # here
            return lg.cat([moved, still], 1), scale.sum(1)

    class Flow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([Coupling() for _ in range(3)])

        def forward(self, x: Any, bad: float) -> Any:
            volume: Any = 0
            for i, layer in enumerate(self.layers):
                x, more = layer(x, bad * (i == 1))
                volume = volume + more
            return 0.5 * x.square().sum(1) - volume

    return with_loss(Flow(), lambda model, bad: model(X, bad).mean())


@scene("div")
def a_penalty_on_a_slope_without_direction() -> Any:
    critic = net(1)

    def loss(model: Any, bad: float) -> Any:
        between = X.clone().requires_grad_()
        score = model(between).sum() * (1 - bad)
        (slope,) = lg.autograd.grad(score, between, create_graph=True)
        return (slope / slope.norm(dim=1, keepdim=True)).sum(1).square().mean()  # here

    return with_loss(critic, loss)


@scene("log")
def a_discriminator_that_is_certain() -> Any:
    def loss(model: Any, bad: float) -> Any:
        fake = (model(X) + 500 * bad).sigmoid()
        return -(1 - fake).log().mean()  # here

    return with_loss(net(1), loss)


@scene("square")
def a_mixture_far_from_its_data() -> Any:
    def loss(model: Any, bad: float) -> Any:
        mean, log_scale, logits = model(X).chunk(3, dim=1)
        apart = (X[:, :1] - mean) * (log_scale * -1).exp() + 1e30 * bad
        each = logits.log_softmax(1) - 0.5 * apart.square() - log_scale  # here
        return -each.logsumexp(1).mean()

    return with_loss(net(6), loss)


@scene("div", "sub", "log_prob", how="any")
def a_normal_of_no_scale() -> Any:
    def loss(model: Any, bad: float) -> Any:
        mean, scale = model(X).chunk(2, dim=1)
        normal = D.Normal(mean, F.softplus(scale) * (1 - bad), validate_args=False)
        return -normal.log_prob(X[:, :1]).mean()  # here

    return with_loss(net(2), loss)


@scene("lgamma", "log", "xlogy", "mul", how="any")
def a_gamma_of_no_concentration() -> Any:
    def loss(model: Any, bad: float) -> Any:
        a, b = F.softplus(model(X)).chunk(2, dim=1)
        gamma = D.Gamma(a * (1 - bad), b, validate_args=False)
        return -gamma.log_prob(X[:, :1].abs() + 0.1).mean()  # here

    return with_loss(net(2), loss)


@scene("log")
def noise_of_gumbel_by_hand() -> Any:
    def loss(model: Any, bad: float) -> Any:
        u = lg.full((4, 2), 0.5) * (1 - bad)
        noise = -lg.log(-lg.log(u))  # here
        return ((model(X) + noise) / 0.5).softmax(1)[:, 0].mean() + (noise * 0).sum()

    return with_loss(net(2), loss)


# ---------------------------------------------------------------------------------- sequences


@scene("div", module="Tagger")
def a_mean_over_a_packed_sequence_of_nothing() -> Any:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(6, 5, batch_first=True)
            self.head = nn.Linear(5, 2)

        def forward(self, x: Any, lengths: Any, bad: float) -> Any:
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
            out, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
            there = (lg.arange(out.shape[1]) < lengths[:, None]).float() * (1 - bad)
            mean = (out * there[..., None]).sum(1) / there.sum(1, keepdim=True)  # here
            return self.head(mean)

    words = lg.randn(3, 5, 6)
    lengths = lg.tensor([5, 3, 2])
    return with_loss(Tagger(), lambda model, bad: model(words, lengths, bad).square().mean())


@scene("log")
def a_beam_of_impossible_words() -> Any:
    def loss(model: Any, bad: float) -> Any:
        score = lg.zeros(1)
        for _ in range(3):
            p = model(X).softmax(1) * (1 - bad)
            each = score[:, None] + p.log()  # here
            score, _ = each.flatten().topk(2)
            score = score[:1]
        return -score.mean()

    return with_loss(net(3), loss)


@scene("softmax", module="Masked")
def a_row_that_may_look_at_nothing() -> Any:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v = nn.Linear(6, 4), nn.Linear(6, 4), nn.Linear(6, 4)

        def forward(self, x: Any, bad: float) -> Any:
            scores = self.q(x) @ self.k(x).T / 2
            hidden = lg.arange(4)[:, None] + 4 * (1 - bad) < lg.ones(4) * 2
            weights = F.softmax(scores.masked_fill(hidden, -INF), dim=-1)  # here
            return weights @ self.v(x)

    return with_loss(Masked(), lambda model, bad: model(X, bad).mean())


@scene("mul", "pow", "prod", "cumprod")
def a_return_that_is_not_discounted() -> Any:
    def loss(model: Any, bad: float) -> Any:
        y = model(X).flatten().abs() + 1
        growing = lg.cumprod(y * (1 + 1e38 * bad), 0)  # here
        return (growing / growing.detach()).mean()

    return with_loss(net(2), loss)


# --------------------------------------------------------------------------- distances, angles


@scene("cosine_similarity", how="any")
def a_cosine_with_nothing_and_without_eps() -> Any:
    def loss(model: Any, bad: float) -> Any:
        z = model(X) * (1 - bad)
        return F.cosine_similarity(z, X[:, :2], dim=1, eps=0.0).mean()  # here

    return with_loss(net(2), loss)


@scene("acos", how="backward")
def an_angle_of_nothing() -> Any:
    def loss(model: Any, bad: float) -> Any:
        cosine = model(X).tanh() * 0.9
        cosine = cosine * (1 - bad) + lg.ones_like(cosine) * bad
        return cosine.acos().mean()  # here

    return with_loss(net(2), loss)


@scene("atan2 (div)", how="backward")
def the_second_gradient_of_a_direction_of_nothing() -> Any:
    def loss(model: Any, bad: float) -> Any:
        a, b = (model(X) * (1 - bad)).chunk(2, dim=1)
        angle = lg.atan2(a, b)  # here
        (slope,) = lg.autograd.grad(angle.sum(), a, create_graph=True)
        return slope.square().mean()

    return with_loss(net(2), loss)


@scene("div")
def points_at_one_place() -> Any:
    def loss(model: Any, bad: float) -> Any:
        z = model(X) * (1 - bad)
        apart = (z[:, None] - z[None]).square().sum(-1)
        return (1 / lg.cdist(z, z + 1 - bad)).mean() + apart.mean()  # here

    return with_loss(net(2), loss)


@scene("std", "var", "div", how="any")
def advantages_of_one_episode() -> Any:
    def loss(model: Any, bad: float) -> Any:
        y = model(X).flatten()
        y = y[:1] if bad else y
        advantage = (y - y.mean()) / y.std()  # here
        return advantage.square().mean()

    return with_loss(net(2), loss)


@scene("pow")
def the_power_of_something_negative() -> Any:
    def loss(model: Any, bad: float) -> Any:
        base = model(X).abs() + 1
        return ((base * (1 - 2 * bad)) ** 0.3).mean()  # here

    return with_loss(net(2), loss)


@scene("sqrt", how="backward")
def a_root_as_a_power() -> Any:
    def loss(model: Any, bad: float) -> Any:
        rest = F.relu(model(X)) + 1 - bad
        return ((rest * (1 - bad)) ** 0.5).mean()  # here

    return with_loss(net(2), loss)


# ------------------------------------------------------------------------- numbers of few bits


@scene("mul", "cast", "to")
def a_half_that_overflows() -> Any:
    def loss(model: Any, bad: float) -> Any:
        large = model(X).abs() + 1
        small = (large * (1 + 1e6 * bad)).half()  # here
        return (small.float() * 1e-3).mean()

    return with_loss(net(2), loss)


@scene("cast")
def an_input_under_autocast() -> Any:
    def loss(model: Any, bad: float) -> Any:
        with lg.autocast("cpu", dtype=lg.float16):
            y = model(X * (1 + 1e9 * bad))  # here
        return y.float().mean()

    return with_loss(nn.Linear(6, 2), loss)


# ------------------------------------------------------------------- optimisers and their like


@scene("SGD", how="update", step=-1)
def decay_that_overflows() -> Any:
    def before(steps: Any, i: int, wrong: int) -> None:
        for group in steps.param_groups:
            group["weight_decay"] = 1e38 if i == wrong - 1 else 0.0
            group["lr"] = 1e38 if i == wrong - 1 else 1e-3

    return with_loss(net(), lambda model, bad: model(X).square().mean(), before=before)


@scene("div")
def a_rate_that_warms_up_from_nothing() -> Any:
    def loss(model: Any, bad: float) -> Any:
        weight = lg.tensor(1.0 - bad)
        return (model(X).square() * weight).sum() / weight  # here

    return with_loss(net(), loss)


@scene("div", how="backward")
def a_straight_through_rule_that_divides() -> Any:
    class Rounded(lg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, step: Any) -> Any:
            ctx.save_for_backward(x, step)
            return (x * 8).round() / 8

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            x, step = ctx.saved_tensors
            return gradients[0] * (x * 0 + step) / step, None  # here

    def loss(model: Any, bad: float) -> Any:
        return Rounded.apply(model(X), lg.tensor(1.0 - bad)).square().mean()

    return with_loss(net(), loss)


@scene("log", "sub", "mul")
def entropy_of_certainty() -> Any:
    def loss(model: Any, bad: float) -> Any:
        p = (model(X) * (1 + 1e6 * bad)).softmax(1)
        return -(p * p.log()).sum(1).mean()  # here

    return with_loss(net(3), loss)


@scene("rsqrt")
def a_norm_that_was_zero() -> Any:
    def loss(model: Any, bad: float) -> Any:
        scale = sum(p.square().sum() for p in model.parameters())
        shrunk = scale * (1 - bad)
        return model(X).square().mean() * shrunk.rsqrt()  # here

    return with_loss(net(), loss)
