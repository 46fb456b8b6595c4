"""Losses that want one value above another by a margin: rankings, hinges, triplets.

Those over the scores of classes are in `label_loss.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.blame import as_float, check_number, wrong_class
from livegrad.graph.handle import node_of
from livegrad.graph.infer import broadcast_shapes
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, div, mul, neg, sub, where
from livegrad.ops.elementwise.comparison import (
    clamp_min,
    eq,
    ge,
    logical_and,
    logical_or,
    lt,
    minimum,
    ne,
)
from livegrad.ops.elementwise.pointwise_math import sigmoid
from livegrad.ops.elementwise.roots import sqrt
from livegrad.ops.layers.composite import Attrs, Metas, compute_dtype, to_dtype
from livegrad.ops.layers.smooth_activation import logsigmoid
from livegrad.ops.losses.class_loss import check_reduction, old_reduction
from livegrad.ops.losses.loss import define, loss_dtype, record_loss, reduced
from livegrad.ops.losses.loss_layout import by_steps, hinge, ranking, soft_margin
from livegrad.ops.products.pairwise import check_differences, pairwise_distance
from livegrad.ops.reductions import reduce as rd
from livegrad.ops.support import samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

# --------------------------------------------------------------------------- element by element


def _ranking(n: Any, x1: Tensor, x2: Tensor, t: Tensor) -> Tensor:
    """What the second is above the wanted distance: positive where the loss is not 0."""
    return sub(n.args[0], mul(t, sub(x1, x2)))


MARGIN_RANKING_LOSS = define(
    "margin_ranking_loss",  # inputs (x1, x2, target), args (margin,)
    result="numbers",
    layout=by_steps(ranking),
    value=lambda n, *inputs: clamp_min(_ranking(n, *inputs), 0),
    slopes=(
        lambda n, x1, x2, t: neg(t),
        lambda n, x1, x2, t: t,
        lambda n, x1, x2, t: sub(x2, x1),
    ),
    within=lambda n, *inputs: ge(_ranking(n, *inputs), 0),
    call=lambda a, b, t, **k: margin_ranking_loss(a, b, t, 0.5, **k),
    args=(0.5,),
    dtype="to float",
    flat=((0, 1), (0, 1), (2,)),
)


def _hinge_value(n: Any, x: Tensor, t: Tensor) -> Tensor:
    apart = where(eq(t, 1), 0, clamp_min(sub(n.args[0], x), 0))
    return add(apart, where(eq(t, -1), 0, x))


def _is_too_near(n: Any, x: Tensor, t: Tensor) -> Tensor:
    return logical_and(ne(t, 1), ge(sub(n.args[0], x), 0))


def _hinge_slope(n: Any, x: Tensor, t: Tensor) -> Tensor:
    return sub(to_dtype(ne(t, -1), x.dtype), to_dtype(_is_too_near(n, x, t), x.dtype))


def _signs(t: Tensor) -> Tensor:
    """1 and -1 for the samples."""
    return where(lt(t, 0), -1.0, 1.0).detach().to(t.dtype)


HINGE_EMBEDDING_LOSS = define(
    "hinge_embedding_loss",  # inputs (distance, target 1 or -1), args (margin,)
    result="first",
    layout=by_steps(hinge),
    value=_hinge_value,
    slopes=(_hinge_slope, None),
    within=lambda n, x, t: logical_or(ne(t, -1), _is_too_near(n, x, t)),
    call=lambda x, t, **k: hinge_embedding_loss(x, _signs(t), margin=0.5, **k),
    args=(0.5,),
    flat=((0,), ()),
)
SOFT_MARGIN_LOSS = define(
    "soft_margin_loss",
    result="first",
    layout=by_steps(soft_margin),
    value=lambda n, x, t: neg(logsigmoid(mul(x, t))),
    slopes=(
        lambda n, x, t: neg(mul(t, sigmoid(neg(mul(x, t))))),
        lambda n, x, t: neg(mul(x, sigmoid(neg(mul(x, t))))),
    ),
    call=lambda x, t, **k: soft_margin_loss(x, t, **k),
)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Mean of `max(0, margin - target * (input1 - input2))`: 1 wants the first above, -1 below."""
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce)
    check_reduction(reduction)
    shapes = [node_of(x).meta.shape for x in (input1, input2, target)]
    if len({len(shape) for shape in shapes}) > 1:
        raise RuntimeError(
            "margin_ranking_loss: All input tensors should have same dimension but got sizes: "
            f"input1: {list(shapes[0])}, input2: {list(shapes[1])}, target: {list(shapes[2])}"
        )
    inputs = (input1, input2, target)
    return record_loss(MARGIN_RANKING_LOSS, inputs, None, reduction, False, (as_float(margin),))


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Mean of `input` where `target` is 1, and of `max(0, margin - input)` where it is -1."""
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce)
    check_reduction(reduction)
    args = (as_float(margin),)
    return record_loss(HINGE_EMBEDDING_LOSS, (input, target), None, reduction, False, args)


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Mean of `log(1 + exp(-target * input))`, with targets 1 and -1."""
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce)
    check_reduction(reduction)
    shape, given = [node_of(x).meta.shape for x in (input, target)]
    if broadcast_shapes("soft_margin_loss", [shape, given]) != shape:
        raise RuntimeError(
            f"soft_margin_loss: a target of shape {list(given)} does not fit an input of shape "
            f"{list(shape)}"
        )
    return record_loss(SOFT_MARGIN_LOSS, (input, target), None, reduction)


# ---------------------------------------------------------------------------- vectors by vectors


def _cosine_expand(n: Any, x1: Tensor, x2: Tensor, target: Tensor) -> Tensor:
    dtype = compute_dtype(n)
    x1, x2 = to_dtype(x1, dtype), to_dtype(x2, dtype)
    dim = node_of(target).meta.ndim
    size1, size2 = [add(rd.sum(mul(x, x), dim), 1e-12) for x in (x1, x2)]
    cosine = div(rd.sum(mul(x1, x2), dim), sqrt(mul(size1, size2)))
    same = where(eq(target, 1), sub(1, cosine), 0)
    apart = where(eq(target, -1), clamp_min(sub(cosine, n.args[0]), 0), 0)
    return to_dtype(reduced(add(same, apart), n.attrs[0]), n.meta.dtype)


def _cosine_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    x1, x2, target = metas
    if target.ndim > 1:
        raise RuntimeError(
            "cosine_embedding_loss: 0D or 1D target tensor expected, multi-target not supported; "
            f"got {list(target.shape)}"
        )
    if x1.ndim != target.ndim + 1 or x2.ndim != target.ndim + 1:
        raise RuntimeError(
            f"cosine_embedding_loss: {target.ndim}D target tensor expects {target.ndim + 1}D input "
            f"tensors, but found inputs with sizes {list(x1.shape)} and {list(x2.shape)}"
        )
    rows = broadcast_shapes("cosine_embedding_loss", [x1.shape, x2.shape])[: target.ndim]
    full = broadcast_shapes("cosine_embedding_loss", [rows, target.shape])
    dtype = loss_dtype("cosine_embedding_loss", (x1, x2), "to float")
    if any([x.dtype.category < dtypes.FLOAT for x in (x1, x2)]):  # the norm of integers
        dtype = dtypes.promote_types(dtype, dtypes.get_default_dtype())
    return meta_of(full if attrs[0] == "none" else (), dtype)


COSINE_EMBEDDING_LOSS = Op(
    "cosine_embedding_loss",
    "composite",
    # inputs (x1, x2, target 1 or -1), attrs (reduction,), args (margin,); differentiated through
    # the expansion, like all that follow.
    infer=_cosine_infer,
    expand=_cosine_expand,
    saves="x",
    autocast="float32",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(4, 5), s.uniform(4, 5, seed=1), 2 * s.integers(4, high=2) - 1),
            lambda a, b, t: cosine_embedding_loss(a, b, t, -0.9),
        ),
        lambda: s.Sample(
            (s.uniform(5), s.uniform(5, seed=1), np.array(1)),
            lambda a, b, t: cosine_embedding_loss(a, b, t, reduction="none"),
        ),
    ),
)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Mean of `1 - cosine` where `target` is 1, and of `max(0, cosine - margin)` where it is -1."""
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce)
    check_reduction(reduction)
    return record(
        COSINE_EMBEDDING_LOSS, (input1, input2, target), (reduction,), (as_float(margin),)
    )


def _triplet_expand(n: Any, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    reduction, p, swap = n.attrs
    margin, eps = n.args
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = minimum(far, pairwise_distance(positive, negative, p, eps))
    loss = clamp_min(sub(add(near, margin), far), 0)
    return to_dtype(reduced(loss, reduction), n.meta.dtype)


def _triplet_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    if len({meta.ndim for meta in metas}) > 1:
        ranks = "D, ".join(str(meta.ndim) for meta in metas)
        raise RuntimeError(
            "triplet_margin_loss: The anchor, positive, and negative tensors are expected to have "
            f"the same number of dimensions, but got: {ranks}D"
        )
    full = broadcast_shapes("triplet_margin_loss", [meta.shape for meta in metas])
    check_differences("triplet_margin_loss", metas)
    pairs = (metas[:2], metas[::2])  # whose distances are compared
    dtype = dtypes.promote_types(*[loss_dtype("triplet_margin_loss", p, "to float") for p in pairs])
    return meta_of(full[:-1] if attrs[0] == "none" else (), dtype.to_real())


TRIPLET_MARGIN_LOSS = Op(
    "triplet_margin_loss",
    "composite",
    # inputs (anchor, positive, negative), attrs (reduction, p, swap), args (margin, eps).
    infer=_triplet_infer,
    expand=_triplet_expand,
    saves="x",
    autocast="float32",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(2, 3), s.uniform(2, 3, seed=1), s.uniform(2, 3, seed=2)),
            lambda a, b, c: triplet_margin_loss(a, b, c, swap=True),
        ),
        lambda: s.Sample(
            (s.uniform(5), s.uniform(5, seed=1), s.uniform(5, seed=2)),
            lambda a, b, c: triplet_margin_loss(a, b, c, p=3.0, reduction="none"),
        ),
    ),
)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Mean of `max(0, margin + |anchor - positive| - |anchor - negative|)`, p-norms of rows.

    Args:
        swap: take the distance from the positive to the negative example where it is smaller.
    """
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce)
    check_reduction(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    attrs = (reduction, as_float(p), bool(swap))
    args = (as_float(margin), as_float(eps))
    return record(TRIPLET_MARGIN_LOSS, (anchor, positive, negative), attrs, args)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` with a distance of one's own."""
    check_reduction(reduction)
    check_number(margin)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    ranks = [node_of(x).meta.ndim for x in (anchor, positive, negative)]
    if len(set(ranks)) > 1:
        raise RuntimeError(
            "triplet_margin_with_distance_loss: The anchor, positive, and negative tensors are "
            f"expected to have the same number of dimensions, but got: {ranks}"
        )
    distance = pairwise_distance if distance_function is None else distance_function
    if not callable(distance):
        raise wrong_class(distance, "a function of two tensors")
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduced(clamp_min(sub(add(near, margin), far), 0), reduction)
