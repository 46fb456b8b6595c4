"""Accumulated gradients are those of one large batch."""

from __future__ import annotations

import numpy as np
import pytest

import livegrad as lg
import livegrad.nn.functional as F
from livegrad import amp, nn, optim, train

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.standard_normal((20, 5)).astype(np.float32), RANDOM.integers(0, 3, 20)


def make(steps, **options):
    lg.manual_seed(0)
    model = nn.Linear(5, 3)
    return model, train.Accumulate(optim.SGD(model.parameters(), lr=0.5), steps, **options)


def weights(model):
    return np.concatenate([p.detach().numpy().ravel() for p in model.parameters()])


def one_large_step(rows=slice(None), **options):
    model, accumulate = make(1, **options)
    accumulate.backward(F.cross_entropy(model(lg.tensor(X[rows])), lg.tensor(Y[rows])))
    return weights(model)


@pytest.mark.parametrize("options", [{}, {"max_norm": 0.1}])
def test_uneven_batches_count_by_their_weight(options):
    model, accumulate = make(3, **options)
    made = []
    for rows in (slice(0, 9), slice(9, 11), slice(11, 20)):
        loss = F.cross_entropy(model(lg.tensor(X[rows])), lg.tensor(Y[rows]))
        made.append(accumulate.backward(loss, weight=len(Y[rows])))
    assert made == [False, False, True]
    np.testing.assert_allclose(weights(model), one_large_step(**options), rtol=1e-5, atol=1e-6)


def test_an_incomplete_group_is_what_it_is():
    model, accumulate = make(8)
    with accumulate:
        for rows in (slice(0, 5), slice(5, 10)):
            accumulate.backward(F.cross_entropy(model(lg.tensor(X[rows])), lg.tensor(Y[rows])))
    np.testing.assert_allclose(weights(model), one_large_step(slice(0, 10)), rtol=1e-5, atol=1e-6)
    assert not accumulate.finish()


def test_old_gradients_do_not_count():
    model, accumulate = make(1)
    (model(lg.tensor(X)) * 100).sum().backward()
    accumulate.backward(F.cross_entropy(model(lg.tensor(X)), lg.tensor(Y)))
    np.testing.assert_array_equal(weights(model), one_large_step())


def test_state_between_steps():
    model, accumulate = make(2)
    rows = [slice(0, 10), slice(10, 20)]
    losses = lambda m, r: F.cross_entropy(m(lg.tensor(X[r])), lg.tensor(Y[r]))
    accumulate.backward(losses(model, rows[0]))
    other, resumed = make(2)
    resumed.load_state_dict(accumulate.state_dict())
    for m, a in ((model, accumulate), (other, resumed)):
        assert a.backward(losses(m, rows[1]))
    np.testing.assert_array_equal(weights(model), weights(other))


def test_with_a_scaler():
    scaler = amp.GradScaler("cpu", init_scale=1024.0)
    model, accumulate = make(2, scaler=scaler, max_norm=0.1)
    for rows in (slice(0, 10), slice(10, 20)):
        accumulate.backward(F.cross_entropy(model(lg.tensor(X[rows])), lg.tensor(Y[rows])))
    np.testing.assert_allclose(weights(model), one_large_step(max_norm=0.1), rtol=1e-5, atol=1e-6)
    before = weights(model)
    accumulate.backward(F.cross_entropy(model(lg.tensor(X)), lg.tensor(Y)))
    accumulate.backward(model(lg.tensor(X)).sum() * 1e38)  # overflows once it is scaled
    np.testing.assert_array_equal(weights(model), before)  # so the step is left out


def test_wrong_weights():
    model, accumulate = make(2)
    with pytest.raises(ValueError, match="more than 0"):
        accumulate.backward(model(lg.tensor(X)).sum(), weight=0)
    with pytest.raises(ValueError, match="at least 1"):
        train.Accumulate(accumulate.optimizer, 0)
