"""Pooling over windows that lie evenly: averages, maxima, p-norms, and unpooling.

Records work on the last dims, whatever comes before: attrs `Pool`. Windows are read through index
maps and folded one dim after the other. A maximum is found by its place, because that is where its
gradient goes. Bins of uneven size are in adaptive_pooling.py.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any, Literal, overload

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.layout import Strides, channels_last_strides, prefers_channels_last
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op, as_suggested
from livegrad.graph.record import record
from livegrad.ops.bookkeeping.in_place import also_of, laid_out_as
from livegrad.ops.elementwise.arithmetic import add, cast, div, mul, sub
from livegrad.ops.elementwise.comparison import maximum, minimum
from livegrad.ops.elementwise.division import divide, floor_divide, remainder
from livegrad.ops.making.generate import counting, filled
from livegrad.ops.picking.gathering import GATHER
from livegrad.ops.picking.scattering import SCATTER_ADD
from livegrad.ops.reductions.reduce import AMAX, ARGMAX, SUM
from livegrad.ops.shaping.movement import reshape_to
from livegrad.ops.support import parts, samples as s
from livegrad.ops.support.autocast import in_float32
from livegrad.ops.support.out import exact
from livegrad.ops.windows.maxima import (
    are_near,
    are_small,
    greatest_places,
    lowest,
    small_maximum,
    spread_maximum,
)
from livegrad.ops.windows.pool import Pool
from livegrad.ops.windows.unfolding import Sizes, per_dim, permuted, resized, spaced, span, windows

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Metas = tuple[Meta, ...]


def _like_windows(metas: Metas, attrs: Any, shape: Any) -> Meta:
    pool = Pool(*attrs)
    return meta_of((*metas[0].shape[: -len(pool.kernel)], *pool.counts), metas[0].dtype)


def _like_sizes(metas: Metas, attrs: Any, shape: Any) -> Meta:
    pool = Pool(*attrs)
    return meta_of((*metas[0].shape[: -len(pool.kernel)], *pool.sizes), metas[0].dtype)


# ------------------------------------------------------------------------------------- average


def _window_sums(x: Tensor, first: int, kernel: Sizes, stride: Sizes) -> Tensor:
    for i in reversed(range(len(kernel))):
        if kernel[i] > 1 or stride[i] > 1:
            x = windows(x, first + i, kernel[i], stride[i])
            x = record(SUM, (x,), ((first + i,), False))
    return x


def _elements(pool: Pool, dtype: DType) -> Tensor | float:
    """What the sum of each window is divided by."""
    if pool.divisor:
        return pool.divisor
    total: Tensor | float = 1
    rank = len(pool.kernel)
    for i in range(rank):
        kernel, stride, before, size = [field[i] for field in (*pool[:3], pool.sizes)]
        after = before if pool.inside == "padded" else 0
        low = -before if pool.inside == "padded" else 0
        last = stride * (pool.counts[i] - 1) - before
        if -before >= low and last + kernel <= size + after:
            total = mul(total, kernel) if isinstance(total, Handle) else total * kernel
            continue
        start = sub(mul(counting(pool.counts[i]), stride), before)
        count = sub(minimum(add(start, kernel), _whole(size + after)), maximum(start, _whole(low)))
        count = reshape_to(cast(count, dtype), (pool.counts[i], *[1] * (rank - 1 - i)))
        total = mul(count, total)
    return total


def _whole(number: int) -> Tensor:
    return filled((), number, dtypes.int64)


def _divided(x: Tensor, by: Any) -> Tensor:
    if node_of(x).meta.dtype.is_floating_point:
        return div(x, by if isinstance(by, Handle) else float(by))
    return divide(x, by, rounding_mode="trunc")


def _average_expand(n: Any, x: Tensor) -> Tensor:
    pool = Pool(*n.attrs)
    first = n.meta.ndim - len(pool.kernel)
    wide = n.meta.dtype.compute
    x = resized(cast(x, wide), pool.pads(first))
    total = cast(_window_sums(x, first, pool.kernel, pool.stride), wide)
    return cast(_divided(total, _elements(pool, wide)), n.meta.dtype)


def _spread_expand(n: Any, g: Tensor) -> Tensor:
    """Each mean's gradient to the elements of its window: windows over spaced gradients."""
    pool = Pool(*n.attrs)
    rank = len(pool.kernel)
    first = n.meta.ndim - rank
    wide = n.meta.dtype.compute
    g = _divided(cast(g, wide), _elements(pool, wide))
    for i in range(rank):
        g = spaced(g, first + i, pool.stride[i])
    g = resized(g, {first + i: (k - 1, k - 1) for i, k in enumerate(pool.kernel)})
    x = _window_sums(g, first, pool.kernel, (1,) * rank)
    around = pool.pads(first)
    return cast(resized(x, {d: (-b, -a) for d, (b, a) in around.items()}), n.meta.dtype)


def _pool_samples(call: Callable[..., Tensor], average: bool = False) -> s.SampleRule:
    def sample(shape: Shape, **options: Any) -> s.Sample:
        def run(x: Tensor) -> Tensor:
            rank = len(shape) - 2
            return call(x, pool_of("pool", rank, x, **options))

        return s.Sample((s.uniform(*shape),), run)

    return s.calls(
        lambda: sample((1, 2, 7), kernel_size=3, stride=2, padding=1),
        lambda: sample((1, 1, 5, 6), kernel_size=(2, 3), stride=(3, 2), ceil_mode=True),
        lambda: sample((2, 1, 4, 4), kernel_size=2, dilation=1 if average else 2),
        lambda: sample((0, 1, 4), kernel_size=2, stride=None, padding=1, ceil_mode=True),
    )


def average_layout(metas: Metas, attrs: tuple[Any, ...], meta: Meta) -> Strides | None:
    """That of images is as their format; signals are images of one row, volumes are row-major."""
    if meta.ndim == 4:
        return as_suggested(metas, attrs, meta)
    return signal_layout(metas[0], meta) if len(Pool(*attrs).kernel) == 1 else None


def signal_layout(x: Meta, meta: Meta) -> Strides | None:
    """That of what is computed of the signals `x` as of images of one row."""
    if x.strides is None or meta.ndim != 3:
        return None
    rows, row = [(*m.shape[:2], 1, m.shape[2]) for m in (x, meta)]
    strides = (*x.strides[:2], x.shape[2] * x.strides[2], x.strides[2])
    if not prefers_channels_last(rows, strides):
        return None
    n, channel, _, place = channels_last_strides(row)
    return n, channel, place


AVERAGE_POOL: Op = Op(
    "average_pool",
    "composite",
    infer=_like_windows,
    expand=_average_expand,
    layout=average_layout,
    grads=(lambda g, y, x: also_of(x, record(AVERAGE_SPREAD, (g,), y._node.attrs)),),
    saves="",
    grad_fn=parts.pool,
    samples=_pool_samples(lambda x, pool: record(AVERAGE_POOL, (x,), pool), average=True),
)
AVERAGE_SPREAD: Op = Op(
    "average_spread",
    "composite",
    # The adjoint of AVERAGE_POOL.
    infer=_like_sizes,
    expand=_spread_expand,
    grads=(lambda g, y, x: record(AVERAGE_POOL, (g,), y._node.attrs),),
    saves="",
    samples=_pool_samples(
        lambda x, pool: record(AVERAGE_SPREAD, (record(AVERAGE_POOL, (x,), pool),), pool),
        average=True,
    ),
)


# ------------------------------------------------------------------------------------- maximum


def _maximum_expand(n: Any, x: Tensor) -> Tensor:
    pool = Pool(*n.attrs)
    first = n.meta.ndim - len(pool.kernel)
    if n.meta.numel == 0:
        return filled(n.meta.shape, 0, n.meta.dtype)
    if are_small(pool):
        return small_maximum(x, pool)
    x = resized(x, pool.pads(first), lowest(n.meta.dtype))
    for i in reversed(range(len(pool.kernel))):
        x = windows(x, first + i, pool.kernel[i], pool.stride[i], pool.dilation[i])
        x = record(AMAX, (x,), ((first + i,), False))
    return x


def _places_expand(n: Any, x: Tensor) -> Tensor:
    """The first of the greatest elements of a window, as its place in the flattened last dims."""
    pool = Pool(*n.attrs)
    rank = len(pool.kernel)
    if n.meta.numel == 0:
        return filled(n.meta.shape, 0, n.meta.dtype)
    if are_small(pool):
        inner = taken_apart(cast(greatest_places(x, pool), dtypes.int64), pool.kernel)
    else:
        first = n.meta.ndim - rank
        x = resized(x, pool.pads(first), lowest(node_of(x).meta.dtype))
        for i in reversed(range(rank)):
            x = windows(x, first + i, pool.kernel[i], pool.stride[i], pool.dilation[i])
        inner = greatest_in_windows(x, rank, pool.kernel)
    place: Tensor | None = None
    for i, k in enumerate(inner):
        at = reshape_to(counting(pool.counts[i]), (pool.counts[i], *[1] * (rank - 1 - i)))
        start = sub(mul(at, pool.stride[i]), pool.padding[i])
        # Where all values are -inf, the first place may be one in the padding.
        skipped = floor_divide(sub(pool.dilation[i] - 1, start), pool.dilation[i])
        k = maximum(k, skipped) if pool.padding[i] else k
        along = add(start, mul(k, pool.dilation[i]))
        place = along if place is None else add(mul(place, pool.sizes[i]), along)
    assert place is not None
    return place


def greatest_in_windows(x: Tensor, rank: int, kernel: Sizes) -> list[Tensor]:
    """Where in its window the greatest element is, per dim of (…, k, windows, k, windows, …)."""
    shape = node_of(x).meta.shape
    first = len(shape) - 2 * rank
    places = [first + 2 * i for i in range(rank)]
    x = permuted(x, (*range(first), *places, *[d + 1 for d in places]))
    counts = tuple([shape[d + 1] for d in places])
    flat = reshape_to(x, (*shape[:first], prod(kernel), *counts))
    return taken_apart(record(ARGMAX, (flat,), ((first,), False)), kernel)


def taken_apart(flat: Tensor, sizes: Sizes) -> list[Tensor]:
    """Row-major places as one index per dim."""
    found: list[Tensor] = []
    for size in reversed(sizes[1:]):
        found.insert(0, remainder(flat, size))
        flat = floor_divide(flat, size)
    return [flat, *found]


def flattened(x: Tensor, rank: int) -> Tensor:
    """`x` as (…, one dim for the last `rank`), in two dims."""
    shape = node_of(x).meta.shape
    return reshape_to(x, (prod(shape[:-rank]), prod(shape[-rank:])))


def scattered(values: Tensor, places: Tensor, rank: int, shape: Shape) -> Tensor:
    """Values added at places in the flattened last dims of zeros of `shape`."""
    base = filled((prod(shape[:-rank]), prod(shape[-rank:])), 0, node_of(values).meta.dtype)
    inputs = (base, flattened(places, rank), flattened(values, rank))
    return reshape_to(record(SCATTER_ADD, inputs, (1,)), shape)


def picked(x: Tensor, places: Tensor, rank: int, places_rank: int | None = None) -> Tensor:
    """The elements of `x` at places in its flattened last dims."""
    which = flattened(places, rank if places_rank is None else places_rank)
    values = record(GATHER, (flattened(x, rank), which), (1,))
    return reshape_to(values, node_of(places).meta.shape)


def _places_infer(metas: Metas, attrs: Any, shape: Any) -> Meta:
    return meta_of(_like_windows(metas, attrs, shape).shape, dtypes.int64)


def _maximum_gradient(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    pool = Pool(*y._node.attrs)
    if are_near(pool):
        return also_of(x, spread_maximum(g, x, pool))
    places = record(MAXIMUM_PLACES, (x,), pool)
    return also_of(x, scattered(g, places, len(pool.kernel), x.shape))


MAXIMUM_POOL: Op = Op(
    "maximum_pool",
    "composite",
    infer=_like_windows,
    expand=_maximum_expand,
    layout=as_suggested,
    grads=(_maximum_gradient,),
    saves="x",
    grad_fn=parts.pool,
    samples=_pool_samples(lambda x, pool: record(MAXIMUM_POOL, (x,), pool)),
)
MAXIMUM_PLACES: Op = Op(
    "maximum_places",
    "composite",
    infer=_places_infer,
    expand=_places_expand,
    layout=as_suggested,
    samples=_pool_samples(lambda x, pool: record(MAXIMUM_PLACES, (x,), pool)),
)


# ------------------------------------------------------------------------------------ checking


def pool_of(
    name: str,
    rank: int,
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Pool:
    """The windows that arguments of a pooling function describe, checked."""
    shape = node_of(input).meta.shape
    kernel = per_dim(name, "kernel_size", kernel_size, rank)
    given = stride is None or (isinstance(stride, list | tuple) and not stride)
    steps = kernel if given else per_dim(name, "stride", stride, rank)
    pads = per_dim(name, "padding", padding, rank)
    spread = per_dim(name, "dilation", dilation, rank)
    for what, values in (("kernel_size", kernel), ("stride", steps), ("dilation", spread)):
        if min(values) <= 0:
            raise RuntimeError(f"{name}: {what} must be greater than zero, but got {values}")
    for p, k, d in zip(pads, kernel, spread, strict=True):
        if p < 0:
            raise RuntimeError(f"{name}: pad must be non-negative, but got pad: {p}")
        if p > span(k, d) // 2:
            raise RuntimeError(
                f"{name}: pad should be at most half of effective kernel size, but got pad={p}, "
                f"kernel_size={k} and dilation={d}"
            )
    check_rank(name, shape, rank)
    sizes = shape[-rank:]
    rows = zip(sizes, kernel, steps, pads, spread, strict=True)
    counts = tuple([_count(*row, ceil_mode) for row in rows])
    if min(counts) < 1:
        raise RuntimeError(
            f"{name}: Given input size: {sizes}. Calculated output size: {counts}. Output size is "
            "too small"
        )
    return Pool(kernel, steps, pads, spread, sizes, counts)


def check_rank(name: str, shape: Shape, rank: int) -> None:
    """RuntimeError unless `shape` is (N, C, …) or (C, …), `rank` more dims, none but N empty."""
    if len(shape) not in (rank + 1, rank + 2) or 0 in shape[-rank - 1 :]:
        raise RuntimeError(
            f"{name}: Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with optional 0 dim "
            f"batch size for input, but got: {list(shape)}"
        )


def _count(size: int, kernel: int, stride: int, pad: int, dilation: int, ceil: bool) -> int:
    room = size + 2 * pad - span(kernel, dilation)
    count = (room + (stride - 1 if ceil else 0)) // stride + 1
    # The last window must start inside the input or the padding before it.
    return count - 1 if ceil and (count - 1) * stride >= size + pad else count


def check_dtype(name: str, x: Tensor, floats: bool = False) -> None:
    """NotImplementedError for bools and complex numbers; for integers, if it must be `floats`."""
    dtype = node_of(x).meta.dtype
    if not dtype.is_floating_point and (floats or dtype is dtypes.bool_ or dtype.is_complex):
        raise NotImplementedError(
            f"\"{name}\" not implemented for '{dtype.name}'; convert with .float()"
        )


# ---------------------------------------------------------------------------- public functions


def _average(
    name: str,
    rank: int,
    input: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None = None,
) -> Tensor:
    if divisor_override == 0:
        raise RuntimeError(f"{name}: divisor must be not zero")
    pool = pool_of(name, rank, input, kernel_size, stride, padding, 1, ceil_mode)
    check_dtype(name, input)
    inside = "padded" if count_include_pad else "input"
    return record(
        AVERAGE_POOL, (input,), pool._replace(inside=inside, divisor=divisor_override or 0)
    )


def avg_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Means over windows of signals (N, C, L).

    Args:
        stride: distance of windows, by default their size.
        ceil_mode: whether a last window may reach past the end.
        count_include_pad: whether zeros of the padding count as elements.
    """
    return _average(
        "avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad
    )


@exact
def avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Means over windows of images (N, C, H, W); see `avg_pool1d`.

    Args:
        kernel_size, stride: of a window, and the distance of windows: by default their size.
        padding: how many zeros are put around.
        ceil_mode: whether a last window may reach past the end.
        count_include_pad: whether zeros of the padding count as elements.
        divisor_override: what sums are divided by, instead of the number of elements.

    Example:
        >>> F.avg_pool2d(lg.arange(16.0).reshape(1, 4, 4), 2)
        tensor([[[ 2.5000,  4.5000],
                 [10.5000, 12.5000]]])
    """
    options = (ceil_mode, count_include_pad, divisor_override)
    return _average("avg_pool2d", 2, input, kernel_size, stride, padding, *options)


@exact
@in_float32
def avg_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Means over windows of volumes (N, C, D, H, W); see `avg_pool2d`."""
    options = (ceil_mode, count_include_pad, divisor_override)
    return _average("avg_pool3d", 3, input, kernel_size, stride, padding, *options)


def _maximum(name: str, rank: int, input: Tensor, return_indices: bool, *windows: Any) -> Any:
    pool = pool_of(name, rank, input, *windows)
    check_dtype(name, input, floats=rank == 1)
    values = record(MAXIMUM_POOL, (input,), pool)
    return (values, record(MAXIMUM_PLACES, (input,), pool)) if return_indices else values


@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...
@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Greatest elements of windows of signals (N, C, L); with their places, if asked for."""
    windows = (kernel_size, stride, padding, dilation, ceil_mode)
    pooled = _maximum("max_pool1d", 1, input, return_indices, *windows)
    if not return_indices and node_of(pooled).grad_to is not None:
        return _laid_out_as_images(pooled, node_of(input).meta)
    return pooled


def _laid_out_as_images(pooled: Tensor, signals: Meta) -> Tensor:
    """In PyTorch signals through which gradients flow are pooled as images of one row."""
    *outer, length = signals.shape
    strides = signals.stride()
    row = (*strides[:-1], length * strides[-1], strides[-1])
    if not prefers_channels_last((*outer, 1, length), row):
        return pooled
    shape = node_of(pooled).meta.shape
    steps = channels_last_strides((*shape[:-1], 1, shape[-1]))
    return laid_out_as(pooled, (*steps[:-2], steps[-1]))


@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...
@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Greatest elements of windows of images (N, C, H, W); places count along rows.

    Args:
        input: (N, C, H, W), or (C, H, W).
        kernel_size: of a window.
        stride: None: windows side by side.
        padding: around the images.
        dilation: from one element of a window to the next.
        ceil_mode: also the windows that begin inside and end outside.
        return_indices: also the places of the greatest.

    Example:
        >>> F.max_pool2d(lg.arange(16.0).reshape(1, 4, 4), 2)
        tensor([[[ 5.,  7.],
                 [13., 15.]]])
    """
    windows = (kernel_size, stride, padding, dilation, ceil_mode)
    return _maximum("max_pool2d", 2, input, return_indices, *windows)


@overload
def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...
@overload
def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@in_float32
def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Greatest elements of windows of volumes (N, C, D, H, W)."""
    windows = (kernel_size, stride, padding, dilation, ceil_mode)
    return _maximum("max_pool3d", 3, input, return_indices, *windows)
