"""A number beside half precisions is one of them where PyTorch's kernels have it so."""

from __future__ import annotations

import pytest

import livegrad as lg


@pytest.mark.parametrize("dtype", [lg.float16, lg.bfloat16])
def test_what_was_filled_with_a_number_is_equal_to_it(dtype: lg.dtype) -> None:
    x = lg.full((3,), 0.3, dtype=dtype)
    assert (x == 0.3).all()
    assert (x >= 0.3).all()
    assert not (x > 0.3).any()
    assert (x - 0.3).tolist() == [0.0] * 3
    assert (x % 0.3).tolist() == [0.0] * 3


def test_products_keep_the_number_as_it_is() -> None:
    x = lg.full((2,), 256.0, dtype=lg.bfloat16)
    assert (x * 1.001).tolist() == [256.0, 256.0]  # 256.256, not 256 * 1
    assert (x * 1.004).tolist() == [258.0, 258.0]  # 257.02; 1.004 would be 1.0078
    y = lg.full((2,), 128.0, dtype=lg.bfloat16)
    assert lg.add(x * 0, y, alpha=1.004).tolist() == [129.0, 129.0]  # here it is 1.0078


def test_a_sum_with_a_multiple_is_rounded_once() -> None:
    x = lg.tensor([1.0], dtype=lg.bfloat16).requires_grad_()
    y = lg.tensor([1.0078125], dtype=lg.bfloat16)
    total = lg.add(x, y, alpha=1.0078125)  # of 2.01568, with a product of 1.015686
    assert total.dtype is lg.bfloat16
    assert total.tolist() == [2.015625]
    total.sum().backward()
    assert x.grad.dtype is lg.bfloat16
    assert x.grad.tolist() == [1.0]
