"""Gathering: elements picked by tensors of indices, and their opposites, which add or write.

    gather        out[i, j] = x[index[i, j], j]
    scatter_add   out[index[i, j], j] += source[i, j]
    index_select  out[i, j, k] = x[index[i, j], k]
    index_add     out[index[i, j], k] += source[i, j, k]

(written for dim 0). Indices are 0 … size - 1; others are found when the kernel runs, and raise
IndexError naming the line that recorded the operation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import node_of, record
from livegrad.ops import samples as s
from livegrad.ops.elementwise import add, cast, mul
from livegrad.ops.generate import filled, zeros_like
from livegrad.ops.movement import _reshape_to, expand, normal_dim

Tensor = Any
Array = np.ndarray[Any, Any]
Attrs = tuple[Any, ...]
Metas = tuple[Meta, ...]


def check_range(name: str, index: Array, size: int, dim: int) -> None:
    """IndexError unless every index is in [0, size); used by references."""
    if index.size and (index.min() < 0 or index.max() >= size):
        bad = index[(index < 0) | (index >= size)].ravel()[0]
        raise IndexError(
            f"{name}: index {bad} is out of bounds for dimension {dim} with size {size}"
        )


def _check_index(name: str, meta: Meta) -> None:
    if meta.dtype.category != dtypes.INT:
        raise RuntimeError(
            f"{name}: expected an index tensor of int64 or int32; got {meta.dtype.name}. "
            "Convert it with .long()"
        )


# ------------------------------------------------------------------------------------- gather


def _gather_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    x, index = metas[:2]
    _check_index("gather", index)
    _check_fits("gather", x, index, attrs[0])
    return meta_of(index.shape, x.dtype)


def _check_fits(name: str, x: Meta, index: Meta, dim: int) -> None:
    if x.ndim != index.ndim:
        raise RuntimeError(
            f"{name}: index tensor must have the same number of dimensions as input tensor; got "
            f"{index.shape} and {x.shape}"
        )
    for d in range(x.ndim):
        if d != dim and index.shape[d] > x.shape[d]:
            raise RuntimeError(
                f"{name}: size does not match at dimension {d}; got index {list(index.shape)}; "
                f"expected it to be no larger than {list(x.shape)} apart from dimension {dim}"
            )


def _gather_ref(n: Any, x: Array, index: Array) -> Array:
    dim = n.attrs[0]
    if not index.ndim:
        return x
    check_range("gather", index, x.shape[dim], dim)
    rest = tuple([slice(None) if d == dim else slice(m) for d, m in enumerate(index.shape)])
    return np.take_along_axis(x[rest], index.astype(np.int64), dim)


GATHER: Op = Op(
    "gather",
    "kernel",
    # Inputs (x, index), attrs (dim,).
    infer=_gather_infer,
    ref=_gather_ref,
    lower="gather",
    grads=(
        lambda g, y, x, index: record(SCATTER_ADD, (zeros_like(x), index, g), y._node.attrs),
        None,
    ),
    saves="x",
    samples=s.calls(
        lambda: s.Sample((s.uniform(4, 5), s.integers(2, 5, high=4)), lambda x, i: gather(x, 0, i)),
        lambda: s.Sample(
            (s.uniform(3, 5), s.integers(3, 7, high=5)), lambda x, i: gather(x, -1, i)
        ),
        lambda: s.Sample(
            (s.uniform(2, 3, 4), s.integers(2, 2, 3, high=3)), lambda x, i: gather(x, 1, i)
        ),
        lambda: s.Sample((s.uniform(3, 5), s.integers(0, 5)), lambda x, i: gather(x, 0, i)),
    ),
)


def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """Elements picked along `dim`: out[i][j] = input[index[i][j]][j] for dim 0."""
    d = normal_dim("gather", dim, node_of(input).meta.ndim)
    return record(GATHER, (input, index), (d,))


def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """Like `gather`, with the other dims broadcast; without `dim`, from the flattened input."""
    if dim is None:
        return gather(
            _reshape_to(input, (input.numel(),)), 0, _reshape_to(indices, (indices.numel(),))
        )
    d = normal_dim("take_along_dim", dim, node_of(input).meta.ndim)
    shape, picked = list(input.shape), list(indices.shape)
    for i in range(len(shape)):
        if i != d:
            shape[i] = picked[i] = max(shape[i], picked[i]) if 0 not in (shape[i], picked[i]) else 0
    return gather(expand(input, shape), d, expand(indices, picked))


# -------------------------------------------------------------------------------- scatter_add


def _scatter_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    base, index, source = metas
    _check_index("scatter", index)
    _check_fits("scatter", base, index, attrs[0])
    if source.dtype is not base.dtype:
        raise RuntimeError(
            f"scatter: expected self.dtype to be equal to src.dtype; got {base.dtype.name} and "
            f"{source.dtype.name}"
        )
    if source.shape != index.shape:
        raise RuntimeError(
            f"scatter: got index {list(index.shape)} and src {list(source.shape)}; expected equal "
            "shapes"
        )
    return base


def _places(index: Array, dim: int) -> tuple[Any, ...]:
    grid = list(np.ogrid[tuple([slice(size) for size in index.shape])])
    grid[dim] = index
    return tuple(grid)


def _scatter_add_ref(n: Any, base: Array, index: Array, source: Array) -> Array:
    out, dim = np.array(base), n.attrs[0]
    if not index.ndim:
        return out + source
    check_range("scatter_add", index, base.shape[dim], dim)
    np.add.at(out, _places(index, dim), source)
    return out


SCATTER_ADD: Op = Op(
    "scatter_add",
    "kernel",
    # Inputs (base, index, source of the index's shape), attrs (dim,).
    infer=_scatter_infer,
    ref=_scatter_add_ref,
    lower="scatter_add",
    grads=(
        lambda g, y, base, index, source: g,
        None,
        lambda g, y, base, index, source: record(GATHER, (g, index), y._node.attrs),
    ),
    saves="x",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(4, 5), s.integers(3, 5, high=4), s.uniform(3, 5, seed=1)),
            lambda x, i, v: scatter_add(x, 0, i, v),
        ),
        lambda: s.Sample(
            (s.uniform(2, 6), s.integers(2, 9, high=6), s.uniform(2, 9, seed=1)),
            lambda x, i, v: scatter_add(x, 1, i, v),
        ),
    ),
)


def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """`input` with src[i][j] added to element [index[i][j]][j] (for dim 0)."""
    d = normal_dim("scatter_add", dim, node_of(input).meta.ndim)
    return record(SCATTER_ADD, (input, index, _fitted(src, index)), (d,))


def _fitted(source: Tensor, index: Tensor) -> Tensor:
    """The part of `source` that an index of a smaller shape reads."""
    shape = node_of(index).meta.shape
    if source.shape == shape or len(source.shape) != len(shape):
        return source
    return source[tuple([slice(size) for size in shape])]


def _scatter_ref(n: Any, base: Array, index: Array, source: Array) -> Array:
    out, dim = np.array(base), n.attrs[0]
    check_range("scatter", index, base.shape[dim], dim)
    out[_places(index, dim)] = source
    return out


SCATTER: Op = Op(
    "scatter",
    "host",
    # Inputs (base, index, source of the index's shape), attrs (dim,); the last write wins.
    infer=_scatter_infer,
    ref=_scatter_ref,
    grads=(
        lambda g, y, base, index, source: record(
            SCATTER, (g, index, zeros_like(source)), y._node.attrs
        ),
        None,
        lambda g, y, base, index, source: record(GATHER, (g, index), y._node.attrs),
    ),
    saves="x",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(4, 3), np.array([[2, 0, 1], [0, 3, 2]]), s.uniform(2, 3, seed=1)),
            lambda x, i, v: scatter(x, 0, i, v),
        )
    ),
)


def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Any = None,
    *,
    value: float | None = None,
    reduce: str | None = None,
) -> Tensor:
    """`input` with src[i][j] (or one number) written to element [index[i][j]][j] (for dim 0)."""
    meta = node_of(input).meta
    d = normal_dim("scatter", dim, meta.ndim)
    number = src if value is None else value
    if isinstance(number, bool | int | float):
        source = filled(node_of(index).meta.shape, number, meta.dtype)
    else:
        source = _fitted(src, index)
    if reduce == "add":
        return record(SCATTER_ADD, (input, index, source), (d,))
    if reduce is not None:
        raise RuntimeError(f"scatter: got reduce={reduce!r}; expected 'add' or None")
    return record(SCATTER, (input, index, source), (d,))


# ------------------------------------------------------------------------------- index_select


def _select_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    x, index = metas
    dim = attrs[0]
    _check_index("index_select", index)
    return meta_of(x.shape[:dim] + index.shape + x.shape[dim + 1 :], x.dtype)


def _select_ref(n: Any, x: Array, index: Array) -> Array:
    dim = n.attrs[0]
    check_range("index_select", index, x.shape[dim], dim)
    return np.take(x, index, dim)


INDEX_SELECT: Op = Op(
    "index_select",
    "kernel",
    # Inputs (x, index of any rank), attrs (dim,): the index's dims take the place of dim.
    infer=_select_infer,
    ref=_select_ref,
    lower="index_select",
    grads=(
        lambda g, y, x, index: record(INDEX_ADD, (zeros_like(x), index, g), y._node.attrs),
        None,
    ),
    saves="x",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(5, 4), s.integers(3, high=5)), lambda x, i: index_select(x, 0, i)
        ),
        lambda: s.Sample(
            (s.uniform(5, 4), s.integers(7, high=4)), lambda x, i: index_select(x, 1, i)
        ),
        lambda: s.Sample(
            (s.uniform(5, 4), s.integers(2, 3, high=5)), lambda x, i: embedding_lookup(x, i)
        ),
        lambda: s.Sample(
            (s.uniform(5, 4), s.integers(high=5)), lambda x, i: embedding_lookup(x, i)
        ),
        lambda: s.Sample((s.uniform(5, 4), s.integers(0)), lambda x, i: index_select(x, 0, i)),
    ),
)


def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices of `input` along `dim` that a 1-d tensor of indices names."""
    meta, which = node_of(input).meta, node_of(index).meta
    if which.ndim > 1:
        raise IndexError(f"index_select(): Index is supposed to be a vector; got {which.shape}")
    d = normal_dim("index_select", dim, meta.ndim)
    if which.ndim == 0:
        index = _reshape_to(index, (1,))
    return record(INDEX_SELECT, (input, index), (d,))


def embedding_lookup(weight: Tensor, index: Tensor) -> Tensor:
    """The rows of `weight` at indices of any shape: a table look-up."""
    return record(INDEX_SELECT, (weight, index), (0,))


def take(input: Tensor, index: Tensor) -> Tensor:
    """Elements of the flattened input at indices of any shape."""
    flat = _reshape_to(input, (node_of(input).meta.numel,))
    return record(INDEX_SELECT, (flat, wrapped(index, flat.shape[0])), (0,))


def wrapped(index: Tensor, size: int) -> Tensor:
    """Indices with negative ones counted from the end; those out of range become -1."""
    return record(LINEAR_INDEX, (index,), (), (size,))


# ---------------------------------------------------------------------- index_add, index_put


def _rows_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    base, index, source = metas
    dim = attrs[0]
    _check_index("index_add", index)
    wanted = base.shape[:dim] + index.shape + base.shape[dim + 1 :]
    if source.shape != wanted:
        raise RuntimeError(
            f"index_add: got source {list(source.shape)} for a tensor {list(base.shape)} and index "
            f"{list(index.shape)} at dimension {dim}; expected source {list(wanted)}"
        )
    if source.dtype is not base.dtype:
        raise RuntimeError(
            f"index_add: self and source expected to have the same dtype; got {base.dtype.name} "
            f"and {source.dtype.name}"
        )
    return base


def _rows(base: Array, index: Array, source: Array, dim: int) -> tuple[Array, Array, Array]:
    """A copy of base, its slices in front; flat indices; the slices of source in front."""
    check_range("index_add", index, base.shape[dim], dim)
    out = np.array(base)
    lead = source.shape[:dim]
    flat = source.reshape(lead + (index.size,) + base.shape[dim + 1 :])
    return out, index.ravel(), np.moveaxis(flat, dim, 0)


def _index_add_ref(n: Any, base: Array, index: Array, source: Array) -> Array:
    out, flat, rows = _rows(base, index, source, n.attrs[0])
    np.add.at(np.moveaxis(out, n.attrs[0], 0), flat, rows)
    return out


def _index_put_ref(n: Any, base: Array, index: Array, source: Array) -> Array:
    out, flat, rows = _rows(base, index, source, n.attrs[0])
    np.moveaxis(out, n.attrs[0], 0)[flat] = rows
    return out


INDEX_ADD: Op = Op(
    "index_add",
    "kernel",
    # Inputs (base, index of any rank, source), attrs (dim,).
    infer=_rows_infer,
    ref=_index_add_ref,
    lower="index_add",
    grads=(
        lambda g, y, base, index, source: g,
        None,
        lambda g, y, base, index, source: record(INDEX_SELECT, (g, index), y._node.attrs),
    ),
    saves="x",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(5, 4), s.integers(7, high=5), s.uniform(7, 4, seed=1)),
            lambda x, i, v: index_add(x, 0, i, v),
        ),
        lambda: s.Sample(
            (s.uniform(3, 5), s.integers(2, 4, high=5), s.uniform(3, 2, 4, seed=1)),
            lambda x, i, v: record(INDEX_ADD, (x, i, v), (1,)),
        ),
    ),
)

INDEX_PUT: Op = Op(
    "index_put",
    "host",
    # Like INDEX_ADD, but replaces; where indices repeat the last one wins.
    infer=_rows_infer,
    ref=_index_put_ref,
    grads=(
        lambda g, y, base, index, source: record(
            INDEX_PUT, (g, index, zeros_like(source)), y._node.attrs
        ),
        None,
        lambda g, y, base, index, source: record(INDEX_SELECT, (g, index), y._node.attrs),
    ),
    saves="x",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(5, 4), np.array([3, 0]), s.uniform(2, 4, seed=1)),
            lambda x, i, v: index_copy(x, 0, i, v),
        )
    ),
)


def index_add(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1
) -> Tensor:
    """`input` with the slices of `source` added at the indices along `dim`."""
    d = normal_dim("index_add", dim, node_of(input).meta.ndim)
    return record(INDEX_ADD, (input, index, source if alpha == 1 else mul(source, alpha)), (d,))


def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """`input` with the slices of `source` written at the indices along `dim`."""
    d = normal_dim("index_copy", dim, node_of(input).meta.ndim)
    return record(INDEX_PUT, (input, index, source), (d,))


def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """`input` with one number in the slices at the indices along `dim`."""
    meta, which = node_of(input).meta, node_of(index).meta
    d = normal_dim("index_fill", dim, meta.ndim)
    shape = meta.shape[:d] + which.shape + meta.shape[d + 1 :]
    number = value if isinstance(value, bool | int | float) else value.item()
    return record(INDEX_PUT, (input, index, filled(shape, number, meta.dtype)), (d,))


# -------------------------------------------------------------------------- several as one


def _linear_expand(n: Any, *indices: Tensor) -> Tensor:
    from livegrad.ops.comparison import ge, logical_or, lt
    from livegrad.ops.elementwise import where

    linear = wrong = None
    for index, size in zip(indices, n.args, strict=True):
        index = cast(index, dtypes.int64)
        at = where(lt(index, 0), add(index, size), index)
        outside = logical_or(lt(at, 0), ge(at, size))
        linear = at if linear is None else add(mul(linear, size), at)
        wrong = outside if wrong is None else logical_or(wrong, outside)
    # A single index that is out of range stays as it is, for the error message to show.
    return where(wrong, cast(indices[0], dtypes.int64) if len(indices) == 1 else -1, linear)


def _linear_ref(n: Any, *indices: Array) -> Array:
    linear: Any = 0
    wrong: Any = False
    for index, size in zip(indices, n.args, strict=True):
        at = np.where(index < 0, index.astype(np.int64) + size, index.astype(np.int64))
        wrong = wrong | (at < 0) | (at >= size)
        linear = linear * size + at
    return np.where(wrong, indices[0] if len(indices) == 1 else -1, linear)


def _linear_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    from livegrad.graph.record import broadcast_shapes

    for meta in metas:
        if meta.dtype.category != dtypes.INT:
            raise IndexError(
                "tensors used as indices must be long, int, byte or bool tensors; got "
                f"{meta.dtype.name}"
            )
    try:
        together = broadcast_shapes("index", [m.shape for m in metas])
    except RuntimeError:
        shapes = ", ".join([str(list(m.shape)) for m in metas])
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        ) from None
    return meta_of(together, dtypes.int64)


LINEAR_INDEX: Op = Op(
    "linear_index",
    "composite",
    # Indices along neighbouring dims of sizes `args` as one index along the merged dim; negative
    # ones count from the end, and one that is out of range makes the result out of range.
    infer=_linear_infer,
    ref=_linear_ref,
    expand=_linear_expand,
    samples=s.calls(
        lambda: s.Sample(
            (s.integers(4, low=-3, high=3), s.integers(4, low=-5, high=5, seed=1)),
            lambda i, j: record(LINEAR_INDEX, (i, j), (), (3, 5)),
            smooth=False,
        ),
        lambda: s.Sample((s.integers(6, low=-9, high=9),), lambda i: wrapped(i, 4), smooth=False),
    ),
)
