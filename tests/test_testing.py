"""`livegrad.testing`: assert_close fails when it has to, and says where; make_tensor's bounds."""

from __future__ import annotations

import numpy as np
import pytest

import livegrad as lg
from livegrad.testing import assert_close, make_tensor


def test_equal_values_pass() -> None:
    x = lg.tensor([1.0, float("inf"), -2.0])
    assert_close(x, x.clone())
    assert_close(x, x + 1e-7)
    assert_close({"a": [x, (1, 2.0)]}, {"a": [x, (1, 2.0)]})
    assert_close(3, 3)
    assert_close(lg.tensor([2**62 + 1]), lg.tensor([2**62 + 1]))
    assert_close(np.ones(2), np.ones(2))
    assert_close(lg.zeros(0, 3), lg.zeros(0, 3))
    assert_close(lg.tensor([1j]), lg.tensor([1j]))
    assert_close(lg.tensor([True]), lg.tensor([True]))


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (lg.tensor([1.0, 2.0]), lg.tensor([1.0, 2.1]), r"1 / 2 \(50.0%\)(.|\n)*index \(1,\)"),
        (lg.tensor([1, 2]), lg.tensor([1, 3]), "not equal"),
        (lg.tensor([2**62 + 1]), lg.tensor([2**62]), "not equal"),
        (lg.tensor(float("nan")), lg.tensor(float("nan")), "Scalars are not close"),
        (lg.tensor([float("inf")]), lg.tensor([-float("inf")]), "not close"),
        (lg.zeros(2), lg.zeros(3), "'shape' do not match"),
        (lg.zeros(2), lg.zeros(2, dtype=lg.float64), "'dtype' do not match"),
        ([lg.zeros(1), lg.zeros(1)], [lg.zeros(1), lg.ones(1)], r"item \[1\]"),
        ({"a": 1.0}, {"b": 1.0}, "keys do not match"),
        ([1.0], [1.0, 2.0], "length of the sequences"),
    ],
)
def test_different_values_fail(a: object, b: object, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        assert_close(a, b)


def test_options() -> None:
    nan = lg.tensor([float("nan")])
    assert_close(nan, nan, equal_nan=True)
    assert_close(lg.zeros(1), lg.zeros(1, dtype=lg.float64), check_dtype=False)
    assert_close(1.0, 1.4, rtol=0, atol=0.5)
    with pytest.raises(ValueError, match="together"):
        assert_close(1.0, 1.0, rtol=1e-3)
    with pytest.raises(AssertionError, match="^mine$"):
        assert_close(1.0, 2.0, msg="mine")
    with pytest.raises(AssertionError, match="^so: Scalars"):
        assert_close(1.0, 2.0, msg=lambda words: f"so: {words}")
    with pytest.raises(TypeError, match="got str"):
        assert_close("a", "a")


@pytest.mark.parametrize("name", "bool uint8 int64 float16 float32 float64 complex64".split())
def test_made_tensors_lie_within_their_bounds(name: str) -> None:
    dtype = getattr(lg, name)
    x = make_tensor(40, 5, dtype=dtype, low=0, high=2)
    assert (x.dtype, x.shape) == (dtype, (40, 5))
    parts = lg.view_as_real(x) if dtype.is_complex else x.to(lg.float64)
    assert 0 <= parts.min().item() <= parts.max().item() <= 2
    assert len(set(x.flatten().tolist())) > 1
    assert make_tensor((2, 0), dtype=dtype).shape == (2, 0)


def test_made_tensors_options() -> None:
    x = make_tensor(200, dtype=lg.int64, exclude_zero=True)
    assert x.min().item() >= -9
    assert x.max().item() <= 9
    assert (x != 0).all().item()
    assert make_tensor(2, dtype=lg.float32, requires_grad=True).requires_grad
    with pytest.raises(ValueError, match="low"):
        make_tensor(2, dtype=lg.float32, low=2, high=1)


def test_the_old_name_compares_values_alone() -> None:
    lg.testing.assert_allclose(lg.tensor([1, 2]), [1.0, 2.0])
    lg.testing.assert_allclose(
        lg.tensor([1.0, float("nan")]), lg.tensor([1.05, float("nan")]), 0.1, 0
    )
    with pytest.raises(AssertionError, match="mine"):
        lg.testing.assert_allclose(lg.ones(2), lg.zeros(2), msg="mine")
