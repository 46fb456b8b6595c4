"""Differences of neighbours and areas under curves: written with slices, so they fuse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from livegrad import dtypes
from livegrad.graph.blame import as_index, one_or_several
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.meta import Shape
from livegrad.ops.elementwise.arithmetic import add, clone, div, mul, neg, sub
from livegrad.ops.elementwise.comparison import logical_xor
from livegrad.ops.making.generate import filled
from livegrad.ops.reductions.reduce import sum
from livegrad.ops.reductions.scan import cumsum
from livegrad.ops.shaping.joining import cat
from livegrad.ops.shaping.movement import normal_dim, reshape_to
from livegrad.ops.shaping.slicing import narrow, select
from livegrad.ops.support.out import exact

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def _run(x: Tensor, dim: int, start: int, stop: int) -> Tensor:
    """The values from `start` up to `stop` (from the end if not above 0) along a dim."""
    size = node_of(x).meta.shape[dim]
    end = stop if stop > 0 else size + stop
    return narrow(x, dim, start, max(end - start, 0))


# ----------------------------------------------------------------------------------------- diff


@exact
def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """Each value less the one before it along `dim`, `n` times over; bools differ or do not.

    Args:
        prepend: values in front of the input's, before differences are taken.
        append: values behind them.
    """
    meta = node_of(input).meta
    if not meta.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional; got a 0-dim tensor")
    d = normal_dim("diff", dim, meta.ndim)
    n = as_index(n)
    if n < 0:
        raise RuntimeError(f"diff: order must be non-negative but got {n}")
    for name, part in (("prepend", prepend), ("append", append)):
        if part is not None and node_of(part).meta.ndim != meta.ndim:
            raise RuntimeError(
                f"diff expects {name} to be the same dimension as input; got "
                f"{list(node_of(part).meta.shape)} and {list(meta.shape)}"
            )
    if not n:
        return clone(input)
    parts = [part for part in (prepend, input, append) if part is not None]
    x = cat(parts, d) if len(parts) > 1 else input
    differ = logical_xor if node_of(x).meta.dtype is dtypes.bool_ else sub
    for _ in range(int(min(n, node_of(x).meta.shape[d]))):
        x = differ(_run(x, d, 1, 0), _run(x, d, 0, -1))
    return x


# ------------------------------------------------------------------------------------- gradient


def gradient(
    input: Tensor,
    *,
    spacing: Any = 1,
    dim: int | Sequence[int] | None = None,
    edge_order: int = 1,
) -> tuple[Tensor, ...]:
    """Estimates of the partial derivatives of sampled values, one tensor per dim.

    Args:
        spacing: the distance of neighbours (one number, or one per dim), or the coordinates along
            each dim as 1-d tensors, which need not be evenly spaced.
        dim: the dims to differentiate along, all by default.
        edge_order: 1 or 2, the order of the estimates at both ends.
    """
    meta = node_of(input).meta
    dims = _gradient_dims(dim, meta.ndim)
    _check_gradient(meta.shape, dims, edge_order)
    per_dim = _spacings(spacing, dims, dim is None, meta.shape)
    return tuple(
        [
            _uneven(input, d, h, edge_order)
            if isinstance(h, Handle)
            else _even(input, d, h, edge_order)
            for d, h in zip(dims, per_dim, strict=True)
        ]
    )


def _gradient_dims(dim: Any, ndim: int) -> list[int]:
    if dim is None:
        return list(range(ndim))
    dims = list(one_or_several(dim))
    if dims and not ndim:
        raise IndexError(f"gradient: Dimension specified as {dim} but tensor has no dimensions")
    found = [normal_dim("gradient", d, ndim) for d in dims]
    if len(set(found)) != len(found):
        raise RuntimeError(f"gradient: dim {dims} appears multiple times in the list of dims")
    return found


def _check_gradient(shape: Shape, dims: list[int], edge_order: int) -> None:
    if edge_order not in (1, 2):
        raise RuntimeError(
            f"gradient only supports edge_order=1 and edge_order=2; got {edge_order}"
        )
    for d in dims:
        if shape[d] < edge_order + 1:
            raise RuntimeError(
                "gradient expected each dimension size to be at least edge_order+1; got size "
                f"{shape[d]} at dimension {d}"
            )


def _spacings(spacing: Any, dims: list[int], whole: bool, shape: Shape) -> list[Any]:
    """One number or coordinate tensor per dim."""
    if spacing is None:
        spacing = 1
    if not isinstance(spacing, Sequence):
        if isinstance(spacing, Handle):
            raise TypeError("gradient: spacing must be a number or a list; got a tensor")
        return [spacing] * len(dims)
    given = list(spacing)
    if len(given) == 1 and not isinstance(given[0], Handle) and len(dims) != 1 and whole:
        given = given * len(dims)
    if len(given) != len(dims):
        raise RuntimeError(
            "gradient expected spacing to be unspecified, a scalar, or a list of length equal to "
            f"the number of dims; got {len(given)} for {len(dims)} dims"
        )
    for h, d in zip(given, dims, strict=True):
        if isinstance(h, Handle) and node_of(h).meta.shape != (shape[d],):
            raise RuntimeError(
                f"gradient: each tensor in spacing must be 1-d and of the size of its dim; got "
                f"{list(node_of(h).meta.shape)} for size {shape[d]}"
            )
    return given


def _even(x: Tensor, d: int, h: Any, edge_order: int) -> Tensor:
    at = [_run(x, d, i, i + 1) for i in range(edge_order + 1)]
    size = node_of(x).meta.shape[d]
    end = [_run(x, d, size - 1 - i, size - i) for i in range(edge_order + 1)]
    if edge_order == 1:
        first, last = sub(at[1], at[0]), sub(end[0], end[1])
    else:
        first = sub(mul(at[1], 2.0), add(mul(at[0], 1.5), mul(at[2], 0.5)))
        last = sub(add(mul(end[0], 1.5), mul(end[2], 0.5)), mul(end[1], 2.0))
    middle = sub(_run(x, d, 2, 0), _run(x, d, 0, -2))
    return cat([div(first, h), div(middle, 2 * h), div(last, h)], d)


def _uneven(x: Tensor, d: int, places: Tensor, edge_order: int) -> Tensor:
    ndim = node_of(x).meta.ndim
    size = node_of(x).meta.shape[d]
    wide = tuple([size if i == d else 1 for i in range(ndim)])
    places = reshape_to(places, wide)
    gap = sub(_run(places, d, 1, 0), _run(places, d, 0, -1))
    one, two = _run(gap, d, 0, -1), _run(gap, d, 1, 0)
    both = add(one, two)
    middle = add(
        sub(
            mul(_run(x, d, 2, 0), div(one, mul(two, both))),
            mul(_run(x, d, 0, -2), div(two, mul(one, both))),
        ),
        mul(_run(x, d, 1, -1), div(sub(two, one), mul(one, two))),
    )
    if edge_order == 1:
        first = div(sub(_run(x, d, 1, 2), _run(x, d, 0, 1)), _run(gap, d, 0, 1))
        last = div(
            sub(_run(x, d, size - 1, 0), _run(x, d, size - 2, -1)), _run(gap, d, size - 2, 0)
        )
    else:
        first = _edge(x, d, gap, (0, 1, 2), (0, 1))
        last = neg(_edge(x, d, gap, (size - 1, size - 2, size - 3), (size - 2, size - 3)))
    return cat([first, middle, last], d)


def _edge(
    x: Tensor, d: int, gap: Tensor, at: tuple[int, int, int], gaps: tuple[int, int]
) -> Tensor:
    """The slope at an end by the parabola through the three values next to it."""
    near, next_, far = [_run(x, d, i, i + 1) for i in at]
    one, two = [_run(gap, d, i, i + 1) for i in gaps]
    both = add(one, two)
    a = neg(div(add(both, one), mul(one, both)))
    b = div(both, mul(one, two))
    c = neg(div(one, mul(two, both)))
    return add(add(mul(near, a), mul(next_, b)), mul(far, c))


# ---------------------------------------------------------------------------------- trapezoids


def _check_no_bools(name: str, y: Tensor, x: Tensor | None) -> None:
    for part in (y, x):
        if part is not None and node_of(part).meta.dtype is dtypes.bool_:
            raise RuntimeError(
                f"{name}: received a bool input for `x` or `y`, but bool is not supported"
            )


def _widths(name: str, x: Tensor, y: Tensor, d: int) -> Tensor:
    """The distances of neighbours along dim `d` of y, broadcastable to y's pairs."""
    shape, wanted = node_of(x).meta.shape, node_of(y).meta.shape
    if not shape:
        raise IndexError(f"{name}: dimension specified as {d} but x is a 0-dim tensor")
    if len(shape) == 1:
        if shape[0] != wanted[d]:
            raise RuntimeError(
                f"{name}: there must be one `x` value for each sample point; got {shape[0]} for "
                f"size {wanted[d]}"
            )
        shape = tuple([shape[0] if i == d else 1 for i in range(len(wanted))])
    elif len(shape) < len(wanted):
        shape = (1,) * (len(wanted) - len(shape)) + shape
    x = reshape_to(x, shape)
    return sub(_run(x, d, 1, 0), _run(x, d, 0, -1))


def _pairs(y: Tensor, d: int) -> Tensor:
    if not node_of(y).meta.shape[d]:
        return y
    return add(_run(y, d, 0, -1), _run(y, d, 1, 0))


def trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1
) -> Tensor:
    """The area under the values `y` along `dim`, joined by straight lines.

    Args:
        x: where the values are; else they are `dx` (1) apart.
    """
    meta = node_of(y).meta
    d = normal_dim("trapezoid", dim, meta.ndim)
    _check_one_spacing("trapezoid", x, dx)
    if not meta.ndim:
        raise IndexError("trapezoid: dimension specified as 0 but y is a 0-dim tensor")
    if not meta.shape[d]:
        return filled(meta.shape[:d] + meta.shape[d + 1 :], 0, meta.dtype)
    _check_no_bools("trapezoid", y, x)
    if x is not None:
        return div(sum(mul(_pairs(y, d), _widths("trapezoid", x, y, d)), d), 2.0)
    ends = mul(add(select(y, d, 0), select(y, d, -1)), 0.5)
    return mul(sub(sum(y, d), ends), 1.0 if dx is None else dx)


def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1
) -> Tensor:
    """The area under the values `y` along `dim` so far, from the second value on."""
    meta = node_of(y).meta
    _check_no_bools("cumulative_trapezoid", y, x)
    d = normal_dim("cumulative_trapezoid", dim, meta.ndim)
    _check_one_spacing("cumulative_trapezoid", x, dx)
    if not meta.ndim:
        raise IndexError("cumulative_trapezoid: dimension specified as 0 but y is a 0-dim tensor")
    if x is not None:
        width = _widths("cumulative_trapezoid", x, y, d)
        return div(cumsum(mul(_pairs(y, d), width), d), 2.0)
    return mul(cumsum(_pairs(y, d), d), (1.0 if dx is None else dx) / 2)


def _check_one_spacing(name: str, x: Tensor | None, dx: float | None) -> None:
    if x is not None and dx is not None:
        raise TypeError(f"{name}: got both x and dx; expected one of them")


def trapz(y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """See `livegrad.trapezoid`."""
    return trapezoid(y, x, dx=dx, dim=dim)
