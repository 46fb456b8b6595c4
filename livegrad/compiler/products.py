"""Matrix products: sizes, strides and transposes of the operands, for a BLAS call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from livegrad.compiler.access import axis_strides, contiguous_strides
from livegrad.compiler.bind import Where
from livegrad.compiler.legalise import blas_layout, is_tall
from livegrad.dtypes import DType
from livegrad.graph.node import Node


@dataclass
class Product:
    """C = A @ B for a batch of row-major matrices; leading dims in elements, batch in bytes."""

    dtype: DType
    sizes: tuple[int, int, int]
    leading: tuple[int, int, int]
    trans: tuple[bool, bool]
    batch: int
    batch_strides: tuple[int, int, int]
    wheres: tuple[Where, Where, Where]
    # Run-time terms of the operands' addresses: (operand, slot of the integer, bytes per unit).
    moves: list[tuple[int, int, int]]


@dataclass
class _Operand:
    base: Node
    trans: bool
    leading: int
    batch_stride: int  # elements; 0 for an operand without batch
    offset: int
    moves: list[tuple[int, int]]


def bind_product(node: Node, where: Callable[[Node], Where], first_int: int) -> Product:
    """The product that `node` stands for."""
    a, b = node.inputs
    left, right = _operand(a), _operand(b)
    m, n = node.meta.shape[-2:]
    k = a.meta.shape[-1]
    batch = prod(node.meta.shape[:-2])
    leading = left.leading
    if is_tall(node):
        m, batch, leading = m * batch, 1, k
    size = node.meta.dtype.itemsize
    places = []
    for operand in (left, right):
        base = where(operand.base)
        places.append(Where(base.slot, base.offset + operand.offset * size))
    moves = [
        (number, first_int + slot, elements * size)
        for number, operand in enumerate((left, right))
        for slot, elements in operand.moves
    ]
    return Product(
        node.meta.dtype,
        (m, n, k),
        (leading, right.leading, n),
        (left.trans, right.trans),
        batch,
        (left.batch_stride * size, right.batch_stride * size, m * n * size),
        (places[0], places[1], where(node)),
        moves,
    )


def _operand(x: Node) -> _Operand:
    layout = blas_layout(x)
    assert layout is not None, "legalise copies operands that BLAS cannot read"
    base, index = layout
    ndim = x.meta.ndim
    rows, cols = ndim - 2, ndim - 1
    strides = axis_strides(index, base.meta.shape, ndim)
    row_size, col_size = x.meta.shape[rows], x.meta.shape[cols]
    # The dim that lies innermost in memory has step 1; a dim of size 1 fits either way.
    trans = strides[cols] != 1 and col_size != 1 and (strides[rows] == 1 or row_size == 1)
    leading = strides[cols] if trans else strides[rows]
    batch_axes = [d for d in range(rows) if x.meta.shape[d] != 1 and strides[d]]
    batch_stride = strides[batch_axes[-1]] if batch_axes else 0
    offset, moves = 0, []
    for at, stride in zip(index, contiguous_strides(base.meta.shape), strict=True):
        offset += at.offset * stride
        moves += [(slot, mult * stride) for slot, mult in at.args]
    return _Operand(base, trans, leading, batch_stride, offset, moves)
