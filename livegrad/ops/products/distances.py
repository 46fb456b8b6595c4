"""Distances between points, norms held down, and the powers of a vector."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.blame import as_float, check_number
from livegrad.graph.handle import node_of
from livegrad.graph.infer import broadcast_shapes
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.graph.views import row_major
from livegrad.ops.elementwise.arithmetic import abs, add, cast, div, mul, sgn, sub, where
from livegrad.ops.elementwise.comparison import eq, gt
from livegrad.ops.elementwise.host_functions import need_tensors
from livegrad.ops.elementwise.power import pow
from livegrad.ops.layers.composite import broadcast_over as broadcast
from livegrad.ops.making.constants import from_array
from livegrad.ops.making.generate import filled, zeros_like
from livegrad.ops.picking.gathering import index_select
from livegrad.ops.reductions.reduce import wide
from livegrad.ops.reductions.scan import cumprod
from livegrad.ops.reductions.statistics import norm
from livegrad.ops.shaping.joining import cat
from livegrad.ops.shaping.movement import expand, normal_dim, reshape_to
from livegrad.ops.shaping.slicing import flip
from livegrad.ops.support import parts, samples as s
from livegrad.ops.support.autocast import in_float32
from livegrad.ops.support.out import exact, taking_expanded

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]


# ------------------------------------------------------------------------ lengths of differences


def _distance_backward(n: Any, g: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The gradient of a distance; 0 where it is 0, and all of it to each of the largest for inf."""
    (p,) = n.attrs
    if p == 0:
        return zeros_like(x)
    last = (*node_of(y).meta.shape, 1)
    g, length, x = wide(reshape_to(g, last)), wide(reshape_to(y, last)), wide(x)
    apart = where(eq(length, 0), 1, length)
    g = where(eq(length, 0), 0, g)
    if p == 1:
        slope = mul(g, sgn(x))
    elif p == 2:
        slope = mul(x, div(g, apart))
    elif math.isinf(p):
        slope = mul(where(eq(abs(x), length), sgn(x), 0), g)
    else:
        size = where(eq(x, 0), 1, abs(x))
        slope = mul(mul(sgn(x), pow(size, p - 1)), div(g, pow(apart, p - 1)))
    return cast(slope, n.meta.dtype)


DISTANCE_BACKWARD: Op = Op(
    "distance_backward",
    "composite",
    # Inputs (g, differences, distances), attrs (p,).
    infer=lambda metas, attrs, shape: metas[1],
    expand=_distance_backward,
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3), s.uniform(3, 4, seed=1)),
            lambda g, x: record(DISTANCE_BACKWARD, (g, x, distance(x, 3.0)), (3.0,)),
        ),
    ),
)
DISTANCE = Op(
    "distance",
    "composite",
    # The p-norm over the last dim: attrs (p,).
    infer=lambda metas, attrs, shape: meta_of(metas[0].shape[:-1], metas[0].dtype),
    expand=lambda n, x: norm(x, n.attrs[0], -1),
    grads=(lambda g, y, x: record(DISTANCE_BACKWARD, (g, x, y), y._node.attrs),),
    grad_fn=parts.distance,
    samples=s.calls(
        lambda: s.Sample((s.uniform(2, 3), s.uniform(4, 3, seed=1)), lambda a, b: cdist(a, b)),
        lambda: s.Sample((s.uniform(2, 3), s.uniform(4, 3, seed=1)), lambda a, b: cdist(a, b, 1)),
        lambda: s.Sample((s.uniform(4, 3),), lambda x: pdist(x, 3.0)),
        lambda: s.Sample((s.uniform(4, 3),), lambda x: pdist(x, math.inf)),
        lambda: s.Sample((s.uniform(2, 3), s.uniform(0, 3)), lambda a, b: cdist(a, b)),
    ),
)


def distance(difference: Tensor, p: float) -> Tensor:
    """The `p`-norm over the last dim, with PyTorch's gradients for distances."""
    meta = node_of(difference).meta
    if not meta.shape[-1]:
        return filled(meta.shape[:-1], 0, meta.dtype)
    return record(DISTANCE, (difference,), (as_float(p),))


def _check_points(name: str, meta: Meta, p: float) -> None:
    if meta.dtype.category != dtypes.FLOAT:
        raise RuntimeError(
            f"{name} only supports floating-point dtypes; got {meta.dtype.name}. Convert with "
            ".float() first"
        )
    if not p >= 0:
        raise RuntimeError(f"{name} only supports non-negative p values; got {p}")


@in_float32
def cdist(
    x1: Tensor,
    x2: Tensor,
    p: float = 2.0,
    compute_mode: str | None = "use_mm_for_euclid_dist_if_necessary",
) -> Tensor:
    """The `p`-norm distance of every row of `x1` (…, P, M) to every row of `x2` (…, R, M).

    Args:
        compute_mode: accepted as in PyTorch; distances are always those of the differences.

    Example:
        >>> lg.cdist(lg.tensor([[0.0, 0.0]]), lg.tensor([[3.0, 4.0], [1.0, 0.0]]))
        tensor([[5., 1.]])
    """
    a, b = node_of(x1).meta, node_of(x2).meta
    for name, meta in (("x1", a), ("x2", b)):
        if meta.ndim < 2:
            raise RuntimeError(
                f"cdist only supports at least 2D tensors; got {name} of {list(meta.shape)}"
            )
        _check_points("cdist", meta, p)
    if a.shape[-1] != b.shape[-1]:
        raise RuntimeError(
            f"cdist: x1 and x2 must have the same number of columns; got {a.shape[-1]} and "
            f"{b.shape[-1]}"
        )
    batch = broadcast_shapes("cdist", [a.shape[:-2], b.shape[:-2]])
    x1 = broadcast(x1, (*batch, *a.shape[-2:]))
    x2 = broadcast(x2, (*batch, *b.shape[-2:]))
    rows = reshape_to(x1, (*batch, a.shape[-2], 1, a.shape[-1]))
    others = reshape_to(x2, (*batch, 1, b.shape[-2], b.shape[-1]))
    return distance(sub(rows, others), p)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The `p`-norm distances of all pairs of rows, as one row: of 0 and 1, 0 and 2, … 1 and 2, …"""
    meta = node_of(input).meta
    if meta.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors; got {meta.ndim}D")
    _check_points("pdist", meta, p)
    first, second = [_constant(x) for x in np.triu_indices(meta.shape[0], 1)]
    return distance(sub(index_select(input, 0, first), index_select(input, 0, second)), p)


def _constant(array: Array) -> Tensor:
    return from_array(np.ascontiguousarray(array, np.int64))


def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The `p`-norm of `input - other`."""
    need_tensors("dist", input=input, other=other)
    return norm(sub(input, other), p)


@taking_expanded
@exact
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """`input` with each slice along `dim` scaled down to a `p`-norm of at most `maxnorm`."""
    meta = node_of(input).meta
    check_number(p, maxnorm)
    if not p > 0:
        raise RuntimeError(f"renorm: non-positive-norm not supported; got p {p}")
    if meta.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {meta.ndim} dimensions")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    d = normal_dim("renorm", dim, meta.ndim)
    length = norm(input, p, [i for i in range(meta.ndim) if i != d], True)
    # PyTorch's guard against a division that rounds up.
    scale = where(gt(length, maxnorm), div(maxnorm, add(length, 1e-7)), 1)
    return row_major(mul(input, scale))


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The matrix of the powers of a vector: columns `x**(N-1) … x**0`, or the other way around."""
    meta = node_of(x).meta
    if meta.ndim != 1:
        raise RuntimeError(f"vander: x must be a one-dimensional tensor; got {list(meta.shape)}")
    if N is not None and N < 0:
        raise RuntimeError(f"vander: N must be non-negative; got {N}")
    rising = _powers(x, meta.shape[0] if N is None else N)
    return rising if increasing else flip(rising, -1)


def _powers(x: Tensor, count: int) -> Tensor:
    meta = node_of(x).meta
    dtype = dtypes.int64 if meta.dtype.category < dtypes.FLOAT else meta.dtype
    if not count:
        return filled((*meta.shape, 0), 0, dtype)
    ones = filled((*meta.shape, 1), 1, dtype)
    if count == 1:
        return ones
    repeated = expand(reshape_to(cast(x, dtype), (*meta.shape, 1)), (*meta.shape, count - 1))
    return cat([ones, cumprod(repeated, -1)], -1)
