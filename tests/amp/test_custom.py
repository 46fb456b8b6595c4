"""custom_fwd and custom_bwd: own functions inside of autocast."""

from __future__ import annotations

from typing import Any

import pytest

import livegrad as lg
from livegrad.amp import custom_bwd, custom_fwd


class Product(lg.autograd.Function):
    """A product that notes the dtypes it meets."""

    seen: list[Any] = []  # noqa: RUF012

    @staticmethod
    @custom_fwd(device_type="cpu")
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.save_for_backward(a, b)
        y = a @ b
        Product.seen.append(y.dtype)
        return y

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx: Any, g: Any) -> Any:
        a, b = ctx.saved_tensors
        Product.seen.append(lg.is_autocast_enabled("cpu"))
        return g @ b.T, a.T @ g


class InFloat32(lg.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cpu", cast_inputs=lg.float32)
    def forward(ctx: Any, a: Any, b: Any, names: Any) -> Any:
        ctx.save_for_backward(a, b)
        assert not lg.is_autocast_enabled("cpu") or names == "outside"
        return a @ b

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx: Any, g: Any) -> Any:
        a, b = ctx.saved_tensors
        assert not lg.is_autocast_enabled("cpu")
        return g @ b.T, a.T @ g, None


def test_backward_runs_in_the_autocast_of_forward() -> None:
    a = lg.ones(2, 3, requires_grad=True)
    b = lg.ones(3, 2, requires_grad=True)
    Product.seen.clear()
    with lg.autocast("cpu", dtype=lg.float16):
        y = Product.apply(a, b)
    y.float().sum().backward()
    assert Product.seen == [lg.float16, True]
    assert a.grad.dtype is lg.float32
    Product.apply(a, b).sum().backward()
    assert Product.seen[2:] == [lg.float32, False]


def test_inputs_are_cast_and_autocast_is_off() -> None:
    a = lg.ones(2, 3, requires_grad=True)
    with lg.autocast("cpu"):
        low = a @ lg.ones(3, 3)
        y = InFloat32.apply(low, lg.ones(3, 2), "inside")
    assert y.dtype is lg.float32
    y.sum().backward()
    assert a.grad.tolist() == [[6.0] * 3] * 2
    assert InFloat32.apply(a.half(), lg.ones(3, 2).half(), "outside").dtype is lg.float16


def test_device_type_is_a_name() -> None:
    with pytest.raises(ValueError, match="str"):
        custom_fwd(device_type=3)  # type: ignore[arg-type]
