"""ADD_OUTER: outer products added to a matrix, one after the other.

The gradient of a weight that n rows were multiplied with, one by one, is a sum of n outer products.
Lists of pieces (runtime/cpu/pieces/uses.py) add several of them at a time, in the same order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add
from livegrad.ops.products.matmul import MATMUL, transposed
from livegrad.ops.support import samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def _expand(n: Any, total: Tensor, *rows: Tensor) -> Tensor:
    # As gradient rules of products and sums of gradients have it: the same bits.
    for a, b in zip(rows[::2], rows[1::2], strict=True):
        total = add(total, record(MATMUL, (transposed(a), b)))
    return total


ADD_OUTER = Op(
    "add_outer",
    "composite",
    # Inputs (total, a, b, a, b, …): a matrix, and pairs of rows of shapes (1, k) and (1, n).
    infer=lambda metas, attrs, shape: metas[0],
    expand=_expand,
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 4), s.uniform(1, 3), s.uniform(1, 4)), add_outer),
        lambda: s.Sample(
            (s.uniform(3, 3), *[s.uniform(1, 3, seed=i) for i in range(4)]), add_outer
        ),
    ),
)


def add_outer(total: Tensor, *rows: Tensor) -> Tensor:
    """`total + a.T @ b + …` for pairs of rows, each product added by itself."""
    return record(ADD_OUTER, (total, *rows))
