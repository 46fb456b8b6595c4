"""Products by matrices of which only some elements are there: `livegrad.sparse` is written with it.

A matrix is given by its rows: those elements of row r that are there lie from offsets[r] up to
offsets[r + 1] in `columns` and `values`.

    out[r] = Σ values[i] * dense[columns[i]]   for i from offsets[r] up to offsets[r + 1], in order

Gradients need the rows of the elements, and, for that of the dense matrix, the same by columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad.graph.handle import node_of
from livegrad.graph.lowering import lowered_by
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import mul
from livegrad.ops.elementwise.conjugate import conj
from livegrad.ops.picking.gathering import embedding_lookup
from livegrad.ops.reductions.reduce import sum as sum_of
from livegrad.ops.shaping.movement import permute, reshape_to
from livegrad.ops.support import samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]
Attrs = tuple[Any, ...]
Metas = tuple[Meta, ...]


def _ref(n: Any, offsets: Array, columns: Array, values: Array, dense: Array, *_: Array) -> Array:
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    out = np.zeros((len(offsets) - 1, dense.shape[1]), dense.dtype)
    np.add.at(out, rows, values[:, None] * dense[columns])
    return out


def _infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    offsets, _, values, dense = metas[:4]
    if values.dtype is not dense.dtype:
        raise RuntimeError(
            f"sparse product: expected matrices of one dtype; got {values.dtype.name} and "
            f"{dense.dtype.name}"
        )
    return meta_of((offsets.shape[0] - 1, dense.shape[1]), dense.dtype)


def _complaint(node: Any, value: int) -> tuple[type[Exception], str]:
    size = node.inputs[3].meta.shape[0]
    return IndexError, f"sparse product: column {value} is out of bounds for {size} columns"


def _values_grad(
    g: Tensor, y: Tensor, offsets: Tensor, columns: Tensor, values: Tensor, dense: Tensor,
    rows: Tensor, *_: Tensor,
) -> Tensor:  # fmt: skip
    return dots(rows, columns, g, conj(dense))


def _dense_grad(
    g: Tensor, y: Tensor, offsets: Tensor, columns: Tensor, values: Tensor, dense: Tensor,
    rows: Tensor, offsets_down: Tensor, down: Tensor, across: Tensor,
) -> Tensor:  # fmt: skip
    inputs = (
        offsets_down, embedding_lookup(rows, down), embedding_lookup(conj(values), down), g,
        embedding_lookup(columns, down), offsets, across, down,
    )  # fmt: skip
    return record(SPARSE_PRODUCT, inputs)


def _batch(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Any:
    """One sparse matrix times many dense ones is the product with all of them side by side."""
    if any(batched[:3]) or any(batched[4:]):
        return NotImplemented
    offsets, columns, values, dense, *more = xs
    _, height, width = node_of(dense).meta.shape
    wide = reshape_to(permute(dense, 1, 0, 2), (height, size * width))
    out = record(n.op, (offsets, columns, values, wide, *more))
    return permute(reshape_to(out, (n.meta.shape[0], size, width)), 1, 0, 2)


def _example() -> tuple[Array, ...]:
    """A matrix of 4 rows and 5 columns, one of the rows empty, as `SPARSE_PRODUCT` takes it."""
    rows, columns = np.array([0, 0, 2, 3, 3, 3]), np.array([4, 1, 0, 1, 1, 3])
    down = np.argsort(columns, kind="stable")
    begins = [np.searchsorted(np.sort(x), np.arange(n + 1)) for x, n in ((rows, 4), (columns, 5))]
    return (begins[0], columns, rows, begins[1], down, np.argsort(down))


def _sampled(*width: int) -> Any:
    offsets, columns, *more = _example()
    inputs = (offsets, columns, s.uniform(6), s.uniform(5, *width, seed=1), *more)
    return s.Sample(inputs, lambda *tensors: record(SPARSE_PRODUCT, tensors))


SPARSE_PRODUCT: Op = Op(
    "sparse_product",
    "kernel",
    # Inputs (offsets, columns, values, dense matrix), and for gradients (row of each element[, the
    # offsets of columns, elements in their order, and the places where these are by rows]).
    infer=_infer,
    ref=_ref,
    lower=lowered_by("sparse_product.SparseProduct"),
    complaint=_complaint,
    grads=(None, None, _values_grad, _dense_grad, None, None, None, None),
    saves="x",
    batch=_batch,
    flops=lambda node: 2 * node.inputs[1].meta.numel * node.meta.shape[1],
    grad_fn="MmBackward0",
    samples=s.calls(lambda: _sampled(3), lambda: _sampled(21), lambda: _sampled(70)),
)


def dots(rows: Tensor, columns: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """The products left[rows[i]] · right[columns[i]] of rows of two matrices."""
    return sum_of(mul(embedding_lookup(left, rows), embedding_lookup(right, columns)), -1)


__all__ = ["SPARSE_PRODUCT", "dots"]
