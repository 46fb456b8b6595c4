"""Layers that learn with the rounding of int8 layers in view."""

from __future__ import annotations

from typing import Any

from livegrad import nn
from livegrad.compress.qconfig import QConfig
from livegrad.nn import functional as F
from livegrad.nn.module import Module
from livegrad.tensor import Tensor


class _Rounding(Module):
    """A layer of which weight and input are rounded; its parameters are those it was made of."""

    weight_fake_quant: Any
    input_observer: Any

    @classmethod
    def from_float(cls, layer: Any, config: QConfig) -> Any:
        """Of a layer."""
        made: Any = cls.__new__(cls)
        made.__setstate__(layer.__getstate__())
        made.qconfig = config
        made.add_module("weight_fake_quant", config.weight())
        made.add_module("input_observer", config.activation())
        return made

    @property
    def rounded_weight(self) -> Tensor:
        """The weight as its bytes will stand for it."""
        found: Tensor = self.weight_fake_quant(self.weight)
        return found


class Linear(_Rounding, nn.Linear):
    """A Linear that rounds."""

    def forward(self, input: Tensor) -> Tensor:
        """See `livegrad.nn.functional.linear`."""
        return F.linear(self.input_observer(input), self.rounded_weight, self.bias)


class Conv1d(_Rounding, nn.Conv1d):
    """A Conv1d that rounds."""

    def forward(self, input: Tensor) -> Tensor:
        """`input` convolved."""
        return self._conv_forward(self.input_observer(input), self.rounded_weight, self.bias)


class Conv2d(_Rounding, nn.Conv2d):
    """A Conv2d that rounds."""

    forward = Conv1d.forward


class Conv3d(_Rounding, nn.Conv3d):
    """A Conv3d that rounds."""

    forward = Conv1d.forward


LAYERS: dict[type, Any] = {
    nn.Linear: Linear,
    nn.Conv1d: Conv1d,
    nn.Conv2d: Conv2d,
    nn.Conv3d: Conv3d,
}
FLOAT = {made: kind for kind, made in LAYERS.items()}
