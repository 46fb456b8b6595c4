"""Layers that only change the shape, or the places of elements."""

from __future__ import annotations

from typing import Any

from livegrad.nn import functional as F
from livegrad.nn.module import Module
from livegrad.tensor import Tensor


class Flatten(Module):
    """Merges the dims from `start_dim` to `end_dim` into one.

    Args:
        start_dim: the first that is merged.
        end_dim: the last one.

    Example:
        >>> nn.Flatten()(lg.ones(8, 3, 4)).shape
        livegrad.Size([8, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """See `livegrad.flatten`."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Dims."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits dim `dim` into dims of sizes `unflattened_size`."""

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        _check_sizes(dim, unflattened_size)
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """See `livegrad.unflatten`."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """Dim and sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


def _check_sizes(dim: Any, sizes: Any) -> None:
    if isinstance(dim, str):
        raise TypeError("Unflatten: got a named dim; expected a number")
    if not isinstance(sizes, tuple | list):
        raise TypeError(
            f"unflattened_size must be a tuple of ints, but found type {type(sizes).__name__}"
        )
    for place, size in enumerate(sizes):
        if not isinstance(size, int):
            raise TypeError(
                "unflattened_size must be tuple of ints, but found element of type "
                f"{type(size).__name__} at pos {place}"
            )


class PixelShuffle(Module):
    """See `livegrad.nn.functional.pixel_shuffle`."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """(…, C r², H, W) as (…, C, H r, W r)."""
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """Factor."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """See `livegrad.nn.functional.pixel_unshuffle`."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """(…, C, H r, W r) as (…, C r², H, W)."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """Factor."""
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """See `livegrad.nn.functional.channel_shuffle`."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """The channels of all groups in turns."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """Groups."""
        return f"groups={self.groups}"


class _Patches(Module):
    """What Fold and Unfold share: how patches lie in an image."""

    def __init__(self, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def extra_repr(self) -> str:
        """Sizes."""
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )


class Fold(_Patches):
    """See `livegrad.nn.functional.fold`."""

    def __init__(
        self,
        output_size: Any,
        kernel_size: Any,
        dilation: Any = 1,
        padding: Any = 0,
        stride: Any = 1,
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """The image that patches, which may overlap, add up to."""
        return F.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )

    def extra_repr(self) -> str:
        """Sizes."""
        return f"output_size={self.output_size}, {super().extra_repr()}"


class Unfold(_Patches):
    """See `livegrad.nn.functional.unfold`."""

    def __init__(
        self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)

    def forward(self, input: Tensor) -> Tensor:
        """The patches of an image, each a column."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)
