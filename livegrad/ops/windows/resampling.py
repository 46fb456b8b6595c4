"""Resampling: values between elements, as sums of a few weighted elements per result.

One dim is done after the other (interpolation.py, adaptive_pooling.py). For each, the elements that
take part (`index`) and their weights follow from the sizes; they are made once with NumPy and kept.
RESAMPLE reads through them, and its gradient RESAMPLE_ADJOINT adds through them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, cast, mul
from livegrad.ops.elementwise.comparison import clamp
from livegrad.ops.elementwise.pointwise_math import round
from livegrad.ops.making.constants import from_array
from livegrad.ops.making.generate import filled
from livegrad.ops.picking.gathering import INDEX_SELECT
from livegrad.ops.picking.index_writing import INDEX_ADD
from livegrad.ops.reductions.reduce import SUM
from livegrad.ops.shaping.movement import INDEX, reshape_to
from livegrad.ops.support import folds, samples as s

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
    index, weight = taps
    return from_array(index.astype(np.int64)), None if weight is None else from_array(weight)


def resampled(x: Tensor, dim: int, taps: tuple[Tensor, Tensor | None]) -> Tensor:
    """Weighted elements along a dim, added up; without weights, one element for each result."""
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
    return resampled(x, dim, _bins(size, count, single))


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
SMOOTH: dict[str, tuple[Callable[[Array], Array], int]] = {
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
def plain_taps(
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
def smooth_taps(
    mode: str, size: int, count: int, align: bool, given: float | None, single: bool
) -> tuple[Tensor, Tensor | None]:
    """Index and weight of an anti-aliased dim: the filter is as wide as an output element."""
    real: Any = np.float32 if single else np.float64
    weigh, reach = SMOOTH[mode]
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
