"""Losses over classes: cross_entropy and nll_loss, each one node forward and one backward.

They never gather: the class dim is compared with the target, so that the row maximum, the sum of
exponentials and the picked logit all come from one pass over the row.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from livegrad import dtypes
from livegrad.graph.blame import as_float
from livegrad.graph.handle import node_of
from livegrad.graph.infer import TYPE_NAMES, not_implemented
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import elementwise, record
from livegrad.graph.state import LOCAL
from livegrad.graph.symbol import real
from livegrad.ops.bookkeeping.in_place import also_of
from livegrad.ops.elementwise.arithmetic import add, cast, div, mul, neg, sub, where
from livegrad.ops.elementwise.comparison import eq, logical_and, ne
from livegrad.ops.elementwise.pointwise_math import exp, log
from livegrad.ops.layers.composite import (
    Array,
    Attrs,
    Metas,
    compute_dtype,
    log_softmax,
    log_softmax_array,
    softmax,
    to_dtype,
)
from livegrad.ops.making.generate import STEPS, filled, steps
from livegrad.ops.picking.checking import known_outside
from livegrad.ops.reductions import reduce as rd
from livegrad.ops.shaping.movement import reshape_to
from livegrad.ops.support import folds, parts, samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

REDUCTIONS = ("none", "mean", "sum")


def check_reduction(reduction: str, allowed: tuple[str, ...] = REDUCTIONS) -> None:
    """ValueError unless `reduction` is allowed."""
    if reduction not in allowed:
        raise ValueError(f"{reduction} is not a valid value for reduction; expected {allowed}")


def old_reduction(size_average: bool | None, reduce: bool | None) -> str:
    """The reduction meant by two arguments that `reduction` has long replaced."""
    if reduce is False:
        meant = "none"
    else:
        meant = "sum" if size_average is False else "mean"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{meant}' instead.",
        stacklevel=3,
    )
    return meant


def check_weight(name: str, weight: Tensor | None) -> None:
    """RuntimeError for a class weight that asks for a gradient, which this loss does not give."""
    if weight is not None and node_of(weight).grad_to is not None and LOCAL.state.grad:
        raise RuntimeError(
            f"{name}: not differentiable with respect to argument 'weight', which requires grad. "
            "Pass weight.detach()"
        )


# cross_entropy and nll_loss: inputs (x, target[, weight]), attrs (reduction, smoothed),
# args (ignore_index, 1 - label_smoothing, label_smoothing). Classes are dim 1, or dim 0 of (C,).


def class_dim(ndim: int) -> int:
    """The dim that holds the classes: 1, or 0 without a batch dim."""
    return 1 if ndim > 1 else 0


def _with_class_dim(shape: Shape, dim: int) -> Shape:
    return (*shape[:dim], 1, *shape[dim:])


def _checked(target: Array, count: int, ignore: int) -> Array:
    """`target`, after checking that every index lies in [0, count) or equals `ignore`."""
    wrong = target[((target < 0) | (target >= count)) & (target != ignore)]
    if wrong.size:
        raise IndexError(f"Target {wrong.flat[0]} is out of bounds.")
    return target


def _emit_check(e: Any, target: Any, count: Any, ignore: Any) -> Any:
    outside = e.or_(e.lt(target, 0), e.ge(target, count))
    e.on_fault(e.and_(outside, e.ne(target, ignore)), target)
    return target


CHECK_TARGET = Op(
    "check_target",
    "elementwise",
    # Class indices, unchanged; one outside [0, count) that is not `ignore` is a fault.
    ref=_checked,
    emit=_emit_check,
    complaint=lambda node, value: (IndexError, f"Target {value} is out of bounds."),
    result="integer",
    cheap=True,
    saves="",
    samples=s.calls(lambda: s.Sample((s.integers(3, 4, high=5), 5, -100), smooth=False)),
)


class _Rows(NamedTuple):
    """What the losses over class indices share; all broadcastable to the input."""

    hit: Tensor  # where the class is the target
    keep: Tensor  # rows whose target is not ignored
    weight: Tensor | None  # of the classes
    row_weight: Tensor  # of the target's class, 0 where ignored


def _rows(n: Any, x: Tensor, target: Tensor, weights: tuple[Tensor, ...]) -> _Rows:
    shape, dtype = node_of(x).meta.shape, node_of(x).meta.dtype
    dim = class_dim(len(shape))
    target = elementwise(CHECK_TARGET, (target, shape[dim], n.args[0]))
    target = reshape_to(target, _with_class_dim(node_of(target).meta.shape, dim))
    along = tuple([size if d == dim else 1 for d, size in enumerate(shape)])
    hit = eq(record(STEPS, (), (dtypes.int64,), (0, 1), along), target)
    keep = ne(target, n.args[0])
    if not weights:
        return _Rows(hit, keep, None, to_dtype(keep, dtype))
    weight = reshape_to(to_dtype(weights[0], dtype), along)
    of_target = rd.sum(where(hit, weight, 0), dim, True)
    return _Rows(hit, keep, weight, where(keep, of_target, 0))


def _mean_of_rows(loss: Tensor, rows: _Rows, reduction: str, shape: Shape) -> Tensor:
    if reduction == "none":
        return reshape_to(loss, shape)
    total = rd.sum(loss)
    return total if reduction == "sum" else div(total, rd.sum(rows.row_weight))


def _scale_of_rows(n: Any, g: Tensor, x: Tensor, rows: _Rows) -> Tensor:
    """The gradient that reaches each row's loss, broadcastable to the input."""
    if n.attrs[0] == "none":
        shape = node_of(g).meta.shape
        return reshape_to(g, _with_class_dim(shape, class_dim(len(shape) + 1)))
    return g if n.attrs[0] == "sum" else div(g, rd.sum(rows.row_weight))


def _largest(x: Tensor, dim: int) -> Tensor:
    """The largest value of each row; 0 where there are no classes."""
    fold = rd.amax if node_of(x).meta.shape[dim] else rd.sum
    return fold(x, dim, True)


def _cross_entropy_expand(n: Any, x: Tensor, target: Tensor, *weights: Tensor) -> Tensor:
    reduction, smoothed = n.attrs
    x = to_dtype(x, compute_dtype(n))
    shape = node_of(x).meta.shape
    dim = class_dim(len(shape))
    rows = _rows(n, x, target, weights)
    shifted = sub(x, _largest(x, dim))
    log_total = log(rd.sum(exp(shifted), dim, True))
    loss = neg(sub(rd.sum(where(rows.hit, shifted, 0), dim, True), log_total))
    if weights:
        loss = mul(loss, rows.row_weight)
    if smoothed:
        each = sub(log_total, shifted)
        if rows.weight is not None:
            each = mul(each, rows.weight)
        smooth = div(rd.sum(each, dim, True), real(max(shape[dim], 1)))
        loss = add(mul(loss, n.args[1]), mul(smooth, n.args[2]))
    loss = where(rows.keep, loss, 0)
    return to_dtype(_mean_of_rows(loss, rows, reduction, n.meta.shape), n.meta.dtype)


def _cross_entropy_backward_expand(
    n: Any, g: Tensor, x: Tensor, target: Tensor, *weights: Tensor
) -> Tensor:
    dtype = compute_dtype(n)
    g, x = to_dtype(g, dtype), to_dtype(x, dtype)
    shape = node_of(x).meta.shape
    dim = class_dim(len(shape))
    rows = _rows(n, x, target, weights)
    p = softmax(x, dim)
    slope = where(rows.hit, sub(p, 1), p)
    if weights:
        slope = mul(slope, rows.row_weight)
    if n.attrs[1]:
        classes = real(max(shape[dim], 1))
        if rows.weight is None:
            smooth = sub(p, 1 / classes)
        else:
            total = rd.sum(rows.weight, dim, True)
            smooth = div(sub(mul(p, total), rows.weight), classes)
        slope = add(mul(slope, n.args[1]), mul(smooth, n.args[2]))
    slope = mul(slope, _scale_of_rows(n, g, x, rows))
    return to_dtype(where(rows.keep, slope, 0), n.meta.dtype)


def _nll_expand(n: Any, x: Tensor, target: Tensor, *weights: Tensor) -> Tensor:
    x = to_dtype(x, compute_dtype(n))
    dim = class_dim(node_of(x).meta.ndim)
    rows = _rows(n, x, target, weights)
    # The largest, as nothing is larger than one value alone: a sum would lose the sign of -0.
    loss = neg(_largest(where(rows.hit, x, -math.inf), dim))
    if weights:
        loss = mul(loss, rows.row_weight)
    loss = where(rows.keep, loss, 0)
    return to_dtype(_mean_of_rows(loss, rows, n.attrs[0], n.meta.shape), n.meta.dtype)


def _nll_backward_expand(n: Any, g: Tensor, x: Tensor, target: Tensor, *weights: Tensor) -> Tensor:
    dtype = compute_dtype(n)
    g, x = to_dtype(g, dtype), to_dtype(x, dtype)
    rows = _rows(n, x, target, weights)
    slope = neg(mul(rows.row_weight, _scale_of_rows(n, g, x, rows)))
    return to_dtype(where(logical_and(rows.hit, rows.keep), slope, 0), n.meta.dtype)


# NumPy meanings: over (rows, C) matrices, one entry per row.


def _as_rows(x: Array, target: Array) -> tuple[Array, Array]:
    dim = class_dim(x.ndim)
    rows = np.moveaxis(x, dim, -1).reshape(target.size, x.shape[dim])
    return rows, target.reshape(-1)


def _index_loss_ref(log_probabilities: Callable[[Array], Array]) -> Callable[..., Array]:
    def ref(n: Any, x: Array, target: Array, *weights: Array) -> Array:
        ignore, sharp, smooth = n.args
        rows, t = _as_rows(log_probabilities(x), target)
        _checked(t, rows.shape[1], ignore)
        weight = weights[0] if weights else np.ones(rows.shape[1], x.dtype)
        keep = t != ignore
        index = np.where(keep, t, 0)
        row_weight = np.where(keep, weight[index], 0)
        picked = (
            np.take_along_axis(rows, index[:, None], 1)[:, 0] if rows.size else rows[:, :0].sum(1)
        )
        loss = np.where(keep, -picked * row_weight, 0)
        if n.attrs[1]:
            spread = np.where(keep, -folds.average(rows * weight, 1), 0)
            loss = sharp * loss + smooth * spread
        if n.attrs[0] == "none":
            return loss.reshape(target.shape)
        whole = folds.total(loss)
        return whole if n.attrs[0] == "sum" else np.asarray(whole / folds.total(row_weight))

    return ref


def _index_loss_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    x, target = metas[:2]
    if x.dtype.category != dtypes.FLOAT:
        raise not_implemented("cross_entropy", x.dtype)
    _check_index_target(x, target)
    if len(metas) > 2 and metas[2].shape != (x.shape[class_dim(x.ndim)],):
        raise RuntimeError(
            "cross_entropy: weight tensor should be defined either for all "
            f"{x.shape[class_dim(x.ndim)]} classes or no classes but got weight tensor of shape: "
            f"{list(metas[2].shape)}"
        )
    if len(metas) > 2 and metas[2].dtype is not x.dtype:
        raise RuntimeError(
            f"cross_entropy: expected scalar type {TYPE_NAMES[x.dtype.name]} of the weights but "
            f"found {TYPE_NAMES[metas[2].dtype.name]}"
        )
    return meta_of(target.shape if attrs[0] == "none" else (), x.dtype)


def _check_index_target(x: Meta, target: Meta) -> None:
    if target.dtype is not dtypes.int64 and target.dtype is not dtypes.uint8:
        raise RuntimeError(
            "cross_entropy: expected target dtype to be Long or Byte, but got "
            f"{TYPE_NAMES[target.dtype.name]} of shape {list(target.shape)} for input "
            f"{list(x.shape)}. "
            "Class probabilities must be floating point and have the input's shape"
        )
    if x.ndim == 0:
        raise ValueError("cross_entropy: expected input of at least 1 dim (C,); got a 0-d tensor")
    dim = class_dim(x.ndim)
    expected = x.shape[:dim] + x.shape[dim + 1 :]
    if target.shape == expected:
        return
    if x.ndim == 2 and target.ndim < 2:
        raise ValueError(
            f"Expected input batch_size ({x.shape[0]}) to match target batch_size "
            f"({target.shape[0] if target.ndim else 0})."
        )
    raise RuntimeError(
        f"cross_entropy: Expected target size {list(expected)}, got {list(target.shape)} for "
        f"input of shape {list(x.shape)}, whose dim {dim} holds the classes"
    )


def _index_samples(function: Any) -> s.SampleRule:
    def labels(*shape: int, classes: int) -> Array:
        return s.integers(*shape, high=classes)

    return s.calls(
        lambda: s.Sample((s.uniform(4, 37), labels(4, classes=37)), lambda x, t: function(x, t)),
        lambda: s.Sample((s.uniform(5), labels(classes=5)), lambda x, t: function(x, t)),
        lambda: s.Sample(
            (s.uniform(3, 5, 2), labels(3, 2, classes=5)),
            # Not an input: weights get no gradient.
            lambda x, t: function(x, t, weight=steps(5, 0.5, 0.25, x.dtype), ignore_index=2),
        ),
        lambda: s.Sample(
            (s.uniform(6, 5), labels(6, classes=5)),
            lambda x, t: function(x, t, ignore_index=1, reduction="none"),
        ),
        lambda: s.Sample(
            (s.uniform(6, 5), labels(6, classes=5)), lambda x, t: function(x, t, reduction="sum")
        ),
    )


def _index_backward_samples(op_of: Any) -> s.SampleRule:
    def sample(reduction: str, g: tuple[int, ...], smooth: float) -> s.Sample:
        inputs = (s.uniform(*g), s.uniform(6, 5), s.integers(6, high=5))
        attrs, args = (reduction, smooth > 0), (-100, 1 - smooth, smooth)
        return s.Sample(inputs, lambda *t: record(op_of(), t, attrs, args))

    return s.calls(
        lambda: sample("mean", (), 0.0),
        lambda: sample("none", (6,), 0.0),
        lambda: sample("sum", (), 0.25),
    )


def _cross_entropy_gradient(g: Tensor, y: Tensor, x: Tensor, *others: Tensor) -> Tensor:
    return record(CROSS_ENTROPY_BACKWARD, (g, x, *others), y._node.attrs, y._node.args)


def _nll_gradient(g: Tensor, y: Tensor, x: Tensor, *others: Tensor) -> Tensor:
    return also_of(x, record(NLL_LOSS_BACKWARD, (g, x, *others), y._node.attrs, y._node.args))


CROSS_ENTROPY_BACKWARD: Op = Op(
    "cross_entropy_backward",
    "composite",
    # (softmax - one hot) * the gradient of each row; inputs (g, x, target[, weight])
    infer=lambda metas, attrs, shape: metas[1],
    expand=_cross_entropy_backward_expand,
    saves="x",
    samples=_index_backward_samples(lambda: CROSS_ENTROPY_BACKWARD),
)
CROSS_ENTROPY = Op(
    "cross_entropy",
    "composite",
    infer=_index_loss_infer,
    ref=_index_loss_ref(lambda x: log_softmax_array(x, class_dim(x.ndim))),
    expand=_cross_entropy_expand,
    grads=(_cross_entropy_gradient, None, None),
    saves="x",
    autocast="float32",
    grad_fn=parts.cross_entropy,
    samples=_index_samples(lambda x, t, **k: cross_entropy(x, t, label_smoothing=0.2, **k)),
)
NLL_LOSS_BACKWARD: Op = Op(
    "nll_loss_backward",
    "composite",
    infer=lambda metas, attrs, shape: metas[1],
    expand=_nll_backward_expand,
    saves="x",
    samples=_index_backward_samples(lambda: NLL_LOSS_BACKWARD),
)
NLL_LOSS = Op(
    "nll_loss",
    "composite",
    infer=_index_loss_infer,
    ref=_index_loss_ref(lambda x: x),
    expand=_nll_expand,
    grads=(_nll_gradient, None, None),
    saves="x",
    autocast="float32",
    samples=_index_samples(lambda x, t, **k: nll_loss(x, t, **k)),
)


def _probability_expand(n: Any, x: Tensor, target: Tensor, *weights: Tensor) -> Tensor:
    reduction, smoothed = n.attrs
    dtype = compute_dtype(n)
    x, target = to_dtype(x, dtype), to_dtype(target, dtype)
    shape = node_of(x).meta.shape
    dim = class_dim(len(shape))
    if smoothed:
        classes = real(max(shape[dim], 1))
        target = add(mul(target, n.args[0]), div(filled(shape, n.args[1], dtype), classes))
    each = mul(log_softmax(x, dim), target)
    if weights:
        along = tuple([size if d == dim else 1 for d, size in enumerate(shape)])
        each = mul(each, reshape_to(to_dtype(weights[0], dtype), along))
    if reduction == "none":
        return to_dtype(neg(rd.sum(each, dim, False)), n.meta.dtype)
    total = neg(rd.sum(each))
    rows = node_of(x).meta.numel // max(shape[dim], 1)
    return to_dtype(div(total, real(rows)) if reduction == "mean" else total, n.meta.dtype)


def _probability_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    x = metas[0]
    dim = class_dim(x.ndim)
    if x.dtype.category != dtypes.FLOAT:
        raise not_implemented("cross_entropy", x.dtype)
    if len(metas) > 2 and metas[2].shape != (x.shape[dim],):
        raise RuntimeError(
            f"cross_entropy: weight tensor should be defined for all {x.shape[dim]} classes; "
            f"got shape {list(metas[2].shape)}"
        )
    rows = x.shape[:dim] + x.shape[dim + 1 :]
    return meta_of(rows if attrs[0] == "none" else (), x.dtype)


CROSS_ENTROPY_PROBABILITIES = Op(
    "cross_entropy_probabilities",
    "composite",
    # Targets are probabilities: inputs (x, target[, weight]), attrs (reduction, smoothed),
    # args (1 - label_smoothing, label_smoothing); differentiated through the expansion.
    infer=_probability_infer,
    expand=_probability_expand,
    saves="x",
    autocast="float32",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(4, 5), s.uniform(4, 5, low=0.0, seed=1)),
            lambda x, t: cross_entropy(x, t, label_smoothing=0.1),
        ),
        lambda: s.Sample(
            (s.uniform(2, 5, 3), s.uniform(2, 5, 3, low=0.0, seed=1)),
            lambda x, t: cross_entropy(x, t, reduction="none"),
        ),
    ),
)


def _check_known(input: Tensor, meta: Meta, target: Tensor, ignore: int) -> None:
    """IndexError if the classes are there already and one of them is none."""
    x = node_of(input).meta
    if not x.ndim or type(ignore) is not int:
        return
    count = x.shape[class_dim(x.ndim)]
    if meta.numel * count != x.numel:
        return  # the shapes are wrong, as recording will say
    wrong = known_outside(target, 0, count, ignore)
    if wrong is not None:
        raise IndexError(f"Target {wrong} is out of bounds.")


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross entropy between logits `input` (N, C, …) and class indices or probabilities.

    Args:
        input: logits (N, C, …) or (C,).
        target: class indices (N, …), or probabilities of the shape of `input`.
        weight: of each class; it gets a gradient if targets are probabilities.
        ignore_index: targets with this number do not count.
        reduction: "mean", "sum" or "none".
        label_smoothing: the share of each target that is spread over all classes.
        size_average, reduce: old names of reductions.

    Example:
        >>> F.cross_entropy(lg.zeros(2, 4), lg.tensor([0, 3]))
        tensor(1.3863)
    """
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce)
    if reduction not in REDUCTIONS:
        check_reduction(reduction)
    if type(label_smoothing) is not float:
        label_smoothing = as_float(label_smoothing)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    attrs = (reduction, label_smoothing > 0)
    inputs = (input, target) if weight is None else (input, target, weight)
    mix = (1.0 - label_smoothing, label_smoothing)
    meta = node_of(target).meta
    if meta.dtype.category == dtypes.FLOAT and meta.shape == node_of(input).meta.shape:
        if meta.dtype is not node_of(input).meta.dtype:
            common = dtypes.promote_types(meta.dtype, node_of(input).meta.dtype)
            inputs = (cast(input, common), cast(target, common), *inputs[2:])
        return record(CROSS_ENTROPY_PROBABILITIES, inputs, attrs, mix)
    check_weight("cross_entropy", weight)
    _check_known(input, meta, target, ignore_index)
    return record(CROSS_ENTROPY, inputs, attrs, (ignore_index, *mix))


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log likelihood of class indices `target` under log-probabilities (N, C, …).

    Args:
        input: log-probabilities.
        target: class numbers.
        weight: of each class.
        ignore_index: a class that does not count.
        reduction: "mean", "sum" or "none".

    Example:
        >>> F.nll_loss(lg.log(lg.tensor([[0.25, 0.75]])), lg.tensor([1]))
        tensor(0.2877)
    """
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce)
    check_reduction(reduction)
    check_weight("nll_loss", weight)
    _check_known(input, node_of(target).meta, target, ignore_index)
    inputs = (input, target) if weight is None else (input, target, weight)
    return record(NLL_LOSS, inputs, (reduction, False), (ignore_index, 1.0, 0.0))
