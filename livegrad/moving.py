"""Copies between devices, through which gradients flow; and what the CPU has for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from livegrad.autograd.function import Function
from livegrad.device import Device, register
from livegrad.graph.elsewhere import Moving, copied
from livegrad.graph.meta import Meta
from livegrad.graph.node import Node
from livegrad.ops.elementwise import cast
from livegrad.runtime.cpu.memory import Buffer

Array = np.ndarray[Any, Any]


class _Copy(Function):
    """A copy on another device; its gradient is copied back."""

    @staticmethod
    def forward(ctx: Any, x: Any, device: Device) -> Any:
        ctx.device = x.device
        return copied(x, device)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g.to(ctx.device), None


class _Cpu:
    """The CPU's memory."""

    def copy_in(self, values: Array, meta: Meta) -> Buffer:
        return Buffer.from_array(np.array(values))

    def copy_out(self, buffer: Buffer, meta: Meta) -> Array:
        return buffer.view(meta.dtype.storage, meta.shape, writeable=False)

    def run(self, node: Node) -> Any:
        raise AssertionError(f"{node} is to be computed by a plan")


register("cpu", _Cpu())
Moving.cast = cast
Moving.move = _Copy.apply
