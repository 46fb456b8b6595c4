"""Products of sparse matrices: with dense ones, and with each other.

A sparse matrix times a dense one is one op (`ops/products/sparse_product.py`), by rows. What it
needs to know of the rows is worked out once per pattern, and so is the same by columns, which the
gradient of the dense matrix takes.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad.graph.elsewhere import not_for_sparse
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.record import record
from livegrad.graph.state import LOCAL
from livegrad.ops.elementwise import arithmetic as ew
from livegrad.ops.making.generate import filled
from livegrad.ops.picking.gathering import embedding_lookup
from livegrad.ops.products import matmul as dense_products
from livegrad.ops.products.sparse_product import SPARSE_PRODUCT, dots
from livegrad.ops.shaping.movement import reshape_to, transpose
from livegrad.settings import sparse_csr
from livegrad.sparse.converting import (
    added_to,
    by_coordinates,
    dense,
)
from livegrad.sparse.core import SparseTensor, like, make
from livegrad.sparse.moving import transpose as transpose_sparse
from livegrad.sparse.pattern import Compressed, Coo, Rows, tensor_of
from livegrad.sparse.pointwise import add, mul

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def by_rows(x: SparseTensor) -> tuple[Rows, Tensor]:
    """A matrix (or several, one below the other) by rows, and its elements in that order."""
    pattern = x._pattern
    if isinstance(pattern, Compressed):
        if pattern.blocked:
            return by_rows(by_coordinates(x))
        pattern, elements = pattern.coordinates(), x._elements
        if node_of(elements).meta.ndim > 1:
            elements = reshape_to(elements, (node_of(elements).meta.numel,))
    else:
        elements = x._elements
    assert isinstance(pattern, Coo)
    rows = pattern.rows()
    return rows, elements if rows.places is None else embedding_lookup(elements, rows.places)


def _product(x: SparseTensor, y: Tensor) -> Tensor:
    """A sparse matrix times a dense one."""
    rows, elements = by_rows(x)
    inputs = [rows.offsets, rows.columns, elements, y]
    if LOCAL.state.grad and (node_of(elements).requires_grad or node_of(y).requires_grad):
        inputs.append(rows.rows)
        if node_of(y).requires_grad:
            inputs += rows.down()
    return record(SPARSE_PRODUCT, inputs)


def _sizes(x: Any) -> str:
    return "x".join([str(n) for n in x.shape])


def check_matrices(name: str, a: Any, b: Any) -> None:
    """RuntimeError unless two matrices can be multiplied."""
    for x, which in ((a, "mat1"), (b, "mat2")):
        if x.ndim != 2:
            raise RuntimeError(f"{name}: {which} must be a matrix; got a {x.ndim}-D tensor")
        if isinstance(x, SparseTensor) and x.dense_dim():
            raise RuntimeError(
                f"{name}: expected {which} to have no dense dims; got {x.dense_dim()}"
            )
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({_sizes(a)} and {_sizes(b)})"
        )
    if node_of(a).meta.dtype is not node_of(b).meta.dtype:
        kinds = [node_of(x).meta.dtype.name for x in (a, b)]
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {kinds[0]} != {kinds[1]}"
        )


def mm(input: Any, mat2: Any) -> Any:
    """The product of two matrices, one of them at least sparse."""
    check_matrices("mm", input, mat2)
    if isinstance(input, SparseTensor):
        return _sparse_times_sparse(input, mat2) if _is_sparse(mat2) else _product(input, mat2)
    # The dense one is on the left: the transposed of a product is one of transposed matrices.
    return transpose(_product(transpose_sparse(mat2, 0, 1), transpose(input, 0, 1)), 0, 1)


def _is_sparse(x: Any) -> bool:
    return isinstance(x, SparseTensor)


def _sparse_times_sparse(a: SparseTensor, b: SparseTensor) -> Any:
    """Each element of `a` meets those of a row of `b`; what comes to one place adds up."""
    left, elements = by_rows(a)
    right, others = by_rows(b)
    rows, columns = left.arrays
    starts = right.offsets._values("sparse indices")
    counts = np.diff(starts)[columns]
    first = np.repeat(np.arange(len(columns)), counts)  # the element of `a` of each product
    begin = np.concatenate([[0], np.cumsum(counts)])[:-1]
    second = np.arange(len(first)) - begin[first] + starts[columns[first]]
    width = b.shape[1]
    keys, place = np.unique(
        rows[first] * max(1, width) + right.arrays[1][second], return_inverse=True
    )
    terms = ew.mul(
        embedding_lookup(elements, tensor_of(first)), embedding_lookup(others, tensor_of(second))
    )
    zeros = filled((len(keys),), 0, node_of(terms).meta.dtype)
    total = added_to(zeros, tensor_of(place.reshape(-1)), terms)
    shape = (a.shape[0], width)
    pattern = Coo(tensor_of(np.stack(np.divmod(keys, max(1, width)))), shape, True)
    out = make(pattern, total, shape)
    return out if a.is_sparse or b.is_sparse else out.to_sparse(layout=sparse_csr)


def mv(input: Any, vec: Any) -> Any:
    """A sparse matrix times a vector."""
    if input.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(
            "mv: two tensor dim should be 2 and 1, but got SparseTensor Dim: "
            f"{input.ndim} Tensor Dim: {vec.ndim}"
        )
    if input.shape[1] != vec.shape[0]:
        raise RuntimeError(
            f"mv: expected self.size(-1) == vec.size(-1); got {list(input.shape)} and "
            f"{list(vec.shape)}"
        )
    vector = dense(vec) if _is_sparse(vec) else vec
    column = reshape_to(vector, (vec.shape[0], 1))
    out = mm(input, column) if _is_sparse(input) else dense_products.mm(input, column)
    return reshape_to(out, (input.shape[0],))


def bmm(input: Any, mat2: Any) -> Any:
    """Products of as many sparse matrices and dense ones."""
    if _is_sparse(mat2):
        raise RuntimeError("bmm_sparse: Tensor 'mat2' must be dense")
    if input.ndim != 3 or mat2.ndim != 3:
        raise RuntimeError(f"bmm_sparse: Tensor must be 3-D; got {input.ndim} and {mat2.ndim} dims")
    several, height, width = input.shape
    if mat2.shape[0] != several:
        raise RuntimeError("bmm_sparse: 'self.size(0)' and 'mat2.size(0)' must match")
    if mat2.shape[1] != width:
        raise RuntimeError("bmm_sparse: 'self.size(2)' and 'mat2.size(1)' must match")
    out = _product(input, reshape_to(mat2, (several * width, mat2.shape[2])))
    return reshape_to(out, (several, height, mat2.shape[2]))


def matmul(input: Any, other: Any) -> Any:
    """The product of vectors, matrices or as many matrices, one of them at least sparse."""
    dims = input.ndim, other.ndim
    if dims == (2, 2):
        return mm(input, other)
    if dims == (2, 1):
        return mv(input, other)
    if dims == (1, 2):
        return mv(_t(other), input)
    if dims == (1, 1):
        if _is_sparse(input) and _is_sparse(other):
            return mul(input, other).sum()
        pair = (input, other) if _is_sparse(input) else (other, input)
        return mul(*pair).sum()
    if dims == (3, 3):
        return bmm(input, other)
    if _is_sparse(input) and dims[0] == 2 and dims[1] > 2:
        # One matrix times many: their columns side by side.
        *batch, height, width = other.shape
        count = len(batch)
        side = other.permute(count, *range(count), count + 1).reshape(height, -1)
        out = mm(input, side).reshape(input.shape[0], *batch, width)
        return out.permute(*range(1, count + 1), 0, count + 1)
    if _is_sparse(other) and dims[1] == 2 and dims[0] > 2:
        rows = input.reshape(-1, input.shape[-1])
        return mm(rows, other).reshape(*input.shape[:-1], other.shape[1])
    raise RuntimeError(
        f"matmul: got tensors of {dims[0]} and {dims[1]} dims, one of them sparse; expected at "
        "most two matrices, or as many on both sides"
    )


def _t(x: Any) -> Any:
    return transpose_sparse(x, 0, 1) if _is_sparse(x) else transpose(x, 0, 1)


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """`beta * input + alpha * (mat1 @ mat2)`."""
    product = (
        mm(mat1, mat2) if _is_sparse(mat1) or _is_sparse(mat2) else dense_products.mm(mat1, mat2)
    )
    product = product if _is_number(alpha, 1) else product * alpha
    if _is_number(beta, 0):
        return product
    scaled = input if _is_number(beta, 1) else input * beta
    if _is_sparse(scaled) and not _is_sparse(product):
        return add(product, scaled)
    return add(scaled, product) if _is_sparse(product) else ew.add(scaled, product)


def _is_number(x: Any, number: int) -> bool:
    return not isinstance(x, Handle) and x == number


def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """`beta * input + alpha * (mat @ vec)`."""
    return ew.add(ew.mul(input, beta), ew.mul(mv(mat, vec), alpha))


def sampled_addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1.0, alpha: Any = 1.0) -> Any:
    """`beta * input + alpha * (mat1 @ mat2)` at the places of the elements of a CSR tensor `input`.

    Only these elements of the product are computed.
    """
    if not _is_sparse(input) or input.layout is not sparse_csr:
        backend = input._node.buffer.backend if _is_sparse(input) else "CPU"
        raise not_for_sparse("sparse_sampled_addmm", backend)
    if mat1.ndim < 2 or mat2.ndim < 2:
        raise RuntimeError("sampled_addmm: Expected mat1 and mat2 to be matrices")
    if mat1.shape[-1] != mat2.shape[-2]:
        raise RuntimeError(
            "sampled_addmm: mat1 and mat2 shapes cannot be multiplied "
            f"({mat1.shape[-2]}x{mat1.shape[-1]} and {mat2.shape[-2]}x{mat2.shape[-1]})"
        )
    for d, size in ((-2, mat1.shape[-2]), (-1, mat2.shape[-1])):
        if input.shape[d] != size:
            raise RuntimeError(
                f"sampled_addmm: self.shape[{d}] and mat{1 if d == -2 else 2}.shape[{d}] must match"
            )
    inner = mat1.shape[-1]
    rows, columns = input._pattern.coordinates().rows().arrays
    left = reshape_to(mat1, (prod(mat1.shape[:-1]), inner))
    right = transpose(mat2, -2, -1)
    right = reshape_to(right, (prod(right.shape[:-1]), inner))
    found = dots(tensor_of(rows), tensor_of(columns), left, right)
    found = reshape_to(found, node_of(input._elements).meta.shape)
    found = found if _is_number(alpha, 1) else ew.mul(found, alpha)
    if not _is_number(beta, 0):
        found = ew.add(ew.mul(input._elements, beta), found)
    return like(input, found)


def smm(input: Any, mat: Any) -> Any:
    """A sparse matrix times a dense one, as a sparse matrix."""
    return dense_rows(input, mm(input, mat))


def hspmm(mat1: Any, mat2: Any) -> Any:
    """A sparse matrix times a dense one, as rows of a hybrid tensor."""
    return dense_rows(mat1, mm(mat1, mat2), hybrid=True)


def dense_rows(x: Any, product: Tensor, hybrid: bool = False) -> Any:
    """Those rows of a product that the sparse factor has elements in."""
    rows = np.unique(x._coo("smm").array()[0])
    found = embedding_lookup(product, tensor_of(rows))
    height, width = product.shape
    if hybrid:
        return make(Coo(tensor_of(rows[None]), (height,)), found, (height, width))
    places = np.stack([np.repeat(rows, width), np.tile(np.arange(width), len(rows))])
    elements = reshape_to(found, (len(rows) * width,))
    return make(Coo(tensor_of(places), (height, width)), elements, (height, width))


def sspaddmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """`beta * input + alpha * (mat1 @ mat2)`, sparse, with sparse `input` and `mat1`."""
    product = smm(mat1, mat2)
    return add(mul(input, beta), mul(product, alpha))


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """`input @ weight.T + bias`."""
    out = matmul(input, _t(weight))
    return out if bias is None else ew.add(out, bias)
