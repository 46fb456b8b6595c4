"""Indexing by random keys against NumPy: reading, writing, gradients of both, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from index_keys import cases

import livegrad as lg

quick = settings(max_examples=60)


def ours(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """The key with tensors for arrays."""
    return tuple([lg.tensor(part) if isinstance(part, np.ndarray) else part for part in key])


def outcome(call: Any) -> Any:
    """What a call gives, or the class of what it raises."""
    try:
        return call()
    except IndexError:
        return IndexError


def numbers(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, shape)


@given(cases())
@quick
def test_read(case):
    shape, key = case
    x = numbers(shape)
    want = outcome(lambda: np.asarray(x[key]))
    got = outcome(lambda: lg.tensor(x)[ours(key)].numpy())
    if want is IndexError or got is IndexError:
        assert got is want
        return
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)


@given(cases())
@quick
def test_write(case):
    shape, key = case
    want, x = numbers(shape), lg.tensor(numbers(shape))
    try:
        part = want[key]
    except IndexError:
        return
    for value in (7.0, numbers(part.shape, 1), numbers(part.shape[-1:], 2)):
        want[key] = value
        x[ours(key)] = lg.tensor(value) if isinstance(value, np.ndarray) else value
        np.testing.assert_array_equal(x.numpy(), want)


@given(cases())
@quick
def test_gradients(case):
    shape, key = case
    x = lg.tensor(numbers(shape), requires_grad=True)
    try:
        part = numbers(shape)[key]
    except IndexError:
        return
    weights = numbers(part.shape, 3)
    value = lg.tensor(numbers(part.shape, 4), requires_grad=True)
    read = (x[ours(key)] ** 2 * lg.tensor(weights)).sum()
    (first,) = lg.autograd.grad(read, [x], create_graph=True)
    want = np.zeros(shape)
    np.add.at(want, key, 2 * part * weights)
    np.testing.assert_allclose(first.detach().numpy(), want, rtol=1e-12, atol=1e-12)
    (second,) = lg.autograd.grad(first.sum(), [x])
    want = np.zeros(shape)
    np.add.at(want, key, 2 * weights)
    np.testing.assert_allclose(second.numpy(), want, rtol=1e-12, atol=1e-12)
    # Written to, the tensor hands its gradient to what was written, not to what was there.
    written = x * 1
    written[ours(key)] = value
    grads = lg.autograd.grad((written * lg.tensor(numbers(shape, 5))).sum(), [x, value])
    want = numbers(shape, 5)
    np.testing.assert_array_equal(grads[1].numpy(), want[key])
    want[key] = 0
    np.testing.assert_array_equal(grads[0].numpy(), want)
