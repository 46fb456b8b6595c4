"""Copies between devices, through which gradients flow."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from livegrad.device import Device
from livegrad.graph.elsewhere import Moving, copied
from livegrad.ops.elementwise.arithmetic import cast

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


@cache
def _copying() -> Any:
    from livegrad.autograd.function import Function  # not before something is moved

    class _Copy(Function):
        """A copy on another device; its gradient is copied back."""

        @staticmethod
        def forward(ctx: Any, x: Any, device: Device) -> Any:
            ctx.device = x.device
            return copied(x, device)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g.to(ctx.device), None

    return _Copy


def _move(x: Tensor, device: Device) -> Any:
    return _copying().apply(x, device)


Moving.cast = cast
Moving.move = _move
