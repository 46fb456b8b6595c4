"""Sparse tensors from indices and values, and what is checked about these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.creation import tensor
from livegrad.device import home
from livegrad.graph.elsewhere import not_for_sparse
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.infer import TYPE_NAMES
from livegrad.ops.elementwise.arithmetic import cast
from livegrad.ops.making.generate import filled
from livegrad.ops.shaping.movement import alias, detach, expand, sizes_of
from livegrad.settings import (
    MADE_SPARSE,
    Layout,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
)
from livegrad.sparse.core import SparseTensor, layout_name, make
from livegrad.sparse.invariants import is_checking
from livegrad.sparse.pattern import COMPRESSED, Array, Compressed, Coo, Pattern

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Shape = tuple[int, ...]


def _as_tensor(data: Any, dtype: Any, device: Any) -> Tensor:
    """Data as a tensor: one that is there already shares its memory and history."""
    place = None if device is None else home(device)
    if not isinstance(data, Handle):
        return tensor(data, dtype=dtype, device=place)
    given: Tensor = data if dtype is None else data.to(dtype)
    return given if place is None else given.to(place)


def _held(values: Tensor, requires_grad: bool) -> Tensor:
    """Values as the elements of a new sparse tensor: in the same memory, of the same history."""
    if not node_of(values).requires_grad:
        return detach(values).requires_grad_(requires_grad)
    return detach(values).requires_grad_() if requires_grad else alias(values)


def _made(out: SparseTensor, name: str) -> SparseTensor:
    if not out.is_leaf:
        out._made = name
    return out


# ------------------------------------------------------------------------------------------ COO


def sparse_coo_tensor(
    indices: Any,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """The tensor with `values` at `indices`, (sparse dims, elements), and zeros elsewhere.

    Values at one place add up. `values` may have more dims: each element is a dense tensor then.
    Without `size`, the tensor is as large as the indices need. `sparse_coo_tensor(size)` is empty.
    """
    if values is None:
        return empty(sizes_of("sparse_coo_tensor", (indices,)), sparse_coo, dtype, requires_grad)
    elements = _as_tensor(values, dtype, device)
    places = _as_tensor(indices, None, device)
    if not isinstance(values, Handle) and not node_of(elements).meta.ndim:
        elements = expand(elements, (1,))
    which, given = node_of(places).meta, node_of(elements).meta
    if which.dtype is not dtypes.int64:
        places = cast(places, dtypes.int64)
    if which.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(which.shape)}")
    if which.shape[1] != given.shape[0]:
        raise RuntimeError(
            "indices and values must have same nnz, but got nnz from indices: "
            f"{which.shape[1]}, nnz from values: {given.shape[0]}"
        )
    dense = given.shape[1:]
    if size is None:
        shape = (*_needed(places), *dense)
    else:
        shape = sizes_of("sparse_coo_tensor", (size,))
        _check_shape(shape, which.shape, given.shape)
    pattern = Coo(detach(places), shape[: which.shape[0]], bool(is_coalesced))
    if is_checking(check_invariants):
        _check_indices(pattern)
    out = make(pattern, _held(elements, requires_grad), shape)
    return _made(out, "SparseCooTensorWithDimsAndTensorsBackward0")


def _needed(indices: Tensor) -> Shape:
    """The sizes that indices need."""
    array: Array = indices._values("sparse indices")
    if not array.shape[1]:
        return (0,) * len(array)
    for d, row in enumerate(array):
        if row.min() < 0:
            raise RuntimeError(f"found negative index {row.min()} for dim {d}")
    sizes: Shape = tuple([int(row.max()) + 1 for row in array])
    return sizes


def _check_shape(shape: Shape, indices: Shape, values: Shape) -> None:
    sparse, dense = indices[0], len(values) - 1
    if len(shape) != sparse + dense:
        raise RuntimeError(
            "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = "
            f"{len(shape)}, sparse_dim = {sparse}, dense_dim = {dense}"
        )
    expected = (indices[1], *shape[sparse:])
    if expected != tuple(values):
        raise RuntimeError(
            f"values has incorrect size, expected {list(expected)}, got {list(values)}"
        )


def _check_indices(pattern: Coo) -> None:
    array = pattern.array()
    for d, (row, size) in enumerate(zip(array, pattern.sizes, strict=True)):
        if row.size and row.min() < 0:
            raise RuntimeError(f"found negative index {row.min()} for dim {d}")
        if row.size and row.max() >= size:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {d}, size is {size} but found index "
                f"{row.max()}"
            )
    if pattern.coalesced:
        keys = pattern.keys()
        if not (keys[1:] > keys[:-1]).all():
            raise RuntimeError(
                "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor"
            )


def empty(
    shape: Shape, layout: Layout, dtype: Any = None, requires_grad: bool = False
) -> SparseTensor:
    """A sparse tensor without elements."""
    kind = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if layout is sparse_coo:
        pattern: Pattern = Coo(filled((len(shape), 0), 0, dtypes.int64), shape, True)
        elements = filled((0,), 0, kind).requires_grad_(requires_grad)
        return make(pattern, elements, shape)
    by_columns, blocked = COMPRESSED[layout]
    if blocked:
        raise RuntimeError(
            f"empty: {layout!r} needs a blocksize. Use sparse_compressed_tensor instead"
        )
    if len(shape) < 2:
        raise RuntimeError(
            "torch.empty: Only batched sparse compressed (non-block) tensors are supported, but "
            f"got size {list(shape)}"
        )
    batch, lines = shape[:-2], shape[-1 if by_columns else -2]
    offsets = filled((*batch, lines + 1), 0, dtypes.int64)
    pattern = Compressed(layout, offsets, filled((*batch, 0), 0, dtypes.int64), shape, (1, 1))
    elements = filled((*batch, 0), 0, kind).requires_grad_(requires_grad)
    return make(pattern, elements, shape)


# ----------------------------------------------------------------------------------- compressed

# What the two tensors of indices are called, and what they count.
NAMES = {
    0: ("crow_indices", "col_indices", "rows", "ncols", "nrows"),
    1: ("ccol_indices", "row_indices", "columns", "nrows", "ncols"),
}


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    layout: Layout | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """A tensor of a compressed layout, such as CSR.

    Args:
        compressed_indices: where each row (or column) begins among the elements, and the end.
        plain_indices: the column (or row) of each element.
        values: the elements, or blocks of them.
    """
    if layout not in COMPRESSED:
        got = "none" if layout is None else layout_name(layout)
        raise RuntimeError(
            "sparse_compressed_tensor expected sparse compressed tensor layout but got " + got
        )
    elements = _as_tensor(values, dtype, device)
    offsets, others = [_as_tensor(x, None, device) for x in (compressed_indices, plain_indices)]
    by_columns, blocked = COMPRESSED[layout]
    given = node_of(elements).meta.shape
    dims = node_of(offsets).meta.ndim - 1
    _check_ranks(by_columns, blocked, offsets, others, given, dims)
    block = given[dims + 1 : dims + 3] if blocked else (1, 1)
    if size is None:
        shape = _estimated(by_columns, offsets, others, given, block, dims, blocked)
    else:
        shape = sizes_of("sparse_compressed_tensor", (size,))
    _check_lengths(by_columns, offsets, others, given, shape, block, dims, blocked)
    parts = detach(offsets), detach(others)
    pattern = Compressed(layout, *parts, shape[: dims + 2], (int(block[0]), int(block[1])))
    if is_checking(check_invariants):
        _check_compressed(pattern)
    out = make(pattern, _held(elements, requires_grad), shape)
    return _made(out, "SparseCompressedTensorBackward0")


def _check_ranks(
    by_columns: int, blocked: bool, offsets: Tensor, others: Tensor, values: Shape, dims: int
) -> None:
    names = NAMES[by_columns]
    kinds = [node_of(x).meta.dtype for x in (offsets, others)]
    if kinds[0] is not kinds[1]:
        a, b = [TYPE_NAMES[kind.name] for kind in kinds]
        raise RuntimeError(
            f"{names[0]} and {names[1]} must have the same dtype, bot got {a} and {b}, respectively"
        )
    if kinds[0] not in (dtypes.int64, dtypes.int32):
        raise RuntimeError(
            f"{names[0]} and {names[1]} dtype must be Int or Long, but got "
            f"{TYPE_NAMES[kinds[0].name]}"
        )
    if len(values) <= dims + 2 * blocked:
        raise RuntimeError(
            "values must have dimensionality > sum of batch and block dimensionalities "
            f"(={dims} + {2 * blocked}) but got {len(values)}"
        )


def _estimated(
    by_columns: int, offsets: Tensor, others: Tensor, values: Shape, block: Any, dims: int,
    blocked: bool,
) -> Shape:  # fmt: skip
    """The shape that indices need."""
    array = others._values("sparse indices")
    lines = node_of(offsets).meta.shape[-1] - 1
    across = int(array.max()) + 1 if array.size else 0
    pair = (across, lines) if by_columns else (lines, across)
    dense = values[dims + 1 + 2 * blocked :]
    return (*values[:dims], pair[0] * block[0], pair[1] * block[1], *dense)


def _check_lengths(
    by_columns: int, offsets: Tensor, others: Tensor, values: Shape, shape: Shape, block: Any,
    dims: int, blocked: bool,
) -> None:  # fmt: skip
    names = NAMES[by_columns]
    dense = len(values) - 1 - dims - 2 * blocked
    if len(shape) != dims + 2 + dense:
        raise RuntimeError(
            "tensor dimensionality must be sum of batch, base, and dense dimensionalities (="
            f"{dims} + 2 + {dense}) but got {len(shape)}"
        )
    for d in range(2 if blocked else 0):
        if not block[d] or shape[dims + d] % block[d]:
            raise RuntimeError(
                f"tensor shape[{dims + d}] (={shape[dims + d]}) must be divisible with "
                f"blocksize[{d}] (={block[d]}) as defined by values shape"
            )
    lines = shape[dims + by_columns] // block[by_columns]
    have = node_of(offsets).meta.shape[-1]
    if have != lines + 1:
        raise RuntimeError(
            f"{names[0]}.shape[-1] must be equal to the number of {names[2]} + 1 (={lines + 1}), "
            f"but got {have}"
        )
    count = node_of(others).meta.shape[-1]
    if count != values[dims]:
        raise RuntimeError(
            f"{names[1]}.shape[-1] must be equal to nnz (={values[dims]}) as defined by "
            f"values.shape[{dims}], but got {count}"
        )


def _check_compressed(pattern: Compressed) -> None:
    """RuntimeError unless the indices say what a compressed layout means."""
    offsets, others = pattern.arrays()
    names = NAMES[pattern.by_columns]
    across = pattern.sizes[-1 - pattern.by_columns] // pattern.block[1 - pattern.by_columns]
    steps = np.diff(offsets, axis=-1)
    rules = (
        (f"{names[0]}[..., 0] == 0", bool((offsets[..., 0] == 0).all())),
        (f"{names[0]}[..., -1] == nnz", bool((offsets[..., -1] == pattern.count).all())),
        (
            f"0 <= {names[0]}[..., 1:] - {names[0]}[..., :-1] <= {names[3]}",
            bool(((steps >= 0) & (steps <= across)).all()),
        ),
        (f"0 <= {names[1]} < {names[3]}", bool(((others >= 0) & (others < across)).all())),
    )
    for rule, holds in rules:
        if not holds:
            raise RuntimeError(f"`{rule}` is not satisfied.")
    if not _lines_ascend(pattern):
        raise RuntimeError(
            f"`{names[1]}[..., {names[0]}[..., i - 1]:{names[0]}[..., i]] for all i = 1, ..., "
            f"{names[4]} are sorted and distinct along the last dimension values` is not satisfied."
        )


def _lines_ascend(pattern: Compressed) -> bool:
    *batch, rows, columns = pattern.coordinates().array()
    if pattern.by_columns:
        rows, columns = columns, rows
    same = rows[1:] == rows[:-1]
    for which in batch:
        same &= which[1:] == which[:-1]
    return bool((~same | (columns[1:] > columns[:-1])).all())


def _of(layout: Layout, name: str, first: str, second: str) -> Any:
    def function(*args: Any, **options: Any) -> Tensor:
        renamed = {first: "compressed_indices", second: "plain_indices"}
        given = {renamed.get(key, key): value for key, value in options.items()}
        return sparse_compressed_tensor(*args, layout=layout, **given)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"A tensor of layout {layout.name}, from `{first}`, `{second}` and `values`: see "
        "`sparse_compressed_tensor`."
    )
    return function


sparse_csr_tensor = _of(sparse_csr, "sparse_csr_tensor", "crow_indices", "col_indices")
sparse_csc_tensor = _of(sparse_csc, "sparse_csc_tensor", "ccol_indices", "row_indices")
sparse_bsr_tensor = _of(sparse_bsr, "sparse_bsr_tensor", "crow_indices", "col_indices")
sparse_bsc_tensor = _of(sparse_bsc, "sparse_bsc_tensor", "ccol_indices", "row_indices")


# ------------------------------------------------------------------------------- from their parts


def assembled(layout: str, parts: Any, elements: Tensor, shape: Any, coalesced: bool) -> Any:
    """A sparse tensor from the parts that are saved of it."""
    if layout == "sparse_coo":
        sizes = tuple(shape)[: node_of(parts[0]).meta.shape[0]]
        return make(Coo(parts[0], sizes, coalesced), elements, tuple(shape))
    kind = {x.name: x for x in COMPRESSED}[layout]
    return sparse_compressed_tensor(parts[0], parts[1], elements, shape, layout=kind)


def rebuild(
    cls: type, layout: str, parts: Any, elements: Tensor, shape: Shape, more: Any, needs: bool
) -> Any:
    """A sparse tensor from its pickled parts."""
    out = assembled(layout, parts, elements, shape, bool(more))
    return out._become(cls).requires_grad_(needs)


SparseTensor._rebuild = staticmethod(rebuild)


def made_with(name: str, shape: Shape, layout: Layout, dtype: Any, requires_grad: bool) -> Any:
    """What a function that makes tensors gives for a sparse layout: zeros and `empty` only."""
    if name in MADE_SPARSE:
        return empty(shape, layout, dtype, requires_grad)
    raise not_for_sparse(name, "SparseCPU")
