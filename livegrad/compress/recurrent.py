"""Recurrent layers of int8 weights.

Products with the input, of all steps at once, are those of bytes. Products with the state, step by
step, are of the floating-point numbers that the bytes stand for: they are small, and errors of
rounding a state would go on from step to step.
"""

from __future__ import annotations

from typing import Any

from livegrad import nn
from livegrad.autograd import no_grad
from livegrad.compress.layers import Linear, quantized_weight
from livegrad.creation import ones, zeros
from livegrad.dtypes import int8
from livegrad.nn.recurrent import RNNBase


class _Dynamic(RNNBase):
    """As the layer it was made of, whose parameters became buffers."""

    @classmethod
    def from_float(cls, layer: Any, qparams: Any = None, observer: Any = None) -> Any:
        """Of a layer."""
        proj = {"proj_size": layer.proj_size} if layer.proj_size else {}
        made = cls(
            layer.input_size, layer.hidden_size, layer.num_layers, layer.bias, layer.batch_first,
            layer.dropout, layer.bidirectional, **proj,
        )  # fmt: skip
        for name in layer._flat_weights_names:
            value = getattr(layer, name)
            if name.startswith("weight"):
                bytes_, scale = quantized_weight(value)
                setattr(made, name + "_int8", bytes_)
                setattr(made, name + "_scale", scale)
            else:
                setattr(made, name, value.detach().float().clone())
        made.train(layer.training)
        return made

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._ready: dict[str, Any] = {}
        for name in self._flat_weights_names:
            value = getattr(self, name)
            delattr(self, name)
            if name.startswith("weight"):
                self.register_buffer(name + "_int8", zeros(*value.shape, dtype=int8))
                self.register_buffer(name + "_scale", ones(value.shape[0]))
            else:
                self.register_buffer(name, value.detach())

    def __getattr__(self, name: str) -> Any:
        """A weight by its own name: the numbers that its bytes stand for."""
        if name.startswith("weight_") and "_l" in name and name[-5:] not in ("_int8", "scale"):
            found = self._ready.get(name)
            if found is None:
                with no_grad():
                    bytes_, scale = getattr(self, name + "_int8"), getattr(self, name + "_scale")
                    found = bytes_.float() * scale.unsqueeze(1)
                    found[0, 0].item()  # computed once
                self._ready[name] = found
            return found
        return super().__getattr__(name)

    def _input_gates(self, rows: Any, name: str, bias: Any) -> Any:
        """The product with the input."""
        layer = self._ready.get(name + "_linear")
        if layer is None:
            bytes_ = getattr(self, name + "_int8")
            layer = Linear(bytes_.shape[1], bytes_.shape[0], bias=False, static=False)
            layer.weight, layer.weight_scale = bytes_, getattr(self, name + "_scale")
            self._ready[name + "_linear"] = layer
        gates = layer(rows)
        return gates if bias is None else gates + bias

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_ready": {}}

    def _load_from_state_dict(self, *args: Any) -> None:
        super()._load_from_state_dict(*args)
        self._ready = {}

    def extra_repr(self) -> str:
        """Sizes, and options that differ from the defaults."""
        return super().extra_repr() + ", dynamic int8"


class LSTM(_Dynamic, nn.LSTM):
    """An LSTM of int8 weights."""


class GRU(_Dynamic, nn.GRU):
    """A GRU of int8 weights."""


__all__ = ["GRU", "LSTM"]
