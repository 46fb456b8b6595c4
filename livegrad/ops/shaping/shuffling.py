"""Shuffles: channels become pixels, pixels become channels, channels are dealt out in turn."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from livegrad.graph.blame import as_index
from livegrad.graph.handle import node_of
from livegrad.ops.bookkeeping.in_place import formatted_like
from livegrad.ops.shaping.movement import reshape_to
from livegrad.ops.windows.unfolding import permuted

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(…, C * r * r, H, W) as (…, C, H * r, W * r): channels become pixels."""
    shape = node_of(input).meta.shape
    r = as_index(upscale_factor)
    if len(shape) < 3:
        raise RuntimeError(
            "pixel_shuffle expects input to have at least 3 dimensions, but got input with "
            f"{len(shape)} dimension(s)"
        )
    if r <= 0 or shape[-3] % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects a positive upscale_factor whose square divides the channels; "
            f"got {r} for {shape[-3]} channels"
        )
    *lead, channels, height, width = shape
    at = len(lead)
    x = reshape_to(input, (*lead, channels // (r * r), r, r, height, width))
    x = permuted(x, (*range(at), at, at + 3, at + 1, at + 4, at + 2))
    out = reshape_to(x, (*lead, channels // (r * r), height * r, width * r))
    return formatted_like(out, input)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(…, C, H * r, W * r) as (…, C * r * r, H, W): pixels become channels."""
    shape = node_of(input).meta.shape
    r = as_index(downscale_factor)
    if len(shape) < 3:
        raise RuntimeError(
            "pixel_unshuffle expects input to have at least 3 dimensions, but got input with "
            f"{len(shape)} dimension(s)"
        )
    if r <= 0 or shape[-2] % r or shape[-1] % r:
        raise RuntimeError(
            "pixel_unshuffle expects a positive downscale_factor that divides height and width; "
            f"got {r} for {shape[-2]} and {shape[-1]}"
        )
    *lead, channels, height, width = shape
    at = len(lead)
    x = reshape_to(input, (*lead, channels, height // r, r, width // r, r))
    x = permuted(x, (*range(at), at, at + 2, at + 4, at + 1, at + 3))
    out = reshape_to(x, (*lead, channels * r * r, height // r, width // r))
    return formatted_like(out, input)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels of (N, C, …) dealt out in turn: one of each group after the other."""
    shape = node_of(input).meta.shape
    if len(shape) < 3:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(shape)}"
        )
    groups = as_index(groups)
    if groups <= 0 or shape[1] % groups:
        raise RuntimeError(
            "channel_shuffle: Number of groups to divide channels in must be positive, and the "
            f"channels divisible by it; got {groups} for {shape[1]} channels"
        )
    x = reshape_to(input, (shape[0], groups, shape[1] // groups, prod(shape[2:])))
    return formatted_like(reshape_to(permuted(x, (0, 2, 1, 3)), shape), input)
