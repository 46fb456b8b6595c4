"""The functions of `livegrad.sparse` that are no methods."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn

import numpy as np

from livegrad.graph.handle import Handle, node_of
from livegrad.graph.record import record
from livegrad.ops.elementwise import arithmetic as ew
from livegrad.ops.elementwise.comparison import gt
from livegrad.ops.linalg.solving import solve as solve_dense
from livegrad.ops.making.generate import filled
from livegrad.ops.picking.gathering import embedding_lookup
from livegrad.ops.picking.index_writing import INDEX_FOLD
from livegrad.ops.products import matmul as dense_products
from livegrad.ops.shaping.movement import reshape_to
from livegrad.settings import sparse_coo, sparse_csc, sparse_csr
from livegrad.sparse import products
from livegrad.sparse.converting import added_to, dense
from livegrad.sparse.core import SparseTensor, like, make
from livegrad.sparse.pattern import Coo, tensor_of


def mm(mat1: Any, mat2: Any, reduce: str | None = None) -> Any:
    """The product of two matrices, at least one of them sparse.

    Of a CSR matrix and a dense one, `reduce` ("sum", "mean", "amax" or "amin") says how the terms
    of an element are put together.
    """
    sparse = isinstance(mat1, SparseTensor) or isinstance(mat2, SparseTensor)
    if reduce is None or reduce == "sum":
        return products.mm(mat1, mat2) if sparse else dense_products.mm(mat1, mat2)
    if reduce not in ("mean", "amax", "amin"):
        raise RuntimeError(
            "reduce argument must be either sum, mean, amax or amin, got " + str(reduce)
        )
    if not isinstance(mat1, SparseTensor) or mat1.layout is not sparse_csr:
        raise RuntimeError("sparse_mm_reduce: Expect self to be a CSR tensor")
    products.check_matrices("mm", mat1, mat2)
    rows, elements = products.by_rows(mat1)
    terms = ew.mul(
        reshape_to(elements, (len(rows.arrays[0]), 1)), embedding_lookup(mat2, rows.columns)
    )
    shape, dtype = (mat1.shape[0], mat2.shape[1]), node_of(terms).meta.dtype
    counts = np.bincount(rows.arrays[0], minlength=shape[0])
    count = ew.cast(tensor_of(counts.reshape(-1, 1)), dtype)
    if reduce == "mean":
        total = added_to(filled(shape, 0, dtype), rows.rows, terms)
        return ew.div(total, ew.where(gt(count, 0), count, 1))
    start = -float("inf") if reduce == "amax" else float("inf")
    found = record(INDEX_FOLD, (filled(shape, start, dtype), rows.rows, terms), (0, reduce))
    return ew.where(gt(count, 0), found, 0)


def addmm(mat: Any, mat1: Any, mat2: Any, *, beta: Any = 1.0, alpha: Any = 1.0) -> Any:
    """`beta * mat + alpha * (mat1 @ mat2)`, with a sparse `mat1`."""
    return products.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def spdiags(diagonals: Any, offsets: Any, shape: Any, layout: Any = None) -> Any:
    """The sparse matrix with the rows of `diagonals` as diagonals.

    `offsets` says which: 0 is the main one, positive ones lie above it. The element in column j of
    a diagonal is element j of its row.
    """
    if layout not in (None, sparse_coo, sparse_csr, sparse_csc):
        raise RuntimeError(
            f"Only output layouts (Sparse, SparseCsr, SparseCsc) are supported, got {layout!r}"
        )
    if diagonals.ndim not in (1, 2):
        raise RuntimeError("Diagonals must be vector or matrix")
    if len(shape) != 2:
        raise RuntimeError("Output shape must be 2d")
    rows = reshape_to(diagonals, (1, *diagonals.shape)) if diagonals.ndim == 1 else diagonals
    which = np.atleast_1d(offsets._values("sparse indices"))
    if which.ndim != 1:
        raise RuntimeError("Offsets must be scalar or vector")
    if len(which) != rows.shape[0]:
        raise RuntimeError(
            f"Number of diagonals ({rows.shape[0]}) does not match the number of offsets "
            f"({len(which)})"
        )
    if len(set(which.tolist())) != len(which):
        raise RuntimeError("Offset tensor contains duplicate values")
    height, width = (int(n) for n in shape)
    length = rows.shape[1]
    row = np.repeat(np.arange(len(which)), length)
    column = np.tile(np.arange(length), len(which))
    line = column - which[row]
    keep = (line >= 0) & (line < height) & (column < width)
    places = tensor_of((row * length + column)[keep])
    elements = embedding_lookup(reshape_to(rows, (len(which) * length,)), places)
    pattern = Coo(tensor_of(np.stack([line[keep], column[keep]])), (height, width))
    out = make(pattern, elements, (height, width))
    return out if layout in (None, sparse_coo) else out.to_sparse(layout=layout)


def spsolve(input: Any, other: Any, *, left: bool = True) -> Any:
    """The solution x of `input @ x = other`, computed with `input` as a dense matrix."""
    if not isinstance(input, SparseTensor) or input.layout is not sparse_csr:
        raise RuntimeError("spsolve: expected a CSR tensor as the matrix")
    if not left:
        raise RuntimeError("spsolve: only left=True is supported")
    return solve_dense(dense(input), other)


solve = spsolve


def as_sparse_gradcheck(gradcheck: Callable[..., Any]) -> Callable[..., Any]:
    """`gradcheck` for functions that take or give sparse tensors: it checks their elements."""

    @wraps(gradcheck)
    def check(func: Callable[..., Any], inputs: Any, **options: Any) -> Any:
        options.pop("masked", None)
        options.pop("check_sparse_nnz", None)
        given: list[Any] = [inputs] if isinstance(inputs, Handle) else list(inputs)
        elements = [x._elements.detach() if _is_checked(x) else x for x in given]
        for x, e in zip(given, elements, strict=True):
            if _is_checked(x):
                e.requires_grad_()

        def of_elements(*args: Any) -> Any:
            made = [like(x, e) if _is_checked(x) else e for x, e in zip(given, args, strict=True)]
            result = func(*made)
            if isinstance(result, list | tuple):
                return tuple([dense(y) if isinstance(y, SparseTensor) else y for y in result])
            return dense(result) if isinstance(result, SparseTensor) else result

        return gradcheck(of_elements, tuple(elements), **options)

    return check


def _is_checked(x: Any) -> bool:
    return isinstance(x, SparseTensor) and x.requires_grad


def to_sparse_semi_structured(original_tensor: Any, transposed: bool = False) -> NoReturn:
    """RuntimeError: such tensors exist on GPUs only."""
    raise RuntimeError(
        f"Error original_tensor.device= {original_tensor.device} is not supported! Only CUDA "
        "tensors are currently supported."
    )
