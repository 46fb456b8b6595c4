"""Sampling images and volumes at positions given by a grid, and grids of affine maps."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.blame import as_items
from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import abs, add, cast, div, mul, neg, sub, where
from livegrad.ops.elementwise.comparison import clamp, ge, le, logical_and, lt
from livegrad.ops.elementwise.division import remainder
from livegrad.ops.elementwise.pointwise_math import floor, round
from livegrad.ops.making.generate import counting, evenly, filled
from livegrad.ops.picking.gathering import GATHER
from livegrad.ops.reductions.reduce import SUM
from livegrad.ops.shaping.movement import EXPAND, INDEX, reshape_to
from livegrad.ops.support import samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

    Taps = tuple[Tensor, Tensor | None]

Metas = tuple[Meta, ...]

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")


# ---------------------------------------------------------------------------------- coordinates


def _unnormalised(at: Tensor, size: int, align: bool) -> Tensor:
    """Positions from -1 to 1 as indices along a dim; ends are centres of elements if `align`."""
    if align:
        return mul(add(at, 1.0), (size - 1) / 2)
    return sub(mul(add(at, 1.0), size / 2), 0.5)


def _reflected(at: Tensor, low: float, span: float) -> Tensor:
    """Positions reflected at both ends of [low, low + span] until they are inside."""
    if span == 0:
        return mul(at, 0.0)
    distance = abs(sub(at, low))
    extra = remainder(distance, span)
    turns = floor(div(distance, span))
    even = lt(remainder(turns, 2.0), 0.5)
    return where(even, add(extra, low), sub(low + span, extra))


def _inside(at: Tensor, size: int, padding: str, align: bool) -> Tensor:
    """Positions brought inside, by the rule for what lies outside."""
    if padding == "zeros":
        return at
    if padding == "reflection":
        low, span = (0.0, size - 1.0) if align else (-0.5, float(size))
        at = _reflected(at, low, span)
    return clamp(at, 0.0, size - 1.0)


# ---------------------------------------------------------------------------------------- taps

# The elements that take part along one dim: their indices as floats, (N, taps, places), and their
# weights, or None for 1.


def _numbers(count: int, dtype: DType) -> Tensor:
    """0, 1, … as a column, to be broadcast against places."""
    return reshape_to(cast(counting(count), dtype), (count, 1))


def _linear_taps(at: Tensor) -> Taps:
    low = floor(at)
    part = sub(at, low)
    t = _numbers(2, node_of(at).meta.dtype)
    # 1 - part for t = 0, part for t = 1
    return add(low, t), add(sub(1.0, t), mul(part, sub(mul(t, 2.0), 1.0)))


def _cubic_taps(at: Tensor, a: float = -0.75) -> Taps:
    """Four elements, weighted by Keys' kernel of their distance."""
    low = floor(at)
    part = sub(at, low)
    t = _numbers(4, node_of(at).meta.dtype)
    before = lt(t, 1.5)  # distances 1 + part, part, 1 - part, 2 - part
    x = add(where(before, part, neg(part)), where(before, sub(1.0, t), sub(t, 1.0)))
    near = add(mul(mul(sub(mul(x, a + 2), a + 3), x), x), 1.0)
    far = sub(mul(add(mul(sub(mul(x, a), 5 * a), x), 8 * a), x), 4 * a)
    inner = logical_and(ge(t, 0.5), le(t, 2.5))
    return add(low, sub(t, 1.0)), where(inner, near, far)


def _taps(at: Tensor, size: int, mode: str, padding: str, align: bool) -> Taps:
    """Taps along a dim of `size` for positions (N, 1, places) from -1 to 1."""
    at = _unnormalised(at, size, align)
    if mode == "bicubic":
        places, weights = _cubic_taps(at)
        return _inside(places, size, padding, align), weights
    at = _inside(at, size, padding, align)
    return (round(at), None) if mode == "nearest" else _linear_taps(at)


class Reads(NamedTuple):
    """What is read for all places at once: tensors of shape (N, *taps per dim, places)."""

    place: Tensor  # in the flattened dims
    there: Tensor  # whether it lies inside
    weight: Tensor | None
    touched: Tensor  # some value that follows from the grid


def _reads(grid: Tensor, sizes: Sequence[int], mode: str, padding: str, align: bool) -> Reads:
    """The elements that take part, for a grid of (N, places, dims)."""
    batch, count, rank = node_of(grid).meta.shape
    parts: list[Reads] = []
    for i, size in enumerate(sizes):
        # The grid's last dim counts from the last dim of the input: (x, y[, z]).
        at = reshape_to(_column(grid, rank - 1 - i), (batch, 1, count))
        at, share = _taps(at, size, mode, padding, align)
        taps = node_of(at).meta.shape[1]
        shape = (batch, *[taps if d == i else 1 for d in range(rank)], count)
        inside = logical_and(ge(at, 0.0), le(at, size - 1.0))
        near = where(inside, at, 0.0)
        parts.append(
            Reads(
                place=reshape_to(cast(near, dtypes.int64), shape),
                there=reshape_to(inside, shape),
                weight=None if share is None else reshape_to(share, shape),
                touched=reshape_to(near, shape),
            )
        )
    place, there, weight, touched = parts[0]
    for part, size in zip(parts[1:], sizes[1:], strict=True):
        place = add(mul(place, size), part.place)
        there = logical_and(there, part.there)
        if weight is not None and part.weight is not None:  # all have one, or none has
            weight = mul(weight, part.weight)
        touched = add(touched, part.touched)
    return Reads(place, there, weight, touched)


def _sample_expand(n: Any, x: Tensor, grid: Tensor) -> Tensor:
    wide = n.meta.dtype.compute
    x, grid = cast(x, wide), cast(grid, wide)
    batch, channels, *sizes = node_of(x).meta.shape
    count = prod(node_of(grid).meta.shape[1:-1])
    reads = _reads(reshape_to(grid, (batch, count, len(sizes))), sizes, *n.attrs)
    taps = prod(node_of(reads.place).meta.shape[1:-1])
    flat, one = (batch, channels, taps * count), (batch, 1, taps, count)
    index = reshape_to(reads.place, (batch, 1, taps * count))
    index = record(EXPAND, (index,), (), (), flat)
    values = record(GATHER, (reshape_to(x, (batch, channels, prod(sizes))), index), (2,))
    values = reshape_to(values, (batch, channels, taps, count))
    there = reshape_to(reads.there, one)
    if reads.weight is None:  # the grid still has a gradient, of zeros
        values = where(there, values, reshape_to(mul(reads.touched, 0.0), one))
    else:
        values = mul(where(there, values, 0.0), reshape_to(reads.weight, one))
    total = record(SUM, (values,), ((2,), False))
    return cast(reshape_to(total, n.meta.shape), n.meta.dtype)


def _column(x: Tensor, number: int) -> Tensor:
    items = (("all",), ("all",), ("int",))
    return record(INDEX, (x,), (items,), (number,), node_of(x).meta.shape[:2])


def _sample_infer(metas: Metas, attrs: Any, shape: Any) -> Meta:
    x, grid = metas
    return meta_of((*x.shape[:2], *grid.shape[1:-1]), x.dtype)


GRID_SAMPLE: Op = Op(
    "grid_sample",
    "composite",
    # Inputs (x, grid), attrs (mode, padding mode, align corners); differentiated through the
    # expansion.
    infer=_sample_infer,
    expand=_sample_expand,
    linked=2,
    autocast="float32",
    grad_fn="GridSampler2DBackward0",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(1, 2, 3, 4), s.uniform(1, 2, 2, 2, low=-0.9, high=0.9, seed=1)),
            lambda x, g: record(GRID_SAMPLE, (x, g), ("bilinear", "zeros", False)),
        ),
        lambda: s.Sample(
            (s.uniform(1, 1, 3, 3), s.uniform(1, 3, 1, 2, low=-0.9, high=0.9, seed=1)),
            lambda x, g: record(GRID_SAMPLE, (x, g), ("bicubic", "reflection", False)),
        ),
        lambda: s.Sample(
            (s.uniform(1, 1, 2, 3, 2), s.uniform(1, 1, 2, 2, 3, low=-0.9, high=0.9, seed=1)),
            lambda x, g: record(GRID_SAMPLE, (x, g), ("bilinear", "border", True)),
            smooth=False,
        ),
        lambda: s.Sample(
            (s.uniform(1, 2, 3, 4), s.uniform(1, 3, 2, 2, low=-1.5, high=1.5, seed=1)),
            lambda x, g: record(GRID_SAMPLE, (x, g), ("nearest", "zeros", True)),
            smooth=False,
        ),
    ),
)


# ---------------------------------------------------------------------------- public functions


def _check(name: str, input: Tensor, grid: Tensor, mode: str) -> None:
    x, g = node_of(input).meta, node_of(grid).meta
    if x.ndim not in (4, 5) or g.ndim != x.ndim:
        raise RuntimeError(
            f"{name}: expected 4D or 5D input and grid with same number of dimensions, but got "
            f"input with sizes {list(x.shape)} and grid with sizes {list(g.shape)}"
        )
    if x.shape[0] != g.shape[0]:
        raise RuntimeError(
            f"{name}: expected grid and input to have same batch size, but got input with sizes "
            f"{list(x.shape)} and grid with sizes {list(g.shape)}"
        )
    if g.shape[-1] != x.ndim - 2:
        raise RuntimeError(
            f"{name}: expected grid to have size {x.ndim - 2} in last dimension, but got grid with "
            f"sizes {list(g.shape)}"
        )
    if 0 in x.shape[2:]:
        raise RuntimeError(
            f"{name}: expected input to have non-empty spatial dimensions, but got {list(x.shape)}"
        )
    if mode == "bicubic" and x.ndim != 4:
        raise RuntimeError(f"{name}: bicubic interpolation only supports 4D input")
    if x.dtype is not g.dtype:
        raise RuntimeError(
            f"{name}: expected input and grid to have same dtype, but input has {x.dtype.name} and "
            f"grid has {g.dtype.name}"
        )
    if not x.dtype.is_floating_point:
        raise NotImplementedError(
            f"\"{name}\" not implemented for '{x.dtype.name}'; convert with .float()"
        )


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Values of `input` (N, C, H, W) at positions `grid` (N, …, 2) = (x, y), from -1 to 1.

    Args:
        mode: how values between elements come about: bilinear, nearest or bicubic.
        padding_mode: what lies outside: zeros, the border's values, or reflections.
        align_corners: whether -1 and 1 are the centres of the corner elements.

    Example:
        >>> image = lg.arange(4.0).reshape(1, 1, 2, 2)
        >>> F.grid_sample(image, lg.zeros(1, 1, 1, 2), align_corners=False)
        tensor([[[[1.5000]]]])
    """
    if mode not in MODES:
        raise ValueError(f"grid_sample: got mode {mode!r}; expected one of {', '.join(MODES)}")
    if padding_mode not in PADDINGS:
        raise ValueError(
            f"grid_sample: got padding_mode {padding_mode!r}; expected one of {', '.join(PADDINGS)}"
        )
    _check("grid_sample", input, grid, mode)
    return record(GRID_SAMPLE, (input, grid), (mode, padding_mode, bool(align_corners)))


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sample` with modes given by number."""
    for number, names in ((interpolation_mode, MODES), (padding_mode, PADDINGS)):
        if not isinstance(number, int) or not 0 <= number < len(names):
            raise RuntimeError(
                f"grid_sampler: got mode {number!r}; expected a number below {len(names)}"
            )
    mode, padding = MODES[interpolation_mode], PADDINGS[padding_mode]
    return grid_sample(input, grid, mode, padding, align_corners)


grid_sampler_2d = grid_sampler
grid_sampler_3d = grid_sampler


def _steps(count: int, align: bool, dtype: DType) -> Tensor:
    """Positions of elements along a dim that reaches from -1 to 1."""
    if count <= 1:
        return filled((count,), 0, dtype)
    end = 1.0 if align else (count - 1) / count
    return evenly(-end, end, count, dtype)


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid to which affine maps (N, 2, 3) take every position of an image of `size`."""
    meta = node_of(theta).meta
    if not meta.dtype.is_floating_point:
        raise ValueError(
            f"affine_grid: Expected theta to have floating point type, but got {meta.dtype.name}"
        )
    size = as_items(size)
    rank = len(size) - 2
    if rank not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {tuple(size)}."
        )
    if meta.shape != (size[0], rank, rank + 1):
        raise ValueError(
            f"affine_grid: Expected a batch of {rank}D affine matrices of shape "
            f"{size[0]}x{rank}x{rank + 1} for size {tuple(size)}. Got {list(meta.shape)}."
        )
    if min(size) <= 0:
        raise ValueError(f"affine_grid: Expected non-zero, positive output size. Got {tuple(size)}")
    places = tuple(size[2:])
    base: Tensor | None = None
    for column in range(rank + 1):
        if column == rank:
            line = filled((), 1, meta.dtype)
        else:
            dim = rank - 1 - column
            steps = _steps(places[dim], bool(align_corners), meta.dtype)
            line = reshape_to(steps, (places[dim], *[1] * column))
        weight = _column(theta, column)
        part = mul(reshape_to(weight, (size[0], *[1] * rank, rank)), _lifted(line))
        base = part if base is None else add(base, part)
    assert base is not None
    return base


affine_grid_generator = affine_grid


def _lifted(line: Tensor) -> Tensor:
    """One more dim at the end, for the coordinates."""
    return reshape_to(line, (*node_of(line).meta.shape, 1))
