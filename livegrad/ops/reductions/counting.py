"""Counting: histograms, how often integers occur, and distinct values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from livegrad import dtypes
from livegrad.graph.blame import as_float, as_index, as_items, check_number
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.layout import strides_in_order
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.node import Interior
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.graph.state import LOCAL
from livegrad.ops.elementwise.arithmetic import clone
from livegrad.ops.making.constants import from_array
from livegrad.ops.shaping.movement import normal_dim, reshape_to
from livegrad.ops.support import samples as s
from livegrad.ops.support.out import exact
from livegrad.ops.support.returned import returned

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]


@returned("histogram")
class histogram_result(NamedTuple):
    """Counts, and the edges of the bins."""

    hist: Tensor
    bin_edges: Tensor


@returned("histogramdd")
class histogramdd_result(NamedTuple):
    """Counts, and the edges of the bins along each dim."""

    hist: Tensor
    bin_edges: tuple[Tensor, ...]


def values_of(x: Tensor, reason: str) -> Array:
    """The values of a tensor as NumPy can compare them; computes what is pending."""
    stored: Array = x._values(reason)
    if node_of(x).meta.dtype is dtypes.bfloat16:
        return dtypes.bfloat16_to_float32(stored)
    return stored


def without_derivative(out: Tensor, x: Tensor, error: Exception) -> Tensor:
    """`out`, made of the values of `x`: it requires a gradient with it, which raises `error`."""
    node = node_of(x)
    if LOCAL.state.grad and node.grad_to is not None:

        def refuse(g: Any) -> Any:
            raise error

        # PyTorch's formulas, unlike what it has none for, are refused where a gradient goes on.
        refuse.ends_well = isinstance(error, NotImplementedError)  # type: ignore[attr-defined]
        out._node.grad_to = Interior((node,), refuse)
    return out


def _distinct(found: Array, x: Tensor, name: str, dim: int | None) -> Tensor:
    """What was found in `x`, slices along `dim` one behind the other."""
    error = NotImplementedError(f"the derivative for '{name}' is not implemented.")
    strides = None
    if dim is not None and found.ndim:
        within = [d for d in reversed(range(found.ndim)) if d != dim]
        strides = strides_in_order(found.shape, [*within, dim])
    return without_derivative(
        from_array(np.asarray(found), node_of(x).meta.dtype, strides), x, error
    )


def _tensor(array: Array, dtype: dtypes.DType | None = None) -> Tensor:
    return from_array(np.asarray(array), dtype)


# ----------------------------------------------------------------------------------- histograms


def _limits(name: str, x: Array, given: tuple[Any, ...], pad: float) -> tuple[float, float]:
    """The outer edges; those of the data if none are given, `pad` further out if they coincide."""
    low, high = given
    if low == high and x.size:
        low, high = float(x.min()), float(x.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"{name}: range of [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(f"{name}: max must be larger than min; got [{low}, {high}]")
    return (low - pad, high + pad) if low == high else (low, high)


def _histc_ref(n: Any, x: Array) -> Array:
    (bins,) = n.attrs
    low, high = _limits("histc", x, n.args, 1.0)
    inside = x[(x >= low) & (x <= high)]
    scaled = (inside - inside.dtype.type(low)) * bins / inside.dtype.type(high - low)
    return np.bincount(np.minimum(scaled.astype(np.int64), bins - 1), minlength=bins)


HISTC = Op(
    "histc",
    "host",
    # attrs (bins,), args (min, max); equal ones stand for those of the data.
    infer=lambda metas, attrs, shape: meta_of(attrs, metas[0].dtype),
    ref=_histc_ref,
    saves="",
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 9),), lambda x: histc(x, 4), smooth=False),
        lambda: s.Sample((s.uniform(9),), lambda x: histc(x, 5, -0.5, 0.75), smooth=False),
    ),
)


@exact
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """How many values fall into each of `bins` equal parts of [min, max]; others do not count.

    Args:
        min, max: if equal, the least and the greatest value are taken instead.

    Example:
        >>> lg.histc(lg.tensor([0.0, 1.0, 1.5, 2.0]), bins=2, min=0, max=2)
        tensor([1., 3.])
    """
    meta = node_of(input).meta
    bins = as_index(bins)
    if bins <= 0:
        raise RuntimeError(f"histc: bins must be > 0; got {bins}")
    _check_float("histc", meta)
    check_number(min, max)
    if min > max:
        raise RuntimeError(f"histc: max must be larger than min; got {min} and {max}")
    return record(HISTC, (input,), (bins,), (as_float(min), as_float(max)))


def _check_float(name: str, meta: Meta) -> None:
    if not meta.dtype.is_floating_point:
        raise NotImplementedError(
            f'"{name}" not implemented for {meta.dtype.name}; expected floating-point values'
        )


def _edges_ref(n: Any, x: Array) -> Array:
    column, bins = n.attrs
    low, high = _limits("histogram", x[:, column], n.args, 0.5) if x.size else (0.0, 1.0)
    if not x.size and n.args[0] != n.args[1]:
        low, high = n.args
    return np.linspace(low, high, bins + 1, dtype=x.dtype)


BIN_EDGES = Op(
    "bin_edges",
    "host",
    # Edges of equal bins for one column of points: attrs (column, bins), args (min, max).
    infer=lambda metas, attrs, shape: meta_of((attrs[1] + 1,), metas[0].dtype),
    ref=_edges_ref,
    saves="",
    samples=s.calls(
        lambda: s.Sample((s.uniform(9),), lambda x: histogram(x, 4).bin_edges, smooth=False),
    ),
)


def _histogram_ref(n: Any, x: Array, *others: Array) -> Array:
    weighted, density = n.attrs
    edges = others[: len(others) - weighted]
    places = np.zeros(len(x), np.int64)
    inside = np.ones(len(x), bool)
    for column, edge in zip(x.T, edges, strict=True):
        at = np.searchsorted(edge, column, "right") - 1
        at = np.where(column == edge[-1], len(edge) - 2, at)
        inside &= (column >= edge[0]) & (column <= edge[-1])
        places = places * (len(edge) - 1) + at
    weights = others[-1].ravel()[inside] if weighted else None
    counts = np.bincount(places[inside], weights, prod(n.meta.shape)).reshape(n.meta.shape)
    if density:
        counts = counts / counts.sum()
        for d, edge in enumerate(edges):
            wide = [1] * len(edges)
            wide[d] = -1
            counts = counts / np.diff(edge).reshape(wide)
    return counts


HISTOGRAM = Op(
    "histogram",
    "host",
    # Inputs (x of (samples, columns), edges per column[, weights]), attrs (weighted, density).
    infer=lambda metas, attrs, shape: meta_of(shape, metas[0].dtype),
    ref=_histogram_ref,
    saves="",
    samples=s.calls(
        lambda: s.Sample((s.uniform(9),), lambda x: histogram(x, 4).hist, smooth=False),
        lambda: s.Sample(
            (s.uniform(9), np.array([-1.0, 0.0, 0.25, 2.0]), s.uniform(9, low=0.0, seed=1)),
            lambda x, edges, w: histogram(x, edges, weight=w, density=True).hist,
            smooth=False,
        ),
        lambda: s.Sample(
            (s.uniform(7, 2),), lambda x: histogramdd(x, [3, 2], density=True).hist, smooth=False
        ),
    ),
)


@exact
def histogram(
    input: Tensor,
    bins: int | Tensor,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> histogram_result:
    """How many values (or how much weight) each bin holds, and the edges of the bins.

    Args:
        bins: how many equal bins, or a 1-d tensor of edges in order.
        range: least and greatest edge; those of the values by default.
        density: whether to divide so that the area of the histogram is 1.
    """
    meta = node_of(input).meta
    column = reshape_to(input, (meta.numel, 1))
    weights = None if weight is None else _weights("histogram", weight, meta.shape)
    hist, edges = _histogram("histogram", column, [bins], range, weights, density)
    if edges[0] is bins:
        edges = [clone(bins)]
    error = RuntimeError("derivative for aten::histogram is not implemented")
    return histogram_result(*[without_derivative(x, input, error) for x in (hist, edges[0])])


def histogramdd(
    input: Tensor,
    bins: int | Sequence[Any],
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> histogramdd_result:
    """Like `histogram` for points: the last dim of `input` holds their coordinates.

    Args:
        bins: how many equal bins along each coordinate (one number or one each), or their edges.
        range: least and greatest edge of the first coordinate, then of the second, …
    """
    meta = node_of(input).meta
    if meta.ndim < 2:
        raise RuntimeError(
            f"histogramdd: input tensor should have at least 2 dimensions; got {list(meta.shape)}"
        )
    columns = meta.shape[-1]
    points = reshape_to(input, (prod(meta.shape[:-1]), columns))
    each = list(bins) if isinstance(bins, Sequence) else [bins] * columns
    if len(each) != columns:
        raise RuntimeError(
            "histogramdd: expected one sequence of bin edges or one number of bins for each of the "
            f"{columns} coordinates; got {len(each)}"
        )
    weights = None if weight is None else _weights("histogramdd", weight, meta.shape[:-1])
    hist, edges = _histogram("histogramdd", points, each, range, weights, density)
    return histogramdd_result(hist, tuple(edges))


def _weights(name: str, weight: Tensor, wanted: tuple[int, ...]) -> Tensor:
    meta = node_of(weight).meta
    if meta.shape != wanted:
        raise RuntimeError(
            f"{name}: if weight tensor is provided it should have the shape of the input (without "
            f"its innermost dimension for points); got {list(meta.shape)}; expected {list(wanted)}"
        )
    return reshape_to(weight, (meta.numel,))


def _histogram(
    name: str,
    points: Tensor,
    bins: list[Any],
    range: Sequence[float] | None,
    weights: Tensor | None,
    density: bool,
) -> tuple[Tensor, list[Tensor]]:
    meta = node_of(points).meta
    if meta.dtype not in (dtypes.float32, dtypes.float64):
        raise NotImplementedError(
            f'"{name}" not implemented for {meta.dtype.name}; expected float32 or float64'
        )
    for other in (*[b for b in bins if isinstance(b, Handle)], weights):
        if other is not None and node_of(other).meta.dtype is not meta.dtype:
            raise RuntimeError(
                f"{name}: input tensor and bins and weight tensors should have the same dtype; got "
                f"{meta.dtype.name} and {node_of(other).meta.dtype.name}"
            )
    limits = _ranges(name, range, len(bins))
    edges = [_edges(name, points, i, b, limits[i]) for i, b in enumerate(bins)]
    shape = tuple([node_of(e).meta.numel - 1 for e in edges])
    inputs = (points, *edges) if weights is None else (points, *edges, weights)
    hist = record(HISTOGRAM, inputs, (weights is not None, bool(density)), (), shape)
    return hist, edges


def _ranges(name: str, range: Sequence[float] | None, count: int) -> list[tuple[float, float]]:
    if range is None:
        return [(0.0, 0.0)] * count
    given = [as_float(x) for x in as_items(range, "tuple of floats")]
    if len(given) != 2 * count:
        raise RuntimeError(
            f"{name}: for a {count}-dimensional histogram range should have {2 * count} elements; "
            f"got {len(given)}"
        )
    pairs = list(zip(given[::2], given[1::2], strict=True))
    for low, high in pairs:
        if low > high:
            raise RuntimeError(f"{name}: min should not exceed max; got [{low}, {high}]")
    return pairs


def _edges(
    name: str, points: Tensor, column: int, bins: Any, limits: tuple[float, float]
) -> Tensor:
    if isinstance(bins, Handle):
        meta = node_of(bins).meta
        if meta.ndim != 1 or not meta.numel:
            raise RuntimeError(
                f"{name}: bins tensor should have one dimension and at least 1 edge; got "
                f"{list(meta.shape)}"
            )
        return bins
    if not isinstance(bins, int):
        raise TypeError(f"{name}: bins must be an int or a tensor; got {type(bins).__name__}")
    if bins <= 0:
        raise RuntimeError(f"{name}: bins must be > 0; got {bins}")
    low, high = limits
    if low == high and low:
        low, high = low - 0.5, high + 0.5
    return record(BIN_EDGES, (points,), (column, bins), (low, high))


# ------------------------------------------------------------------------------------- bincount


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each of 0, 1, 2, … occurs, or the sum of its weights. Reads the values.

    Args:
        input: a vector of integers that are not negative.
        weights: one for each.
        minlength: how many counts there are at least.

    Example:
        >>> lg.bincount(lg.tensor([1, 1, 3]))
        tensor([0, 2, 0, 1])
    """
    meta = node_of(input).meta
    minlength = as_index(minlength)
    if minlength < 0:
        raise RuntimeError(f"bincount: minlength should be >= 0; got {minlength}")
    if meta.dtype.category == dtypes.FLOAT or meta.dtype.is_complex:
        raise NotImplementedError(
            f'"bincount" not implemented for {meta.dtype.name}; expected integers'
        )
    if meta.dtype is dtypes.bool_:
        raise NotImplementedError('"bincount" not implemented for bool; expected integers')
    if meta.ndim != 1:
        raise RuntimeError(
            f"bincount only supports 1-d non-negative integral inputs; got {list(meta.shape)}"
        )
    if weights is not None and node_of(weights).meta.shape != meta.shape:
        raise RuntimeError(
            "bincount: weights should be 1-d and have the same length as input; got "
            f"{list(node_of(weights).meta.shape)} and {list(meta.shape)}"
        )
    values = input._values("bincount()")
    if values.size and values.min() < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs")
    each = None if weights is None else values_of(weights, "bincount()")
    try:
        total = np.bincount(values, each, minlength)
    except (MemoryError, OverflowError) as error:
        raise RuntimeError(f"bincount: can't allocate memory: {error}") from None
    if weights is None:
        return _tensor(total.astype(np.int64))
    single = node_of(weights).meta.dtype is dtypes.float32
    return _tensor(total, dtypes.float32 if single else dtypes.float64)


# ------------------------------------------------------------------------------- distinct values


def _handed_out(found: Tensor, inverse: Array, counts: Array, wanted: tuple[bool, bool]) -> Any:
    results = [found]
    if wanted[0]:
        results.append(_tensor(inverse.astype(np.int64)))
    if wanted[1]:
        results.append(_tensor(counts.astype(np.int64)))
    return results[0] if len(results) == 1 else tuple(results)


def _slices_first(name: str, x: Array, dim: int) -> Array:
    """(slices along the dim, elements of each)."""
    rest = prod(x.shape[:dim] + x.shape[dim + 1 :])
    if x.shape[dim] and not rest:
        raise RuntimeError(
            f"{name}: there are 0 sized dimensions, and they aren't selected, so unique cannot be "
            f"applied; got shape {list(x.shape)} and dim {dim}"
        )
    return np.moveaxis(x, dim, 0).reshape(x.shape[dim], rest)


def _runs(rows: Array) -> tuple[Array, Array, Array]:
    """Of rows of values: where a row differs from the one before, its number, and run lengths."""
    new = np.ones(len(rows), bool)
    new[1:] = (rows[1:] != rows[:-1]).any(1)
    starts = np.flatnonzero(new)
    return starts, np.cumsum(new) - 1, np.diff(np.append(starts, len(rows)))


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct values in order, or the distinct slices along `dim`. Reads the values.

    Args:
        return_inverse: whether to give the place of each element among the distinct ones too.
        return_counts: whether to give how often each occurs too.

    Example:
        >>> values, counts = lg.unique(lg.tensor([2, 1, 2]), return_counts=True)
        >>> values, counts
        (tensor([1, 2]), tensor([1, 2]))
    """
    meta = node_of(input).meta
    wanted = (return_inverse, return_counts)
    d = None if dim is None else normal_dim("unique", dim, meta.ndim)
    x = values_of(input, "unique()")
    if d is None or not x.ndim:
        rows = x.reshape(-1, 1)
        order = np.argsort(rows[:, 0], kind="stable")
    else:
        rows = _slices_first("unique", x, d)
        order = np.lexsort(rows.T[::-1])
    starts, numbers, counts = _runs(rows[order])
    inverse = np.empty(len(rows), np.int64)
    inverse[order] = numbers
    chosen = order[starts]
    if d is None or not x.ndim:
        found, places, name = rows[chosen, 0], inverse.reshape(x.shape), "_unique2"
    else:
        found, places, name = np.take(x, chosen, d), inverse, "unique_dim"
    return _handed_out(_distinct(found, input, name, d), places, counts, wanted)


def unique_consecutive(
    input: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The values (or slices along `dim`) not equal to the one before them. Reads the values."""
    meta = node_of(input).meta
    wanted = (return_inverse, return_counts)
    d = None if dim is None else normal_dim("unique_consecutive", dim, meta.ndim)
    x = values_of(input, "unique_consecutive()")
    if d is None or not x.ndim:
        starts, numbers, counts = _runs(x.reshape(-1, 1))
        found, numbers = x.reshape(-1)[starts], numbers.reshape(x.shape)
    else:
        starts, numbers, counts = _runs(_slices_first("unique_consecutive", x, d))
        found = np.take(x, starts, d)
    return _handed_out(_distinct(found, input, "unique_consecutive", d), numbers, counts, wanted)
