"""Rearranging sparse tensors: their indices are, and elements are only picked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.elsewhere import not_for_sparse
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.state import LOCAL
from livegrad.ops.elementwise.arithmetic import cast
from livegrad.ops.making.generate import filled
from livegrad.ops.picking.gathering import embedding_lookup, index_select as select_of_dense
from livegrad.ops.reductions.reduce import sum as sum_of
from livegrad.ops.shaping import movement, slicing
from livegrad.ops.shaping.joining import cat as cat_dense
from livegrad.ops.shaping.movement import normal_dim, reshape_to, sizes_of
from livegrad.settings import sparse_bsc, sparse_bsr, sparse_csc, sparse_csr
from livegrad.sparse.converting import by_coordinates
from livegrad.sparse.core import SparseTensor, make
from livegrad.sparse.pattern import Array, Compressed, Coo, tensor_of

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

_TRANSPOSED = {
    sparse_csr: sparse_csc, sparse_csc: sparse_csr, sparse_bsr: sparse_bsc, sparse_bsc: sparse_bsr,
}  # fmt: skip


def _split(x: SparseTensor, name: str) -> tuple[Coo, int]:
    """The pattern of a COO tensor, and how many sparse dims there are."""
    pattern = x._pattern
    if not isinstance(pattern, Coo):
        raise not_for_sparse(name, x._node.buffer.backend)
    return pattern, len(pattern.sizes)


# -------------------------------------------------------------------------------- order of dims


def transpose(self: SparseTensor, dim0: int, dim1: int) -> SparseTensor:
    """Two dims exchanged."""
    a, b = [normal_dim("transpose", d, self.ndim) for d in (dim0, dim1)]
    if isinstance(self._pattern, Compressed):
        return _transpose_compressed(self, a, b)
    if a == b:
        return make(self._pattern, self._elements, self._node.meta.shape)
    sparse = self.sparse_dim()
    if max(a, b) >= sparse:
        raise RuntimeError(
            "sparse transpose: transposed dimensions must be sparse Got sparse_dim: "
            f"{sparse}, d0: {a}, d1: {b}"
        )
    order = list(range(self.ndim))
    order[a], order[b] = b, a
    return _reordered(self, order)


def _transpose_compressed(x: SparseTensor, a: int, b: int) -> SparseTensor:
    """CSR becomes CSC with the same indices, and so on."""
    pattern = x._pattern
    assert isinstance(pattern, Compressed)
    first = len(pattern.batch)
    if a == b:
        return make(pattern, x._elements, x._node.meta.shape)
    if {a, b} != {first, first + 1}:
        raise RuntimeError(
            "transpose(): can only transpose the two sparse dimensions of a sparse compressed "
            f"tensor, ({first}, {first + 1}); got ({a}, {b})"
        )
    shape = list(x._node.meta.shape)
    shape[a], shape[b] = shape[b], shape[a]
    sizes = tuple(shape[: first + 2])
    block = pattern.block[1], pattern.block[0]
    offsets, others = pattern.parts
    made = Compressed(_TRANSPOSED[pattern.layout], offsets, others, sizes, block)
    elements = x._elements
    if pattern.blocked:
        elements = movement.transpose(elements, first + 1, first + 2)
    return make(made, elements, tuple(shape))


def _reordered(x: SparseTensor, order: Sequence[int]) -> SparseTensor:
    pattern, sparse = _split(x, "permute")
    if any([(to < sparse) != (d < sparse) for d, to in enumerate(order)]):
        raise RuntimeError(
            "permute(sparse_coo): transpositions between sparse and dense dimensions are not "
            "allowed.Only transpositions within sparse and dense dimensions are supported."
        )
    shape = x._node.meta.shape
    same = list(order[:sparse]) == list(range(sparse))
    indices = pattern.indices
    if not same:
        which = tensor_of(np.array(order[:sparse], np.int64))
        indices = select_of_dense(indices, 0, which)
    sizes = tuple([shape[d] for d in order[:sparse]])
    elements = x._elements
    inner = [d - sparse + 1 for d in order[sparse:]]
    if inner != list(range(1, len(inner) + 1)):
        elements = movement.permute(elements, (0, *inner))
    made = pattern if same else Coo(indices, sizes)
    return make(made, elements, tuple([shape[d] for d in order]))


def permute(self: SparseTensor, *order: Any, dims: Any = None) -> SparseTensor:
    """The dims in another order; sparse dims stay sparse."""
    given = sizes_of("permute", order, dims)
    if len(given) != self.ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the "
            f"length of the desired ordering of dimensions i.e. input.dim() = {self.ndim} is not "
            f"equal to len(dims) = {len(given)}"
        )
    wanted = [normal_dim("permute", d, self.ndim) for d in given]
    if len(set(wanted)) != len(wanted):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    if isinstance(self._pattern, Compressed):
        moved = [d for d, to in enumerate(wanted) if d != to]
        return transpose(self, *(moved or (0, 0))[:2])
    return _reordered(self, wanted)


def t(self: SparseTensor) -> SparseTensor:
    """A matrix transposed."""
    if self.ndim > 2:
        raise RuntimeError(
            "t() expects a tensor with <= 2 sparse and 0 dense dimensions, but self is "
            f"{self.ndim}D"
        )
    return transpose(self, 0, min(1, self.ndim - 1)) if self.ndim > 1 else self


def movedim(self: SparseTensor, source: Any, destination: Any) -> SparseTensor:
    """Dims moved to other places."""
    many = isinstance(source, list | tuple)
    pairs = zip(source, destination, strict=True) if many else [(source, destination)]
    moved = {
        normal_dim("movedim", to, self.ndim): normal_dim("movedim", d, self.ndim) for d, to in pairs
    }
    rest = iter([d for d in range(self.ndim) if d not in moved.values()])
    return permute(self, *[moved[d] if d in moved else next(rest) for d in range(self.ndim)])


def unsqueeze(self: SparseTensor, dim: int) -> SparseTensor:
    """A dim of size 1 added: a sparse one among or right behind the sparse dims."""
    pattern, sparse = _split(self, "unsqueeze")
    d = normal_dim("unsqueeze", dim, self.ndim + 1)
    shape = self._node.meta.shape
    wider = (*shape[:d], 1, *shape[d:])
    if d > sparse:
        inner = node_of(self._elements).meta.shape
        at = d - sparse + 1
        elements = reshape_to(self._elements, (*inner[:at], 1, *inner[at:]))
        return make(Coo(pattern.indices, pattern.sizes), elements, wider)
    zeros = filled((1, pattern.count), 0, dtypes.int64)
    parts = [slicing.narrow(pattern.indices, 0, 0, d), zeros]
    parts.append(slicing.narrow(pattern.indices, 0, d, sparse - d))
    indices = cat_dense([p for p in parts if node_of(p).meta.shape[0]], 0)
    return make(Coo(indices, wider[: sparse + 1]), self._elements, wider)


# ------------------------------------------------------------------------------------- picking


def _kept(x: SparseTensor, keep: Array, array: Array, sizes: Any, ordered: bool) -> SparseTensor:
    """The elements at places `keep`, with other indices."""
    elements = embedding_lookup(x._elements, tensor_of(keep))
    shape = (*sizes, *node_of(elements).meta.shape[1:])
    return make(Coo(tensor_of(array), tuple(sizes), ordered), elements, shape)


def select(self: SparseTensor, dim: int, index: int) -> Any:
    """The slice at `index` along `dim`, without that dim; a dense number if none is left."""
    x = self if isinstance(self._pattern, Coo) else by_coordinates(self)
    pattern, sparse = _split(x, "select")
    shape = x._node.meta.shape
    if not shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d = normal_dim("select", dim, x.ndim)
    if not -shape[d] <= index < shape[d]:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(shape)} at dimension "
            f"{d}"
        )
    index %= shape[d]
    if d >= sparse:
        elements = slicing.select(x._elements, d - sparse + 1, index)
        return make(Coo(pattern.indices, pattern.sizes), elements, (*shape[:d], *shape[d + 1 :]))
    array = pattern.array()
    keep = np.flatnonzero(array[d] == index)
    if sparse == 1:  # what is left is dense
        found = embedding_lookup(x._elements, tensor_of(keep))
        return sum_of(found, 0, dtype=node_of(found).meta.dtype)
    rest = [i for i in range(sparse) if i != d]
    sizes = [shape[i] for i in rest]
    return _kept(x, keep, array[rest][:, keep], sizes, self._pattern is not x._pattern)


def narrow(self: SparseTensor, dim: int, start: Any, length: int) -> SparseTensor:
    """The elements from `start` on along `dim`."""
    pattern, sparse = _split(self, "narrow")
    d = normal_dim("narrow", dim, self.ndim)
    shape = list(self._node.meta.shape)
    start = int(start)
    start = start + shape[d] if start < 0 else start
    if not (start >= 0 and length >= 0 and start + length <= shape[d]):
        raise RuntimeError(
            f"Invalid range to narrow. range(start, start+length) must be a subset of range(0, "
            f"{shape[d]}); got start={start}, length={length}"
        )
    shape[d] = length
    if d >= sparse:
        elements = slicing.narrow(self._elements, d - sparse + 1, start, length)
        return make(pattern, elements, tuple(shape))
    array = pattern.array()
    keep = np.flatnonzero((array[d] >= start) & (array[d] < start + length))
    moved = array[:, keep].copy()
    moved[d] -= start
    return _kept(self, keep, moved, shape[:sparse], pattern.coalesced)


def index_select(self: SparseTensor, dim: int, index: Tensor) -> SparseTensor:
    """The slices at indices along `dim`."""
    pattern, sparse = _split(self, "index_select")
    d = normal_dim("index_select", dim, self.ndim)
    if index.ndim != 1:
        raise IndexError(
            f"index_select() argument index must be 1-D long-tensor; got {index.ndim} dims"
        )
    shape = list(self._node.meta.shape)
    wanted = index._values("sparse indices").astype(np.int64)
    size = shape[d]
    if wanted.size and (wanted.min() < -size or wanted.max() >= size):
        bad = wanted[(wanted < -size) | (wanted >= size)][0]
        raise IndexError(f"index_select(): index {bad} is out of bounds for size {size}")
    shape[d] = len(wanted)
    if d >= sparse:
        elements = select_of_dense(self._elements, d - sparse + 1, index)
        return make(Coo(pattern.indices, pattern.sizes), elements, tuple(shape))
    array = pattern.array()
    wanted = np.where(wanted < 0, wanted + size, wanted)
    # For each wanted slice the elements that lie there, one slice after the other.
    order = np.argsort(array[d], kind="stable")
    starts = np.searchsorted(array[d][order], np.arange(size + 1))
    counts = np.diff(starts)[wanted]
    slot = np.repeat(np.arange(len(wanted)), counts)
    begin = np.concatenate([[0], np.cumsum(counts)])[:-1]
    keep = order[np.arange(len(slot)) - begin[slot] + starts[wanted[slot]]]
    moved = array[:, keep].copy()
    moved[d] = slot
    return _kept(self, keep, moved, shape[:sparse], False)


def getitem(self: SparseTensor, index: Any) -> Any:
    """`x[i]`, `x[i, j]`, `x[..., i]`, `x[None]`: slices and tensors of indices are not taken."""
    items = list(index) if isinstance(index, tuple) else [index]
    used = sum([item is not None and item is not ... for item in items])
    if ... in [item for item in items if not isinstance(item, Handle)]:
        at = [item is ... for item in items].index(True)
        items[at : at + 1] = [slice(None)] * (self.ndim - used)
    found: Any = self
    d = 0
    for item in items:
        if item is None:
            found = found.unsqueeze(d)
            d += 1
        elif isinstance(item, slice):
            if item != slice(None):
                start, stop, step = item.indices(found.shape[d])
                if step != 1:
                    raise _no_index(self)
                found = found.narrow(d, start, max(0, stop - start))
            d += 1
        elif isinstance(item, int | np.integer) and not isinstance(item, bool):
            found = found.select(d, int(item))
        elif isinstance(item, Handle) and item.ndim == 0 and not item.is_floating_point():
            found = found.select(d, int(item))
        elif isinstance(item, Handle) and item.ndim == 1 and item.dtype is dtypes.int64:
            found = found.index_select(d, item)
            d += 1
        else:
            raise _no_index(self)
    return found


def _no_index(x: SparseTensor) -> NotImplementedError:
    return not_for_sparse("index.Tensor", x._node.buffer.backend)


def unbind(self: SparseTensor, dim: int = 0) -> tuple[Any, ...]:
    """All slices along a dim."""
    d = normal_dim("unbind", dim, self.ndim)
    return tuple([select(self, d, i) for i in range(self.shape[d])])


# ------------------------------------------------------------------------------------- joining


def cat(tensors: Any, dim: int = 0) -> SparseTensor:
    """COO tensors one after the other along `dim`."""
    xs = list(tensors)
    for i, x in enumerate(xs):
        if not isinstance(x, SparseTensor) or not x.is_sparse:
            raise RuntimeError(
                f"Concatenating sparse tensors, but a dense tensor was found at position {i}."
            )
    first = xs[0]
    sparse, d = first.sparse_dim(), normal_dim("cat", dim, first.ndim)
    total = list(first._node.meta.shape)
    for i, x in enumerate(xs[1:], 1):
        if x.sparse_dim() != sparse or x.dense_dim() != first.dense_dim():
            raise RuntimeError(
                "All tensors must have the same sparse_dim and dense_dim: "
                f"{sparse}, {first.dense_dim()}, but tensor at position {i} has {x.sparse_dim()}, "
                f"{x.dense_dim()}."
            )
        sizes = x._node.meta.shape
        if any([a != b for k, (a, b) in enumerate(zip(sizes, total, strict=True)) if k != d]):
            raise RuntimeError(
                "All tensors must have the same shape: "
                f"{list(first.shape)} (except in the concatenating dimension), but found shape: "
                f"{list(sizes)} at position {i}."
            )
        total[d] += sizes[d]
    dtype = node_of(first).meta.dtype
    for x in xs[1:]:
        dtype = dtypes.promote_types(dtype, node_of(x).meta.dtype)
    elements = [cast(x._elements, dtype) for x in xs]
    if d < sparse:
        indices, before = [], 0
        for x in xs:
            array = x._pattern.array().copy()
            array[d] += before
            before += x.shape[d]
            indices.append(array)
        joined = tensor_of(np.concatenate(indices, axis=1))
    else:
        elements = _padded(xs, elements, d - sparse + 1, total[d])
        joined = cat_dense([x._pattern.indices for x in xs], 1)
    return make(Coo(joined, tuple(total[:sparse])), cat_dense(elements, 0), tuple(total))


def _padded(xs: list[Any], elements: list[Tensor], dim: int, size: int) -> list[Tensor]:
    """Elements with zeros where the other tensors are, along a dense dim."""
    out, before = [], 0
    for e in elements:
        meta = node_of(e).meta
        own = meta.shape[dim]
        around = [before, size - before - own]
        zeros = [
            filled((*meta.shape[:dim], n, *meta.shape[dim + 1 :]), 0, meta.dtype) for n in around
        ]
        out.append(cat_dense([zeros[0], e, zeros[1]], dim))
        before += own
    return out


def stack(tensors: Any, dim: int = 0) -> SparseTensor:
    """COO tensors along a new dim."""
    xs = list(tensors)
    d = normal_dim("stack", dim, xs[0].ndim + 1)
    return cat([x.unsqueeze(d) for x in xs], d)


def vstack(tensors: Any) -> SparseTensor:
    """COO tensors one below the other."""
    return cat([x.unsqueeze(0) if x.ndim < 2 else x for x in tensors], 0)


def hstack(tensors: Any) -> SparseTensor:
    """COO tensors side by side."""
    xs = list(tensors)
    return cat(xs, 0 if xs[0].ndim == 1 else 1)


# --------------------------------------------------------------------------------------- sizes


def sparse_resize_(self: SparseTensor, size: Any, sparse_dim: int, dense_dim: int) -> SparseTensor:
    """Changes the shape, in place; elements stay where they are."""
    pattern, sparse = _split(self, "sparse_resize_")
    shape = sizes_of("sparse_resize_", (size,))
    _check_dims(shape, sparse_dim, dense_dim)
    if pattern.count:
        for what, now, wanted in (
            ("sparse", sparse, sparse_dim), ("dense", self.dense_dim(), dense_dim),
        ):  # fmt: skip
            if now != wanted:
                raise _no_resize(
                    f"changing the number of {what} dimensions (from {now} to {wanted})"
                )
        for what, begin, end in (("sparse", 0, sparse), ("dense", sparse, self.ndim)):
            have, want = list(self.shape[begin:end]), list(shape[begin:end])
            if any([b < a for a, b in zip(have, want, strict=True)]):
                raise _no_resize(f"shrinking the size of {what} dimensions (from {have} to {want})")
    elements = self._elements
    for d in range(sparse, len(shape)):
        elements = _padded([self], [elements], d - sparse + 1, shape[d])[0]
    if not pattern.count:
        return sparse_resize_and_clear_(self, shape, sparse_dim, dense_dim)
    return self._set(Coo(pattern.indices, shape[:sparse], pattern.coalesced), elements, shape)


def _check_dims(shape: Any, sparse_dim: int, dense_dim: int) -> None:
    if sparse_dim + dense_dim != len(shape):
        raise RuntimeError(
            "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = "
            f"{len(shape)}, sparse_dim = {sparse_dim}, dense_dim = {dense_dim}"
        )


def _no_resize(what: str) -> RuntimeError:
    return RuntimeError(
        f"{what} on a non-empty sparse tensor is not supported. You could try the following "
        "options: 1. If you need an empty sparse tensor of this size, call `x = "
        "torch.sparse_coo_tensor(size)`. 2. If you need to resize this tensor, convert it to dense"
    )


def sparse_resize_and_clear_(
    self: SparseTensor, size: Any, sparse_dim: int, dense_dim: int
) -> SparseTensor:
    """Changes the shape, in place, and drops all elements."""
    shape = sizes_of("sparse_resize_and_clear_", (size,))
    _check_dims(shape, sparse_dim, dense_dim)
    pattern = Coo(filled((sparse_dim, 0), 0, dtypes.int64), shape[:sparse_dim], True)
    elements = filled((0, *shape[sparse_dim:]), 0, node_of(self._elements).meta.dtype)
    return self._set(pattern, elements, shape)


def resize_as_sparse_(self: SparseTensor, the_template: SparseTensor) -> SparseTensor:
    """Changes the shape, in place, to that of another sparse tensor."""
    dims = the_template.sparse_dim(), the_template.dense_dim()
    return sparse_resize_(self, the_template.shape, *dims)


def zero_(self: SparseTensor) -> SparseTensor:
    """Drops all elements; of a compressed tensor, makes them zero."""
    if self.is_leaf and self.requires_grad and LOCAL.state.grad:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation."
        )
    if isinstance(self._pattern, Compressed):
        self._elements.zero_()
        return self
    return sparse_resize_and_clear_(self, self.shape, self.sparse_dim(), self.dense_dim())


def copy_(self: SparseTensor, src: Any, non_blocking: bool = False) -> SparseTensor:
    """Takes the elements of another sparse tensor."""
    if not isinstance(src, SparseTensor):
        raise RuntimeError(
            "copy_() between dense and sparse Tensors is not implemented! Found self type = "
            f"{self.type()} and src type = {src.type()}"
        )
    if self.shape != src.shape:
        raise RuntimeError(
            f"copy_: expected both tensors to have one size; got {list(self.shape)} and "
            f"{list(src.shape)}"
        )
    if self.layout is not src.layout:
        raise RuntimeError("copy_() between sparse Tensors of two layouts is not implemented!")
    elements = cast(src._elements, node_of(self._elements).meta.dtype)
    if self.is_leaf and self.requires_grad:
        if LOCAL.state.grad:
            raise RuntimeError(
                "a leaf Variable that requires grad is being used in an in-place operation."
            )
        if node_of(elements).meta.shape == node_of(self._elements).meta.shape:
            self._elements.copy_(elements)
            return self._set(src._pattern, self._elements, src._node.meta.shape)
        fresh = movement.detach(elements).clone().requires_grad_()
        return self._set(src._pattern, fresh, src._node.meta.shape)
    return self._set(src._pattern, elements.clone(), src._node.meta.shape)
