"""Matrix products: operands that BLAS can read in place, or copies of them, and the call.

Sizes, strides and transposes of the operands are all that a call needs; small products get operands
in plain order, so that their bits do not depend on how an operand came to lie in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from livegrad import dtypes
from livegrad.compiler.access import axis_strides, contiguous_strides, own_index, resolve
from livegrad.compiler.draft import Draft
from livegrad.compiler.legalise import Legaliser
from livegrad.compiler.lowerings.base import Kernel, Nodes
from livegrad.compiler.plan import BlasCall, Step, Where
from livegrad.graph.index import FIRST, Index
from livegrad.graph.node import Node
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import cast
from livegrad.ops.shaping.movement import EXPAND


class Product(Kernel):
    """Two inputs of rank 2 or more; leading dims are batches."""

    def legalise(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        """A product of operands that BLAS reads."""
        return walk.once(node, inputs, lambda: self._with_readable(walk, node, inputs))

    def _with_readable(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        dtype = node.meta.dtype
        if dtype in (dtypes.float16, dtypes.bfloat16):
            return _in_float32(walk, node, inputs)
        if not dtype.is_floating_point:
            return super().legalise(walk, node, inputs)  # NumPy's business
        wide = [_whole_batch(walk, x, node) for x in inputs]
        if is_tall(node):
            wide[0] = walk.in_order(wide[0])
        small = _is_small(node, inputs[0].meta.shape[-1])
        return walk.add(node, tuple([x if _readable(x, small) else walk.copy(x) for x in wide]))

    def bind(self, draft: Draft, node: Node) -> list[Step]:
        """A call of BLAS; integers are NumPy's."""
        if not node.meta.dtype.is_floating_point:
            return super().bind(draft, node)
        call = bind_product(node, draft.where, draft.first_int)
        return [Step("product", node.meta.shape, product=call)]


def _in_float32(walk: Legaliser, node: Node, inputs: Nodes) -> Node:
    op, dtype = node.op, node.meta.dtype
    return walk.rewrite(
        lambda *pair: cast(record(op, [cast(x, dtypes.float32) for x in pair]), dtype),
        *inputs,
        site=node.site,
    )


# OpenBLAS has kernels for small products, and for narrow ones cut into small pieces, that add in
# another order when an operand is transposed. See "Same bits" in docs/design.md.
SMALL_PRODUCT = 1_000_000
NARROW = 128


def _is_small(node: Node, inner: int) -> bool:
    return node.meta.shape[-1] <= NARROW or node.meta.numel * inner <= SMALL_PRODUCT


def _readable(x: Node, small: bool) -> bool:
    """Whether BLAS reads `x` in place, and gives the same bits as for `x` in plain order."""
    layout = blas_layout(x)
    if layout is None:
        return False
    if not small or 1 in x.meta.shape[-2:]:
        return True
    matrix = [at.axis for at in layout[1] if at != FIRST][-2:]
    return matrix == sorted(matrix)


def is_tall(node: Node) -> bool:
    """Whether a batch of products with one matrix on the right is done as a single tall product.

    Shapes alone decide: BLAS may round a row differently in a product of another height.
    """
    right = node.inputs[1].meta.shape[:-2]
    return prod(node.meta.shape[:-2]) > 1 and all(size == 1 for size in right)


def _whole_batch(walk: Legaliser, x: Node, node: Node) -> Node:
    """`x` with all batch dims of the product or none: one stride then leads to the next matrix."""
    wanted, have = node.meta.shape[:-2], x.meta.shape[:-2]
    if have == wanted or all(size == 1 for size in have):
        return x
    shape = (*wanted, *x.meta.shape[-2:])
    expanded = walk.rewrite(lambda t: record(EXPAND, (t,), (), (), shape), x, site=node.site)
    return walk.copy(expanded)


def blas_layout(x: Node) -> tuple[Node, Index] | None:
    """The base and index of a product's operand if BLAS can read it in place, else None.

    It can if the last dim in memory is the operand's row or column dim, the other one is a whole
    dim of the base, and batch dims are whole leading dims or absent.

        in memory   (…, rows, cols)               as it is
                    (…, cols, rows)               said to be transposed
                    (…, rows, 2 * cols)[…, ::2]   not: elements of a row must be neighbours
    """
    base, index = resolve(x, own_index(x.meta.shape))
    if base.op.kind == "generate":
        return None
    used = [at for at in index if at != FIRST]
    if any(at.coef != 1 or at.more for at in used):  # every other element, or two dims as one
        return None
    loops = [d for d, size in enumerate(x.meta.shape) if size != 1]
    batch = [d for d in loops if d < x.meta.ndim - 2]
    matrix = loops[len(batch) :]
    lead = len(used) - len(matrix)
    axes = [at.axis for at in used]
    if axes[:lead] not in ([], batch) or sorted(axes[lead:]) != matrix:
        return None
    if any(at.args or at.offset for at in used[:lead]):  # a call has one stride, from the start
        return None
    # The innermost dim in memory must belong to the matrix (or be of size 1 altogether).
    if matrix and index[-1] == FIRST and (len(matrix) == 2 or base.meta.shape[-1] != 1):
        return None
    return base, index


# ---------------------------------------------------------------------------------------- the call


@dataclass
class _Operand:
    base: Node
    trans: bool
    leading: int
    batch_stride: int  # elements; 0 for an operand without batch
    offset: int
    moves: list[tuple[int, int]]


def bind_product(node: Node, where: Callable[[Node], Where], first_int: int) -> BlasCall:
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
    return BlasCall(
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
