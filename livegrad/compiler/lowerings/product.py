"""Matrix products: what multiplies brings its operands together itself, wherever they lie.

Loops go on from the sums (compiler/rows.py), with what is computed from them: biases, activations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from livegrad import dtypes
from livegrad.compiler.access import axis_strides, own_index, resolve
from livegrad.compiler.describe import Describer, Factors, Windows
from livegrad.compiler.fuse import Fuser
from livegrad.compiler.groups import Read
from livegrad.compiler.legalise import Legaliser
from livegrad.compiler.lowerings.base import Looped, Nodes
from livegrad.compiler.products import summed_as
from livegrad.compiler.signature import Stream
from livegrad.dtypes import DType
from livegrad.graph.index import FIRST, Along, Index
from livegrad.graph.node import Node
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import cast, mul
from livegrad.ops.products.matmul import WIDE_MATMUL

# What native code multiplies; others are made of these first.
NATIVE = (dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64)


class Product(Looped):
    """Two inputs of rank 2 or more; leading dims are batches, broadcast against each other."""

    label = "product"

    def __init__(self, quads: bool = False) -> None:
        """Terms are `quads` if they are four bytes each (compiler/quads.py)."""
        self.quads = quads

    def legalise(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        """A product of operands in memory, of which either terms or lines are neighbours."""
        dtype, single = node.meta.dtype, inputs[0].meta.shape[-1] == 1
        if dtype not in NATIVE:
            halves = dtype.is_floating_point and not single
            make = of_halves if halves else in_wide
            return walk.once(node, inputs, lambda: make(walk, node, inputs))
        if single and not self.quads:
            return walk.rewrite(mul, *inputs, site=node.site)
        a, b = inputs
        a = a if is_readable(a, a.meta.ndim - 2, a.meta.ndim - 1) else walk.copy(a)
        b = b if is_readable(b, b.meta.ndim - 1, b.meta.ndim - 2) else walk.copy(b)
        return walk.add(node, (a, b))

    def group(self, fuser: Fuser, node: Node) -> None:
        """Loops of its own, which what is computed from it may join.

        Columns are walked sixteen at a time; if there is but one, rows are.
        """
        rows, columns = (node.meta.ndim - 2,), (node.meta.ndim - 1,)
        single = node.meta.shape[-1] == 1
        fuser.place_product(node, *(((), rows) if single else (rows, columns)))

    def from_memory(self, node: Node) -> Nodes:
        """Both operands."""
        return node.inputs

    def reads(self, node: Node, index: Index) -> Iterable[Read]:
        """All terms of a row and of a column."""
        return [Read(*resolve(x, at), memory=True) for x, at in _operands(node, index)]

    def describe(self, kernel: Describer, node: Node, index: Index) -> int:
        """An instruction that has what the product comes to.

        The right operand is the one that changes along columns: the first one if the second is a
        single column.
        """
        operands = kernel.fuser.direct_reads(node, index)
        turned = node.meta.shape[-1] == 1
        if turned:
            operands = operands[::-1]
        quads = ("right" if turned else "left") if self.quads else ""
        return multiplied(kernel, node.inputs[0].meta.shape[-1], operands, quads=quads)


def multiplied(
    kernel: Describer,
    terms: int,
    operands: Sequence[Read],
    windows: Windows | None = None,
    quads: str = "",
) -> int:
    """The instruction that has what a product of two operands comes to."""
    dtype = operands[0].node.meta.dtype
    left, right = [
        kernel.stream(read.node, read.index, Stream(dtype, 0, "operand")) for read in operands
    ]
    number = kernel.multiplied(Factors(terms, left, right, dtype, windows, quads))
    full = bool(kernel.inner)
    sums = summed_as(dtype)
    return kernel.add("product", (number, left, right), (), sums, full, fixed=False)


def _operands(node: Node, index: Index) -> Iterable[tuple[Node, Index]]:
    """Both inputs, and where they are read: the loop over terms is counted after all others."""
    terms = Along(node.meta.ndim)
    *batch, row, column = index
    for x, last in zip(node.inputs, ((row, terms), (terms, column)), strict=True):
        shape = x.meta.shape
        at = (*batch[len(batch) - (len(shape) - 2) :], *last)
        yield (
            x,
            tuple([FIRST if size == 1 else along for size, along in zip(shape, at, strict=True)]),
        )


def is_readable(x: Node, lines: int, terms: int) -> bool:
    """Whether terms are neighbours in memory, or lines are."""
    shape = x.meta.shape
    base, index = resolve(x, own_index(shape))
    if base.op.kind == "generate":
        return False
    strides = axis_strides(index, base.meta.shape, len(shape))
    return strides[terms] == 1 or (shape[lines] != 1 and strides[lines] == 1)


def of_halves(walk: Legaliser, node: Node, inputs: Nodes) -> Node:
    """Half precisions are read as they are, and summed in float32."""
    dtype = node.meta.dtype

    def make(*pair: Any) -> Any:
        return cast(record(WIDE_MATMUL, pair), dtype)

    return walk.rewrite(make, *inputs, site=node.site)


def in_wide(walk: Legaliser, node: Node, inputs: Nodes) -> Node:
    """Half precisions by way of float32, small integers of int32: which wrap as they would."""
    op, dtype, attrs, shape = node.op, node.meta.dtype, node.attrs, node.meta.shape
    wide = dtypes.float32 if dtype.is_floating_point else _wide_integer(dtype)

    def make(*pair: Any) -> Any:
        return cast(record(op, [cast(x, wide) for x in pair], attrs, (), shape), dtype)

    return walk.rewrite(make, *inputs, site=node.site)


def _wide_integer(dtype: DType) -> DType:
    return dtypes.int64 if dtype.itemsize > 4 else dtypes.int32
