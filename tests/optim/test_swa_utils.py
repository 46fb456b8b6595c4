"""Averaged models: the mean of what they were given, or one that forgets."""

import numpy as np
import pytest

import livegrad as lg
from livegrad import nn, optim
from livegrad.optim import swa_utils


def models(count=4):
    for number in range(count):
        lg.manual_seed(number)
        yield nn.Linear(3, 2)


def averaged(**options):
    whole = swa_utils.AveragedModel(next(models()), **options)
    for model in models():
        whole.update_parameters(model)
    return whole.module.weight.detach().numpy()


def test_mean_of_all():
    expected = np.mean([m.weight.detach().numpy() for m in models()], axis=0)
    np.testing.assert_allclose(averaged(), expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(
        averaged(multi_avg_fn=swa_utils.get_swa_multi_avg_fn()), expected, rtol=1e-5, atol=1e-7
    )


def test_exponential():
    first, *others = [m.weight.detach().numpy() for m in models()]
    for w in others:
        first = 0.9 * first + 0.1 * w
    got = averaged(avg_fn=swa_utils.get_ema_avg_fn(0.9))
    np.testing.assert_allclose(got, first, rtol=1e-6)
    with pytest.raises(ValueError, match="decay"):
        swa_utils.get_ema_avg_fn(1.5)


def test_averages_are_a_model_of_their_own():
    model = nn.Linear(3, 2)
    whole = swa_utils.AveragedModel(model)
    whole.update_parameters(model)
    with lg.no_grad():
        model.weight.zero_()
    assert whole.module.weight.abs().sum().item() > 0
    assert set(whole.state_dict()) == {"n_averaged", "module.weight", "module.bias"}
    x = lg.ones(1, 3)
    assert whole(x).tolist() == whole.module(x).tolist()


def test_rates_compile_nothing(counted):
    p = nn.Parameter(lg.ones(3))
    optimizer = optim.Adam([p], lr=0.1)
    scheduler = optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20)

    def step():
        p.grad = lg.ones(3)
        optimizer.step()
        scheduler.step()

    step()
    step()
    with counted() as c:
        for _ in range(10):
            step()
    assert (c.compiles, c.plan_misses) == (0, 0)
