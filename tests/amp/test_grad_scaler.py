"""GradScaler: scaling, steps not taken, growing, saving."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import nn, optim
from livegrad.amp import GradScaler


def parts(scale: float = 8.0, **options: float) -> tuple[nn.Parameter, optim.SGD, GradScaler]:
    p = nn.Parameter(lg.ones(2))
    return p, optim.SGD([p], lr=0.5), GradScaler(init_scale=scale, **options)


def test_a_step_sees_gradients_of_the_right_size() -> None:
    p, optimizer, scaler = parts()
    scaler.scale((3 * p).sum()).backward()
    assert p.grad.tolist() == [24.0, 24.0]
    scaler.step(optimizer)
    scaler.update()
    assert p.grad.tolist() == [3.0, 3.0]
    assert p.tolist() == [-0.5, -0.5]
    assert scaler.get_scale() == 8.0


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_a_step_with_a_bad_gradient_is_not_taken(bad: float) -> None:
    p, optimizer, scaler = parts()
    scaler.scale((p * lg.tensor([1.0, bad])).sum()).backward()
    assert scaler.step(optimizer) is None
    scaler.update()
    assert p.tolist() == [1.0, 1.0]
    assert optimizer.steps_taken == 0
    assert scaler.get_scale() == 4.0


def test_the_scale_grows_after_good_steps_in_a_row() -> None:
    p, optimizer, scaler = parts(growth_interval=2, growth_factor=4.0)
    for expected in (8.0, 32.0, 32.0, 128.0):
        optimizer.zero_grad()
        scaler.scale(p.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == expected
    scaler.update(3.0)
    assert scaler.get_scale() == 3.0
    scaler.update(lg.tensor(5.0))
    assert scaler.get_scale() == 5.0
    with pytest.raises(AssertionError, match="1-element"):
        scaler.update(lg.ones(2))


def test_unscaling_before_clipping() -> None:
    p, optimizer, scaler = parts()
    scaler.scale((3 * p).sum()).backward()
    scaler.unscale_(optimizer)
    assert float(nn.utils.clip_grad_norm_([p], 1.0)) == pytest.approx(3 * 2**0.5)
    scaler.step(optimizer)
    assert p.tolist() == pytest.approx([1 - 0.5 / 2**0.5] * 2)
    with pytest.raises(RuntimeError, match="after step"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.step(optimizer)
    scaler.update()
    scaler.scale(p.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)


def test_one_bad_optimiser_holds_up_itself_alone() -> None:
    p, q = nn.Parameter(lg.ones(1)), nn.Parameter(lg.ones(1))
    first, second = optim.SGD([p], lr=1.0), optim.SGD([q], lr=1.0)
    scaler = GradScaler(init_scale=2.0)
    for loss in scaler.scale([p.sum() * float("inf"), q.sum()]):
        loss.backward()
    scaler.step(first)
    scaler.step(second)
    scaler.update()
    assert (p.item(), q.item(), scaler.get_scale()) == (1.0, 0.0, 1.0)


def test_mistakes() -> None:
    p, optimizer, scaler = parts()
    with pytest.raises(AssertionError, match="_scale is None"):
        scaler.step(optimizer)
    scaler.scale(p.sum())
    with pytest.raises(AssertionError, match="No inf checks"):
        scaler.step(optimizer)  # no gradients
    with pytest.raises(RuntimeError, match="Closure"):
        scaler.step(optimizer, closure=lambda: 0)
    with pytest.raises(ValueError, match="Tensor"):
        scaler.scale(3)
    half = nn.Parameter(lg.ones(2, dtype=lg.float16))
    scaler.scale(half.sum()).backward()
    with pytest.raises(ValueError, match="FP16"):
        scaler.unscale_(optim.SGD([half], lr=1.0))
    with pytest.raises(AssertionError, match="growth"):
        GradScaler(growth_factor=0.5)


def test_disabled_it_stands_aside() -> None:
    p, optimizer, _ = parts()
    scaler = GradScaler(enabled=False)
    loss = p.sum()
    assert scaler.scale(loss) is loss
    loss.backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [0.5, 0.5]
    assert scaler.state_dict() == {}
    assert scaler.get_scale() == 1.0
    scaler.load_state_dict({})
    with pytest.warns(UserWarning, match="not available"):
        assert not GradScaler("cuda").is_enabled()


def test_saving_and_pickling() -> None:
    p, optimizer, scaler = parts(growth_interval=3)
    scaler.scale(p.sum()).backward()
    with pytest.raises(AssertionError, match="pickled"):
        scaler.unscale_(optimizer)
        pickle.dumps(scaler)
    scaler.step(optimizer)
    scaler.update()
    saved = scaler.state_dict()
    assert saved == {
        "scale": 8.0,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "growth_interval": 3,
        "_growth_tracker": 1,
    }
    other = GradScaler()
    other.load_state_dict(saved)
    assert other.state_dict() == saved
    assert pickle.loads(pickle.dumps(scaler)).state_dict() == saved
    with pytest.raises(RuntimeError, match="empty"):
        other.load_state_dict({})


def test_float16_losses_do_not_overflow() -> None:
    p = nn.Parameter(lg.ones(2))
    scaled = GradScaler().scale(p.half().sum())
    assert scaled.dtype is lg.float32
    assert scaled.item() == 2.0**17


def test_small_gradients_survive_float16(counted) -> None:
    """A loss whose float16 gradients vanish without the scaler; a new scale compiles nothing."""
    rng = np.random.default_rng(0)
    x = lg.tensor(rng.standard_normal((8, 4)).astype(np.float32))
    net = nn.Linear(4, 4)

    def gradient(scaler: GradScaler) -> float:
        net.zero_grad()
        optimizer = optim.SGD(net.parameters(), lr=0.0)
        with lg.autocast("cpu", dtype=lg.float16):
            loss = F.mse_loss(net(x), lg.zeros(8, 4)) * 1e-7
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        return float(net.weight.grad.abs().max())

    assert gradient(GradScaler(enabled=False)) == 0.0
    assert gradient(GradScaler(init_scale=2.0**16)) > 1e-9
    gradient(GradScaler(init_scale=2.0**15))
    with counted() as c:
        gradient(GradScaler(init_scale=2.0**14))
    assert c.compiles == 0
