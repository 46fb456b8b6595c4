"""The product over dims, whose gradients must not divide by zero.

With P the product of the factors that are not zero, and Z how many are zero:

    d/dx_i       P / x_i   if Z = 0      P      if only x_i is zero
    d²/dx_i dx_j P/x_i x_j if Z = 0      P/x_i  if only x_j is zero      P  if only they are zero
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad.dtypes import DType
from livegrad.graph.handle import node_of
from livegrad.graph.lowering import lowered_by
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import cast, div, mul, sub, where
from livegrad.ops.elementwise.comparison import eq
from livegrad.ops.elementwise.conjugate import conj
from livegrad.ops.making.generate import filled
from livegrad.ops.reductions.reduce import (
    WIDE_SUM,
    Dim,
    Dims,
    define,
    kept,
    normal_dims,
    over_several,
    reductions,
    sum,
    summed_meta,
)
from livegrad.ops.support import batched, folds, parts, samples as s
from livegrad.ops.support.out import folding

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def _factors(x: Tensor, dims: Dims) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(is zero, x with ones for zeros, P, Z), the last two with the folded dims kept."""
    zero = eq(x, 0)
    safe = where(zero, 1, x)
    return zero, safe, prod(safe, dims, True), sum(zero, dims, True)


def _backward(n: Any, g: Tensor, x: Tensor) -> Tensor:
    """g times the product of the others."""
    dims, keepdim = n.attrs
    zero, safe, product, zeros = _factors(x, dims)
    at_zero = where(eq(zeros, 1), product, 0)
    elsewhere = where(eq(zeros, 0), div(product, safe), 0)
    return mul(kept(g, x, dims, keepdim), conj(where(zero, at_zero, elsewhere)))


def _second(n: Any, h: Tensor, g: Tensor, x: Tensor) -> Tensor:
    """The gradient of `_backward` for x: g times the sum of h_i P_ij over all i but j."""
    dims, keepdim = n.attrs
    zero, safe, product, zeros = _factors(x, dims)
    ratio = div(h, safe)
    of_zeros = sum(where(zero, h, 0), dims, True)
    of_others = sum(where(zero, 0, ratio), dims, True)
    at_zero = where(eq(zeros, 1), of_others, where(eq(zeros, 2), sub(of_zeros, h), 0))
    others = where(eq(zeros, 0), sub(of_others, ratio), where(eq(zeros, 1), of_zeros, 0))
    slope = mul(product, where(zero, at_zero, div(others, safe)))
    return mul(conj(kept(g, x, dims, keepdim)), slope)


def _second_rule(h: Tensor, y: Tensor, g: Tensor, x: Tensor) -> Tensor:
    return conj(record(PROD_SECOND, (h, g, x), y._node.attrs))


def _incoming_rule(h: Tensor, y: Tensor, g: Tensor, x: Tensor) -> Tensor:
    """The gradient of `_backward` for g: the sum of h_i times the product of the others."""
    dims, keepdim = y._node.attrs
    meta = node_of(g).meta
    others = record(PROD_BACKWARD, (filled(meta.shape, 1, meta.dtype), x), (dims, keepdim))
    return sum(mul(h, conj(others)), dims, keepdim)


def _example(*x: float) -> Any:
    return np.array(x)


PROD_SECOND: Op = Op(
    "prod_second",
    "composite",
    infer=lambda metas, attrs, shape: metas[2],
    expand=_second,
    complex=True,
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, 4), s.uniform(3, seed=1), s.uniform(3, 4, low=0.5, seed=2)),
            lambda h, g, x: record(PROD_SECOND, (h, g, x), ((1,), False)),
        ),
    ),
)
PROD_BACKWARD: Op = Op(
    "prod_backward",
    "composite",
    infer=lambda metas, attrs, shape: metas[1],
    expand=_backward,
    grads=(_incoming_rule, _second_rule),
    complex=True,
    batch=batched.folding,
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3), s.uniform(3, 4, low=0.5)),
            lambda g, x: record(PROD_BACKWARD, (g, x), ((1,), False)),
        ),
        lambda: s.Sample(
            (s.uniform(1), _example(2.0, 0.0, 3.0)),
            lambda g, x: record(PROD_BACKWARD, (g, x), ((0,), True)),
            smooth=False,  # third gradients are not right at zeros
        ),
        lambda: s.Sample(
            (s.uniform(1), _example(0.0, 2.0, 0.0, 3.0)),
            lambda g, x: record(PROD_BACKWARD, (g, x), ((0,), True)),
            smooth=False,
        ),
    ),
)


def _rule(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    attrs = y._node.attrs
    # A number is its own product, whatever it is.
    return record(PROD_BACKWARD, (g, x), attrs) if attrs[0] else g


PROD = define(
    "prod",
    ref=folds.product,
    combine="prod",
    lower=lowered_by("reduce.Reduce", unrounded="wide_prod"),
    infer=summed_meta,
    grads=(_rule,),
    saves="x",
    complex=True,
    autocast="float32",
    grad_fn=parts.reduction("prod", "ProdBackward0", "ProdBackward1"),
    samples=over_several(
        lambda x, dim, keepdim: prod(x, dim, keepdim),
        reductions(lambda x, dim, keepdim: prod(x, dim, keepdim), low=0.5),
    ),
)

# A product of floats that is not rounded to their dtype: of one part of many.
WIDE_PROD: Op = define(
    "wide_prod",
    ref=folds.product,
    combine="wide_prod",
    infer=WIDE_SUM.infer,
    lower=lowered_by("reduce.Reduce", in_parts=False),
    samples=s.calls(
        lambda: s.Sample((s.uniform(3, 5),), lambda x: record(WIDE_PROD, (x,), ((1,), True))),
        lambda: s.Sample((s.uniform(4, 37),), lambda x: record(WIDE_PROD, (x,), ((0,), True))),
    ),
)


@folding
def prod(
    input: Tensor, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """Product over `dim` (all dims by default); integers and bools are multiplied as int64.

    Args:
        input: a tensor.
        dim: one dim; None: all.
        keepdim: keep it, with size 1.
        dtype: what is multiplied is cast to it first.

    Example:
        >>> lg.prod(lg.tensor([2, 3, 4]))
        tensor(24)
    """
    if dtype is not None:
        input = cast(input, dtype)
    dims = normal_dims("prod", dim, node_of(input).meta.ndim)
    product = record(PROD, (input,), (dims, keepdim))
    return product if dtype is None else cast(product, dtype)
