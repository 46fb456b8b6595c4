"""Resampling: values between elements, as sums of a few weighted elements per result.

`interpolate` works on one dim after the other. For each, the elements that take part (`index`) and
their weights follow from the sizes; they are made once with NumPy and kept. RESAMPLE reads through
them, and its gradient RESAMPLE_ADJOINT adds through them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.blame import as_index
from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.bookkeeping.in_place import formatted_like
from livegrad.ops.elementwise.arithmetic import add, cast, mul
from livegrad.ops.elementwise.comparison import clamp
from livegrad.ops.elementwise.pointwise_math import round
from livegrad.ops.making.generate import filled
from livegrad.ops.picking.gathering import INDEX_SELECT
from livegrad.ops.picking.index_writing import INDEX_ADD
from livegrad.ops.reductions.reduce import SUM
from livegrad.ops.shaping.movement import INDEX, reshape_to
from livegrad.ops.support import folds, samples as s
from livegrad.ops.windows.unfolding import Sizes

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]
Metas = tuple[Meta, ...]
Attrs = tuple[Any, ...]

# Up to so many elements per result are added in registers; more are gathered first.
MOST_UNROLLED = 4


# -------------------------------------------------------------------------------------- records


def _resample_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    x, index, _ = metas
    (dim,) = attrs
    return meta_of((*x.shape[:dim], index.shape[1], *x.shape[dim + 1 :]), x.dtype)


def _adjoint_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    g = metas[0]
    dim, size = attrs
    return meta_of((*g.shape[:dim], size, *g.shape[dim + 1 :]), g.dtype)


def _row(x: Tensor, number: int) -> Tensor:
    return record(INDEX, (x,), ((("int",), ("all",)),), (number,), node_of(x).meta.shape[1:])


def _resample_expand(n: Any, x: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    (dim,) = n.attrs
    wide = n.meta.dtype.compute
    x, weight = cast(x, wide), cast(weight, wide)
    taps, count = node_of(index).meta.shape
    after = (1,) * (n.meta.ndim - dim - 1)
    if taps > MOST_UNROLLED:
        every = record(INDEX_SELECT, (x, index), (dim,))
        weighted = mul(every, reshape_to(weight, (taps, count, *after)))
        return cast(record(SUM, (weighted,), ((dim,), False)), n.meta.dtype)
    total: Any = None
    for t in range(int(taps)):
        part = record(INDEX_SELECT, (x, _row(index, t)), (dim,))
        part = mul(part, reshape_to(_row(weight, t), (count, *after)))
        total = part if total is None else add(total, part)
    return cast(total, n.meta.dtype)


def _adjoint_expand(n: Any, g: Tensor, index: Tensor, weight: Tensor) -> Tensor:
    dim, _ = n.attrs
    wide = n.meta.dtype.compute
    g, weight = cast(g, wide), cast(weight, wide)
    taps, count = node_of(index).meta.shape
    shape = n.meta.shape
    g = reshape_to(g, (*shape[:dim], 1, count, *shape[dim + 1 :]))
    parts = mul(g, reshape_to(weight, (taps, count, *[1] * (n.meta.ndim - dim - 1))))
    base = filled(shape, 0, wide)
    return cast(record(INDEX_ADD, (base, index, parts), (dim,)), n.meta.dtype)


def _resample_ref(n: Any, x: Array, index: Array, weight: Array) -> Array:
    (dim,) = n.attrs
    tail = (1,) * (x.ndim - dim - 1)
    weighted = np.take(x, index, dim) * weight.reshape(*weight.shape, *tail)
    return folds.total(weighted, dim)


def _samples(call: Callable[..., Tensor], count: int) -> s.SampleRule:
    def sample(shape: tuple[int, ...], dim: int, index: Any) -> s.Sample:
        def run(x: Tensor, at: Tensor) -> Tensor:
            return call(x, at, add(mul(cast(at, x.dtype), 0.3), 0.25), dim)

        return s.Sample((s.uniform(*shape), np.array(index)), run)

    few, many = [[0, 1, 1], [1, 2, 3]], [[0, 1], [1, 2], [2, 3], [2, 2], [0, 3]]
    return s.calls(
        lambda: sample((2, 4 if count else 3), 1, few),
        lambda: sample((4 if count else 2, 2), 0, many),
    )


RESAMPLE: Op = Op(
    "resample",
    "composite",
    # Σ over t of x[index[t, i]] * weight[t, i] along a dim: inputs (x, index, weight), attrs (dim,)
    infer=_resample_infer,
    ref=_resample_ref,
    expand=_resample_expand,
    grads=(
        lambda g, y, x, index, weight: record(
            RESAMPLE_ADJOINT, (g, index, weight), (y._node.attrs[0], x.shape[y._node.attrs[0]])
        ),
        None,
        None,
    ),
    saves="x",
    samples=_samples(lambda x, i, w, dim: record(RESAMPLE, (x, i, w), (dim,)), 4),
)
RESAMPLE_ADJOINT: Op = Op(
    "resample_adjoint",
    "composite",
    # Inputs (g, index, weight), attrs (dim, size): g * weight added at the indices.
    infer=_adjoint_infer,
    expand=_adjoint_expand,
    grads=(
        lambda g, y, x, index, weight: record(RESAMPLE, (g, index, weight), y._node.attrs[:1]),
        None,
        None,
    ),
    saves="x",
    samples=_samples(lambda x, i, w, dim: record(RESAMPLE_ADJOINT, (x, i, w), (dim, 4)), 0),
)


# ------------------------------------------------------------------------- indices and weights

# (index, weight), both (elements per result, results); a weight of None is 1 everywhere.
Taps = tuple[Array, Array | None]


def _tensors(taps: Taps) -> tuple[Tensor, Tensor | None]:
    from livegrad.creation import from_array

    index, weight = taps
    return from_array(index.astype(np.int64)), None if weight is None else from_array(weight)


def _resampled(x: Tensor, dim: int, taps: tuple[Tensor, Tensor | None]) -> Tensor:
    index, weight = taps
    if weight is None:
        return record(INDEX_SELECT, (x, reshape_to(index, (node_of(index).meta.numel,))), (dim,))
    if node_of(x).meta.dtype is not dtypes.uint8:
        return record(RESAMPLE, (x, index, weight), (dim,))
    out = record(RESAMPLE, (cast(x, dtypes.float32), index, weight), (dim,))
    return cast(clamp(round(out), 0, 255), dtypes.uint8)


@lru_cache(maxsize=512)
def _bins(size: int, count: int, single: bool) -> tuple[Tensor, Tensor | None]:
    """Means over bins that share a dim as evenly as whole elements allow."""
    i = np.arange(count)
    first, end = i * size // count, -(-(i + 1) * size // count)
    longest = int((end - first).max(initial=1))
    at = first + np.arange(longest)[:, None]
    weight = np.where(at < end, 1 / (end - first), 0)
    return _tensors((np.minimum(at, size - 1), weight.astype(np.float32 if single else np.float64)))


def averaged(x: Tensor, dim: int, count: int) -> Tensor:
    """Means over `count` bins along a dim."""
    meta = node_of(x).meta
    size = meta.shape[dim]
    if size == count:
        return x
    single = meta.dtype.compute is not dtypes.float64
    return _resampled(x, dim, _bins(size, count, single))


def _cubic(x: Array, a: float) -> Array:
    """The convolution kernel of cubic interpolation."""
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return np.where(x < 1, near, np.where(x < 2, far, 0)).astype(x.dtype)


def _triangle(x: Array) -> Array:
    return np.asarray(np.maximum(1 - np.abs(x), 0), x.dtype)


def _lanczos(x: Array) -> Array:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0).astype(x.dtype)


# mode: (filter, elements it reaches over at scale 1)
_SMOOTH: dict[str, tuple[Callable[[Array], Array], int]] = {
    "bilinear": (_triangle, 2),
    "bicubic": (lambda x: _cubic(x, -0.5), 4),
    "lanczos": (_lanczos, 6),
}


def _scale(size: int, count: int, align: bool, given: float | None, real: Any) -> Any:
    """Elements of the input per element of the output, computed as PyTorch does."""
    if align:
        return real(size - 1) / real(count - 1) if count > 1 else real(0)
    return real(1 / given) if given is not None and given > 0 else real(size) / real(count)


@lru_cache(maxsize=512)
def _taps(
    mode: str, size: int, count: int, align: bool, given: float | None, single: bool
) -> tuple[Tensor, Tensor | None]:
    """Index and weight for one dim; `given` is the scale factor that the user named."""
    real: Any = np.float32 if single else np.float64
    i = np.arange(count).astype(real)
    scale = _scale(size, count, align, given, real)
    if mode in ("nearest", "nearest-exact"):
        at = np.floor((i + real(0.5)) * scale if mode == "nearest-exact" else i * scale)
        return _tensors((np.minimum(at.astype(np.int64), size - 1)[None], None))
    source = i * scale if align else scale * (i + real(0.5)) - real(0.5)
    if mode == "bicubic":
        first = np.floor(source)
        part = np.clip(source - first, 0, 1).astype(real)
        steps = np.arange(-1, 3)[:, None]
        at = np.clip(first.astype(np.int64) + steps, 0, size - 1)
        return _tensors((at, _cubic(part - steps.astype(real), -0.75)))
    if size == count:
        return _tensors((np.arange(count)[None], None))
    source = np.maximum(source, 0).astype(real)
    first = np.minimum(source.astype(np.int64), size - 1)
    part = np.clip(source - first.astype(real), 0, 1).astype(real)
    at = np.stack([first, np.minimum(first + 1, size - 1)])
    return _tensors((at, np.stack([real(1) - part, part])))


@lru_cache(maxsize=512)
def _smooth_taps(
    mode: str, size: int, count: int, align: bool, given: float | None, single: bool
) -> tuple[Tensor, Tensor | None]:
    """Index and weight of an anti-aliased dim: the filter is as wide as an output element."""
    real: Any = np.float32 if single else np.float64
    weigh, reach = _SMOOTH[mode]
    scale = _scale(size, count, align, given, real)
    support = real(reach * 0.5) * max(scale, real(1))
    centre = scale * (np.arange(count).astype(real) + real(0.5))
    first = np.maximum((centre - support + real(0.5)).astype(np.int64), 0)
    end = np.minimum((centre + support + real(0.5)).astype(np.int64), size)
    at = first + np.arange(max(int((end - first).max(initial=1)), 1))[:, None]
    distance = (at.astype(real) - centre + real(0.5)) / max(scale, real(1))
    weight = np.where(at < end, weigh(distance), 0)
    total = weight.sum(0)
    weight = (weight / np.where(total == 0, 1, total)).astype(real)
    return _tensors((np.clip(at, 0, size - 1), weight))


# ---------------------------------------------------------------------------------- interpolate

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
    if antialias and not (mode in _SMOOTH and rank == 2):
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
    from livegrad.ops.windows import adaptive_pooling as pooling

    rules = (
        pooling.adaptive_avg_pool1d,
        pooling.adaptive_avg_pool2d,
        pooling.adaptive_avg_pool3d,
    )
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
        rule = _smooth_taps if antialias else _taps
        meta_of((counts[i],), dtypes.float64)  # raises if there cannot be so many
        try:
            taps = rule(mode, sizes[i], counts[i], align, scales[i], single)
        except (MemoryError, OverflowError) as error:
            raise RuntimeError(f"interpolate: can't allocate memory: {error}") from None
        out = _resampled(out, 2 + i, taps)
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
