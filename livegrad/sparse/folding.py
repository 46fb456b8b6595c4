"""Sums, norms and softmax of sparse tensors, over the elements that are there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.elsewhere import not_for_sparse
from livegrad.graph.handle import node_of
from livegrad.graph.record import record
from livegrad.ops.elementwise import arithmetic as ew
from livegrad.ops.elementwise.pointwise_math import exp, log
from livegrad.ops.layers import composite
from livegrad.ops.making.generate import filled
from livegrad.ops.picking.gathering import embedding_lookup
from livegrad.ops.picking.index_writing import INDEX_FOLD
from livegrad.ops.reductions import reduce, statistics
from livegrad.ops.shaping.movement import detach, normal_dim, reshape_to
from livegrad.sparse.converting import added_to, by_coordinates, coalesce
from livegrad.sparse.core import SparseTensor, like, make
from livegrad.sparse.pattern import Compressed, Coo, tensor_of

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def _dims(name: str, dim: Any, ndim: int) -> list[int]:
    """Dims as asked for, without a repetition."""
    given = [dim] if isinstance(dim, int) else list(dim)
    dims = [normal_dim(name, d, ndim) for d in given]
    for d in dims:
        if dims.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return dims


def sum_of(self: SparseTensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The sum of all elements, or over dims: sparse, unless no sparse dim is left."""
    if dim is None:
        return reduce.sum(self._elements, dtype=dtype)
    dims = _dims("sum", dim, self.ndim)
    if not dims or len(dims) == self.ndim:
        total = reduce.sum(self._elements, dtype=dtype)
        return reshape_to(total, (1,) * self.ndim) if keepdim else total
    if isinstance(self._pattern, Compressed):
        return _sum_compressed(self, dims, keepdim, dtype)
    if dtype is None and node_of(self).meta.dtype.category < dtypes.FLOAT:
        dtype = dtypes.int64
    found = sum_over(self, dims, dtype)
    for d in sorted(dims) if keepdim else ():
        found = found.unsqueeze(d)
    return found


def _sum_compressed(x: SparseTensor, dims: list[int], keepdim: bool, dtype: Any) -> Any:
    if not keepdim:
        raise RuntimeError("reduction operations on CSR tensors with keepdim=False is unsupported")
    found = sum_of(by_coordinates(x), dims, True, dtype=dtype)
    return found.to_sparse(layout=x.layout)


def sum_over(x: SparseTensor, dims: list[int], dtype: Any = None) -> Any:
    """The sum over some dims."""
    pattern = x._coo("sum")
    sparse = len(pattern.sizes)
    elements = x._elements if dtype is None else ew.cast(x._elements, dtypes.as_dtype(dtype))
    inner = [d - sparse + 1 for d in dims if d >= sparse]
    if inner:
        elements = reduce.sum(elements, inner, dtype=node_of(elements).meta.dtype)
    shape = x._node.meta.shape
    kept = tuple([n for d, n in enumerate(shape) if d not in dims])
    left = [d for d in range(sparse) if d not in dims]
    if not left:
        return reduce.sum(elements, 0, dtype=node_of(elements).meta.dtype)
    if len(left) == sparse:
        return make(pattern, elements, kept)
    indices = tensor_of(pattern.array()[left])
    return coalesce(make(Coo(indices, tuple([shape[d] for d in left])), elements, kept))


def sum(input: Any, dim: Any = None, dtype: Any = None) -> Any:
    """The sum of all elements of a sparse tensor, or over dims.

    A sum over some dims is sparse unless no sparse dim is left. The dtype stays what it is.
    """
    if not isinstance(input, SparseTensor) or not input.is_sparse:
        backend = input._node.buffer.backend if isinstance(input, SparseTensor) else "CPU"
        raise not_for_sparse("_indices", backend)
    kind = node_of(input).meta.dtype if dtype is None else dtypes.as_dtype(dtype)
    if dim is None:
        wide = None if dtype is None and kind.category < dtypes.FLOAT else kind
        return reduce.sum(input._elements, dtype=wide)
    dims = _dims("sum", dim, input.ndim)
    return sum_over(input, dims, dtype)


def norm(
    self: SparseTensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    """The norm of all elements."""
    if not self.is_sparse:
        raise not_for_sparse("norm", "SparseCsrCPU")
    if dim is not None and len(_dims("norm", dim, self.ndim)) not in (0, self.ndim):
        raise RuntimeError(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty or "
            "contain all dimensions of the input"
        )
    elements = coalesce(self)._elements
    order = 2 if p is None or p == "fro" else p
    return statistics.norm(
        reshape_to(elements, (node_of(elements).meta.numel,)), order, dtype=dtype
    )


# ------------------------------------------------------------------------------------- softmax


def softmax(input: Any, dim: int, *, dtype: Any = None) -> SparseTensor:
    """Softmax along `dim` over the elements that are there: the others count as minus infinity."""
    return _soft("softmax", input, dim, dtype, logarithm=False)


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> SparseTensor:
    """The logarithm of `softmax`."""
    return _soft("log_softmax", input, dim, dtype, logarithm=True)


def _soft(name: str, input: Any, dim: int, dtype: Any, logarithm: bool) -> SparseTensor:
    if not isinstance(input, SparseTensor) or not input.is_sparse:
        backend = input._node.buffer.backend if isinstance(input, SparseTensor) else "CPU"
        raise not_for_sparse(f"_sparse_{name}", backend)
    x = coalesce(input)
    if dtype is not None:
        x = like(x, ew.cast(x._elements, dtypes.as_dtype(dtype)))
    if node_of(x).meta.dtype.category != dtypes.FLOAT:
        raise RuntimeError(
            f'"{name}" not implemented for sparse tensors of {node_of(x).meta.dtype.name}'
        )
    d = normal_dim(name, dim, x.ndim)
    pattern: Any = x._pattern
    sparse = len(pattern.sizes)
    if d >= sparse:
        of_dense = composite.log_softmax if logarithm else composite.softmax
        return like(x, of_dense(x._elements, d - sparse + 1))
    place, count = pattern.known(("pools", d), lambda: _pools(pattern, d))
    return like(x, _pooled(x._elements, place, count, logarithm))


def _pools(pattern: Coo, dim: int) -> tuple[Tensor, int]:
    """Which elements share all indices but one, numbered; and how many such groups there are."""
    keys = np.zeros(pattern.count, np.int64)
    for d, (row, size) in enumerate(zip(pattern.array(), pattern.sizes, strict=True)):
        if d != dim:
            keys = keys * size + row
    kept, place = np.unique(keys, return_inverse=True)
    return tensor_of(place.reshape(-1)), len(kept)


def _pooled(elements: Tensor, place: Tensor, count: int, logarithm: bool) -> Tensor:
    meta = node_of(elements).meta
    shape = (count, *meta.shape[1:])
    low = filled(shape, -float("inf"), meta.dtype)
    largest = record(INDEX_FOLD, (low, place, detach(elements)), (0, "amax"))
    shifted = ew.sub(elements, embedding_lookup(detach(largest), place))
    powers = exp(shifted)
    total = added_to(filled(shape, 0, meta.dtype), place, powers)
    if logarithm:
        return ew.sub(shifted, embedding_lookup(log(total), place))
    return ew.div(powers, embedding_lookup(total, place))
