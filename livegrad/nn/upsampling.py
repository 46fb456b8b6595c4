"""Upsampling of images and other grids."""

from __future__ import annotations

from typing import Any

from livegrad.nn import functional as F
from livegrad.nn.module import Module
from livegrad.tensor import Tensor


class Upsample(Module):
    """See `livegrad.nn.functional.interpolate`.

    Args:
        size: of the result.
        scale_factor: or how much larger it is.
        mode: "nearest", "linear", "bilinear", "bicubic" or "trilinear".
        align_corners: whether corners lie on corners.

    Example:
        >>> nn.Upsample(scale_factor=2)(lg.ones(1, 3, 4, 4)).shape
        livegrad.Size([1, 3, 8, 8])
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple | list):
            self.scale_factor: Any = tuple([float(factor) for factor in scale_factor])
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """`input` with its last dims resized."""
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        """Factor or size, and mode."""
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Images made larger by repeating pixels."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Images made larger by bilinear interpolation, with corners kept."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)
