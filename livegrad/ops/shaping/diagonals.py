"""Diagonals: views of them, and matrices with one replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.handle import node_of
from livegrad.graph.index import Index, stepped
from livegrad.graph.layout import Strides
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.graph.views import view as record_view
from livegrad.ops.elementwise.arithmetic import add, where
from livegrad.ops.elementwise.comparison import eq
from livegrad.ops.making.generate import counting, filled
from livegrad.ops.shaping.joining import padded
from livegrad.ops.shaping.movement import PERMUTE, inverse_order, normal_dim, reshape_to, whole
from livegrad.ops.support import samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Attrs = tuple[Any, ...]
Metas = tuple[Meta, ...]


def _diagonal_view(n: Any, index: Index) -> Index:
    (dim1, dim2), (start1, start2) = n.attrs, n.args
    result = list(index[:-1])
    along = index[-1]
    first, second = sorted(((dim1, start1), (dim2, start2)))
    result.insert(first[0], stepped(along, 1, first[1]))
    result.insert(second[0], stepped(along, 1, second[1]))
    return tuple(result)


def _diagonal_ref(n: Any, x: Any) -> Any:
    return np.diagonal(x, n.args[1] - n.args[0], *n.attrs)[..., : n.meta.shape[-1]]


def with_diagonal(base: Tensor, value: Tensor, attrs: Attrs, args: tuple[int, ...]) -> Tensor:
    """`base` with the diagonal that DIAGONAL would read replaced by `value`."""
    dim1, dim2 = attrs
    rows, columns = base.shape[dim1], base.shape[dim2]
    shape = [1] * len(base.shape)
    row = reshape_to(counting(rows), _one_at(shape, dim1, rows))
    column = reshape_to(counting(columns), _one_at(shape, dim2, columns))
    count = node_of(value).meta.shape[-1]
    if count:
        on_it = eq(add(row, args[1]), add(column, args[0]))
    else:  # outside the matrix
        on_it = filled(tuple(shape), False, dtypes.bool_)
    # Spread the values along the rows they belong to: (..., rows) -> a dim of size 1 at dim2.
    spread = padded(value, value.ndim - 1, args[0] if count else 0, rows)
    order = [d for d in range(len(shape)) if d not in (dim1, dim2)] + [dim1]
    spread = record(PERMUTE, (spread,), (inverse_order(_ranked(order)),))
    wide = tuple([1 if d == dim2 else size for d, size in enumerate(base.shape)])
    return where(on_it, reshape_to(spread, wide), base)


def _one_at(ones: list[int], dim: int, size: int) -> Shape:
    return tuple([size if d == dim else 1 for d in range(len(ones))])


def _ranked(order: list[int]) -> tuple[int, ...]:
    """Dims numbered without gaps, in the same order."""
    return tuple([sorted(order).index(d) for d in order])


def _diagonal_layout(metas: Metas, attrs: Attrs, meta: Meta) -> Strides:
    strides = metas[0].stride()
    rest = [step for d, step in enumerate(strides) if d not in attrs]
    return (*rest, strides[attrs[0]] + strides[attrs[1]])


def _diagonal_offset(before: int, meta: Meta, attrs: Attrs, args: tuple[int, ...]) -> int:
    strides = meta.stride()
    return before + strides[attrs[0]] * args[0] + strides[attrs[1]] * args[1]


DIAGONAL: Op = Op(
    "diagonal",
    "movement",
    # The elements (i + args[0], i + args[1]) of two dims, as a last dim: attrs (dim1, dim2).
    infer=lambda metas, attrs, shape: meta_of(shape, metas[0].dtype),
    ref=_diagonal_ref,
    view=_diagonal_view,
    write=with_diagonal,
    grads=(lambda g, y, x: on_diagonal(g, y._node.attrs, y._node.args, node_of(x).meta.shape),),
    layout=_diagonal_layout,
    offset=_diagonal_offset,
    saves="",
    batch=lambda n, size, xs, batched: record(
        DIAGONAL, xs, tuple([d + 1 for d in n.attrs]), n.args, (size, *n.meta.shape)
    ),
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 4),), lambda x: diagonal(x)),
        lambda: s.Sample((s.uniform(4, 3),), lambda x: diagonal(x, 1)),
        lambda: s.Sample((s.uniform(2, 3, 4),), lambda x: diagonal(x, -1, 2, 0)),
        lambda: s.Sample((s.uniform(3, 3),), lambda x: diagonal(x, 5)),
    ),
)


DIAGONAL_SPREAD: Op = Op(
    "diagonal_spread",
    "composite",
    # The adjoint of DIAGONAL, with the same attrs and args: zeros but for a diagonal.
    infer=lambda metas, attrs, shape: meta_of(shape, metas[0].dtype),
    expand=lambda n, x: with_diagonal(filled(n.meta.shape, 0, n.meta.dtype), x, n.attrs, n.args),
    grads=(
        lambda g, y, x: record(DIAGONAL, (g,), y._node.attrs, y._node.args, node_of(x).meta.shape),
    ),
    saves="",
    grad_fn="DiagEmbedBackward0",
    samples=s.calls(
        lambda: s.Sample((s.uniform(3),), lambda x: on_diagonal(x, (0, 1), (0, 1), (3, 4))),
        lambda: s.Sample((s.uniform(2, 3),), lambda x: on_diagonal(x, (2, 0), (1, 0), (3, 2, 4))),
    ),
)


def on_diagonal(x: Tensor, dims: Attrs, start: tuple[int, ...], shape: Shape) -> Tensor:
    """Zeros of `shape` with the last dim of `x` on a diagonal of two dims, from `start` on."""
    return record(DIAGONAL_SPREAD, (x,), dims, start, shape)


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of two dims, `offset` above the main one, as a last dim: a view.

    Example:
        >>> lg.diagonal(lg.arange(4).view(2, 2))
        tensor([0, 3])
    """
    shape = node_of(input).meta.shape
    first = normal_dim("diagonal", dim1, len(shape))
    second = normal_dim("diagonal", dim2, len(shape))
    if first == second:
        raise RuntimeError(
            f"diagonal: diagonal dimensions cannot be identical {dim1}, {dim2}; expected two dims"
        )
    offset = whole("diagonal", "offset", offset)
    start = (max(-offset, 0), max(offset, 0))
    length = max(min(shape[first] - start[0], shape[second] - start[1]), 0)
    rest = [size for d, size in enumerate(shape) if d not in (first, second)]
    if not length:
        start = (0, 0)
    return record_view(DIAGONAL, input, (first, second), start, (*rest, length))
