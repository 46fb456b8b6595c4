"""Convolutions of one, two and three dims, and transposed ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from livegrad.creation import empty
from livegrad.nn import functional as F, init
from livegrad.nn.lazy import LazyModuleMixin
from livegrad.nn.module import Module
from livegrad.nn.parameter import Parameter, UninitializedParameter
from livegrad.nn.tuples import _ntuple
from livegrad.tensor import Tensor

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def _check(
    in_channels: int, out_channels: int, groups: int, padding: Any, stride: Any, mode: str
) -> None:
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups != 0:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups != 0:
        raise ValueError("out_channels must be divisible by groups")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(
                f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}"
            )
        if padding == "same" and any(s != 1 for s in stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
    if mode not in _PADDING_MODES:
        raise ValueError(
            f"padding_mode must be one of {set(_PADDING_MODES)}, but got padding_mode='{mode}'"
        )


class _ConvNd(Module):
    """What all convolutions share: weight, bias, and sizes, one per dim.

    weight is (out, in / groups, *kernel), transposed (in, out / groups, *kernel). Both start even
    in ±1/sqrt(fan_in).
    """

    bias: Any
    weight: Any
    _rank: int
    _function: Callable[..., Tensor]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check(in_channels, out_channels, groups, padding, stride, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._amounts()
        self.weight = Parameter(empty(*self._weight_shape(), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _amounts(self) -> list[int]:
        """Padding as `pad` wants it: before and after, from the last dim to the first."""
        amounts: list[int] = []
        for i in reversed(range(len(self.kernel_size))):
            if isinstance(self.padding, str):
                total = self.dilation[i] * (self.kernel_size[i] - 1)
                total = total if self.padding == "same" else 0
                amounts += [total // 2, total - total // 2]
            else:
                amounts += [self.padding[i]] * 2
        return amounts

    def _weight_shape(self) -> tuple[int, ...]:
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        return first, second // self.groups, *self.kernel_size

    def reset_parameters(self) -> None:
        """Draws new weights."""
        fan_in, _ = init.fans(self.weight)
        if fan_in == 0:
            return
        bound = 1 / math.sqrt(fan_in)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        """Sizes, and options that differ from the defaults."""
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        rank = len(self.kernel_size)
        for name, usual in (
            ("padding", (0,) * rank),
            ("dilation", (1,) * rank),
            ("output_padding", (0,) * rank),
            ("groups", 1),
        ):
            value = getattr(self, name)
            if value != usual:
                text += f", {name}={value}"
        text += ", bias=False" if self.bias is None else ""
        return text + (f", padding_mode={self.padding_mode}" * (self.padding_mode != "zeros"))


class _Conv(_ConvNd):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: str | int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        each = _ntuple(self._rank)
        super().__init__(
            in_channels,
            out_channels,
            each(kernel_size),
            each(stride),
            padding if isinstance(padding, str) else each(padding),
            each(dilation),
            False,
            each(0),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, self.padding_mode)
            padding = (0,) * self._rank
        return type(self)._function(
            input, weight, bias, self.stride, padding, self.dilation, self.groups
        )

    def forward(self, input: Tensor) -> Tensor:
        """`input` (N, C, …) or (C, …) convolved with `weight`, plus `bias`."""
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """See `livegrad.nn.functional.conv1d`.

    Args:
        in_channels: of the input.
        out_channels: of the output.
        kernel_size: of a window.
        stride: from one window to the next.
        padding: how much, "same" or "valid".
        dilation: from one element of a window to the next.
        groups: of channels that are convolved apart.
        bias: whether there is one.
        padding_mode: "zeros", "reflect", "replicate" or "circular".

    Example:
        >>> nn.Conv1d(4, 8, kernel_size=3)(lg.ones(2, 4, 10)).shape
        livegrad.Size([2, 8, 8])
    """

    _rank = 1
    _function = staticmethod(F.conv1d)


class Conv2d(_Conv):
    """See `livegrad.nn.functional.conv2d`.

    Args:
        in_channels: of the input.
        out_channels: of the output.
        kernel_size: of a window.
        stride: from one window to the next.
        padding: how much, "same" or "valid".
        dilation: from one element of a window to the next.
        groups: of channels that are convolved apart.
        bias: whether there is one.
        padding_mode: "zeros", "reflect", "replicate" or "circular".

    Example:
        >>> nn.Conv2d(3, 8, kernel_size=3, padding=1)(lg.ones(2, 3, 6, 6)).shape
        livegrad.Size([2, 8, 6, 6])
    """

    _rank = 2
    _function = staticmethod(F.conv2d)


class Conv3d(_Conv):
    """See `livegrad.nn.functional.conv3d`."""

    _rank = 3
    _function = staticmethod(F.conv3d)


# --------------------------------------------------------------------------------- transposed


class _ConvTransposeNd(_ConvNd):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(
                f'Only "zeros" padding mode is supported for {type(self).__name__}; got '
                f"{padding_mode!r}"
            )
        each = _ntuple(self._rank)
        super().__init__(
            in_channels,
            out_channels,
            each(kernel_size),
            each(stride),
            each(padding),
            each(dilation),
            True,
            each(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """The transpose of a convolution; `output_size` chooses among the sizes it may have."""
        return type(self)._function(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self._output_padding(input, output_size),
            self.groups,
            self.dilation,
        )

    def _output_padding(self, input: Any, output_size: Any) -> tuple[int, ...]:
        """What to add to the smallest output, so that it has the size that is asked for."""
        if output_size is None:
            return self.output_padding
        rank = self._rank
        sizes = list(output_size)
        unbatched = input.ndim == rank + 1
        if len(sizes) == rank + (1 if unbatched else 2):
            sizes = sizes[-rank:]
        if len(sizes) != rank:
            raise ValueError(
                f"ConvTranspose{rank}D: for {input.ndim}D input, output_size must have {rank} or "
                f"{input.ndim} elements (got {len(sizes)})"
            )
        added = []
        for i, size in enumerate(sizes):
            span = self.dilation[i] * (self.kernel_size[i] - 1) + 1
            least = (input.shape[i - rank] - 1) * self.stride[i] - 2 * int(self.padding[i]) + span
            if not least <= size < least + self.stride[i]:
                raise ValueError(
                    f"requested an output size of {sizes}, but dim {i} must be in the range from "
                    f"{least} to {least + self.stride[i] - 1} (for an input of {input.shape})"
                )
            added.append(size - least)
        return tuple(added)


_ConvTransposeMixin = _ConvTransposeNd  # an older name, which packages ask for


class ConvTranspose1d(_ConvTransposeNd):
    """See `livegrad.nn.functional.conv_transpose1d`."""

    _rank = 1
    _function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTransposeNd):
    """See `livegrad.nn.functional.conv_transpose2d`.

    Args:
        in_channels: of the input.
        out_channels: of the output.
        kernel_size: of a window.
        stride: how far apart input elements are put.
        padding: how much of the border is left out.
        output_padding: rows and columns added at one side.
        groups: parts into which channels are divided, each with its own output channels.
        bias: whether there is one.
        dilation: how far apart the elements of a window are.
        padding_mode: "zeros".

    Example:
        >>> nn.ConvTranspose2d(8, 3, kernel_size=2, stride=2)(lg.ones(1, 8, 5, 5)).shape
        livegrad.Size([1, 3, 10, 10])
    """

    _rank = 2
    _function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTransposeNd):
    """See `livegrad.nn.functional.conv_transpose3d`."""

    _rank = 3
    _function = staticmethod(F.conv_transpose3d)


# --------------------------------------------------------------------------------------- lazy


class _LazyConvXdMixin(LazyModuleMixin, _ConvNd):
    """A convolution that takes the number of channels from its first input."""

    def _become_lazy(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draws new weights, once there are any."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Any, *args: Any, **kwargs: Any) -> None:
        """Takes the number of channels from `input`."""
        if self.has_uninitialized_params():
            self.in_channels = self._get_in_channels(input)
            if self.in_channels % self.groups != 0:
                raise ValueError("in_channels must be divisible by groups")
            self.weight.materialize(self._weight_shape())
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()
        self.in_channels = self._get_in_channels(input)

    def _get_in_channels(self, input: Any) -> int:
        rank = self._rank
        if input.ndim not in (rank + 1, rank + 2):
            raise RuntimeError(
                f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {list(input.shape)}"
            )
        return int(input.shape[-rank - 1])


class _LazyConv(_LazyConvXdMixin, _Conv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: str | int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype
        )
        self._become_lazy(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv, Conv1d):
    """A Conv1d that takes `in_channels` from its first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """A Conv2d that takes `in_channels` from its first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """A Conv3d that takes `in_channels` from its first input."""

    cls_to_become = Conv3d


class _LazyConvTranspose(_LazyConvXdMixin, _ConvTransposeNd):
    def __init__(
        self,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        options = (stride, padding, output_padding, groups, False, dilation, padding_mode)
        super().__init__(0, 0, kernel_size, *options, device, dtype)
        self._become_lazy(out_channels, bias, device, dtype)


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """A ConvTranspose1d that takes `in_channels` from its first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A ConvTranspose2d that takes `in_channels` from its first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A ConvTranspose3d that takes `in_channels` from its first input."""

    cls_to_become = ConvTranspose3d
