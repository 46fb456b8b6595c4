"""Tables of vectors: rows looked up one by one, and bags of rows folded into one.

Gradients are dense tensors of the table's size, or, with `sparse=True`, sparse tensors of the rows
that were read (sparse/gradients.py).
"""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.above import Above
from livegrad.graph.blame import as_index
from livegrad.graph.handle import node_of
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.graph.state import LOCAL, setting
from livegrad.graph.writes import rebind
from livegrad.ops.elementwise.arithmetic import add, div, mul, where
from livegrad.ops.elementwise.comparison import eq, ge, gt, logical_and, ne
from livegrad.ops.layers.composite import Array, Attrs, Metas, compute_dtype, to_dtype
from livegrad.ops.making.generate import filled, steps
from livegrad.ops.picking.checking import check_known
from livegrad.ops.picking.gathering import GATHER, check_index, embedding_lookup
from livegrad.ops.picking.index_writing import INDEX_ADD
from livegrad.ops.reductions.statistics import norm
from livegrad.ops.shaping.movement import reshape_to
from livegrad.ops.support import samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def _added(shape: tuple[int, ...], index: Tensor, rows: Tensor) -> Tensor:
    """Zeros of `shape` with `rows` added at the indices along dim 0."""
    zeros = filled(shape, 0, node_of(rows).meta.dtype)
    return record(INDEX_ADD, (zeros, index, rows), (0,))


def _column(x: Tensor) -> Tensor:
    return reshape_to(x, (*node_of(x).meta.shape, 1))


def _shares(index: Tensor, rows: int, dtype: dtypes.DType) -> Tensor:
    """How often each index occurs among all, broadcastable to the rows that they name."""
    counts = _added((rows,), index, filled(node_of(index).meta.shape, 1, dtype))
    return _column(embedding_lookup(counts, index))


# ----------------------------------------------------------------------------------- embedding

# attrs (rows of the table, index without gradient or None, whether gradients are scaled).


def _backward_expand(n: Any, g: Tensor, index: Tensor) -> Tensor:
    rows, padding, scaled = n.attrs
    g = to_dtype(g, compute_dtype(n))
    if scaled:
        g = div(g, _shares(index, rows, compute_dtype(n)))
    if padding is not None:
        g = where(_column(eq(index, padding)), 0, g)
    return to_dtype(_added(n.meta.shape, index, g), n.meta.dtype)


EMBEDDING_BACKWARD: Op = Op(
    "embedding_backward",
    "composite",
    # inputs (g, index)
    infer=lambda metas, attrs, shape: meta_of((attrs[0], metas[0].shape[-1]), metas[0].dtype),
    expand=_backward_expand,
    saves="x",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(6, 4), s.integers(6, high=5)),
            lambda g, i: record(EMBEDDING_BACKWARD, (g, i), (5, 1, True)),
        )
    ),
)
EMBEDDING = Op(
    "embedding",
    "composite",
    # inputs (table, index)
    infer=lambda metas, attrs, shape: meta_of((*metas[1].shape, metas[0].shape[1]), metas[0].dtype),
    expand=lambda n, weight, index: embedding_lookup(weight, index),
    grads=(
        lambda g, y, weight, index: record(EMBEDDING_BACKWARD, (g, index), y._node.attrs),
        None,
    ),
    saves="x",
    # Its gradient is not that of its value, on purpose.
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(5, 4), s.integers(2, 3, high=5)),
            lambda w, i: embedding(i, w, padding_idx=1),
            smooth=False,
        )
    ),
)


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of `weight` at the indices `input`, of any shape.

    Args:
        padding_idx: a row that gets no gradient.
        max_norm: rows that are read are first scaled down to this norm, in place.
        scale_grad_by_freq: divide gradients by how often their row occurs in `input`.
        sparse: the gradient of `weight` is a sparse tensor of the rows that were read.

    Example:
        >>> F.embedding(lg.tensor([1, 0]), lg.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([[3., 4.],
                [1., 2.]])
    """
    meta = node_of(weight).meta
    if meta.ndim != 2:
        raise RuntimeError(f"embedding: 'weight' must be 2-D; got {list(meta.shape)}")
    check_index("embedding", node_of(input).meta)
    check_known("embedding", input, meta.shape[0], 0)
    padding = _padding(padding_idx, meta.shape[0])
    if max_norm is not None:
        _limit_norms(input, weight, max_norm, norm_type)
    if sparse and node_of(weight).requires_grad and LOCAL.state.grad:
        looked_up = Above.sparse().gradients.looked_up
        out: Tensor = looked_up(embedding_lookup(weight, input), input, padding, scale_grad_by_freq)
        return out
    if padding is None and not scale_grad_by_freq:
        return embedding_lookup(weight, input)
    attrs = (meta.shape[0], padding, bool(scale_grad_by_freq))
    return record(EMBEDDING, (weight, input), attrs)


def _padding(index: int | None, rows: int) -> int | None:
    if index is None:
        return None
    index = as_index(index)
    if not -rows <= index < rows:
        raise AssertionError(
            f"Padding_idx must be within num_embeddings; got {index} for {rows} rows"
        )
    return index % rows


def _limit_norms(index: Tensor, weight: Tensor, max_norm: float, norm_type: float) -> None:
    """Scales the rows of `weight` named by `index` down to `max_norm`, in place."""
    with setting(grad=False):
        meta = node_of(weight).meta
        lengths = norm(weight, norm_type, 1, True)  # (rows, 1)
        once = filled(node_of(index).meta.shape, 1, dtypes.int64)
        used = _column(gt(_added((meta.shape[0],), index, once), 0))
        scale = div(filled((), max_norm, meta.dtype), add(lengths, 1e-7))
        scaled = where(logical_and(gt(lengths, max_norm), used), mul(weight, scale), weight)
        rebind(weight, scaled)


# ------------------------------------------------------------------------------- embedding_bag


def _bags(offsets: Array, places: int, last: bool) -> Array:
    """The bag of each place, from where bags start."""
    starts = offsets[:-1] if last else offsets
    if starts.size and starts[0] != 0:
        raise RuntimeError(
            "embedding_bag: offsets[0] has to be 0, i.e., the first sequence in the mini-batch has "
            f"to start from position 0. However, got {starts[0]}"
        )
    if offsets.size and offsets[-1] > places:
        raise RuntimeError(
            f"embedding_bag: offsets[-1] can not be greater than input's length {places}, but got "
            f"offsets[-1] of {offsets[-1]}"
        )
    found: Array = np.searchsorted(starts, np.arange(places), side="right") - 1
    return found


BAG_OF_PLACE: Op = Op(
    "bag_of_place",
    "host",
    # The number of the bag that each place belongs to: inputs (offsets,), attrs (places, whether
    # the last offset is the end).
    infer=lambda metas, attrs, shape: meta_of((attrs[0],), dtypes.int64),
    ref=lambda n, offsets: _bags(offsets, *n.attrs),
    saves="",
    samples=s.calls(
        lambda: s.Sample(
            (np.array([0, 2, 2]),), lambda o: record(BAG_OF_PLACE, (o,), (5, False)), smooth=False
        )
    ),
)


def _largest_ref(n: Any, rows: Array, bags: Array, counted: Array) -> Array:
    """For each bag and column the place of the first largest value; -1 for an empty bag."""
    out = np.full(n.meta.shape, -1, np.int64)
    places = np.flatnonzero(counted)
    if places.size == 0 or out.size == 0:
        return out
    rows, bags = rows[places], bags[places]  # bags ascend
    starts = np.flatnonzero(np.diff(bags, prepend=-1))
    best = np.repeat(np.maximum.reduceat(rows, starts), np.diff([*starts, len(bags)]), 0)
    largest = (rows == best) | np.isnan(rows)
    out[bags[starts]] = np.minimum.reduceat(
        np.where(largest, places[:, None], len(counted)), starts
    )
    return out


LARGEST_IN_BAG: Op = Op(
    "largest_in_bag",
    "host",
    # inputs (rows, bag of each place, whether a place counts), attrs (bags,).
    infer=lambda metas, attrs, shape: meta_of((attrs[0], metas[0].shape[1]), dtypes.int64),
    ref=_largest_ref,
    saves="",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(5, 3), np.array([0, 0, 2, 2, 2]), np.array([1, 1, 1, 0, 1]) > 0),
            lambda x, b, c: record(LARGEST_IN_BAG, (x, b, c), (3,)),
            smooth=False,
        )
    ),
)


def _bag_expand(n: Any, weight: Tensor, index: Tensor, offsets: Tensor, *shares: Tensor) -> Tensor:
    if n.attrs[4]:
        table = node_of(weight).meta.shape[0]
        rows = record(EMBEDDING, (weight, index), (table, None, True))
    else:
        rows = embedding_lookup(weight, index)
    return _bagged(n, rows, index, offsets, *shares)


def _bagged(n: Any, rows: Tensor, index: Tensor, offsets: Tensor, *shares: Tensor) -> Tensor:
    """The bags of rows that were looked up; `n` has the attrs and the meta of the result."""
    mode, bags, last, padding, _ = n.attrs
    dtype = compute_dtype(n)
    places = node_of(index).meta.shape[0]
    bag = record(BAG_OF_PLACE, (offsets,), (places, last))
    rows = to_dtype(rows, dtype)
    counted = ne(index, -1 if padding is None else padding)
    if mode == "max":
        place = record(LARGEST_IN_BAG, (rows, bag, counted), (bags,))
        found = ge(place, 0)
        picked = _gathered(rows, where(found, place, 0)) if places else filled((), 0, dtype)
        return to_dtype(where(found, picked, 0), n.meta.dtype)
    if shares:
        rows = mul(rows, _column(to_dtype(shares[0], dtype)))
    if padding is not None:
        rows = where(_column(counted), rows, 0)
    total = _added(n.meta.shape, bag, rows)
    if mode == "mean":
        size = _added((bags,), bag, to_dtype(counted, dtype))
        total = div(total, _column(where(gt(size, 0), size, 1)))
    return to_dtype(total, n.meta.dtype)


def _gathered(rows: Tensor, place: Tensor) -> Tensor:
    return record(GATHER, (rows, place), (0,))


def _bag_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    weight = metas[0]
    if weight.dtype.category != dtypes.FLOAT:
        raise RuntimeError(
            f"embedding_bag: expected a floating-point weight; got {weight.dtype.name}"
        )
    for meta, what in ((metas[1], "indices"), (metas[2], "offsets")):
        if meta.dtype.category != dtypes.INT:
            raise RuntimeError(
                f"embedding_bag: expected tensor for argument '{what}' to have scalar type Long "
                f"or Int; got {meta.dtype.name}"
            )
    if len(metas) > 3 and metas[3].dtype is not weight.dtype:
        raise RuntimeError(
            "embedding_bag: expected weight and per_sample_weights to have the same dtype; got "
            f"{weight.dtype.name} and {metas[3].dtype.name}"
        )
    return meta_of((attrs[1], weight.shape[1]), weight.dtype)


EMBEDDING_BAG = Op(
    "embedding_bag",
    "composite",
    # inputs (table, index, offsets[, weights of the places]), attrs (mode, bags, whether the last
    # offset is the end, padding index or None, whether gradients are scaled); differentiated
    # through the expansion.
    infer=_bag_infer,
    expand=_bag_expand,
    saves="x",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(6, 3), s.integers(7, high=6), np.array([0, 3, 3]), s.uniform(7)),
            lambda w, i, o, p: embedding_bag(i, w, o, mode="sum", per_sample_weights=p),
        ),
        lambda: s.Sample(
            (s.uniform(6, 3), s.integers(2, 4, high=6)),
            lambda w, i: embedding_bag(i, w, padding_idx=2),
        ),
        lambda: s.Sample(
            (s.uniform(6, 3), s.integers(7, high=6), np.array([0, 3, 7])),
            lambda w, i, o: embedding_bag(i, w, o, mode="max", include_last_offset=True),
        ),
    ),
)


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or maximum of the rows of `weight` in each bag of indices; empty bags give 0.

    Args:
        input: (bags, length), or all indices in one dim with `offsets`, where bags start.
        per_sample_weights: factors of the rows, for mode "sum".
        include_last_offset: the last of `offsets` is the end of the last bag.
        padding_idx: an index that does not count.
        sparse: the gradient of `weight` is a sparse tensor of the rows that were read.
    """
    index_meta, meta = node_of(input).meta, node_of(weight).meta
    if meta.dtype is dtypes.int64 and index_meta.dtype.is_floating_point:
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage "
            "`embedding_bag(weight, input, ...)` is deprecated, and should now be "
            "`embedding_bag(input, weight, ...)`.",
            stacklevel=2,
        )
        input, weight, index_meta, meta = weight, input, meta, index_meta
    _check_bag_call(index_meta, meta, offsets, mode, scale_grad_by_freq, sparse, per_sample_weights)
    if index_meta.ndim == 2:
        bags, length = index_meta.shape
        offsets = steps(bags, 0, length, dtypes.int64)
        include_last_offset = False
        input = reshape_to(input, (bags * length,))
        if per_sample_weights is not None:
            per_sample_weights = reshape_to(per_sample_weights, (bags * length,))
    else:
        bags = node_of(offsets).meta.shape[0] - int(include_last_offset)
        if bags < 0:
            raise RuntimeError("embedding_bag: include_last_offset needs at least one offset")
    if max_norm is not None:
        _limit_norms(input, weight, max_norm, norm_type)
    rows = meta.shape[0]
    padding = None
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise RuntimeError(
                f"embedding_bag: padding_idx must be within the number of embeddings, -{rows} "
                f"through {rows - 1}, but got {padding_idx}"
            )
        padding = padding_idx % rows
    check_known("embedding_bag", input, rows, 0, RuntimeError)
    attrs = (mode, bags, bool(include_last_offset), padding, bool(scale_grad_by_freq))
    inputs = [t for t in (weight, input, offsets, per_sample_weights) if t is not None]
    if sparse and node_of(weight).requires_grad and LOCAL.state.grad:
        metas = tuple([node_of(x).meta for x in inputs])
        bag = SimpleNamespace(attrs=attrs, meta=_bag_infer(metas, attrs, None))
        rows = Above.sparse().gradients.looked_up(
            embedding_lookup(weight, input), input, padding, scale_grad_by_freq
        )
        return _bagged(bag, rows, *inputs[1:])
    return record(EMBEDDING_BAG, inputs, attrs)


def _check_bag_call(
    index: Meta,
    weight: Meta,
    offsets: Tensor | None,
    mode: str,
    scaled: bool,
    sparse: bool,
    shares: Tensor | None,
) -> None:
    if shares is not None and node_of(shares).meta.shape != index.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({list(node_of(shares).meta.shape)}) is not "
            f"None, then it must have the same shape as the input ({list(index.shape)})"
        )
    if weight.ndim != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.ndim}")
    check_index("embedding_bag", index)
    if index.ndim not in (1, 2):
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {index.ndim}"
        )
    if index.ndim == 2 and offsets is not None:
        raise ValueError(
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of "
            f"fixed length sequences. However, found offsets of type {type(offsets)}"
        )
    if index.ndim == 1 and (offsets is None or node_of(offsets).meta.ndim != 1):
        raise ValueError(f"offsets has to be a 1D Tensor but got {offsets}")
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"mode has to be one of sum, mean or max; got {mode!r}")
    if mode == "max" and scaled:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if shares is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported "
            f"for mode='sum' (got mode='{mode}')"
        )
