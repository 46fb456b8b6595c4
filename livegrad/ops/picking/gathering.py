"""Gathering: elements picked by tensors of indices. Scattering is the opposite, and the gradient.

    gather        out[i, j] = x[index[i, j], j]
    index_select  out[i, j, k] = x[index[i, j], k]

(written for dim 0). Indices are 0 … size - 1; others are found when the kernel runs, and raise an
error naming the line that recorded the operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.above import Above
from livegrad.graph.handle import node_of
from livegrad.graph.infer import broadcast_shapes
from livegrad.graph.lowering import lowered_by
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import REGISTRY, Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, cast, mul
from livegrad.ops.making.generate import zeros_like
from livegrad.ops.picking.checking import (
    check_known,
    check_wrapping,
    out_of_range,
    wrap_ref,
    wrapped,
)
from livegrad.ops.shaping.movement import (
    INDEX,
    INDEX_WRITE,
    PERMUTE,
    expand,
    expanded,
    normal_dim,
    reshape_to,
)
from livegrad.ops.support import batched, parts, samples as s
from livegrad.ops.support.out import exact, refusing_expanded

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]
Attrs = tuple[Any, ...]
Metas = tuple[Meta, ...]


def check_range(index: Array, size: int, dim: int, error: type[Exception] = IndexError) -> None:
    """Raises unless every index is in [0, size); used by references."""
    if index.size and (index.min() < 0 or index.max() >= size):
        bad = index[(index < 0) | (index >= size)].ravel()[0]
        raise error(f"index {bad} is out of bounds for dimension {dim} with size {size}")


def check_index(
    name: str, meta: Meta, kinds: tuple[Any, ...] = (dtypes.int64, dtypes.int32)
) -> None:
    """RuntimeError unless a tensor of indices is of one of these dtypes."""
    if meta.dtype not in kinds:
        wanted = " or ".join([kind.name for kind in kinds])
        raise RuntimeError(
            f"{name}: expected an index tensor of {wanted}; got {meta.dtype.name}. "
            "Convert it with .long()"
        )


# ------------------------------------------------------------------------------------- gather


def _gather_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    x, index = metas[:2]
    check_index("gather", index)
    check_fits("gather", x, index, attrs[0])
    return meta_of(index.shape, x.dtype)


def check_fits(name: str, x: Meta, index: Meta, dim: int) -> None:
    """RuntimeError unless an index has the rank of `x` and is nowhere larger, but along `dim`."""
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
        check_range(index, 1, 0, RuntimeError)
        return x
    check_range(index, x.shape[dim], dim, RuntimeError)
    rest = tuple([slice(None) if d == dim else slice(m) for d, m in enumerate(index.shape)])
    return np.take_along_axis(x[rest], index.astype(np.int64), dim)


def _gather_grad(g: Tensor, y: Tensor, x: Tensor, index: Tensor) -> Tensor:
    return scattered(REGISTRY["scatter_add"], zeros_like(x), index, g, y._node.attrs)


def scattered(op: Op, base: Tensor, index: Tensor, source: Tensor, attrs: Attrs) -> Tensor:
    """`op` of a base that may be larger than the index along any dim."""
    shape, sizes = node_of(base).meta.shape, node_of(index).meta.shape
    small = tuple([d != attrs[0] and a < b for d, (a, b) in enumerate(zip(sizes, shape))])  # noqa: B905
    if not any(small) or len(sizes) != len(shape):
        return record(op, (base, index, source), attrs)
    # Scatter into the part of the base that the index covers: that has a kernel.
    items = tuple([("slice", 1) if cut else ("all",) for cut in small])
    starts = (0,) * sum(small)
    covered = tuple([a if cut else b for a, b, cut in zip(sizes, shape, small, strict=True)])
    part = record(INDEX, (base,), (items,), starts, covered)
    return record(INDEX_WRITE, (base, record(op, (part, index, source), attrs)), (items,), starts)


GATHER: Op = Op(
    "gather",
    "kernel",
    # Inputs (x, index), attrs (dim,).
    infer=_gather_infer,
    ref=_gather_ref,
    lower=lowered_by("gather.Gather", per_value=True),
    complaint=out_of_range(RuntimeError),
    grads=(_gather_grad, None),
    saves="x",
    batch=batched.along,
    grad_fn=parts.gather,
    samples=s.calls(
        lambda: s.Sample((s.uniform(4, 5), s.integers(2, 5, high=4)), lambda x, i: gather(x, 0, i)),
        lambda: s.Sample(
            (s.uniform(3, 5), s.integers(3, 7, high=5)), lambda x, i: gather(x, -1, i)
        ),
        lambda: s.Sample(
            (s.uniform(2, 3, 4), s.integers(2, 2, 3, high=3)), lambda x, i: gather(x, 1, i)
        ),
        lambda: s.Sample((s.uniform(3, 5), s.integers(0, 5)), lambda x, i: gather(x, 0, i)),
        lambda: s.Sample((s.uniform(), s.integers(2, high=1)), lambda x, i: gather(x, 0, i)),
    ),
)


@exact
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """Elements picked along `dim`: out[i][j] = input[index[i][j]][j] for dim 0.

    Args:
        input: a tensor.
        dim: along which elements are picked.
        index: int64, with as many dims.
        sparse_grad: the gradient of `input` is a sparse tensor of the elements that were picked.

    Example:
        >>> lg.gather(lg.tensor([[1, 2], [3, 4]]), 1, lg.tensor([[1], [0]]))
        tensor([[2],
                [3]])
    """
    x, which = node_of(input).meta, node_of(index).meta
    d = normal_dim("gather", dim, x.ndim)
    if not which.numel:
        if which.dtype.category != dtypes.INT:
            check_index("gather", which)
        return empty_part(input, which.shape)
    check_known("gather", index, x.shape[d] if x.ndim else 1, d, RuntimeError)
    if not x.ndim or not which.ndim:
        if max(x.ndim, which.ndim) > 1:
            check_fits("gather", x, which, d)
        return reshape_to(
            record(GATHER, (at_least_1d(input), at_least_1d(index)), (0,)), which.shape
        )
    out = record(GATHER, (input, index), (d,))
    return Above.sparse().gradients.gathered(out, index, d) if sparse_grad else out


def at_least_1d(x: Tensor) -> Tensor:
    """`x`, or a vector of one element if it has no dims; not as a view."""
    return x if node_of(x).meta.ndim else reshape_to(x, (1,))


def empty_part(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """No elements of `x`, as a tensor of a shape that has none."""
    flat = reshape_to(x, (node_of(x).meta.numel,))
    items = (("slice", 1),)
    return reshape_to(record(INDEX, (flat,), (items,), (0,), (0,)), shape)


@exact
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """Like `gather`, with the other dims broadcast; without `dim`, from the flattened input.

    Args:
        input: a tensor.
        indices: int64.
        dim: None: of the flattened tensor.

    Example:
        >>> x = lg.tensor([[3, 1, 2]])
        >>> lg.take_along_dim(x, x.argsort(dim=1), dim=1)
        tensor([[1, 2, 3]])
    """
    x, which = node_of(input).meta, node_of(indices).meta
    check_index("take_along_dim", which, (dtypes.int64,))
    if dim is None:
        flat = reshape_to(indices, (which.numel,))
        return gather(reshape_to(input, (x.numel,)), 0, wrapped(flat, x.numel))
    if x.ndim != which.ndim:
        raise RuntimeError(
            "take_along_dim: input and indices should have the same number of dimensions; got "
            f"{x.ndim} dims for input and {which.ndim} for indices"
        )
    d = normal_dim("take_along_dim", dim, x.ndim)
    both = [(1 if i == d else a, 1 if i == d else b) for i, (a, b) in enumerate(_pairs(x, which))]
    others = broadcast_shapes("take_along_dim", [tuple(side) for side in zip(*both, strict=True)])
    shape, picked = list(others), list(others)
    if shape:
        shape[d], picked[d] = x.shape[d], which.shape[d]
    wide = wrapped(indices, x.shape[d] if x.ndim else 1, d)
    return gather(expand(input, shape), d, expand(wide, picked))


def _pairs(a: Meta, b: Meta) -> list[tuple[int, int]]:
    return list(zip(a.shape, b.shape, strict=True))


# ------------------------------------------------------------------------------- index_select


def _select_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    x, index = metas
    dim = attrs[0]
    check_index("index_select", index)
    return meta_of(x.shape[:dim] + index.shape + x.shape[dim + 1 :], x.dtype)


def _select_ref(n: Any, x: Array, index: Array) -> Array:
    dim = n.attrs[0]
    check_range(index, x.shape[dim], dim)
    return np.take(x, index, dim)


def _batch_select(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    x, index = xs
    dim = n.attrs[0]
    if batched == (True, False):
        return record(n.op, (x, index), (dim + 1,))
    if batched == (False, True):
        out = record(n.op, (x, index), (dim,))  # (dims before, size, index, dims after)
        rest = [d for d in range(node_of(out).meta.ndim) if d != dim]
        return record(PERMUTE, (out,), ((dim, *rest),))
    out = record(GATHER, (x, spread_index(index, x, dim + 1)), (dim + 1,))
    return reshape_to(out, (size, *n.meta.shape))


def spread_index(index: Tensor, x: Tensor, dim: int) -> Tensor:
    """One index per example, repeated for the other dims of a batched `x`, as gather wants it."""
    shape = node_of(x).meta.shape
    size, *rest = node_of(index).meta.shape
    count = prod(rest)
    narrow = [size] + [1] * (len(shape) - 1)
    narrow[dim] = count
    return expanded(reshape_to(index, tuple(narrow)), (*shape[:dim], count, *shape[dim + 1 :]))


INDEX_SELECT: Op = Op(
    "index_select",
    "kernel",
    # Inputs (x, index of any rank), attrs (dim,): the index's dims take the place of dim.
    infer=_select_infer,
    ref=_select_ref,
    lower=lowered_by("gather.Gather", per_value=False),
    complaint=out_of_range(IndexError),
    grads=(
        lambda g, y, x, index: record(
            REGISTRY["index_add"], (zeros_like(x), index, g), y._node.attrs
        ),
        None,
    ),
    saves="x",
    batch=_batch_select,
    grad_fn=parts.index_select,
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


@refusing_expanded
@exact
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices of `input` at the indices (a vector) along `dim`.

    Args:
        input: a tensor.
        dim: along which.
        index: a vector of integers.

    Example:
        >>> lg.index_select(lg.tensor([[1, 2], [3, 4]]), 1, lg.tensor([1, 1]))
        tensor([[2, 2],
                [4, 4]])
    """
    meta, which = node_of(input).meta, node_of(index).meta
    if which.ndim > 1:
        raise IndexError(f"index_select(): Index is supposed to be a vector; got {which.shape}")
    d = normal_dim("index_select", dim, meta.ndim)
    if not meta.ndim and which.numel != 1:
        raise RuntimeError(
            f"index_select(): Index to scalar can have only 1 value, got {which.numel} value(s)"
        )
    check_known("index_select", index, meta.shape[d] if meta.ndim else 1, d)
    vector = at_least_1d(index)
    if meta.ndim:
        return record(INDEX_SELECT, (input, vector), (d,))
    return reshape_to(record(INDEX_SELECT, (at_least_1d(input), vector), (0,)), ())


def embedding_lookup(weight: Tensor, index: Tensor) -> Tensor:
    """The rows of `weight` at indices of any shape: a table look-up."""
    return record(INDEX_SELECT, (weight, index), (0,))


@refusing_expanded
@exact
def take(input: Tensor, index: Tensor) -> Tensor:
    """Elements of the flattened input at indices of any shape."""
    numel = node_of(input).meta.numel
    which = node_of(index).meta
    check_index("take", which, (dtypes.int64,))
    if not numel and which.numel:
        raise IndexError("take(): tried to take from an empty tensor")
    flat = reshape_to(input, (numel,))
    return record(INDEX_SELECT, (flat, wrapped(index, numel)), (0,))


# -------------------------------------------------------------------------- several as one


def _linear_expand(n: Any, *indices: Tensor) -> Tensor:
    linear: Tensor | None = None
    for index, size, dim in zip(indices, n.args, n.attrs[0], strict=True):
        at = wrapped(cast(index, dtypes.int64), size, dim)
        linear = at if linear is None else add(mul(linear, size), at)
    assert linear is not None
    return linear


def _linear_ref(n: Any, *indices: Array) -> Array:
    linear: Any = 0
    for index, size, dim in zip(indices, n.args, n.attrs[0], strict=True):
        linear = linear * size + wrap_ref(index.astype(np.int64), size, dim)
    return np.asarray(linear)


def _linear_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    for meta in metas:
        if meta.dtype not in (dtypes.int64, dtypes.int32):
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
    # ones count from the end. attrs: the numbers of the dims, for messages; how many dims of what
    # is indexed are one.
    infer=_linear_infer,
    ref=_linear_ref,
    expand=_linear_expand,
    samples=s.calls(
        lambda: s.Sample(
            (s.integers(4, low=-3, high=3), s.integers(4, low=-5, high=5, seed=1)),
            lambda i, j: linear_index((i, j), (0, 1), (3, 5)),
            smooth=False,
        ),
    ),
)


def linear_index(indices: Sequence[Tensor], dims: tuple[int, ...], sizes: Any) -> Tensor:
    """One index along the dim that neighbouring dims of these sizes make together."""
    if all([node_of(index).meta.numel for index in indices]):  # else nothing is picked
        for index, dim, size in zip(indices, dims, sizes, strict=True):
            check_wrapping(index, size, dim)
    return record(LINEAR_INDEX, indices, (dims, len(dims)), tuple(sizes))
