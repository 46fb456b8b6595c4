"""Losses per element, and others computed in steps, have PyTorch's strides, also of size 1."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

import livegrad as lg

torch = pytest.importorskip("torch")

LOSSES: dict[str, Callable[..., Any]] = {
    "l1": lambda F, x, t: F.l1_loss(x, t, reduction="none"),
    "mse": lambda F, x, t: F.mse_loss(x, t, reduction="none"),
    "smooth l1": lambda F, x, t: F.smooth_l1_loss(x, t, reduction="none"),
    "huber": lambda F, x, t: F.huber_loss(x, t, reduction="none"),
    "kl": lambda F, x, t: F.kl_div(x, t, reduction="none"),
    "kl, log": lambda F, x, t: F.kl_div(x, t, reduction="none", log_target=True),
    "bce": lambda F, x, t: F.binary_cross_entropy(x, t, reduction="none"),
    "logits": lambda F, x, t: F.binary_cross_entropy_with_logits(x, t, reduction="none"),
    "poisson": lambda F, x, t: F.poisson_nll_loss(x, t, full=True, reduction="none"),
    "rates": lambda F, x, t: F.poisson_nll_loss(x, t, log_input=False, reduction="none"),
    "gaussian": lambda F, x, t: F.gaussian_nll_loss(x, t, t, full=True, reduction="none"),
    "soft margin": lambda F, x, t: F.soft_margin_loss(x, t, reduction="none"),
    "hinge": lambda F, x, t: F.hinge_embedding_loss(x, t, reduction="none"),
    "ranking": lambda F, x, t: F.margin_ranking_loss(x, t, t, reduction="none"),
}


def laid_out(T: Any, shape: list[int], rng: random.Random) -> Any:
    """A tensor whose dims lie in any order in memory, with gaps between them."""
    order = rng.sample(range(len(shape)), len(shape))
    steps = [rng.choice([1, 1, 2]) for _ in shape]
    whole = [shape[d] * steps[d] + rng.choice([0, 0, 1]) for d in order]
    x = T.linspace(0.1, 0.9, torch.Size(whole).numel()).reshape(whole)
    x = x.permute([order.index(d) for d in range(len(shape))])
    for d, (size, step) in enumerate(zip(shape, steps, strict=True)):
        x = x.narrow(d, 0, size * step)
        x = x[(slice(None),) * d + (slice(None, None, step),)]
    return x


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("requires", [False, True])
def test_strides_of_losses(loss: str, requires: bool) -> None:
    for seed in range(60):
        found = []
        for T in (torch, lg):
            rng = random.Random(seed)
            shape = rng.choices([1, 1, 2, 3], k=rng.randint(1, 4))
            x, t = (laid_out(T, shape, rng).detach() for _ in range(2))
            y = LOSSES[loss](T.nn.functional, x.requires_grad_(requires), t)
            found.append((shape, x.stride(), t.stride(), y.stride()))
        assert found[1] == found[0]


@pytest.mark.parametrize("name", ["isfinite", "isinf", "isnan"])
def test_strides_of_what_is_computed_in_steps(name: str) -> None:
    for seed in range(60):
        found = []
        for T in (torch, lg):
            rng = random.Random(seed)
            x = laid_out(T, rng.choices([1, 1, 2, 3], k=rng.randint(1, 4)), rng)
            found.append((x.shape, x.stride(), getattr(T, name)(x).stride()))
        assert found[1] == found[0]
