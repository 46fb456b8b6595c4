"""Pooling whose windows follow from sizes or chance: adaptive and fractional; norms; unpooling."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Literal, overload

from livegrad import dtypes
from livegrad.graph.blame import as_items, check_number
from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.bookkeeping.in_place import formatted_like, laid_out_as, remembered
from livegrad.ops.elementwise.arithmetic import abs, add, cast, mul, sign, sub, where
from livegrad.ops.elementwise.comparison import minimum
from livegrad.ops.elementwise.division import floor_divide
from livegrad.ops.elementwise.power import pow
from livegrad.ops.layers.activation import relu
from livegrad.ops.making.generate import counting, filled
from livegrad.ops.making.random import rand
from livegrad.ops.picking.gathering import GATHER, INDEX_SELECT
from livegrad.ops.picking.scattering import SCATTER
from livegrad.ops.reductions.reduce import ARGMAX, mean
from livegrad.ops.shaping.movement import EXPAND, reshape_to
from livegrad.ops.support import samples as s
from livegrad.ops.support.autocast import in_float32
from livegrad.ops.windows.pool import Pool
from livegrad.ops.windows.pooling import (
    AVERAGE_POOL,
    MAXIMUM_PLACES,
    MAXIMUM_POOL,
    average_layout,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    check_dtype,
    check_rank,
    flattened,
    greatest_in_windows,
    picked,
    signal_layout,
)
from livegrad.ops.windows.resampling import averaged
from livegrad.ops.windows.unfolding import Sizes, per_dim

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Metas = tuple[Meta, ...]


# ------------------------------------------------------------------------------------ adaptive


def _output_sizes(name: str, output_size: Any, shape: Shape, rank: int) -> Sizes:
    """The sizes asked for; None keeps a size, but not of a signal, which has no other."""
    given = output_size if isinstance(output_size, Sequence) else (output_size,) * rank
    if len(given) != rank:
        raise RuntimeError(f"{name}: output_size must be {rank} ints; got {tuple(given)}")
    keep = rank > 1
    sizes = [shape[i - rank] if n is None and keep else n for i, n in enumerate(given)]
    found = per_dim(name, "output_size", sizes, rank)
    if min(found) < 0:
        raise RuntimeError(
            f"{name}: elements of output_size must be greater than or equal to 0 but received "
            f"{found}"
        )
    return found


def _check_adaptive(name: str, input: Tensor, rank: int) -> Shape:
    shape = node_of(input).meta.shape
    if rank > 1 and len(shape) <= rank:
        raise ValueError(f"{name}: Input dimension should be at least {rank + 1}; got {shape}")
    if len(shape) not in (rank + 1, rank + 2) or 0 in shape[-rank:]:
        raise RuntimeError(
            f"{name}: Expected {rank + 1}D or {rank + 2}D tensor with non-zero sizes of its last "
            f"{rank} dims, but got: {list(shape)}"
        )
    check_dtype(name, input, floats=True)
    return shape


def _even_bins(sizes: Sizes, counts: Sizes) -> Pool | None:
    """Bins as windows, if they are all of one size."""
    if any(c == 0 or n % c for n, c in zip(sizes, counts, strict=True)):
        return None
    kernel = tuple([n // c for n, c in zip(sizes, counts, strict=True)])
    ones = (1,) * len(sizes)
    return Pool(kernel, kernel, (0,) * len(sizes), ones, sizes, counts)


def _adaptive_average(name: str, rank: int, input: Tensor, output_size: Any) -> Tensor:
    shape = _check_adaptive(name, input, rank)
    counts = _output_sizes(name, output_size, shape, rank)
    pool = _even_bins(shape[-rank:], counts)
    if prod(counts) == 1:  # in PyTorch, too, a mean, whose gradient is no function of the input
        out = mean(input, tuple(range(-rank, 0)), keepdim=True)
        if rank == 1 and pool is not None:
            metas = node_of(input).meta, node_of(out).meta
            return laid_out_as(out, average_layout(metas[:1], pool, metas[1]))
        return formatted_like(out, input)
    if pool is not None:
        return record(AVERAGE_POOL, (input,), pool)
    out = remembered(input)
    for i in range(rank):
        out = averaged(out, len(shape) - rank + i, counts[i])
    return _as_images(out, input, rank)


def _as_images(out: Tensor, input: Tensor, rank: int) -> Tensor:
    """What was made of images in their format, of signals as of images, of volumes row-major."""
    if rank == 2:
        return formatted_like(out, input)
    lie = signal_layout(node_of(input).meta, node_of(out).meta) if rank == 1 else None
    return laid_out_as(out, lie)


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Means over `output_size` bins of (N, C, L)."""
    return _adaptive_average("adaptive_avg_pool1d", 1, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means over bins of images, so many along each dim; None keeps a dim.

    Args:
        output_size: how many bins: one number, or one for each dim.

    Example:
        >>> F.adaptive_avg_pool2d(lg.ones(1, 8, 7, 9), 1).shape
        livegrad.Size([1, 8, 1, 1])
    """
    return _adaptive_average("adaptive_avg_pool2d", 2, input, output_size)


@in_float32
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means over bins of volumes, so many along each dim; None keeps a dim."""
    return _adaptive_average("adaptive_avg_pool3d", 3, input, output_size)


def _bin_starts(size: int, count: int) -> tuple[Tensor, Tensor, int]:
    """First and last index of each bin, as tensors, and the size of the largest."""
    i = counting(count)
    first = floor_divide(mul(i, size), count)
    last = sub(floor_divide(add(mul(add(i, 1), size), count - 1), count), 1)
    return first, last, max([-(-(i + 1) * size // count) - i * size // count for i in range(count)])


def _bin_places_expand(n: Any, x: Tensor) -> Tensor:
    """Bins as windows of one size, in which the last element of a smaller bin repeats."""
    counts, rank = n.attrs[0], len(n.attrs[0])
    if n.meta.numel == 0:
        return filled(n.meta.shape, 0, n.meta.dtype)
    first = n.meta.ndim - rank
    sizes = node_of(x).meta.shape[first:]
    bins = [_bin_starts(size, count) for size, count in zip(sizes, counts, strict=True)]
    kernel = tuple([longest for *_, longest in bins])
    for i in reversed(range(rank)):
        start, last, longest = bins[i]
        within = reshape_to(counting(longest), (longest, 1))
        x = record(INDEX_SELECT, (x, minimum(add(start, within), last)), (first + i,))
    place: Tensor | None = None
    for i, k in enumerate(greatest_in_windows(x, rank, kernel)):
        wide = (counts[i], *[1] * (rank - 1 - i))
        along = add(k, reshape_to(bins[i][0], wide))
        place = along if place is None else add(mul(place, sizes[i]), along)
    assert place is not None
    return place


BIN_PLACES: Op = Op(
    "bin_places",
    "composite",
    # Where the greatest elements of bins are, in the flattened last dims: attrs (bins per dim,).
    infer=lambda metas, attrs, shape: meta_of(
        (*metas[0].shape[: -len(attrs[0])], *attrs[0]), dtypes.int64
    ),
    expand=_bin_places_expand,
    samples=s.calls(
        lambda: s.Sample((s.uniform(2, 7),), lambda x: record(BIN_PLACES, (x,), ((3,),))),
        lambda: s.Sample((s.uniform(5, 3),), lambda x: record(BIN_PLACES, (x,), ((2, 4),))),
        lambda: s.Sample((s.uniform(1, 5),), lambda x: record(BIN_PLACES, (x,), ((0,),))),
    ),
)


def _adaptive_maximum(
    name: str, rank: int, input: Tensor, output_size: Any, return_indices: bool
) -> Any:
    shape = _check_adaptive(name, input, rank)
    counts = _output_sizes(name, output_size, shape, rank)
    pool = _even_bins(shape[-rank:], counts)
    if pool is None:
        places = record(BIN_PLACES, (input,), (counts,))
        values = picked(remembered(input), places, rank)
    else:
        values = record(MAXIMUM_POOL, (input,), pool)
        if return_indices:
            places = record(MAXIMUM_PLACES, (input,), pool)
    values = _as_images(values, input, rank)
    return (values, _as_images(places, input, rank)) if return_indices else values


@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: Any, return_indices: Literal[False] = False
) -> Tensor: ...
@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: Any, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Greatest elements of `output_size` bins of (N, C, L)."""
    return _adaptive_maximum("adaptive_max_pool1d", 1, input, output_size, return_indices)


@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: Any, return_indices: Literal[False] = False
) -> Tensor: ...
@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: Any, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Greatest elements of bins of images, so many along each dim; None keeps a dim."""
    return _adaptive_maximum("adaptive_max_pool2d", 2, input, output_size, return_indices)


@overload
def adaptive_max_pool3d(
    input: Tensor, output_size: Any, return_indices: Literal[False] = False
) -> Tensor: ...
@overload
def adaptive_max_pool3d(
    input: Tensor, output_size: Any, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
@in_float32
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Greatest elements of bins of volumes, so many along each dim; None keeps a dim."""
    return _adaptive_maximum("adaptive_max_pool3d", 3, input, output_size, return_indices)


# ---------------------------------------------------------------------------------- fractional


def _fractional_starts(sample: Tensor, size: int, count: int, kernel: int) -> Tensor:
    """Starts of windows, one apart by a fixed fraction from a random start: (N, C, count)."""
    last = filled((1,), size - kernel, dtypes.int64)
    if count == 1:
        return reshape_to(last, (1, 1, 1))
    alpha = (size - kernel) / (count - 1)
    i = counting(count)
    u = reshape_to(sample, (*node_of(sample).meta.shape, 1))
    steps = cast(mul(add(u, cast(i, node_of(u).meta.dtype)), alpha), dtypes.int64)
    return where(i == count - 1, last, sub(steps, cast(mul(u, alpha), dtypes.int64)))


def _fractional_places(x: Tensor, samples: Tensor, kernel: Sizes, counts: Sizes) -> Tensor:
    """Where the greatest elements of windows are, in the flattened last dims."""
    rank = len(kernel)
    shape = node_of(x).meta.shape
    lead, sizes = shape[:2], shape[2:]
    flat: Any = None
    for i in range(rank):
        # PyTorch draws the numbers of images for the last dim first.
        number = 1 - i if rank == 2 else i
        starts = _fractional_starts(samples[..., number], sizes[i], counts[i], kernel[i])
        wide = [1] * (2 * rank)
        wide[rank + i] = counts[i]
        starts = reshape_to(starts, (*node_of(starts).meta.shape[:2], *wide))
        within = reshape_to(counting(kernel[i]), (kernel[i], *[1] * (2 * rank - 1 - i)))
        along = add(starts, within)
        flat = along if flat is None else add(mul(flat, sizes[i]), along)
    full = (*lead, *kernel, *counts)
    places = record(EXPAND, (flat,), (), (), full)
    columns = (*lead, prod(kernel), prod(counts))
    values = picked(x, reshape_to(places, (*lead, columns[2] * columns[3])), rank, 1)
    best = record(ARGMAX, (reshape_to(values, columns),), ((2,), True))
    found = record(GATHER, (reshape_to(places, columns), best), (2,))
    return reshape_to(found, (*lead, *counts))


def _fractional(
    name: str,
    rank: int,
    input: Tensor,
    kernel_size: Any,
    output_size: Any,
    output_ratio: Any,
    return_indices: bool,
    samples: Any,
) -> Any:
    shape = node_of(input).meta.shape
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    check_rank(name, shape, rank)
    check_dtype(name, input, floats=True)
    if output_size is None:
        ratios = output_ratio if isinstance(output_ratio, Sequence) else (output_ratio,) * rank
        if len(ratios) != rank:
            raise ValueError(f"{name} requires output_ratio to be one number or {rank}")
        output_size = [int(n * r) for n, r in zip(shape[-rank:], ratios, strict=True)]
    kernel = per_dim(name, "kernel_size", kernel_size, rank)
    counts = per_dim(name, "output_size", output_size, rank)
    for size, k, count in zip(shape[-rank:], kernel, counts, strict=True):
        if k < 1 or count < 1 or count + k - 1 > size:
            raise RuntimeError(
                f"{name}: pool size {k} and output size {count} do not fit an input of {size}"
            )
    batched = len(shape) == rank + 2
    x = input if batched else reshape_to(input, (1, *shape))
    if rank == 3 and samples is not None:  # where PyTorch takes no notice of further samples
        samples = samples[: node_of(x).meta.shape[0]]
    if samples is None:
        samples = rand(*node_of(x).meta.shape[:2], rank, dtype=node_of(x).meta.dtype)
    elif node_of(samples).meta.shape != (*node_of(x).meta.shape[:2], rank):
        raise RuntimeError(
            f"{name}: Expect _random_samples of shape {[*node_of(x).meta.shape[:2], rank]}; got "
            f"{list(node_of(samples).meta.shape)}"
        )
    places = _fractional_places(x, samples, kernel, counts)
    if not batched:
        places = reshape_to(places, (*shape[:1], *counts))
    values = picked(remembered(input), places, rank)
    return (values, places) if return_indices else values


@in_float32
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Greatest elements of windows whose distances are drawn so that `output_size` come out."""
    options = (output_size, output_ratio, return_indices, _random_samples)
    return _fractional("fractional_max_pool2d", 2, input, kernel_size, *options)


@in_float32
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Greatest elements of windows of volumes; see `fractional_max_pool2d`."""
    options = (output_size, output_ratio, return_indices, _random_samples)
    return _fractional("fractional_max_pool3d", 3, input, kernel_size, *options)


# ----------------------------------------------------------------------- norms over windows


def _lp_pool(
    name: str, pool: Any, rank: int, input: Tensor, norm_type: float, *windows: Any
) -> Tensor:
    kernel_size, stride, ceil_mode = windows
    check_number(norm_type)
    if norm_type == 0:
        raise ZeroDivisionError(f"{name}: norm_type cannot be 0")  # PyTorch's class
    kernel = per_dim(name, "kernel_size", kernel_size, rank)
    mean = pool(pow(input, norm_type), kernel, stride, 0, ceil_mode)
    return pow(mul(mul(sign(mean), relu(abs(mean))), prod(kernel)), 1.0 / norm_type)


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """p-norms of windows of signals (N, C, L)."""
    windows = (kernel_size, stride, ceil_mode)
    return _lp_pool("lp_pool1d", avg_pool1d, 1, input, norm_type, *windows)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """p-norms of windows of images (N, C, H, W)."""
    windows = (kernel_size, stride, ceil_mode)
    return _lp_pool("lp_pool2d", avg_pool2d, 2, input, norm_type, *windows)


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """p-norms of windows of volumes (N, C, D, H, W)."""
    windows = (kernel_size, stride, ceil_mode)
    return _lp_pool("lp_pool3d", avg_pool3d, 3, input, norm_type, *windows)


# ----------------------------------------------------------------------------------- unpooling


def _unpool(
    name: str,
    rank: int,
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    output_size: Any,
) -> Tensor:
    shape = node_of(input).meta.shape
    kernel = per_dim(name, "kernel_size", kernel_size, rank)
    steps = kernel if stride is None else per_dim(name, "stride", stride, rank)
    pads = per_dim(name, "padding", padding, rank)
    check_rank(name, shape, rank)
    rows = zip(shape[-rank:], steps, kernel, pads, strict=True)
    sizes = tuple([(n - 1) * st + k - 2 * p for n, st, k, p in rows])
    if output_size is not None:
        sizes = _given_size(name, as_items(output_size), sizes, steps)
    if node_of(indices).meta.dtype is not dtypes.int64:
        raise RuntimeError(
            f"{name}: elements in indices should be type int64 but got: "
            f"{node_of(indices).meta.dtype.name}"
        )
    if node_of(indices).meta.shape != shape:
        raise RuntimeError(
            f"{name}: Expected shape of indices to be same as that of the input tensor "
            f"({list(shape)}) but got indices tensor with shape: {list(indices.shape)}"
        )
    whole = (*shape[:-rank], *sizes)
    base = filled((prod(whole[:-rank]), prod(sizes)), 0, node_of(input).meta.dtype)
    inputs = (base, flattened(indices, rank), flattened(input, rank))
    return formatted_like(reshape_to(record(SCATTER, inputs, (1,)), whole), input)


def _given_size(name: str, given: Sizes, usual: Sizes, steps: Sizes) -> Sizes:
    rank = len(usual)
    wanted = given[2:] if len(given) == rank + 2 else given
    if len(wanted) != rank:
        raise ValueError(
            f"{name}: output_size should be a sequence containing {rank} or {rank + 2} elements, "
            f"but it has a length of '{len(wanted)}'"
        )
    for d, (want, size, step) in enumerate(zip(wanted, usual, steps, strict=True)):
        if not size - step < want < size + step:
            raise ValueError(
                f"{name}: invalid output_size {wanted} (dim {d} must be between {size - step} and "
                f"{size + step})"
            )
    return wanted


@in_float32
def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """Values put back where `max_pool1d` found them, zeros elsewhere."""
    options = (kernel_size, stride, padding, output_size)
    return _unpool("max_unpool1d", 1, input, indices, *options)


@in_float32
def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """Values put back where `max_pool2d` found them, zeros elsewhere."""
    options = (kernel_size, stride, padding, output_size)
    return _unpool("max_unpool2d", 2, input, indices, *options)


@in_float32
def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """Values put back where `max_pool3d` found them, zeros elsewhere."""
    options = (kernel_size, stride, padding, output_size)
    return _unpool("max_unpool3d", 3, input, indices, *options)
