"""Optimisers that compute the loss themselves: LBFGS in fit, lr_find and gradient accumulation."""

from __future__ import annotations

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim, train

RNG = np.random.default_rng(0)
X = RNG.standard_normal((64, 3)).astype(np.float32)
Y = X @ np.array([[1.0], [-2.0], [0.5]], np.float32) + 3


def line() -> tuple[nn.Module, optim.LBFGS]:
    lg.manual_seed(0)
    model = nn.Linear(3, 1)
    return model, optim.LBFGS(model.parameters(), line_search_fn="strong_wolfe")


def test_fit_follows_the_loop_written_out() -> None:
    model, optimizer = line()
    history = train.fit(
        model, (X, Y), F.mse_loss, optimizer, epochs=3, batch_size=64, shuffle=False, show=False,
    )  # fmt: skip
    other, written_out = line()
    losses = []
    for _ in range(3):

        def closure() -> lg.Tensor:
            written_out.zero_grad()
            loss = F.mse_loss(other(lg.tensor(X)), lg.tensor(Y))
            loss.backward()
            return loss

        losses.append(written_out.step(closure).item())
    assert history["loss"] == pytest.approx(losses)
    assert lg.equal(model.weight, other.weight)
    np.testing.assert_allclose(model.weight.detach().numpy(), [[1, -2, 0.5]], atol=1e-4)


def test_fit_goes_on_from_a_checkpoint(tmp_path) -> None:
    whole, optimizer = line()
    options = {"batch_size": 16, "shuffle": False, "show": False}
    train.fit(whole, (X, Y), F.mse_loss, optimizer, epochs=4, **options)
    for epochs in (2, 4):
        model, optimizer = line()
        train.fit(
            model, (X, Y), F.mse_loss, optimizer, epochs=epochs, resume=epochs == 4,
            checkpointer=train.Checkpointer(tmp_path), **options,
        )  # fmt: skip
    assert lg.equal(model.weight, whole.weight)


@pytest.mark.parametrize("options", [{"accumulate": 2}, {"max_norm": 1.0}])
def test_what_fit_cannot_do(options) -> None:
    model, optimizer = line()
    with pytest.raises(ValueError, match=r"fit: LBFGS computes loss and gradients itself"):
        train.fit(model, (X, Y), F.mse_loss, optimizer, show=False, **options)


def test_lr_find_leaves_everything_as_it_was() -> None:
    model, optimizer = line()
    before = model.weight.detach().clone()
    found = train.lr_find(model, optimizer, (X, Y), F.mse_loss, steps=8, end=1.0)
    assert found.losses[-1] < found.losses[0]
    assert lg.equal(model.weight, before)
    assert not optimizer.state
    assert optimizer.param_groups[0]["lr"] == 1


def test_no_gathering_for_lbfgs() -> None:
    model, optimizer = line()
    gather = train.Accumulate(optimizer, steps=2)
    with pytest.raises(TypeError, match=r"Accumulate.backward: LBFGS .*step\(closure\)"):
        gather.backward(F.mse_loss(model(lg.tensor(X)), lg.tensor(Y)))
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'closure'"):
        optimizer.step()
