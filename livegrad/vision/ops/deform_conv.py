"""Convolutions that read where they are told to."""

from __future__ import annotations

import math
from typing import Any

import livegrad as lg
from livegrad import Tensor, nn
from livegrad.nn import init
from livegrad.nn.tuples import _ntuple

_pair = _ntuple(2)


def deform_conv2d(
    input: Tensor,
    offset: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = (1, 1),
    padding: Any = (0, 0),
    dilation: Any = (1, 1),
    mask: Tensor | None = None,
) -> Tensor:
    """A convolution whose every tap is moved by `offset`, and weighed by `mask` if given.

    `offset` is (N, 2 · groups · taps, H', W'), a row and a column for each tap; groups share the
    channels of the input. Between pixels values are interpolated; outside they are 0.
    """
    (down, right), (top, left), (tall, wide) = _pair(stride), _pair(padding), _pair(dilation)
    rows, channels, height, width = input.shape
    outputs, per_group, kernel_h, kernel_w = weight.shape
    taps = kernel_h * kernel_w
    high, across = offset.shape[-2:]
    parts = offset.shape[1] // (2 * taps)
    if parts == 0:
        raise RuntimeError(
            "the shape of the offset tensor at dimension 1 is not valid. It should be a multiple "
            f"of 2 * weight.size[2] * weight.size[3].\nGot offset.shape[1]={offset.shape[1]}, "
            f"while 2 * weight.size[2] * weight.size[3]={2 * taps}"
        )
    moved = offset.reshape(rows, parts, taps, 2, high, across)
    tap = lg.arange(taps, device=input.device)
    y = (lg.arange(high, device=input.device) * down - top)[None, :, None]
    y = y + (tap // kernel_w * tall)[:, None, None] + moved[:, :, :, 0]
    x = (lg.arange(across, device=input.device) * right - left)[None, None, :]
    x = x + (tap % kernel_w * wide)[:, None, None] + moved[:, :, :, 1]
    values = input.reshape(rows, parts, channels // parts, height * width)
    read = _interpolated(values, y, x, height, width)  # (N, parts, C / parts, taps, H', W')
    if mask is not None:
        read = read * mask.reshape(rows, parts, 1, taps, high, across)
    groups = channels // per_group
    columns = read.reshape(rows, groups, per_group * taps, high * across)
    kernel = weight.reshape(groups, outputs // groups, per_group * taps)
    found = (kernel @ columns).reshape(rows, outputs, high, across)
    return found if bias is None else found + bias.reshape(1, -1, 1, 1)


def _interpolated(values: Tensor, y: Tensor, x: Tensor, height: int, width: int) -> Tensor:
    """Values (N, G, C, H · W) at places (N, G, …): (N, G, C, …)."""
    top, left = y.floor(), x.floor()
    total = None
    for row, wy in ((top, 1 - (y - top)), (top + 1, y - top)):
        for column, wx in ((left, 1 - (x - left)), (left + 1, x - left)):
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            weight = wy * wx * inside.to(y.dtype)
            index = row.clamp(0, height - 1).long() * width + column.clamp(0, width - 1).long()
            shape = (*values.shape[:3], *index.shape[2:])
            flat = index.flatten(2).unsqueeze(2).expand(-1, -1, values.shape[2], -1)
            part = values.gather(3, flat).reshape(shape) * weight.unsqueeze(2)
            total = part if total is None else total + part
    assert total is not None
    return total


class DeformConv2d(nn.Module):
    """See `deform_conv2d`."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = _pair(kernel_size), _pair(stride)
        self.padding, self.dilation = _pair(padding), _pair(dilation)
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = nn.Parameter(lg.empty(*shape))
        if bias:
            self.bias = nn.Parameter(lg.empty(out_channels))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(math.prod(self.weight.shape[1:]))
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor, offset: Tensor, mask: Tensor | None = None) -> Tensor:
        """The convolution of the moved taps."""
        return deform_conv2d(
            input,
            offset,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self.dilation,
            mask,
        )
