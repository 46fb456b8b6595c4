"""Attention: softmax that survives rows without a finite score, scaled dot products, heads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.handle import node_of
from livegrad.graph.infer import broadcast_shapes
from livegrad.graph.layout import Strides
from livegrad.graph.lowering import lowered_by
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op, as_first
from livegrad.graph.record import record
from livegrad.graph.views import row_major
from livegrad.ops.elementwise.arithmetic import add, div, mul, sub, where
from livegrad.ops.elementwise.comparison import eq, ge
from livegrad.ops.elementwise.pointwise_math import exp
from livegrad.ops.layers.composite import (
    SOFTMAX_BACKWARD,
    Array,
    Attrs,
    Metas,
    compute_dtype,
    need_float,
    softmax,
    to_dtype,
)
from livegrad.ops.making.generate import counting
from livegrad.ops.making.random import RAND
from livegrad.ops.products.matmul import matmul, transposed
from livegrad.ops.reductions import reduce as rd
from livegrad.ops.shaping.arranging import repeat_interleave
from livegrad.ops.shaping.joining import cat
from livegrad.ops.shaping.movement import EXPAND, INDEX, PERMUTE, normal_dim, reshape_to
from livegrad.ops.support import samples as s
from livegrad.ops.support.autocast import in_low
from livegrad.ops.support.batched import aligned_all, matrices
from livegrad.ops.support.shared import shared
from livegrad.random import default_generator

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

# -------------------------------------------------------------------------------- safe softmax


def _safe_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    (x,) = metas
    normal_dim("_safe_softmax", attrs[0], x.ndim)
    dtype = attrs[1] or x.dtype
    need_float("_safe_softmax", dtype)
    return meta_of(x.shape, dtype)


def _safe_expand(n: Any, x: Tensor) -> Tensor:
    x = to_dtype(x, compute_dtype(n))
    if n.meta.numel == 0:
        return to_dtype(x, n.meta.dtype)
    top = rd.amax(x, n.attrs[0], True)
    each = exp(sub(x, where(eq(top, -math.inf), 0, top)))
    total = rd.sum(each, n.attrs[0], True)
    # A row of nothing but -inf sums to 0, and gives 0 everywhere.
    return to_dtype(div(each, where(eq(total, 0), 1, total)), n.meta.dtype)


SAFE_SOFTMAX = Op(
    "safe_softmax",
    "composite",
    # attrs (dim, dtype of the result)
    infer=_safe_infer,
    expand=_safe_expand,
    grads=(lambda g, y, x: record(SOFTMAX_BACKWARD, (g, y), y._node.attrs[:1]),),
    saves="y",
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 5),), lambda x: safe_softmax(x, -1)),
        lambda: s.Sample((s.uniform(2, 5, 3),), lambda x: safe_softmax(x, 1)),
        lambda: s.Sample(
            (s.uniform(3, 2),), lambda x: safe_softmax(where(ge(x, 0.5), x, -math.inf), 1)
        ),
    ),
)


def safe_softmax(self: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """softmax along `dim` in which a row of nothing but -inf gives zeros, not NaN."""
    return record(SAFE_SOFTMAX, (self,), (dim, dtype))


# ------------------------------------------------------------------------- scaled dot products

# inputs (q, k, v[, mask]), attrs (causal, kind of mask, whether there is dropout),
# args (scale[, p, 1 / (1 - p), seed, offset]); q is (…, L, E), k (…, S, E), v (…, S, D).


def _batch(metas: Metas) -> Shape:
    return broadcast_shapes("scaled_dot_product_attention", [m.shape[:-2] for m in metas])


def _attention_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    q, _, v = metas[:3]
    return meta_of((*_batch(metas), q.shape[-2], v.shape[-1]), q.dtype)


def _scores(metas: Sequence[Meta], k: Meta) -> int:
    """How many there are, where the first meta has a row per query."""
    return math.prod((*_batch(tuple(metas)), metas[0].shape[-2], k.shape[-2]))


def _draws(n: Any) -> int:
    """A number per score, if there is dropout."""
    metas = [x.meta for x in n.inputs]
    keys = metas[1 if n.op is ATTENTION else 2]
    return _scores(metas, keys) if n.attrs[2] else 0


def _attention_layout(metas: Metas, attrs: Attrs, meta: Meta) -> Strides | None:
    """That of a copy of q, where PyTorch computes attention in one go; else row-major."""
    q, k, v = metas[:3]
    fits = q.ndim == k.ndim == v.ndim == 4 and q.shape[:2] == k.shape[:2] == v.shape[:2]
    if not fits or attrs[2] or q.shape[-1] != v.shape[-1] or 0 in (meta.numel, k.numel):
        return None
    in_rows = all([m.stride()[-1] == 1 for m in (q, k, v)])
    if not in_rows or any([m.ndim not in (2, 4) for m in metas[3:]]):
        return None
    return as_first(metas, attrs, meta)


def _inputs(n: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Matrices, and a mask that has all columns, in a dtype that native code reads."""
    matrices = list(inputs[:-1] if n.attrs[1] else inputs)
    if not n.attrs[1]:
        return matrices
    mask, columns = inputs[-1], node_of(matrices[-1]).meta.shape[-2]
    if n.attrs[1] == "float":
        mask = to_dtype(mask, compute_dtype(n))
    shape = node_of(mask).meta.shape
    shape = (*[1] * (2 - len(shape)), *shape)
    if shape[-1] != columns:
        return [
            *matrices,
            record(EXPAND, (reshape_to(mask, shape),), (), (), (*shape[:-1], columns)),
        ]
    return [*matrices, reshape_to(mask, shape)]


def _heads_behind(batch: Shape, rows: int, width: int) -> Shape:
    """(…, H, L, D) as it lies in memory: (…, L, H, D), as what projects it wants to read it."""
    return (*batch[:-1], rows, batch[-1], width) if batch else (rows, width)


def _heads_before(x: Tensor) -> Tensor:
    ndim = node_of(x).meta.ndim
    return (
        record(PERMUTE, (x,), ((*range(ndim - 3), ndim - 2, ndim - 3, ndim - 1),))
        if ndim > 2
        else x
    )


def _attention_expand(n: Any, *inputs: Tensor) -> Tensor:
    *batch, rows, width = n.meta.shape
    shape = _heads_behind(tuple(batch), rows, width)
    return _heads_before(record(ATTEND, _inputs(n, inputs), n.attrs, n.args, shape))


def _slopes(n: Any, inputs: Sequence[Tensor]) -> Tensor:
    """The gradients of q, k and v, all computed together, from (g, q, k, v[, mask])."""
    shapes = _shapes_of_slopes([node_of(x).meta for x in inputs])
    return record(ATTEND_SLOPES, _inputs(n, inputs), n.attrs, n.args, _together(shapes))


def _shapes_of_slopes(metas: Sequence[Meta]) -> list[Shape]:
    """How the gradients of q, k and v lie."""
    batch = _batch(tuple(metas))
    return [_heads_behind(batch, *meta.shape[-2:]) for meta in metas[1:4]]


def _together(shapes: list[Shape]) -> Shape:
    return (sum([math.prod(shape) for shape in shapes]),)


def _part_of(slopes: Tensor, shapes: list[Shape], which: int) -> Tensor:
    """One of the gradients."""
    (start,), (size,) = _together(shapes[:which]), _together(shapes[which : which + 1])
    part = record(INDEX, (slopes,), ((("slice", 1),),), (start,), (size,))
    return _heads_before(reshape_to(part, shapes[which]))


def _slopes_batched(n: Any, size: int, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
    """What examples have of each of the gradients of all is brought together again."""
    operands = aligned_all(max([x.meta.ndim for x in n.inputs]), xs, batched)
    shapes = _shapes_of_slopes([node_of(x).meta for x in operands])
    whole = record(n.op, operands, n.attrs, n.args, _together(shapes))
    parts = [_part_of(whole, shapes, which) for which in range(3)]
    own = len(_batch(tuple([x.meta for x in n.inputs]))) > 0
    flat = [_heads_before(x) if own else x for x in parts]
    return cat([reshape_to(x, (size, node_of(x).meta.numel // size)) for x in flat], 1)


def _mask_slopes_expand(n: Any, *inputs: Tensor) -> Tensor:
    _, to_scores = _shares_and_slopes(n, *inputs)
    slopes: Tensor = to_dtype(to_scores, n.meta.dtype)
    return slopes


def _shares_and_slopes(n: Any, *inputs: Tensor) -> tuple[Tensor, Tensor]:
    """How much of each value each query takes, after dropout; and the gradient of the scores."""
    g, q, k, v = [to_dtype(x, compute_dtype(n)) for x in inputs[:4]]
    causal, kind = n.attrs[:2]
    scores = mul(matmul(q, transposed(k)), n.args[0])  # (…, L, S)
    shape = node_of(scores).meta.shape
    if causal:
        rows, columns = shape[-2:]
        before = ge(reshape_to(counting(rows), (rows, 1)), counting(columns))
        shares = softmax(where(before, scores, -math.inf), -1)
    elif kind == "bool":
        shares = safe_softmax(where(inputs[4], scores, -math.inf), -1)
    elif kind == "float":
        shares = safe_softmax(add(scores, to_dtype(inputs[4], compute_dtype(n))), -1)
    else:
        shares = softmax(scores, -1)
    arriving, taken = matmul(g, transposed(v)), shares
    if n.attrs[2]:
        p, scale, seed, offset = n.args[1:]
        keeps = ge(record(RAND, (), (dtypes.float32,), (seed, offset), shape), p)
        arriving, taken = [where(keeps, mul(x, scale), 0) for x in (arriving, shares)]
    inner = rd.sum(mul(arriving, shares), -1, True)
    return taken, mul(shares, sub(arriving, inner))


def _mask_slopes_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    g, q, k = metas[:3]
    return meta_of((*_batch(metas), q.shape[-2], k.shape[-2]), g.dtype)


# ------------------------------------------------------------------------- what computes them


def _kept_ref(n: Any, shape: Shape) -> Any:
    """What shares are multiplied with."""
    if not n.attrs[2]:
        return 1
    p, scale, *at = n.args[1:]
    drawn = SimpleNamespace(
        args=tuple(at), attrs=(dtypes.float32,), meta=meta_of(shape, dtypes.float32)
    )
    assert RAND.ref is not None
    return np.where(RAND.ref(drawn) >= np.float32(p), scale, 0)


def _shares_ref(n: Any, q: Array, k: Array, mask: Sequence[Array]) -> Array:
    causal, kind, _ = n.attrs
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * q.dtype.type(n.args[0])
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, -np.inf)
    if kind == "bool":
        scores = np.where(mask[0], scores, -np.inf)
    elif kind == "float":
        scores = scores + mask[0]
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    each = np.exp(scores - (np.where(top == -np.inf, 0, top) if kind else top))
    total = each.sum(-1, keepdims=True)
    return np.asarray(each / np.where(total == 0, 1, total))


def _attend_ref(n: Any, q: Array, k: Array, v: Array, *mask: Array) -> Array:
    shares = _shares_ref(n, q, k, mask)
    found = np.matmul(shares * _kept_ref(n, shares.shape), v)
    return np.ascontiguousarray(_behind_ref(found)).reshape(n.meta.shape)


def _behind_ref(x: Array) -> Array:
    return np.swapaxes(x, -2, -3) if x.ndim > 2 else x


def _attend_slopes_ref(n: Any, g: Array, q: Array, k: Array, v: Array, *mask: Array) -> Array:
    shares = _shares_ref(n, q, k, mask)
    kept = _kept_ref(n, shares.shape)
    arriving = np.matmul(g, np.swapaxes(v, -1, -2)) * kept
    slopes = shares * (arriving - (shares * arriving).sum(-1, keepdims=True)) * n.args[0]
    turned = np.swapaxes(slopes, -1, -2)
    found = (
        np.matmul(slopes, k),
        np.matmul(turned, q),
        np.matmul(np.swapaxes(shares * kept, -1, -2), g),
    )
    return np.concatenate([_behind_ref(x).ravel() for x in found])


def _attend_slopes_expand(n: Any, *inputs: Tensor) -> Tensor:
    """For the gradients of gradients."""
    g, q, k = [to_dtype(x, compute_dtype(n)) for x in inputs[:3]]
    shares, to_scores = _shares_and_slopes(n, *inputs)
    to_scores = mul(to_scores, n.args[0])
    found = (
        matmul(to_scores, k),
        matmul(transposed(to_scores), q),
        matmul(transposed(shares), g),
    )
    flat = [reshape_to(_heads_before(x), (node_of(x).meta.numel,)) for x in found]
    return to_dtype(cat(flat), n.meta.dtype)


def _attend_flops(n: Any) -> int:
    """Per score, the terms of q and k, and those of a value."""
    q, k, v, *rest = [x.meta for x in n.inputs]
    count: int = _scores([q, k, v, *rest], k) * (k.shape[-1] + v.shape[-1])
    return count


def _attend_slopes_flops(n: Any) -> int:
    """Scores are computed again; of each two gradients go on to q and k, and one comes from v."""
    g, q, k, v, *rest = [x.meta for x in n.inputs]
    count: int = _scores([g, q, k, v, *rest], k) * (3 * k.shape[-1] + 2 * v.shape[-1])
    return count


def _flat(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    return meta_of(shape, metas[0].dtype)


def _attend_samples(gradient: bool) -> s.SampleRule:
    def sample(causal: bool, kind: str, drop: bool, batch: Shape = (2, 3)) -> s.Sample:
        rows, columns, features, width = 5, 5 if causal else 19, 3, 17
        inputs: list[Any] = [
            s.uniform(*batch, *last, seed=i)
            for i, last in enumerate([(rows, features), (columns, features), (columns, width)])
        ]
        if kind:
            inputs.append(s.uniform(rows, columns, seed=7))
        shape = _heads_behind(batch, rows, width)
        if gradient:
            inputs.insert(0, s.uniform(*batch, rows, width, seed=8))
            shape = (sum([math.prod(x.shape) for x in inputs[1:4]]),)
        args = (0.7, 0.25, 4 / 3, 11, 0) if drop else (0.7,)
        op = ATTEND_SLOPES if gradient else ATTEND
        return s.Sample(
            tuple(inputs), lambda *t: record(op, t, (causal, kind, drop), args, shape), smooth=False
        )

    return s.calls(
        lambda: sample(False, "", False),
        lambda: sample(True, "", True, ()),
        lambda: sample(False, "float", False, (2,)),
    )


ATTEND: Op = Op(
    "attend",
    "kernel",
    # Attention, with the last dim of the batch behind the rows: see `_heads_behind`.
    infer=_flat,
    ref=_attend_ref,
    lower=lowered_by("attention.Attention", gradient=False),
    flops=_attend_flops,
    samples=_attend_samples(gradient=False),
)
ATTEND_SLOPES: Op = Op(
    "attend_slopes",
    "kernel",
    # inputs (g, q, k, v[, mask]); the gradients of q, k and v one after the other, laid out alike.
    infer=_flat,
    ref=_attend_slopes_ref,
    expand=_attend_slopes_expand,
    lower=lowered_by("attention.Attention", gradient=True),
    saves="x",
    batch=_slopes_batched,
    draws=_draws,
    flops=_attend_slopes_flops,
    samples=_attend_samples(gradient=True),
)

# ------------------------------------------------------------------------------- what is recorded


def _attention_samples(gradient: bool) -> s.SampleRule:
    def sample(causal: bool, kind: str, drop: bool) -> s.Sample:
        lead = (2,) if drop else ()
        inputs: list[Any] = [s.uniform(*lead, *last) for last in ((2, 3), (3, 3), (3, 1))]
        if kind == "float":
            inputs.append(s.uniform(2, 3, seed=7))
        elif kind == "bool":
            inputs.append(s.uniform(2, 3, seed=7) > -0.5)
        attrs: Attrs = (causal, kind, drop)
        if gradient:
            inputs.insert(0, s.uniform(*lead, 2, 1, seed=8))
        args = (0.7, 0.25, 4 / 3, 11, 0) if drop else (0.7,)
        op = MASK_SLOPES if gradient else ATTENTION
        # The gradient's gradients are tested with those of the attention.
        return s.Sample(
            tuple(inputs), lambda *t: record(op, t, attrs, args), kind != "bool" and not gradient
        )

    cases = [(False, "float", False), (False, "float", True)]
    if not gradient:
        cases += [(True, "", True), (False, "bool", False)]
    return s.calls(*[lambda case=case: sample(*case) for case in cases])


MASK_SLOPES: Op = Op(
    "attention_mask_slopes",
    "composite",
    # inputs (g, q, k, v, mask): the gradient of a mask; computes the scores again.
    infer=_mask_slopes_infer,
    expand=_mask_slopes_expand,
    saves="x",
    batch=matrices,
    draws=_draws,
    samples=_attention_samples(gradient=True),
)


def _attention_rule(which: int) -> Any:
    def rule(g: Tensor, y: Tensor, *inputs: Tensor) -> Tensor:
        node, given = y._node, (g, *inputs)
        if which == 3:
            return record(MASK_SLOPES, given, node.attrs, node.args)
        slopes = shared(y, lambda: _slopes(node, given))
        return _part_of(slopes, _shapes_of_slopes([node_of(x).meta for x in given]), which)

    return rule


ATTENTION: Op = Op(
    "scaled_dot_product_attention",
    "composite",
    infer=_attention_infer,
    expand=_attention_expand,
    layout=_attention_layout,
    grads=tuple([_attention_rule(i) for i in range(4)]),
    saves="x",
    batch=matrices,
    draws=_draws,
    samples=_attention_samples(gradient=False),
)


@in_low
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """`softmax(query @ key.T * scale + mask) @ value`, over (…, length, features).

    Args:
        query: (…, L, features).
        key, value: (…, S, features).
        attn_mask: True where a query may look, or numbers added to the scores. Queries that may
            look nowhere give 0.
        dropout_p: the share of the weights that is dropped, in training or not.
        is_causal: each query looks at the keys up to its own place.
        scale: 1 / √features by default.
        enable_gqa: query has a multiple of the heads (dim -3) of key and value.

    Example:
        >>> q = lg.ones(1, 4, 8)
        >>> F.scaled_dot_product_attention(q, q, q, is_causal=True).shape
        livegrad.Size([1, 4, 8])
    """
    metas = [node_of(x).meta for x in (query, key, value)]
    _check_attention(metas, attn_mask, is_causal, dropout_p)
    q, k, v = metas
    if enable_gqa and q.ndim > 2:
        for meta in (k, v):
            if meta.ndim != q.ndim or meta.shape[-3] == 0 or q.shape[-3] % meta.shape[-3]:
                raise RuntimeError(
                    "scaled_dot_product_attention: number of heads in key and value must divide "
                    f"the number of heads in query; got {list(meta.shape)} and {list(q.shape)}"
                )
        key = repeat_interleave(key, q.shape[-3] // k.shape[-3], -3)
        value = repeat_interleave(value, q.shape[-3] // v.shape[-3], -3)
    factor = (1 / math.sqrt(q.shape[-1]) if q.shape[-1] else 1.0) if scale is None else scale
    args: tuple[Any, ...] = (float(factor),)
    if dropout_p > 0:
        inputs_ = [x for x in (query, key, value, attn_mask) if x is not None]
        drawn = default_generator.draw(_scores([node_of(x).meta for x in inputs_], k))
        args += (float(dropout_p), 1 / (1 - dropout_p) if dropout_p < 1 else 0.0, *drawn)
    kind = ""
    inputs: tuple[Tensor, ...] = (query, key, value)
    if attn_mask is not None:
        kind = "bool" if node_of(attn_mask).meta.dtype is dtypes.bool_ else "float"
        inputs += (attn_mask,)
    out = record(ATTENTION, inputs, (bool(is_causal), kind, dropout_p > 0), args)
    return row_major(out) if attn_mask is not None and attn_mask.requires_grad else out


def _check_attention(metas: list[Meta], mask: Tensor | None, causal: bool, p: float) -> None:
    name = "scaled_dot_product_attention"
    q, k, v = metas
    shapes = [list(meta.shape) for meta in metas]
    if min(meta.ndim for meta in metas) < 2:
        raise RuntimeError(f"{name}: Expected at least 2 dims of query, key, value; got {shapes}")
    if not q.dtype is k.dtype is v.dtype:
        raise RuntimeError(
            f"{name}: Expected query, key, and value to have the same dtype, but got "
            f"{[meta.dtype.name for meta in metas]}"
        )
    need_float(name, q.dtype)
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise RuntimeError(
            f"{name}: sizes do not fit; got query, key, value {shapes}; expected (…, L, E), "
            "(…, S, E), (…, S, D)"
        )
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"{name}: dropout probability has to be between 0 and 1, but got {p}")
    if mask is None:
        return
    if causal:
        raise RuntimeError(f"{name}: Explicit attn_mask should not be set when is_causal=True")
    meta = node_of(mask).meta
    if meta.dtype is not dtypes.bool_ and meta.dtype.category != dtypes.FLOAT:
        raise RuntimeError(
            f"{name}: Expected attn_mask dtype to be bool or float or to match query dtype, but "
            f"got {meta.dtype.name}"
        )
    scores = (q.shape[-2], k.shape[-2])
    if broadcast_shapes(name, [meta.shape, scores])[-2:] != scores:
        raise RuntimeError(
            f"{name}: attn_mask {list(meta.shape)} does not fit scores of {list(scores)}"
        )
