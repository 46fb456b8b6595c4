"""Attention: softmax that survives rows without a finite score, scaled dot products, heads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.handle import node_of
from livegrad.graph.infer import broadcast_shapes
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, div, mul, sub, where
from livegrad.ops.elementwise.comparison import eq, ge
from livegrad.ops.elementwise.pointwise_math import exp
from livegrad.ops.layers.composite import (
    SOFTMAX_BACKWARD,
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
from livegrad.ops.shaping.movement import normal_dim, reshape_to
from livegrad.ops.support import samples as s
from livegrad.ops.support.autocast import in_low
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


def _kept(n: Any, scores: Tensor, x: Tensor) -> Tensor:
    """Dropout of `x`, which has the shape of the scores; the same numbers on every call."""
    if not n.attrs[2]:
        return x
    p, scale, seed, offset = n.args[1:]
    shape = node_of(scores).meta.shape
    draw = record(RAND, (), (dtypes.float32,), (seed, offset), shape)
    return where(ge(draw, p), mul(x, scale), 0)


def _shares(n: Any, q: Tensor, k: Tensor, mask: tuple[Tensor, ...]) -> Tensor:
    """How much of each value each query takes: softmax of the masked scores, before dropout."""
    causal, kind, _ = n.attrs[:3]
    scores = mul(matmul(q, transposed(k)), n.args[0])  # (…, L, S)
    if causal:
        rows, columns = node_of(scores).meta.shape[-2:]
        before = ge(reshape_to(counting(rows), (rows, 1)), counting(columns))
        return softmax(where(before, scores, -math.inf), -1)
    if kind == "bool":
        return safe_softmax(where(mask[0], scores, -math.inf), -1)
    if kind == "float":
        return safe_softmax(add(scores, to_dtype(mask[0], compute_dtype(n))), -1)
    return softmax(scores, -1)


def _attention_expand(n: Any, *inputs: Tensor) -> Tensor:
    q, k, v = [to_dtype(x, compute_dtype(n)) for x in inputs[:3]]
    shares = _shares(n, q, k, inputs[3:])
    return to_dtype(matmul(_kept(n, shares, shares), v), n.meta.dtype)


def _attention_backward_expand(n: Any, *inputs: Tensor) -> Tensor:
    which = n.attrs[3]
    g, q, k, v = [to_dtype(x, compute_dtype(n)) for x in inputs[:4]]
    shares = _shares(n, q, k, inputs[4:])
    if which == 2:
        slope = matmul(transposed(_kept(n, shares, shares)), g)
        return to_dtype(slope, n.meta.dtype)
    arriving = _kept(n, shares, matmul(g, transposed(v)))
    inner = rd.sum(mul(arriving, shares), -1, True)
    to_scores = mul(shares, sub(arriving, inner))
    if which == 3:
        return to_dtype(to_scores, n.meta.dtype)
    slope = matmul(to_scores, k) if which == 0 else matmul(transposed(to_scores), q)
    return to_dtype(mul(slope, n.args[0]), n.meta.dtype)


def _attention_backward_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    g, q, k, v = metas[:4]
    rows, columns = q.shape[-2], k.shape[-2]
    last = ((rows, q.shape[-1]), (columns, k.shape[-1]), (columns, v.shape[-1]), (rows, columns))
    return meta_of((*g.shape[:-2], *last[attrs[3]]), g.dtype)


def _attention_samples(gradient: bool) -> s.SampleRule:
    def sample(which: int, causal: bool, kind: str, drop: bool) -> s.Sample:
        lead = (2,) if drop else ()
        inputs: list[Any] = [s.uniform(*lead, *last) for last in ((2, 3), (3, 3), (3, 1))]
        if kind == "float":
            inputs.append(s.uniform(2, 3, seed=7))
        elif kind == "bool":
            inputs.append(s.uniform(2, 3, seed=7) > -0.5)
        attrs: Attrs = (causal, kind, drop)
        if gradient:
            inputs.insert(0, s.uniform(*lead, 2, 1, seed=8))
            attrs = (*attrs, which)
        args = (0.7, 0.25, 4 / 3, 11, 0) if drop else (0.7,)
        op = ATTENTION_BACKWARD if gradient else ATTENTION
        # The gradient's gradients are tested with those of the attention.
        return s.Sample(
            tuple(inputs), lambda *t: record(op, t, attrs, args), kind != "bool" and not gradient
        )

    cases = [(0, True, "", True), (2, False, "bool", False), (3, False, "float", False)]
    if gradient:
        cases.append((1, True, "", False))
    return s.calls(*[lambda case=case: sample(*case) for case in cases])


ATTENTION_BACKWARD: Op = Op(
    "attention_backward",
    "composite",
    # inputs (g, q, k, v[, mask]), attrs (…, which operand); computes the scores again, unless the
    # forward pass is in the same plan.
    infer=_attention_backward_infer,
    expand=_attention_backward_expand,
    saves="x",
    samples=_attention_samples(gradient=True),
)


def _attention_rule(which: int) -> Any:
    def rule(g: Tensor, y: Tensor, *inputs: Tensor) -> Tensor:
        node = y._node
        return record(ATTENTION_BACKWARD, (g, *inputs), (*node.attrs, which), node.args)

    return rule


ATTENTION: Op = Op(
    "scaled_dot_product_attention",
    "composite",
    infer=_attention_infer,
    expand=_attention_expand,
    grads=tuple([_attention_rule(i) for i in range(4)]),
    saves="x",
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
        attn_mask: True where a query may look, or numbers added to the scores. Queries that may
            look nowhere give 0.
        is_causal: each query looks at the keys up to its own place.
        scale: 1 / √features by default.
        enable_gqa: query has a multiple of the heads (dim -3) of key and value.
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
        batch = _batch(tuple([node_of(x).meta for x in inputs_]))
        count = math.prod((*batch, q.shape[-2], k.shape[-2]))
        drawn = default_generator.draw(count)
        args += (float(dropout_p), 1 / (1 - dropout_p) if dropout_p < 1 else 0.0, *drawn)
    kind = ""
    inputs: tuple[Tensor, ...] = (query, key, value)
    if attn_mask is not None:
        kind = "bool" if node_of(attn_mask).meta.dtype is dtypes.bool_ else "float"
        inputs += (attn_mask,)
    return record(ATTENTION, inputs, (bool(is_causal), kind, dropout_p > 0), args)


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
