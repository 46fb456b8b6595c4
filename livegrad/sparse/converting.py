"""From dense tensors to sparse ones and back, and from one layout to another.

A dense tensor seen from a pattern is a list of rows, one for each place where an element could be:

    COO          (sparse dims as one, *dense dims)
    compressed   (batch × rows × columns of blocks, block, *dense dims)

Sparse to dense adds elements to rows of zeros; dense to sparse looks rows up. The gradient of each
is the other.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.handle import node_of
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import cast, where
from livegrad.ops.elementwise.comparison import ne
from livegrad.ops.making.generate import filled
from livegrad.ops.picking.gathering import embedding_lookup
from livegrad.ops.picking.index_writing import INDEX_ADD
from livegrad.ops.shaping.movement import permute, reshape_to
from livegrad.settings import Layout, sparse_coo, strided
from livegrad.sparse.arguments import block_of, int_of
from livegrad.sparse.core import SparseTensor, layout_name, like, make
from livegrad.sparse.pattern import (
    COMPRESSED,
    Array,
    Compressed,
    Coo,
    Pattern,
    offsets_of,
    sorting_order,
    tensor_of,
)

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Shape = tuple[int, ...]


# ---------------------------------------------------------------------------------- rows of places


def coordinates(pattern: Pattern) -> Coo:
    """The pattern by coordinates: of elements, or of blocks."""
    if isinstance(pattern, Compressed):
        return pattern.coordinates()
    assert isinstance(pattern, Coo)
    return pattern


def elements_in_a_row(x: SparseTensor) -> Tensor:
    """The elements (or blocks) one after the other, without batch dims."""
    pattern, elements = x._pattern, x._elements
    if not isinstance(pattern, Compressed) or not pattern.batch:
        return elements
    shape = node_of(elements).meta.shape
    lead = len(pattern.batch) + 1
    return reshape_to(elements, (prod(shape[:lead]), *shape[lead:]))


def rows_of(x: Tensor, pattern: Pattern) -> Tensor:
    """A dense tensor as rows of the places of a pattern."""
    shape = node_of(x).meta.shape
    lead = len(pattern.sizes)
    if not isinstance(pattern, Compressed) or not pattern.blocked:
        return reshape_to(x, (prod(shape[:lead]), *shape[lead:]))
    several = prod(pattern.batch)
    (height, width), (tall, wide) = shape[lead - 2 : lead], pattern.block
    dense = shape[lead:]
    parts = (several, height // tall, tall, width // wide, wide, *dense)
    order = (0, 1, 3, 2, 4, *range(5, 5 + len(dense)))
    rows = permute(reshape_to(x, parts), order)
    count = several * (height // tall) * (width // wide)
    return reshape_to(rows, (count, tall, wide, *dense))


def from_rows(rows: Tensor, pattern: Pattern, shape: Shape) -> Tensor:
    """The dense tensor of which `rows` are the rows by the places of a pattern."""
    lead = len(pattern.sizes)
    if not isinstance(pattern, Compressed) or not pattern.blocked:
        return reshape_to(rows, shape)
    (height, width), (tall, wide) = shape[lead - 2 : lead], pattern.block
    dense = shape[lead:]
    parts = (prod(pattern.batch), height // tall, width // wide, tall, wide, *dense)
    order = (0, 1, 3, 2, 4, *range(5, 5 + len(dense)))
    return reshape_to(permute(reshape_to(rows, parts), order), shape)


def added_to(rows: Tensor, places: Tensor, elements: Tensor) -> Tensor:
    """Rows with elements added at places; of truth values, whether there is one that is true."""
    dtype = node_of(rows).meta.dtype
    if dtype is not dtypes.bool_:
        return record(INDEX_ADD, (rows, places, elements), (0,))
    wide = [cast(x, dtypes.int32) for x in (rows, elements)]
    return ne(record(INDEX_ADD, (wide[0], places, wide[1]), (0,)), 0)


def dense(x: SparseTensor) -> Tensor:
    """All elements, those that are not there as zeros."""
    pattern, elements = x._pattern, elements_in_a_row(x)
    meta = node_of(elements).meta
    where_they_are = coordinates(pattern)
    zeros = filled((prod(where_they_are.sizes), *meta.shape[1:]), 0, meta.dtype)
    rows = added_to(zeros, where_they_are.flat(), elements)
    return from_rows(rows, pattern, x._node.meta.shape)


def elements_at(x: Any, other: SparseTensor) -> Tensor:
    """What `x`, dense or sparse, has at the places of the elements of `other`."""
    pattern = other._pattern
    places = coordinates(pattern)
    if not isinstance(x, SparseTensor):
        found = embedding_lookup(rows_of(x, pattern), places.flat())
    elif type(x._pattern) is Coo and type(pattern) is Coo:
        found = _among(x, places)
    else:
        found = embedding_lookup(rows_of(dense(x), pattern), places.flat())
    return reshape_to(found, node_of(other._elements).meta.shape)


def _among(x: SparseTensor, places: Coo) -> Tensor:
    """Elements of a sparse tensor at places; zeros where it has none."""
    x = coalesce(x)
    keys, wanted = coordinates(x._pattern).keys(), places.keys()
    at = np.searchsorted(keys, wanted)
    known = np.zeros(len(wanted), bool)
    inside = at < len(keys)
    known[inside] = keys[at[inside]] == wanted[inside]
    shape = node_of(x._elements).meta.shape
    if not len(keys):
        return filled((len(wanted), *shape[1:]), 0, node_of(x._elements).meta.dtype)
    found = embedding_lookup(x._elements, tensor_of(np.where(known, at, 0)))
    if known.all():
        return found
    mask = cast(tensor_of(known), dtypes.bool_)
    return where(reshape_to(mask, (len(wanted), *[1] * (len(shape) - 1))), found, 0)


SparseTensor._found_in = staticmethod(elements_at)


# ------------------------------------------------------------------------------- public functions


def to_dense(
    self: SparseTensor, dtype: DType | None = None, *, masked_grad: bool | None = None
) -> Tensor:
    """All elements, those that are not there as zeros."""
    if dtype is not None:
        raise RuntimeError("dtype argument is not supported by sparse_to_dense")
    return dense(self)


def coalesce(self: SparseTensor) -> SparseTensor:
    """The tensor with elements at one place added up, and all in order."""
    pattern = self._coo("coalesce")
    if pattern.coalesced:
        return self
    kept, place, _ = pattern.distinct()
    if place is None:
        return make(kept, self._elements, self._node.meta.shape)
    meta = node_of(self._elements).meta
    zeros = filled((kept.count, *meta.shape[1:]), 0, meta.dtype)
    out = make(kept, added_to(zeros, place, self._elements), self._node.meta.shape)
    out._made = "CoalesceBackward0" if out._elements.grad_fn is not None else None
    return out


def sparse_mask(self: Any, mask: Any) -> SparseTensor:
    """What this tensor has at the places of the elements of `mask`."""
    if not isinstance(mask, SparseTensor):
        raise RuntimeError(
            "sparse_mask(): mask must be sparse, but got a mask of layout torch.strided"
        )
    if self.shape != mask.shape:
        raise RuntimeError(
            "sparse_mask(): operands have incompatible sizes; self has size "
            f"{list(self.shape)} but mask has size {list(mask.shape)}"
        )
    return like(mask, elements_at(self, mask))


# ------------------------------------------------------------------------------------ to sparse


def to_sparse(
    self: Any,
    *dims: Any,
    sparse_dim: int | None = None,
    layout: Layout | None = None,
    blocksize: Any = None,
    dense_dim: int | None = None,
) -> Any:
    """The elements that are not zero, as a sparse tensor.

    Args:
        sparse_dim: how many dims are given by indices; each element has the others. All by default.
        layout: of the result; `sparse_coo` by default.
        blocksize: of the blocks of `sparse_bsr` and `sparse_bsc`.
        dense_dim: how many dims elements have.
    """
    if dims or sparse_dim is not None:
        further = [x for x in (sparse_dim, layout, blocksize, dense_dim) if x is not None]
        if len(dims) + len(further) > 1:
            raise TypeError("to_sparse(): sparse_dim is taken alone, without further arguments")
        return _coo(self, int_of("to_sparse", "sparse_dim", dims[0] if dims else sparse_dim))
    if layout is not None and not isinstance(layout, Layout):
        raise TypeError(
            f"to_sparse(): argument 'layout' must be layout, not {type(layout).__name__}"
        )
    if blocksize is not None:
        blocksize = block_of("to_sparse", blocksize)
    if dense_dim is not None:
        dense_dim = int_of("to_sparse", "dense_dim", dense_dim)
    if layout is strided:
        return self.to_dense()
    return _with_layout(self, layout or sparse_coo, blocksize, dense_dim)


def _with_layout(x: Any, layout: Layout, blocksize: Any, dense_dim: int | None) -> Any:
    blocked = layout in COMPRESSED and COMPRESSED[layout][1]
    if blocked != (blocksize is not None):
        raise _unsupported(x, layout, "without blocksize" if blocked else "with blocksize")
    if layout in COMPRESSED:
        return _compressed(x, layout, blocksize, dense_dim)
    if dense_dim is None:
        return _coo(x, None)
    _check_dense_dim(x, layout, dense_dim, most=x.ndim)
    if dense_dim == x.ndim > 0:
        raise RuntimeError(
            "dense_to_sparse: dense_dim argument must be !=self.dim() when self.dim()>0"
        )
    return _coo(x, x.ndim - dense_dim)


def _source(x: Any) -> str:
    """What a tensor is converted from, as errors call it."""
    if not isinstance(x, SparseTensor):
        return "dense"
    return "coo" if x.is_sparse else "sparse_compressed"


def _unsupported(x: Any, layout: Layout, what: str) -> RuntimeError:
    return RuntimeError(
        f"{_source(x)}_to_{layout.name}: conversion from {layout_name(x.layout)} to "
        f"{layout_name(layout)} {what} argument given is not supported"
    )


def _check_dense_dim(x: Any, layout: Layout, dense_dim: int, most: int) -> None:
    """Only conversions of dense tensors choose how many dims elements have."""
    if isinstance(x, SparseTensor):
        raise _unsupported(x, layout, "with dense_dim")
    if not 0 <= dense_dim <= most:
        raise RuntimeError(
            f"dense_to_{layout.name}: dense_dim argument must be in [0,{most}] range, but "
            f"{dense_dim} is given"
        )


def _coo(x: Any, sparse_dim: int | None) -> Any:
    convert = _coo_of_sparse if isinstance(x, SparseTensor) else _coo_of_dense
    return convert(x, sparse_dim)


def to_sparse_coo(self: Any) -> Any:
    """The tensor as one of layout `sparse_coo`."""
    return to_sparse(self)


def _coo_of_sparse(x: SparseTensor, sparse_dim: int | None) -> SparseTensor:
    if sparse_dim is not None and sparse_dim != x.sparse_dim():
        name = layout_name(x.layout)
        raise RuntimeError(
            f"to_sparse: conversion from {name} to Sparse with sparse_dim argument "
            "!=self.sparse_dim() is not supported"
        )
    if isinstance(x._pattern, Coo):
        return x
    return by_coordinates(x)


def by_coordinates(x: SparseTensor) -> SparseTensor:
    """A compressed tensor by coordinates; elements of blocks one by one, zeros among them."""
    pattern = x._pattern
    assert isinstance(pattern, Compressed)
    places, elements = pattern.coordinates(), elements_in_a_row(x)
    shape = x._node.meta.shape
    if not pattern.blocked:
        if pattern.by_columns:
            return coalesce(make(places, elements, shape))
        return make(places, elements, shape)
    tall, wide = pattern.block
    array = np.repeat(places.array(), tall * wide, axis=1)
    row, column = np.divmod(np.tile(np.arange(tall * wide), places.count), wide)
    array = array.copy()
    array[-2] = array[-2] * tall + row
    array[-1] = array[-1] * wide + column
    given = node_of(elements).meta.shape
    each = reshape_to(elements, (given[0] * tall * wide, *given[3:]))
    return coalesce(make(Coo(tensor_of(array), pattern.sizes), each, shape))


def _coo_of_dense(x: Any, sparse_dim: int | None) -> SparseTensor:
    shape = node_of(x).meta.shape
    count = len(shape) if sparse_dim is None else sparse_dim
    if not 0 <= count <= len(shape):
        raise RuntimeError(
            f"dense_to_sparse: sparse_dim argument must be in [0,{len(shape)}] range, but {count} "
            "is given"
        )
    if count == 0 and shape:
        raise RuntimeError("dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0")
    there = x._values("to_sparse()") != 0
    there = there.any(axis=tuple(range(count, len(shape)))) if count < len(shape) else there
    found = np.stack(np.nonzero(there)) if count else np.zeros((0, int(np.sum(there))), np.int64)
    pattern = Coo(tensor_of(found), shape[:count], True)
    elements = embedding_lookup(rows_of(x, pattern), pattern.flat())
    out = make(pattern, elements, shape)
    out._made = "ToSparseBackward0" if node_of(x).requires_grad else None
    return out


# ----------------------------------------------------------------------------------- compressed


def _method(name: str, layout: Layout) -> Any:
    def dims_of(dense_dim: Any) -> int | None:
        return None if dense_dim is None else int_of(name, "dense_dim", dense_dim)

    if COMPRESSED[layout][1]:

        def blocked(self: Any, blocksize: Any, dense_dim: int | None = None) -> Any:
            return _compressed(self, layout, block_of(name, blocksize), dims_of(dense_dim))

        method: Any = blocked
    else:

        def plain(self: Any, dense_dim: int | None = None) -> Any:
            return _compressed(self, layout, None, dims_of(dense_dim))

        method = plain
    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"The tensor as one of layout `{layout.name}`."
    return method


to_sparse_csr, to_sparse_csc, to_sparse_bsr, to_sparse_bsc = [
    _method(f"to_{layout.name}", layout) for layout in COMPRESSED
]


def _compressed(x: Any, layout: Layout, blocksize: Any, dense_dim: int | None) -> Any:
    _, blocked = COMPRESSED[layout]
    short = layout.name
    source = _source(x)
    if blocked:
        if len(blocksize) != 2:
            raise RuntimeError(
                f"{source}_to_{short}: blocksize needs to be a tuple of size 2, but got "
                f"{len(blocksize)}"
            )
        if min(blocksize) <= 0:
            raise RuntimeError(
                f"{source}_to_{short}: blocksize needs to be positive, but got {list(blocksize)}"
            )
    block = blocksize or (1, 1)
    if dense_dim is not None:
        _check_dense_dim(x, layout, dense_dim, most=max(x.ndim - 2, 0))
    if isinstance(x, SparseTensor):
        if x.layout is layout and getattr(x._pattern, "block", None) == block:
            return x
        if x.is_sparse and x.sparse_dim() != 2:
            raise RuntimeError(
                f"coo_to_{short}: conversion from Sparse to {layout_name(layout)} for input "
                "tensors with sparse_dim()!=2 is not supported"
            )
        dense_dims = x.dense_dim()
    else:
        dense_dims = dense_dim or 0
    shape = node_of(x).meta.shape
    lead = len(shape) - dense_dims
    if lead < 2:
        raise RuntimeError(
            f"dense_to_{short}: conversion needs a tensor of at least 2 sparse dimensions; got "
            f"size {list(shape)} with dense_dim={dense_dims}"
        )
    size = shape[lead - 2 : lead]
    if size[0] % block[0] or size[1] % block[1]:
        raise RuntimeError(
            f"{source}_to_{short}: tensor sparse size ({size[0]},{size[1]}) must be divisible by "
            f"given blocksize ({block[0]},{block[1]})"
        )
    out = (
        _compressed_of_sparse(x, layout, block)
        if isinstance(x, SparseTensor)
        else _compressed_of_dense(x, layout, block, lead)
    )
    if out._elements.grad_fn is not None:
        out._made = "To" + "".join(part.title() for part in short.split("_")) + "Backward0"
    return out


def _compressed_of_dense(x: Any, layout: Layout, block: Any, lead: int) -> SparseTensor:
    """By rows (or columns): the blocks in which something is not zero."""
    shape = node_of(x).meta.shape
    sizes = shape[:lead]
    form = Compressed(layout, _NOTHING, _NOTHING, sizes, block)
    rows = rows_of(x, form)
    there = rows._values(f"to_{layout.name}()") != 0
    there = there.any(axis=tuple(range(1, there.ndim)))
    batch, grid = sizes[:-2], (sizes[-2] // block[0], sizes[-1] // block[1])
    several = prod(batch)
    (keys,) = np.nonzero(there)
    which, place = np.divmod(keys, max(1, prod(grid)))
    counts = np.bincount(which, minlength=several)
    if several and (counts != counts[0]).any():
        raise RuntimeError("Expect the same number of specified elements per batch.")
    order = None
    lines, others = np.divmod(place, max(1, grid[1]))
    if form.by_columns:
        lines, others = others, lines
        order = sorting_order(which * grid[1] + lines, max(1, several * grid[1]))
        if order is not None:
            which, lines, others, keys = which[order], lines[order], others[order], keys[order]
    pattern = _assembled(layout, which, lines, others, sizes, block)
    elements = embedding_lookup(rows, tensor_of(keys))
    given = node_of(elements).meta.shape
    count = pattern.count
    return make(pattern, reshape_to(elements, (*batch, count, *given[1:])), shape)


_NOTHING = tensor_of(np.zeros(0, np.int64))


def _assembled(
    layout: Layout, which: Array, lines: Array, others: Array, sizes: Shape, block: Any
) -> Compressed:
    """A compressed pattern from elements in its order: their batch, line and place in it."""
    by_columns, _ = COMPRESSED[layout]
    batch = sizes[:-2]
    several = prod(batch)
    count = sizes[-1 if by_columns else -2] // block[by_columns]
    offsets = np.zeros((several, count + 1), np.int64)
    lengths = np.bincount(which * count + lines, minlength=several * count)
    offsets[:, 1:] = np.cumsum(lengths.reshape(several, count), axis=1)
    each = len(others) // several if several else 0
    parts = offsets.reshape(*batch, count + 1), others.reshape(*batch, each)
    return Compressed(layout, tensor_of(parts[0]), tensor_of(parts[1]), sizes, block)


def _compressed_of_sparse(x: SparseTensor, layout: Layout, block: Any) -> SparseTensor:
    x = x if isinstance(x._pattern, Coo) else by_coordinates(x)
    shape = x._node.meta.shape
    if len(x._pattern.sizes) > 2:  # batches
        return _compressed_of_dense(dense(x), layout, block, len(x._pattern.sizes))
    x = coalesce(x)
    pattern: Any = x._pattern
    rows, columns = pattern.array()
    by_columns, blocked = COMPRESSED[layout]
    if blocked:
        return _blocks(x, layout, block)
    lines, others = (columns, rows) if by_columns else (rows, columns)
    order = sorting_order(lines, pattern.sizes[by_columns])
    elements = x._elements
    if order is not None:
        lines, others = lines[order], others[order]
        elements = embedding_lookup(elements, tensor_of(order))
    offsets = tensor_of(offsets_of(lines, pattern.sizes[by_columns]))
    made = Compressed(layout, offsets, tensor_of(others), pattern.sizes, (1, 1))
    return make(made, elements, shape)


def _blocks(x: SparseTensor, layout: Layout, block: Any) -> SparseTensor:
    """The blocks in which a coalesced tensor has elements."""
    pattern: Any = x._pattern
    rows, columns = pattern.array()
    tall, wide = block
    grid = pattern.sizes[0] // tall, pattern.sizes[1] // wide
    by_columns, _ = COMPRESSED[layout]
    lines, others = (
        (columns // wide, rows // tall) if by_columns else (rows // tall, columns // wide)
    )
    across = grid[1 - by_columns]
    keys, place = np.unique(lines * max(1, across) + others, return_inverse=True)
    lines, others = np.divmod(keys, max(1, across))
    inside = (rows % tall) * wide + columns % wide
    meta = node_of(x._elements).meta
    zeros = filled((len(keys) * tall * wide, *meta.shape[1:]), 0, meta.dtype)
    each = added_to(zeros, tensor_of(place.reshape(-1) * tall * wide + inside), x._elements)
    elements = reshape_to(each, (len(keys), tall, wide, *meta.shape[1:]))
    offsets = tensor_of(offsets_of(lines, grid[by_columns]))
    made = Compressed(layout, offsets, tensor_of(others), pattern.sizes, (tall, wide))
    return make(made, elements, x._node.meta.shape)
