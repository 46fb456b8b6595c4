"""Interpolation: signals, images and volumes resampled to another size, one dim after the other."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from livegrad import dtypes
from livegrad.graph.blame import as_index
from livegrad.graph.handle import node_of
from livegrad.graph.meta import meta_of
from livegrad.ops.bookkeeping.in_place import formatted_like
from livegrad.ops.windows.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)
from livegrad.ops.windows.resampling import SMOOTH, plain_taps, resampled, smooth_taps
from livegrad.ops.windows.unfolding import Sizes

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

_RANKS = {"linear": 1, "bilinear": 2, "bicubic": 2, "lanczos": 2, "trilinear": 3}
_ANY_RANK = ("nearest", "nearest-exact", "area")


def _sizes_and_scales(
    shape: Sizes, size: Any, scale_factor: Any, recompute: bool
) -> tuple[Sizes, list[float | None]]:
    """The output's size, and the scale factors to compute with instead of those it implies."""
    rank = len(shape)
    if size is not None and scale_factor is not None:
        raise ValueError("interpolate: only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("interpolate: either size or scale_factor should be defined")
    given = size if size is not None else scale_factor
    values = list(given) if isinstance(given, Sequence) else [given] * rank
    if len(values) != rank:
        raise ValueError(
            f"interpolate: got {'size' if size is not None else 'scale_factor'} {tuple(values)} "
            f"for an input with spatial dimensions of {list(shape)}; expected one number for each"
        )
    if size is None:
        counts = tuple([math.floor(float(n) * f) for n, f in zip(shape, values, strict=True)])
        return counts, [None if recompute else float(f) for f in values]
    if recompute:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    try:
        return tuple([as_index(n) for n in values]), [None] * rank
    except TypeError:
        kinds = [type(n).__name__ for n in values]
        raise TypeError(
            f"interpolate: expected size to be one of int or tuple of ints; got types {kinds}"
        ) from None


def _check_mode(mode: str, shape: Sizes, align_corners: bool | None, antialias: bool) -> None:
    rank = len(shape) - 2
    if mode in _ANY_RANK and align_corners is not None:
        raise ValueError(
            "interpolate: align_corners option can only be set with the interpolating modes: "
            "linear | bilinear | bicubic | trilinear"
        )
    if antialias and not (mode in SMOOTH and rank == 2):
        raise ValueError(
            "interpolate: Anti-alias option is restricted to bilinear, bicubic and lanczos modes "
            "and requires a 4-D tensor as input"
        )
    if mode not in _RANKS and mode not in _ANY_RANK:
        raise NotImplementedError(
            "interpolate: Input Error: Only 3D, 4D and 5D input Tensors supported for the modes: "
            f"{' | '.join([*_ANY_RANK, *_RANKS])}; got mode {mode!r}"
        )
    if rank not in (1, 2, 3) or _RANKS.get(mode, rank) != rank:
        raise NotImplementedError(
            f"interpolate: Got {len(shape)}D input, but {mode} mode needs "
            f"{_RANKS.get(mode, 1) + 2}D input"
        )
    if mode == "lanczos" and (not antialias or align_corners):
        raise ValueError(
            "interpolate: lanczos mode requires antialias=True and does not support "
            "align_corners=True"
        )


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Signals, images or volumes (N, C, …) resampled to `size`, or by `scale_factor`.

    Args:
        mode: nearest, nearest-exact, linear, bilinear, bicubic, trilinear, area or lanczos.
        align_corners: whether corner elements, not their outer corners, coincide.
        recompute_scale_factor: whether the factor is taken anew from the rounded size.
        antialias: whether a smaller result averages over all elements it stands for.

    Example:
        >>> F.interpolate(lg.tensor([[[1.0, 3.0]]]), scale_factor=2)
        tensor([[[1., 1., 3., 3.]]])
    """
    shape = node_of(input).meta.shape
    _check_mode(mode, shape, align_corners, antialias)
    recompute = bool(recompute_scale_factor) or (mode == "area" and size is None)
    counts, scales = _sizes_and_scales(shape[2:], size, scale_factor, recompute)
    if min(counts) < 1 or 0 in shape[1:]:
        raise RuntimeError(
            "interpolate: Input and output sizes should be greater than 0, but got input "
            f"{list(shape[2:])} and output {list(counts)}"
        )
    dtype = node_of(input).meta.dtype
    if not dtype.is_floating_point and (dtype is not dtypes.uint8 or mode == "area"):
        raise NotImplementedError(
            f"\"interpolate\" not implemented for '{dtype.name}'; convert with .float()"
        )
    if mode == "area":
        return _area(input, counts)
    return _along_all(input, counts, scales, mode, bool(align_corners), antialias)


def _area(input: Tensor, counts: Sizes) -> Tensor:
    rules = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)
    return rules[len(counts) - 1](input, counts)


def _along_all(
    x: Tensor,
    counts: Sizes,
    scales: list[float | None],
    mode: str,
    align: bool,
    antialias: bool,
) -> Tensor:
    """One dim after the other, the last one first."""
    meta = node_of(x).meta
    sizes, single = meta.shape[2:], meta.dtype is not dtypes.float64
    out = x
    for i in reversed(range(len(counts))):
        rule = smooth_taps if antialias else plain_taps
        meta_of((counts[i],), dtypes.float64)  # raises if there cannot be so many
        try:
            taps = rule(mode, sizes[i], counts[i], align, scales[i], single)
        except (MemoryError, OverflowError) as error:
            raise RuntimeError(f"interpolate: can't allocate memory: {error}") from None
        out = resampled(out, 2 + i, taps)
    return formatted_like(out, x)


def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """See `interpolate`."""
    warnings.warn("nn.functional.upsample is deprecated. Use interpolate instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """See `interpolate`, with mode "nearest"."""
    warnings.warn("upsample_nearest is deprecated. Use interpolate instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """See `interpolate`, with mode "bilinear" and aligned corners."""
    warnings.warn("upsample_bilinear is deprecated. Use interpolate instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def _upsample_bilinear2d_aa(
    input: Tensor,
    output_size: Any,
    align_corners: bool,
    scales_h: Any = None,
    scales_w: float | None = None,
    *,
    scale_factors: Any = None,
) -> Tensor:
    """See `interpolate`, with mode "bilinear" and antialias; two scales, or both in a list."""
    if isinstance(scales_h, Sequence):
        scale_factors = scales_h
    pair = (scales_h, scales_w) if scale_factors is None else scale_factors
    meta = node_of(input).meta
    if output_size is None:
        output_size = [math.floor(n * f) for n, f in zip(meta.shape[2:], pair, strict=True)]
    counts, scales = tuple(output_size), [None if f is None else float(f) for f in pair]
    return _along_all(input, counts, scales, "bilinear", align_corners, True)
