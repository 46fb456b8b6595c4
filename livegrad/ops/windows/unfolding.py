"""Windows: runs of elements at even distances, side by side, and their overlapping sum.

WINDOWS reads through an index map and copies nothing; OVERLAP_ADD is its adjoint. Each is the
other's gradient. Convolution, pooling and `unfold`/`fold` are made of the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad.graph.blame import as_index
from livegrad.graph.handle import node_of
from livegrad.graph.index import Index, added, stepped
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import cast
from livegrad.ops.making.generate import filled
from livegrad.ops.reductions.reduce import SUM
from livegrad.ops.shaping.diagonals import DIAGONAL
from livegrad.ops.shaping.joining import PAD
from livegrad.ops.shaping.movement import INDEX, INDEX_WRITE, PERMUTE, reshape_to
from livegrad.ops.shaping.slicing import FLIP
from livegrad.ops.support import batched, samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]
Attrs = tuple[Any, ...]
Metas = tuple[Meta, ...]
Sizes = tuple[int, ...]
# Elements added (or, where negative, removed) before and after a dim.
Amounts = tuple[int, int]


# Of window sizes and the like: PyTorch's are 32 bits wide.
_MOST = (1 << 31) - 1


def per_dim(name: str, what: str, value: Any, rank: int) -> Sizes:
    """An int for all `rank` dims, or a sequence with one for each, as a tuple."""
    try:
        several = isinstance(value, Sequence)
        found = tuple([as_index(x) for x in (value if several else (value,))])
    except TypeError:
        raise TypeError(
            f"{name}(): argument {what!r} must be int or tuple of ints; got {value!r}"
        ) from None
    if any(not -_MOST <= x <= _MOST for x in found):
        raise RuntimeError(f"{name}: integer out of range; got {what} {found}")
    if len(found) == 1:
        return found * rank
    if len(found) != rank:
        raise RuntimeError(
            f"{name}: got {what} {found}; expected one int, or {rank}, one for each dimension"
        )
    return found


def span(size: int, dilation: int) -> int:
    """Elements from the first to the last of a window of `size`, both included."""
    return dilation * (size - 1) + 1


def window_count(length: int, size: int, stride: int, dilation: int) -> int:
    """How many windows fit into `length` elements."""
    return (length - span(size, dilation)) // stride + 1


def resized(x: Tensor, amounts: dict[int, Amounts], value: float = 0) -> Tensor:
    """`x` with elements added (or, where negative, removed) before and after some dims."""
    meta = node_of(x).meta
    cut = {d: (max(-b, 0), max(-a, 0)) for d, (b, a) in amounts.items() if b < 0 or a < 0}
    shape = meta.shape
    if cut:
        items = tuple([("slice", 1) if d in cut else ("all",) for d in range(len(shape))])
        starts = tuple([cut[d][0] for d in sorted(cut)])
        shape = tuple([size - sum(cut.get(d, (0, 0))) for d, size in enumerate(shape)])
        x = record(INDEX, (x,), (items,), starts, shape)
    grown = {d: (max(b, 0), max(a, 0)) for d, (b, a) in amounts.items() if b > 0 or a > 0}
    if not grown:
        return x
    which = tuple([d in grown for d in range(len(shape))])
    wanted = tuple([size + sum(grown.get(d, (0, 0))) for d, size in enumerate(shape)])
    exact = meta.dtype.is_floating_point or meta.dtype.is_complex
    fill = float(value) if exact else int(value)
    return record(PAD, (x,), (which,), (fill, *[grown[d][0] for d in sorted(grown)]), wanted)


def permuted(x: Tensor, order: Sequence[int]) -> Tensor:
    """The dims of `x` in another order, not as a view."""
    return record(PERMUTE, (x,), (tuple(order),))


# ------------------------------------------------------------------------------------ windows


def _windows_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    (x,) = metas
    dim, size, stride, dilation = attrs
    count = window_count(x.shape[dim], size, stride, dilation)
    assert count >= 0, f"windows {attrs} of {x}"
    return meta_of((*x.shape[:dim], size, count, *x.shape[dim + 1 :]), x.dtype)


def _windows_view(n: Any, index: Index) -> Index:
    dim, _, stride, dilation = n.attrs
    place, window = stepped(index[dim], dilation, 0), stepped(index[dim + 1], stride, 0)
    return (*index[:dim], added(window, place), *index[dim + 2 :])


def _windows_ref(n: Any, x: Array) -> Array:
    dim, size, stride, dilation = n.attrs
    count = n.meta.shape[dim + 1]
    at = np.arange(size)[:, None] * dilation + np.arange(count) * stride
    return np.asarray(np.take(x, at, dim))


WINDOWS: Op = Op(
    "windows",
    "movement",
    # Element (k, i) of two dims in place of one is element stride * i + dilation * k:
    # attrs (dim, size of a window, stride, dilation).
    infer=_windows_infer,
    ref=_windows_ref,
    view=_windows_view,
    grads=(lambda g, y, x: overlap_add(g, y._node.attrs[0], x.shape, *y._node.attrs[2:]),),
    saves="",
    batch=batched.along,
    samples=s.calls(
        lambda: s.Sample((s.uniform(2, 7),), lambda x: windows(x, 1, 3)),
        lambda: s.Sample((s.uniform(9, 2),), lambda x: windows(x, 0, 3, 2, 2)),
        lambda: s.Sample((s.uniform(8),), lambda x: windows(windows(x, 0, 5, 1, 1), 0, 2, 3)),
        lambda: s.Sample((s.uniform(0, 4),), lambda x: windows(x, 1, 2, 4)),
    ),
)


def windows(x: Tensor, dim: int, size: int, stride: int = 1, dilation: int = 1) -> Tensor:
    """(…, length, …) as (…, size, number of windows, …), without copying."""
    return record(WINDOWS, (x,), (dim, size, stride, dilation))


# -------------------------------------------------------------------------------- overlap_add


def _overlap_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    (x,) = metas
    dim, length, *_ = attrs
    return meta_of((*x.shape[:dim], length, *x.shape[dim + 2 :]), x.dtype)


def _overlap_ref(n: Any, x: Array) -> Array:
    dim, _, stride, dilation = n.attrs
    size, count = x.shape[dim : dim + 2]
    out = np.zeros(n.meta.shape, x.dtype)
    lead = (slice(None),) * dim
    for k in range(size):
        start = k * dilation
        out[(*lead, slice(start, start + stride * count, stride))] += x[(*lead, k)]
    return out


def _overlap_expand(n: Any, x: Tensor) -> Tensor:
    dim, length, stride, dilation = n.attrs
    x = cast(x, n.meta.dtype.compute)
    if n.meta.numel == 0 or node_of(x).meta.numel == 0:
        return filled(n.meta.shape, 0, n.meta.dtype)
    if stride > 1 and dilation > 1:
        x, dilation = spaced(x, dim, dilation), 1
    x, phases = split_phases(x, dim, stride)
    j, at = dim, dim + 2  # (…, j, phase, windows, …)
    shape = node_of(x).meta.shape
    first = dilation * (shape[j] - 1)
    blocks = -(-length // phases)
    x = skewed_sum(resized(x, {at: (first, blocks - shape[at])}), j, at, dilation)
    x = merge_phases(x, (dim,), (dim + 1,))
    out = resized(x, {dim: (0, length - blocks * phases)})
    return cast(out, n.meta.dtype)


OVERLAP_ADD: Op = Op(
    "overlap_add",
    "composite",
    # The adjoint of WINDOWS: (…, size, windows, …) added up to (…, length, …).
    # attrs (dim, length, stride, dilation).
    infer=_overlap_infer,
    ref=_overlap_ref,
    expand=_overlap_expand,
    grads=(
        lambda g, y, x: record(
            WINDOWS,
            (_covered(g, y._node.attrs, x.shape),),
            (y._node.attrs[0], x.shape[y._node.attrs[0]], *y._node.attrs[2:]),
        ),
    ),
    saves="",
    samples=s.calls(
        lambda: s.Sample((s.uniform(2, 3, 4),), lambda x: overlap_add(x, 1, (2, 6))),
        lambda: s.Sample((s.uniform(3, 4, 2),), lambda x: overlap_add(x, 0, (10, 2), 2)),
        lambda: s.Sample((s.uniform(2, 3),), lambda x: overlap_add(x, 0, (16,), 5)),
        lambda: s.Sample((s.uniform(3, 2),), lambda x: overlap_add(x, 0, (8,), 3, 2)),
        lambda: s.Sample((s.uniform(3, 3),), lambda x: overlap_add(x, 0, (7,), 1, 2)),
    ),
)


def _covered(g: Tensor, attrs: Attrs, shape: Shape) -> Tensor:
    """The part of `g` in which exactly the windows of `shape` lie."""
    dim, length, stride, dilation = attrs
    used = stride * (shape[dim + 1] - 1) + span(shape[dim], dilation)
    return resized(g, {dim: (0, used - length)})


def overlap_add(x: Tensor, dim: int, shape: Shape, stride: int = 1, dilation: int = 1) -> Tensor:
    """The windows of (…, size, windows, …) added where they lie in a result of `shape`."""
    return record(OVERLAP_ADD, (x,), (dim, shape[dim], stride, dilation))


# Note [Phases]: element p of the result is the sum of x[k, i] with stride * i + dilation * k = p.
# For dilation 1 and k = stride * j + r, that is p = stride * (i + j) + r: the elements of one
# phase r are sums along skewed lines of (j, i), and no product with a zero in between is made.


def split_phases(x: Tensor, dim: int, stride: int) -> tuple[Tensor, int]:
    """(…, k, …) as (…, j, phase, …) with k = stride * j + phase; and the number of phases."""
    shape = node_of(x).meta.shape
    rest = -shape[dim] % stride
    steps = (shape[dim] + rest) // stride
    x = resized(x, {dim: (0, rest)})
    return reshape_to(x, (*shape[:dim], steps, stride, *shape[dim + 1 :])), stride


def merge_phases(x: Tensor, phases: Sequence[int], blocks: Sequence[int]) -> Tensor:
    """Dims of blocks, each merged with its dim of phases, at the place of the blocks."""
    shape = node_of(x).meta.shape
    inner = dict(zip(blocks, phases, strict=True))
    order: list[int] = []
    merged: list[int] = []
    for d in range(len(shape)):
        if d in inner:
            order += [d, inner[d]]
            merged.append(shape[d] * shape[inner[d]])
        elif d not in phases:
            order.append(d)
            merged.append(shape[d])
    return reshape_to(permuted(x, order), tuple(merged))


def skewed_sum(x: Tensor, j: int, at: int, step: int) -> Tensor:
    """Σ over j of x[j, i - step * j] for every i that has all of them; `j` comes before `at`."""
    shape = node_of(x).meta.shape
    size = shape[j]
    if size == 1:
        return reshape_to(x, shape[:j] + shape[j + 1 :])
    flipped = record(FLIP, (x,), ((j,),), (size - 1,))
    wide = windows(flipped, at, size, 1, step)  # (…, j, …, window, i, …)
    shape = node_of(wide).meta.shape
    rest = tuple([n for d, n in enumerate(shape) if d not in (j, at)])
    lines = record(DIAGONAL, (wide,), (j, at), (0, 0), (*rest, size))
    # Folded over the first dim, so that neighbours in memory are added side by side.
    front = permuted(lines, (len(rest), *range(len(rest))))
    return record(SUM, (front,), ((0,), False))


def spaced(x: Tensor, dim: int, step: int) -> Tensor:
    """`x` with step - 1 zeros between neighbours along one dim."""
    shape = node_of(x).meta.shape
    if step == 1 or shape[dim] < 2:
        return x
    wide = (*shape[:dim], span(shape[dim], step), *shape[dim + 1 :])
    items = tuple([("slice", step) if d == dim else ("all",) for d in range(len(shape))])
    zeros = filled(wide, 0, node_of(x).meta.dtype)
    return record(INDEX_WRITE, (zeros, x), (items,), (0,))


# ------------------------------------------------------------------------------- unfold, fold


def _check_window(name: str, kernel: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes) -> None:
    for what, values, least in (
        ("kernel_size", kernel, 1),
        ("dilation", dilation, 1),
        ("padding", padding, 0),
        ("stride", stride, 1),
    ):
        if min(values) < least:
            kind = "non-negative" if least == 0 else "greater than zero"
            raise RuntimeError(f"{name}: {what} should be {kind}, but got {what} {values}")


def unfold(
    input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """The patches of images as columns: (N, C, H, W) as (N, C * patch, patches)."""
    kernel, spread, pads, steps = [
        per_dim("unfold", what, value, 2)
        for what, value in (
            ("kernel_size", kernel_size),
            ("dilation", dilation),
            ("padding", padding),
            ("stride", stride),
        )
    ]
    _check_window("unfold", kernel, spread, pads, steps)
    shape = node_of(input).meta.shape
    if len(shape) not in (3, 4) or 0 in shape[-3:]:
        raise RuntimeError(
            "unfold: Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other "
            f"non-zero dimensions for input, but got: {list(shape)}"
        )
    counts = [
        window_count(shape[-2 + i] + 2 * pads[i], kernel[i], steps[i], spread[i]) for i in (0, 1)
    ]
    if min(counts) < 1:
        raise RuntimeError(
            f"unfold: Given input with spatial size {shape[-2:]}, kernel_size={kernel}, "
            f"dilation={spread}, padding={pads}, stride={steps}, calculated shape of the array of "
            f"sliding blocks as {tuple(counts)}, but its components must be at least one."
        )
    lead = len(shape) - 2
    x = resized(input, {lead + i: (pads[i], pads[i]) for i in (0, 1)})
    x = windows(x, lead + 1, kernel[1], steps[1], spread[1])
    x = windows(x, lead, kernel[0], steps[0], spread[0])  # (…, kh, h, kw, w)
    x = permuted(x, (*range(lead), lead, lead + 2, lead + 1, lead + 3))
    return reshape_to(x, (*shape[:-3], shape[-3] * prod(kernel), prod(counts)))


def fold(
    input: Tensor,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Tensor:
    """Columns of patches added up to images, where they overlap: the adjoint of `unfold`."""
    sizes, kernel, spread, pads, steps = [
        per_dim("fold", what, value, 2)
        for what, value in (
            ("output_size", output_size),
            ("kernel_size", kernel_size),
            ("dilation", dilation),
            ("padding", padding),
            ("stride", stride),
        )
    ]
    _check_window("fold", kernel, spread, pads, steps)
    shape = node_of(input).meta.shape
    if len(shape) not in (2, 3) or 0 in shape[-2:]:
        raise RuntimeError(
            "fold: Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and "
            f"non-zero dimensions, but got: {list(shape)}"
        )
    if shape[-2] % prod(kernel):
        raise RuntimeError(
            "fold: Expected size of input's dimension 1 to be divisible by the product of "
            f"kernel_size, but got input.size(1)={shape[-2]} and kernel_size={kernel}."
        )
    long = [sizes[i] + 2 * pads[i] for i in (0, 1)]
    counts = [window_count(long[i], kernel[i], steps[i], spread[i]) for i in (0, 1)]
    if min(counts) < 1 or prod(counts) != shape[-1]:
        raise RuntimeError(
            f"fold: Given output_size={sizes}, kernel_size={kernel}, dilation={spread}, "
            f"padding={pads}, stride={steps}, expected size of input's dimension 2 to match the "
            f"calculated number of sliding blocks {counts[0]} * {counts[1]} = {prod(counts)}, but "
            f"got input.size(2)={shape[-1]}."
        )
    lead = (*shape[:-2], shape[-2] // prod(kernel))
    at = len(lead)
    x = reshape_to(input, (*lead, *kernel, *counts))
    x = permuted(x, (*range(at), at, at + 2, at + 1, at + 3))  # (…, kh, h, kw, w)
    x = record(OVERLAP_ADD, (x,), (at + 2, long[1], steps[1], spread[1]))
    x = record(OVERLAP_ADD, (x,), (at, long[0], steps[0], spread[0]))
    return resized(x, {at + i: (-pads[i], -pads[i]) for i in (0, 1)})
