"""Copies between devices, through which gradients flow."""

from __future__ import annotations

from typing import Any

from livegrad.autograd.function import Function
from livegrad.device import Device
from livegrad.graph.elsewhere import Moving, copied
from livegrad.ops.elementwise.arithmetic import cast


class _Copy(Function):
    """A copy on another device; its gradient is copied back."""

    @staticmethod
    def forward(ctx: Any, x: Any, device: Device) -> Any:
        ctx.device = x.device
        return copied(x, device)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g.to(ctx.device), None


Moving.cast = cast
Moving.move = _Copy.apply
