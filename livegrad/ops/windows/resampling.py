"""Resampling: values between elements, as sums of a few weighted elements per result.

One dim is done after the other (interpolation.py, adaptive_pooling.py). For each, the elements that
take part (`index`) and their weights follow from the sizes; they are made once with NumPy and kept,
together with those of the gradient, which is a sum of a few weighted results per element:

    index   [[0 1 2]      back    [[0 0 1 2]         result 0 is of the elements 0 and 1,
             [1 2 3]]              [- 1 2 -]]        element 1 takes part in the results 0 and 1
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from livegrad import dtypes
from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, cast, mul, where
from livegrad.ops.elementwise.comparison import clamp, ne
from livegrad.ops.elementwise.pointwise_math import round
from livegrad.ops.making.constants import from_array
from livegrad.ops.picking.gathering import INDEX_SELECT
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
    x, index = metas[:2]
    dim, _ = attrs
    return meta_of((*x.shape[:dim], index.shape[1], *x.shape[dim + 1 :]), x.dtype)


def _row(x: Tensor, number: int) -> Tensor:
    return record(INDEX, (x,), ((("int",), ("all",)),), (number,), node_of(x).meta.shape[1:])


def _resample_expand(n: Any, x: Tensor, index: Tensor, weight: Tensor, *back: Tensor) -> Tensor:
    dim, gaps = n.attrs
    wide = n.meta.dtype.compute
    x, weight = cast(x, wide), cast(weight, wide)
    taps, count = node_of(index).meta.shape
    after = (1,) * (n.meta.ndim - dim - 1)

    def weighted(part: Tensor, weight: Tensor) -> Tensor:
        found = mul(part, weight)
        return where(ne(weight, 0), found, 0) if gaps else found

    if taps > MOST_UNROLLED:
        every = record(INDEX_SELECT, (x, index), (dim,))
        parts = weighted(every, reshape_to(weight, (taps, count, *after)))
        return cast(record(SUM, (parts,), ((dim,), False)), n.meta.dtype)
    total: Any = None
    for t in range(int(taps)):
        part = record(INDEX_SELECT, (x, _row(index, t)), (dim,))
        part = weighted(part, reshape_to(_row(weight, t), (count, *after)))
        total = part if total is None else add(total, part)
    return cast(total, n.meta.dtype)


def _resample_ref(n: Any, x: Array, index: Array, weight: Array, *back: Array) -> Array:
    dim, gaps = n.attrs
    weight = weight.reshape(*weight.shape, *[1] * (x.ndim - dim - 1))
    weighted = np.take(x, index, dim) * weight
    return folds.total(np.where(weight == 0, 0, weighted) if gaps else weighted, dim)


def _resample_gradient(g: Tensor, y: Tensor, x: Tensor, *taps: Tensor) -> Tensor:
    return record(RESAMPLE, (g, *taps[2:], *taps[:2]), (node_of(y).attrs[0], True))


def _samples() -> s.SampleRule:
    def sample(shape: tuple[int, ...], dim: int, index: Any, gaps: bool) -> s.Sample:
        index = np.array(index)
        weight = index * 0.3 + 0.25 * (index > 0)
        taps = index, weight, *_turned(index, weight, shape[dim])

        def run(x: Tensor) -> Tensor:
            kinds = (dtypes.int64, node_of(x).meta.dtype) * 2
            found = [cast(from_array(y), kind) for y, kind in zip(taps, kinds, strict=True)]
            return record(RESAMPLE, (x, *found), (dim, gaps))

        return s.Sample((s.uniform(*shape),), run)

    few, many = [[0, 1, 1], [1, 2, 3]], [[0, 1], [1, 2], [2, 3], [2, 2], [0, 3]]
    return s.calls(
        lambda: sample((2, 4), 1, few, False),
        lambda: sample((4, 2), 0, many, True),
        lambda: sample((3, 5, 2), 1, few, True),
    )


RESAMPLE: Op = Op(
    "resample",
    "composite",
    # Σ over t of x[index[t, i]] * weight[t, i] along a dim: inputs (x, index, weight), and the last
    # two of the gradient; attrs (dim, whether a weight of 0 says that there is nothing to read).
    infer=_resample_infer,
    ref=_resample_ref,
    expand=_resample_expand,
    grads=(_resample_gradient, None, None, None, None),
    saves="x",
    samples=_samples(),
)


# ------------------------------------------------------------------------- indices and weights


class Taps(NamedTuple):
    """Elements and weights, both (elements per result, results); those of the gradient, (results
    per element, elements); and whether a weight of 0 stands for no element."""

    elements: Tensor
    weight: Tensor | None  # None is 1 everywhere, and a single element per result
    back: Tensor | None = None
    back_weight: Tensor | None = None
    gaps: bool = False


def _taps(index: Array, weight: Array | None, size: int, gaps: bool = False) -> Taps:
    index = index.astype(np.int64)
    if weight is None:
        return Taps(from_array(index), None)
    back, back_weight = [from_array(x) for x in _turned(index, weight, size)]
    gaps = gaps and not weight.all()
    return Taps(from_array(index), from_array(weight), back, back_weight, gaps)


def _turned(index: Array, weight: Array, size: int) -> tuple[Array, Array]:
    """The results that each of `size` elements takes part in, in their order, and its weights."""
    results = np.broadcast_to(np.arange(index.shape[1]), index.shape)
    there = weight != 0
    elements, results, weights = index[there], results[there], weight[there]
    order = np.lexsort((results, elements))
    elements, results, weights = elements[order], results[order], weights[order]
    counts = np.bincount(elements, minlength=size)
    rank = np.arange(len(elements)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = (max(int(counts.max(initial=1)), 1), size)
    back, back_weight = np.zeros(shape, np.int64), np.zeros(shape, weight.dtype)
    back[rank, elements], back_weight[rank, elements] = results, weights
    return back, back_weight


def resampled(x: Tensor, dim: int, taps: Taps) -> Tensor:
    """Weighted elements along a dim, added up; without weights, one element for each result."""
    index, *others, gaps = taps
    if taps.weight is None:
        return record(INDEX_SELECT, (x, reshape_to(index, (node_of(index).meta.numel,))), (dim,))
    if node_of(x).meta.dtype is not dtypes.uint8:
        return record(RESAMPLE, (x, index, *others), (dim, gaps))
    out = record(RESAMPLE, (cast(x, dtypes.float32), index, *others), (dim, gaps))
    return cast(clamp(round(out), 0, 255), dtypes.uint8)


@lru_cache(maxsize=512)
def _bins(size: int, count: int, single: bool) -> Taps:
    """Means over bins that share a dim as evenly as whole elements allow."""
    i = np.arange(count)
    first, end = i * size // count, -(-(i + 1) * size // count)
    longest = int((end - first).max(initial=1))
    at = first + np.arange(longest)[:, None]
    weight = np.where(at < end, 1 / (end - first), 0)
    weight = weight.astype(np.float32 if single else np.float64)
    return _taps(np.minimum(at, size - 1), weight, size, gaps=True)


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
) -> Taps:
    """Index and weight for one dim; `given` is the scale factor that the user named."""
    real: Any = np.float32 if single else np.float64
    i = np.arange(count).astype(real)
    scale = _scale(size, count, align, given, real)
    if mode in ("nearest", "nearest-exact"):
        at = np.floor((i + real(0.5)) * scale if mode == "nearest-exact" else i * scale)
        return _taps(np.minimum(at.astype(np.int64), size - 1)[None], None, size)
    source = i * scale if align else scale * (i + real(0.5)) - real(0.5)
    if mode == "bicubic":
        first = np.floor(source)
        part = np.clip(source - first, 0, 1).astype(real)
        steps = np.arange(-1, 3)[:, None]
        at = np.clip(first.astype(np.int64) + steps, 0, size - 1)
        return _taps(at, _cubic(part - steps.astype(real), -0.75), size)
    if size == count:
        return _taps(np.arange(count)[None], None, size)
    source = np.maximum(source, 0).astype(real)
    first = np.minimum(source.astype(np.int64), size - 1)
    part = np.clip(source - first.astype(real), 0, 1).astype(real)
    at = np.stack([first, np.minimum(first + 1, size - 1)])
    return _taps(at, np.stack([real(1) - part, part]), size)


@lru_cache(maxsize=512)
def smooth_taps(
    mode: str, size: int, count: int, align: bool, given: float | None, single: bool
) -> Taps:
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
    return _taps(np.clip(at, 0, size - 1), weight, size, gaps=True)
