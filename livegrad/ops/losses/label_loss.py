"""Losses over the scores of classes by margin, with one label per row or several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from livegrad import dtypes
from livegrad.graph.blame import as_float
from livegrad.graph.handle import node_of
from livegrad.graph.infer import TYPE_NAMES, broadcast_shapes, not_implemented
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import add, div, mul, neg, sub, where
from livegrad.ops.elementwise.comparison import eq, logical_and, lt, ne
from livegrad.ops.layers.activation import relu
from livegrad.ops.layers.composite import Attrs, Metas, compute_dtype, to_dtype
from livegrad.ops.layers.smooth_activation import logsigmoid
from livegrad.ops.losses.class_loss import check_reduction, check_weight, old_reduction
from livegrad.ops.losses.loss import loss_dtype, reduced
from livegrad.ops.making.generate import STEPS, steps
from livegrad.ops.picking.gathering import GATHER
from livegrad.ops.reductions import reduce as rd
from livegrad.ops.shaping.movement import reshape_to
from livegrad.ops.support import samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

# All are differentiated through their expansion.


def _as_classes(x: Tensor) -> Tensor:
    """A single score as the scores of one class."""
    return reshape_to(x, (1,)) if not node_of(x).meta.ndim else x


def _class_rows(name: str, x: Meta, target: Meta, labels: bool) -> Shape:
    """The shape of the losses of rows; RuntimeError unless input is (C,) or (N, C)."""
    if x.ndim not in (1, 2) or x.shape[-1] == 0:
        raise RuntimeError(
            f"{name}: Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(x.shape)}"
        )
    wanted = x.shape if labels else x.shape[:-1]
    if target.shape != wanted and not (x.ndim == 1 and target.numel == 1 and not labels):
        raise RuntimeError(
            f"{name}: inconsistent target size: {list(target.shape)} for input of size "
            f"{list(x.shape)}; expected {list(wanted)}"
        )
    if x.dtype.category != dtypes.FLOAT:
        raise NotImplementedError(f'"{name}" not implemented for {x.dtype.name}')
    if target.dtype is not dtypes.int64:
        found = TYPE_NAMES[target.dtype.name]
        raise RuntimeError(f"{name}: expected scalar type Long but found {found}")
    return x.shape[:-1]


def _multi_margin_expand(n: Any, x: Tensor, target: Tensor, *weights: Tensor) -> Tensor:
    reduction, p = n.attrs
    x = to_dtype(x, compute_dtype(n))
    shape = node_of(x).meta.shape
    column = reshape_to(to_dtype(target, dtypes.int64), (*shape[:-1], 1))
    own = record(GATHER, (x, column), (len(shape) - 1,))
    others = ne(record(STEPS, (), (dtypes.int64,), (0, 1), shape[-1:]), column)
    short = relu(add(sub(x, own), n.args[0]))
    if p == 2:
        short = mul(short, short)
    if weights:
        weight = to_dtype(weights[0], compute_dtype(n))
        flat = reshape_to(column, (node_of(column).meta.numel,))
        of_row = record(GATHER, (weight, flat), (0,))
        short = mul(short, reshape_to(of_row, (*shape[:-1], 1)))
    loss = div(rd.sum(where(others, short, 0), -1), float(shape[-1]))
    return to_dtype(reduced(loss, reduction), n.meta.dtype)


def _multi_margin_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    x, target = metas[:2]
    rows = _class_rows("multi_margin_loss", x, target, False)
    if len(metas) > 2 and metas[2].shape != x.shape[-1:]:
        raise RuntimeError(
            f"multi_margin_loss: inconsistent weight size: {list(metas[2].shape)}; expected "
            f"{list(x.shape[-1:])}"
        )
    return meta_of(rows if attrs[0] == "none" else (), x.dtype)


MULTI_MARGIN_LOSS = Op(
    "multi_margin_loss",
    "composite",
    # inputs (x, target[, weight]), attrs (reduction, p), args (margin,).
    infer=_multi_margin_infer,
    expand=_multi_margin_expand,
    saves="x",
    autocast="float32",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(4, 5), s.integers(4, high=5)), lambda x, t: multi_margin_loss(x, t, 2)
        ),
        lambda: s.Sample(
            (s.uniform(5), s.integers(high=5)),
            lambda x, t: multi_margin_loss(x, t, weight=steps(5, 0.5, 0.25, x.dtype)),
        ),
    ),
)


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Mean over classes and rows of `max(0, margin - own + other)^p`, as scores of classes."""
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce)
    check_reduction(reduction)
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: only p == 1 and p == 2 supported; got {p}")
    if weight is not None and node_of(weight).meta.ndim != 1:
        raise ValueError("multi_margin_loss: weight must be one-dimensional")
    check_weight("multi_margin_loss", weight)
    input = _as_classes(input)
    inputs = (input, target) if weight is None else (input, target, weight)
    return record(MULTI_MARGIN_LOSS, inputs, (reduction, int(p)), (as_float(margin),))


def _multilabel_expand(n: Any, x: Tensor, target: Tensor) -> Tensor:
    x = to_dtype(x, compute_dtype(n))
    shape = node_of(x).meta.shape
    count, last = shape[-1], len(shape) - 1
    target = to_dtype(target, dtypes.int64)
    places = record(STEPS, (), (dtypes.int64,), (0, 1), (count,))
    ended = rd.amin(where(lt(target, 0), places, count), -1, True)
    named = lt(places, ended)  # the labels before the first -1
    label = where(named, target, 0)
    own = record(GATHER, (x, label), (last,))
    column, named_column = [reshape_to(v, (*shape, 1)) for v in (label, named)]
    hit = logical_and(eq(column, places), named_column)  # (…, label, class)
    other = eq(rd.sum(hit, last, True), 0)  # (…, 1, class): classes that are no label
    row = reshape_to(x, (*shape[:-1], 1, count))
    short = relu(add(sub(row, reshape_to(own, (*shape, 1))), 1.0))
    loss = rd.sum(where(logical_and(named_column, other), short, 0), (last, last + 1))
    return to_dtype(reduced(div(loss, float(count)), n.attrs[0]), n.meta.dtype)


def _multilabel_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    x, target = metas
    rows = _class_rows("multilabel_margin_loss", x, target, True)
    return meta_of(rows if attrs[0] == "none" else (), x.dtype)


MULTILABEL_MARGIN_LOSS = Op(
    "multilabel_margin_loss",
    "composite",
    # inputs (x, labels of each row, ended by -1), attrs (reduction,).
    infer=_multilabel_infer,
    expand=_multilabel_expand,
    saves="x",
    autocast="float32",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(3, 4), s.integers(3, 4, low=-1, high=4)),
            lambda x, t: multilabel_margin_loss(x, t),
        ),
        lambda: s.Sample(
            (s.uniform(4), s.integers(4, high=4)),
            lambda x, t: multilabel_margin_loss(x, t, reduction="none"),
        ),
    ),
)


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Mean over rows of `max(0, 1 - label + other)`, summed over labels and other classes, / C.

    Args:
        target: the labels of each row, ended by the first -1, of the size of `input`.
    """
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce)
    check_reduction(reduction)
    inputs = (_as_classes(input), _as_classes(target))
    return record(MULTILABEL_MARGIN_LOSS, inputs, (reduction,))


def _soft_labels_expand(n: Any, x: Tensor, target: Tensor, *weights: Tensor) -> Tensor:
    x, target, *weights_ = [to_dtype(v, compute_dtype(n)) for v in (x, target, *weights)]
    right = mul(target, logsigmoid(x))
    loss = neg(add(right, mul(sub(1, target), logsigmoid(neg(x)))))
    for weight in weights_:
        loss = mul(loss, weight)
    classes = float(node_of(loss).meta.shape[-1])
    return to_dtype(reduced(div(rd.sum(loss, -1), classes), n.attrs[0]), n.meta.dtype)


def _soft_labels_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    full = broadcast_shapes("multilabel_soft_margin_loss", [meta.shape for meta in metas])
    dtype = loss_dtype("multilabel_soft_margin_loss", metas)
    if metas[0].dtype.category < dtypes.FLOAT:
        raise not_implemented("log_sigmoid_forward_cpu", metas[0].dtype)
    if metas[1].dtype is dtypes.bool_:
        raise RuntimeError("multilabel_soft_margin_loss: expected numbers as targets; found bools")
    if not full:
        raise IndexError(
            "multilabel_soft_margin_loss: Dimension specified as -1 but tensor has no dimensions"
        )
    return meta_of(full[:-1] if attrs[0] == "none" else (), dtype)


MULTILABEL_SOFT_MARGIN_LOSS = Op(
    "multilabel_soft_margin_loss",
    "composite",
    # inputs (x, target[, weight]), attrs (reduction,).
    infer=_soft_labels_infer,
    expand=_soft_labels_expand,
    saves="x",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(2, 3), s.uniform(2, 3, low=0.0, seed=1), s.uniform(3, low=0.5, seed=2)),
            lambda x, t, w: multilabel_soft_margin_loss(x, t, w),
        ),
        lambda: s.Sample(
            (s.uniform(5), s.uniform(5, low=0.0, seed=1)),
            lambda x, t: multilabel_soft_margin_loss(x, t, reduction="none"),
        ),
    ),
)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Mean over rows of the mean binary cross entropy of the logits of each class."""
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce)
    check_reduction(reduction)
    inputs = (input, target) if weight is None else (input, target, weight)
    return record(MULTILABEL_SOFT_MARGIN_LOSS, inputs, (reduction,))
