"""Layers that multiply one input with another: glu, bilinear."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from livegrad import dtypes
from livegrad.graph.handle import node_of
from livegrad.graph.infer import not_implemented
from livegrad.graph.layout import elementwise_strides
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, mul, sub
from livegrad.ops.elementwise.pointwise_math import sigmoid
from livegrad.ops.layers.composite import Attrs, Metas, compute_dtype, need_float, to_dtype
from livegrad.ops.products.matmul import matmul
from livegrad.ops.reductions import reduce as rd
from livegrad.ops.shaping.joining import cat
from livegrad.ops.shaping.movement import PERMUTE, normal_dim, reshape_to
from livegrad.ops.shaping.slicing import narrow
from livegrad.ops.support import samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

# ----------------------------------------------------------------------------------------- glu


def _halves(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    half = node_of(x).meta.shape[dim] // 2
    return narrow(x, dim, 0, half), narrow(x, dim, half, half)


def _glu_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    (x,) = metas
    (dim,) = attrs
    if not x.ndim:
        raise RuntimeError("glu: does not support 0-dimensional tensors")
    need_float("glu", x.dtype)
    size = x.shape[dim]
    if size % 2:
        raise RuntimeError(
            f"glu: Halving dimension must be even, but dimension {dim} is size {size}"
        )
    return meta_of((*x.shape[:dim], size // 2, *x.shape[dim + 1 :]), x.dtype)


def _glu_expand(n: Any, x: Tensor) -> Tensor:
    left, right = _halves(to_dtype(x, compute_dtype(n)), n.attrs[0])
    return to_dtype(mul(left, sigmoid(right)), n.meta.dtype)


def _glu_backward_expand(n: Any, g: Tensor, x: Tensor) -> Tensor:
    dtype = compute_dtype(n)
    left, right = _halves(to_dtype(x, dtype), n.attrs[0])
    gate = sigmoid(right)
    to_left = mul(to_dtype(g, dtype), gate)
    to_right = mul(mul(to_left, left), sub(1, gate))
    return to_dtype(cat([to_left, to_right], n.attrs[0]), n.meta.dtype)


GLU_BACKWARD: Op = Op(
    "glu_backward",
    "composite",
    # inputs (g, x), attrs (dim,)
    infer=lambda metas, attrs, shape: metas[1],
    expand=_glu_backward_expand,
    saves="x",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, 2), s.uniform(3, 4)), lambda g, x: record(GLU_BACKWARD, (g, x), (1,))
        )
    ),
)
GLU = Op(
    "glu",
    "composite",
    # attrs (dim,)
    infer=_glu_infer,
    expand=_glu_expand,
    layout=lambda metas, attrs, meta: elementwise_strides(
        meta.shape, [(meta.shape, metas[0].stride())]
    ),
    grads=(lambda g, y, x: record(GLU_BACKWARD, (g, x), y._node.attrs),),
    saves="x",
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 6),), lambda x: glu(x)),
        lambda: s.Sample((s.uniform(4, 3, 2),), lambda x: glu(x, 0)),
        lambda: s.Sample((s.uniform(0, 4),), lambda x: glu(x, -1)),
    ),
)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """First half of `input` along `dim` times the sigmoid of the second half."""
    return record(GLU, (input,), (normal_dim("glu", dim, node_of(input).meta.ndim),))


# ------------------------------------------------------------------------------------ bilinear


def _bilinear_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    x1, x2, weight = metas[:3]
    if weight.ndim != 3 or not x1.ndim or x1.ndim != x2.ndim:
        raise RuntimeError(
            "bilinear: input dimensions do not match; got inputs "
            f"{list(x1.shape)}, {list(x2.shape)} and weight {list(weight.shape)}; expected (…, I), "
            "(…, J) and (O, I, J)"
        )
    if x1.shape[:-1] != x2.shape[:-1] or (x1.shape[-1], x2.shape[-1]) != weight.shape[1:]:
        raise RuntimeError(
            f"bilinear: sizes do not match; got inputs {list(x1.shape)} and {list(x2.shape)} for "
            f"weight {list(weight.shape)}"
        )
    if len(metas) > 3 and metas[3].shape != weight.shape[:1]:
        raise RuntimeError(
            f"bilinear: got bias {list(metas[3].shape)}; expected {list(weight.shape[:1])}"
        )
    if len({meta.dtype for meta in metas}) > 1:
        raise RuntimeError(
            f"bilinear: expected one dtype, but got {[meta.dtype.name for meta in metas]}"
        )
    if x1.dtype is dtypes.bool_:
        raise not_implemented("bilinear", x1.dtype)
    return meta_of((*x1.shape[:-1], weight.shape[0]), x1.dtype)


def _bilinear_expand(n: Any, x1: Tensor, x2: Tensor, weight: Tensor, *bias: Tensor) -> Tensor:
    outputs, size1, size2 = node_of(weight).meta.shape
    rows = prod(n.meta.shape[:-1])
    table = reshape_to(record(PERMUTE, (weight,), ((1, 0, 2),)), (size1, outputs * size2))
    left = reshape_to(matmul(reshape_to(x1, (rows, size1)), table), (rows, outputs, size2))
    each = mul(left, reshape_to(x2, (rows, 1, size2)))
    out = reshape_to(to_dtype(rd.sum(each, -1), n.meta.dtype), n.meta.shape)
    return add(out, bias[0]) if bias else out


BILINEAR = Op(
    "bilinear",
    "composite",
    # inputs (x1, x2, weight[, bias]); differentiated through the expansion.
    infer=_bilinear_infer,
    expand=_bilinear_expand,
    saves="x",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, 4), s.uniform(3, 5), s.uniform(2, 4, 5), s.uniform(2)),
            lambda *x: bilinear(*x),
        ),
        lambda: s.Sample(
            (s.uniform(2, 3, 2), s.uniform(2, 3, 4), s.uniform(2, 2, 4)), lambda *x: bilinear(*x)
        ),
    ),
)


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`input1 @ weight[k] @ input2 + bias[k]` for each output k."""
    inputs = (input1, input2, weight)
    return record(BILINEAR, inputs if bias is None else (*inputs, bias))
