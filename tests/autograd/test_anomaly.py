"""Anomaly detection names the operation whose gradient is NaN, and the line that recorded it."""

from __future__ import annotations

import pytest

import livegrad as lg
from livegrad.autograd import detect_anomaly, set_detect_anomaly


def nan_gradient() -> lg.Tensor:
    x = lg.zeros(3, requires_grad=True)
    return (x.sqrt() * 0 + x).sum()  # the slope of sqrt at 0 is infinite: 0 * inf


def test_the_operation_and_its_line_are_named() -> None:
    with detect_anomaly(), pytest.raises(RuntimeError) as caught:
        nan_gradient().backward()
    line = nan_gradient.__code__.co_firstlineno + 2
    assert "'SqrtBackward0' returned nan values in its 0th output" in str(caught.value)
    assert f"test_anomaly.py:{line}" in str(caught.value)


def test_grad_is_checked_too() -> None:
    x = lg.zeros(1, requires_grad=True)
    with detect_anomaly(), pytest.raises(RuntimeError, match="DivBackward0"):
        lg.autograd.grad((x / x).sum(), x)


def test_it_is_off_again_afterwards() -> None:
    with detect_anomaly():
        pass
    nan_gradient().backward()
    setting = set_detect_anomaly(True)
    with pytest.raises(RuntimeError, match="nan"):
        nan_gradient().backward()
    setting.__exit__()
    nan_gradient().backward()
    with set_detect_anomaly(True, check_nan=False):
        nan_gradient().backward()


def test_healthy_gradients_are_the_same() -> None:
    x = lg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x.exp().log_softmax(0) * x).sum().backward()
    wanted = x.grad.tolist()
    x.grad = None
    with detect_anomaly():
        (x.exp().log_softmax(0) * x).sum().backward()
    assert x.grad.tolist() == wanted
