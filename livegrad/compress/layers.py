"""Layers whose weights are bytes. They take and give floating-point tensors.

    weight          int8, as the layer it was made of has it; in state dicts and files
    weight_scale    float32, one per output
    bias            float32
    scale, zero_point   of the input, if that was calibrated

From these, what the native products read is made once, when the layer is first called.
"""

from __future__ import annotations

from typing import Any

from livegrad.autograd import no_grad
from livegrad.compress.schemes import qint8
from livegrad.creation import empty, ones, tensor, zeros
from livegrad.dtypes import float32, int8, int32
from livegrad.nn import functional as F
from livegrad.nn.module import Module
from livegrad.ops.layers.quantized import (
    ConvAttrs,
    conv_quads,
    conv_static,
    linear_dynamic,
    linear_static,
    quads_by_channels,
)
from livegrad.ops.products.quads import MOST_TERMS, QUAD, byte_quads
from livegrad.ops.windows.window_products import MOST_TAPS
from livegrad.tensor import Tensor

Qparams = tuple[Tensor, Tensor]


def quantized_weight(weight: Tensor, observer: Any = None) -> Qparams:
    """The bytes of a weight and a scale per output, as `observer` finds it if one is given."""
    with no_grad():
        weight = weight.detach().float()
        rows = weight.flatten(1) if weight.ndim > 1 else weight.unsqueeze(1)
        if observer is None:
            scale = (rows.abs().amax(1) / 127).clamp(min=1e-12) if rows.numel() else ones(len(rows))
        else:
            observer(weight)
            found, zero = observer.calculate_qparams()
            if observer.dtype != qint8 or bool((zero != 0).any()):
                raise ValueError(
                    "quantization: weights need a symmetric scheme of qint8, such as that of "
                    "default_per_channel_weight_observer"
                )
            scale = found.expand(len(rows)).clone()
        columns = scale.reshape(-1, *[1] * (weight.ndim - 1))
        return (weight / columns).round().clamp(-128, 127).to(int8), scale


class Quantized(Module):
    """What all of them share: a weight in bytes, and what is made ready from it."""

    weight: Any
    weight_scale: Any
    bias: Any
    scale: Any
    zero_point: Any

    def __init__(self, shape: tuple[int, ...], bias: bool, static: bool) -> None:
        super().__init__()
        self.register_buffer("weight", zeros(*shape, dtype=int8))
        self.register_buffer("weight_scale", ones(shape[0]))
        self.register_buffer("bias", zeros(shape[0]) if bias else None)
        if static:
            self.register_buffer("scale", tensor(1.0))
            self.register_buffer("zero_point", tensor(0))
        self.is_static = static
        self._ready: Any = None

    def set_weight(self, weight: Tensor, bias: Any, qparams: Qparams | None, observer: Any) -> None:
        """Takes over a weight and a bias; `qparams` are those of the input."""
        self.weight, self.weight_scale = quantized_weight(weight, observer)
        self.bias = None if bias is None else bias.detach().float().clone()
        if qparams is not None:
            self.scale, self.zero_point = qparams[0].detach().clone(), qparams[1].long()
        self._ready = None

    def dequantized(self) -> Tensor:
        """The weight as float32."""
        columns = self.weight_scale.reshape(-1, *[1] * (self.weight.ndim - 1))
        found: Tensor = self.weight.float() * columns
        return found

    def ready(self) -> Any:
        """What products read, made at the first call."""
        if self._ready is None:
            with no_grad():
                self._ready = self.make_ready()
        return self._ready

    def make_ready(self) -> Any:
        """What products read."""
        raise NotImplementedError

    def _input(self) -> tuple[float, int]:
        return float(self.scale.item()), int(self.zero_point.item())

    def _sums(self) -> Tensor:
        """The sum of each output's bytes."""
        found: Tensor = self.weight.flatten(1).sum(1, dtype=int32)
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_ready": None}

    def _load_from_state_dict(self, *args: Any) -> None:
        super()._load_from_state_dict(*args)
        self._ready = None

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        found = super()._apply(fn, recurse)
        self._ready = None
        return found


class Linear(Quantized):
    """A linear layer of int8 weights.

    Its input is rounded to the steps of calibration, or (`static=False`) row by row to steps of
    its own.
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, static: bool = True
    ) -> None:
        super().__init__((out_features, in_features), bias, static)
        self.in_features, self.out_features = in_features, out_features

    @classmethod
    def from_float(cls, layer: Any, qparams: Qparams | None = None, observer: Any = None) -> Linear:
        """Of a layer; with `qparams` of its input, a static one."""
        biased = layer.bias is not None
        made = cls(layer.in_features, layer.out_features, biased, qparams is not None)
        made.set_weight(layer.weight, layer.bias, qparams, observer)
        return made

    def make_ready(self) -> Any:
        """Quads and what is added and multiplied; None where sums would not fit into int32."""
        if not 0 < self.in_features <= MOST_TERMS:
            return None
        missing = -self.in_features % QUAD
        quads = byte_quads(F.pad(self.weight, (0, missing)) if missing else self.weight)
        if not self.is_static:
            return _computed(quads, self._sums(), self.weight_scale)
        step, zero = self._input()
        made = _computed(quads, self._sums() * zero, self.weight_scale * step)
        return *made, step, zero

    def forward(self, input: Tensor) -> Tensor:
        """`input @ weight.T + bias`."""
        ready = self.ready()
        if ready is None:
            return F.linear(input, self.dequantized().to(input.dtype), self.bias)
        if self.is_static:
            quads, shift, scale, step, zero = ready
            size = self.in_features
            return linear_static(input, quads, shift, scale, self.bias, size, step, zero)
        quads, sums, scale = ready
        return linear_dynamic(input, quads, sums, scale, self.bias, self.in_features)

    def extra_repr(self) -> str:
        """Sizes."""
        kind = "static" if self.is_static else "dynamic"
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}, {kind} int8"
        )


def _computed(*values: Tensor) -> tuple[Tensor, ...]:
    """Values that are there: what is made once should not be recorded again and again."""
    for value in values:
        if value.numel():
            value.flatten()[0].item()
    return values


class _Conv(Quantized):
    """A convolution of int8 weights, whose input is rounded to the steps of calibration.

    Of several groups, or of very large windows, only the weights are bytes; what is multiplied are
    the floating-point numbers that they stand for.
    """

    function: Any
    rank: int

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        amounts: list[int],
        dilation: tuple[int, ...],
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
    ) -> None:
        super().__init__((out_channels, in_channels // groups, *kernel_size), bias, True)
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.dilation = kernel_size, stride, dilation
        self.amounts, self.padding_mode = amounts, padding_mode

    @classmethod
    def from_float(cls, layer: Any, qparams: Qparams, observer: Any = None) -> _Conv:
        """Of a layer, with the `qparams` of its input."""
        made = cls(
            layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride,
            list(layer._reversed_padding_repeated_twice), layer.dilation, layer.groups,
            layer.bias is not None, layer.padding_mode,
        )  # fmt: skip
        made.set_weight(layer.weight, layer.bias, qparams, observer)
        return made

    def _is_native(self) -> bool:
        taps, channels = 1, self.in_channels // self.groups
        for size in self.kernel_size:
            taps *= size
        fits = taps <= MOST_TAPS and taps * (channels + QUAD) <= MOST_TERMS
        return self.groups == 1 and fits and self.weight.numel() > 0

    def make_ready(self) -> Any:
        """Quads, what is added and multiplied, and how windows lie; or the weight as floats."""
        if not self._is_native():
            (weight,) = _computed(self.dequantized())
            return weight
        step, zero = self._input()
        by_channels = quads_by_channels(self.in_channels, self.kernel_size)
        quads = conv_quads(self.weight, by_channels)
        made = _computed(quads, self._sums() * zero, self.weight_scale * step)
        flat = self.amounts if self.padding_mode == "zeros" else [0] * len(self.amounts)
        padding = tuple([(flat[i], flat[i + 1]) for i in range(len(flat) - 2, -1, -2)])
        told = ConvAttrs(
            self.kernel_size, self.stride, padding, self.dilation, self.in_channels, by_channels,
            zero,
        )  # fmt: skip
        return made, told, step

    def forward(self, input: Tensor) -> Tensor:
        """`input` (N, C, …) or (C, …) convolved with `weight`, plus `bias`."""
        ready = self.ready()
        if input.ndim == self.rank + 1:
            return self.forward(input.unsqueeze(0)).squeeze(0)
        if self.padding_mode != "zeros":
            input = F.pad(input, self.amounts, self.padding_mode)
        if isinstance(ready, tuple):
            (quads, shift, scale), told, step = ready
            return conv_static(input, quads, shift, scale, self.bias, told, step)
        if self.padding_mode == "zeros":
            input = F.pad(input, self.amounts)
        weight = ready.to(input.dtype)
        bias = None if self.bias is None else self.bias.to(input.dtype)
        out: Tensor = self.function(input, weight, bias, self.stride, 0, self.dilation, self.groups)
        return out

    def extra_repr(self) -> str:
        """Sizes."""
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        return f"{text}, stride={self.stride}, groups={self.groups}, static int8"


class Conv1d(_Conv):
    """A 1-d convolution of int8 weights."""

    rank, function = 1, staticmethod(F.conv1d)


class Conv2d(_Conv):
    """A 2-d convolution of int8 weights."""

    rank, function = 2, staticmethod(F.conv2d)


class Conv3d(_Conv):
    """A 3-d convolution of int8 weights."""

    rank, function = 3, staticmethod(F.conv3d)


class Embedding(Module):
    """A table of int8 rows, each with a scale of its own."""

    weight: Any
    weight_scale: Any

    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.register_buffer("weight", empty(num_embeddings, embedding_dim, dtype=int8))
        self.register_buffer("weight_scale", ones(num_embeddings))

    @classmethod
    def from_float(cls, layer: Any, qparams: Any = None, observer: Any = None) -> Embedding:
        """Of a layer."""
        made = cls(layer.num_embeddings, layer.embedding_dim)
        made.weight, made.weight_scale = quantized_weight(layer.weight)
        return made

    def forward(self, input: Tensor) -> Tensor:
        """The rows of `input`'s numbers, as float32."""
        rows = F.embedding(input, self.weight).to(float32)
        scales = F.embedding(input, self.weight_scale.unsqueeze(1))
        return rows * scales

    def extra_repr(self) -> str:
        """Sizes."""
        return f"{self.num_embeddings}, {self.embedding_dim}, int8"
