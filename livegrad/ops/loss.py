"""Losses of one element at a time, each one node forward and one node per gradient.

Losses over classes are in `ops/class_loss.py`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from livegrad import dtypes
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.op import Op
from livegrad.graph.record import broadcast_shapes, node_of, record
from livegrad.ops import reduce as rd, samples as s
from livegrad.ops.activation import relu
from livegrad.ops.class_loss import REDUCTIONS, check_reduction
from livegrad.ops.comparison import eq, gt, lt
from livegrad.ops.composite import (
    Array,
    Attrs,
    Metas,
    Tensor,
    compute_dtype,
    to_dtype,
)
from livegrad.ops.elementwise import abs, add, div, mul, neg, sign, sub, where
from livegrad.ops.pointwise_math import exp, log, log1p, sigmoid
from livegrad.ops.smooth_activation import logsigmoid

# inputs (x, target), attrs (reduction, flag), args as the loss needs them; the gradient of operand
# i is the op `<name>_backward` with inputs (g, x, target), attrs (reduction, flag, i).

Formula = Callable[..., Tensor]


def _reduced(each: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return each
    meta = node_of(each).meta
    total = rd.sum(each)
    if reduction == "sum":
        return total
    size = meta.shape[0] if reduction == "batchmean" and meta.ndim else meta.numel
    return div(total, float(size)) if size else div(total, 0.0)


def _per_element_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    x, target = metas
    full = broadcast_shapes("loss", [x.shape, target.shape])
    if x.shape != target.shape:
        warnings.warn(
            f"Using a target size ({list(target.shape)}) that is different to the input size "
            f"({list(x.shape)}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size.",
            stacklevel=4,
        )
    dtype = dtypes.promote_types(x.dtype, target.dtype)
    return meta_of(full if attrs[0] == "none" else (), dtype)


def define(
    name: str,
    value: Formula,
    slopes: tuple[Formula, Formula | None],
    call: Any,
    low: float = -1.0,
    args: tuple[float, ...] = (),
) -> Op:
    """Registers a loss `value(n, x, t)` per element with its slopes in x and t."""

    def expand(n: Any, x: Tensor, target: Tensor) -> Tensor:
        dtype = compute_dtype(n)
        each = value(n, to_dtype(x, dtype), to_dtype(target, dtype))
        return to_dtype(_reduced(each, n.attrs[0]), n.meta.dtype)

    def backward_expand(n: Any, g: Tensor, x: Tensor, target: Tensor) -> Tensor:
        reduction, _, which = n.attrs
        dtype = compute_dtype(n)
        g = to_dtype(g, dtype)
        slope_of = slopes[which]
        assert slope_of is not None
        slope = slope_of(n, to_dtype(x, dtype), to_dtype(target, dtype))
        if reduction in ("mean", "batchmean"):
            meta = node_of(slope).meta
            size = meta.shape[0] if reduction == "batchmean" and meta.ndim else meta.numel
            g = div(g, float(max(size, 1)))
        return to_dtype(mul(slope, g), n.meta.dtype)

    def rule(which: int) -> Any:
        def gradient(g: Tensor, y: Tensor, x: Tensor, target: Tensor) -> Tensor:
            node = y._node
            return record(backward, (g, x, target), (*node.attrs, which), node.args)

        return gradient

    def pair(*shape: int) -> tuple[Array, Array]:
        return s.uniform(*shape, low=low, high=0.9), s.uniform(*shape, low=low, high=0.9, seed=9)

    backward = Op(
        f"{name}_backward",
        "composite",
        infer=_backward_infer,
        expand=backward_expand,
        saves="x",
        samples=s.calls(
            lambda: s.Sample(
                (s.uniform(), *pair(3, 7)),
                lambda *t: record(backward, t, ("mean", False, 0), args),
            ),
            lambda: s.Sample(
                (s.uniform(5), *pair(5)), lambda *t: record(backward, t, ("none", False, 1), args)
            ),
        ),
    )
    return Op(
        name,
        "composite",
        infer=_per_element_infer,
        expand=expand,
        grads=(rule(0), None if slopes[1] is None else rule(1)),
        saves="x",
        samples=s.calls(
            lambda: s.Sample(pair(3, 37), lambda x, t: call(x, t)),
            lambda: s.Sample(pair(5), lambda x, t: call(x, t, reduction="none")),
            lambda: s.Sample(pair(2, 3, 2), lambda x, t: call(x, t, reduction="sum")),
            lambda: s.Sample(pair(), lambda x, t: call(x, t)),
            lambda: s.Sample(pair(0, 2), lambda x, t: call(x, t, reduction="sum")),
        ),
    )


def _backward_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    _, x, target = metas
    full = broadcast_shapes("loss", [x.shape, target.shape])
    return meta_of(full, dtypes.promote_types(x.dtype, target.dtype))


def _record_loss(
    op: Op,
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: str,
    flag: bool = False,
    args: tuple[float, ...] = (),
) -> Tensor:
    if weight is None:
        return record(op, (input, target), (reduction, flag), args)
    each = mul(record(op, (input, target), ("none", flag), args), weight)
    if reduction == "mean":
        return rd.mean(each)
    return rd.sum(each) if reduction == "sum" else each


def _opposite(slope: Formula) -> tuple[Formula, Formula]:
    """Slopes of a loss of `x - t`."""
    return slope, lambda n, x, t: slope(n, t, x)


def _squared(n: Any, x: Tensor, t: Tensor) -> Tensor:
    d = sub(x, t)
    return mul(d, d)


MSE_LOSS = define(
    "mse_loss",
    value=_squared,
    slopes=_opposite(lambda n, x, t: mul(sub(x, t), 2.0)),
    call=lambda x, t, **k: mse_loss(x, t, **k),
)
L1_LOSS = define(
    "l1_loss",
    value=lambda n, x, t: abs(sub(x, t)),
    slopes=_opposite(lambda n, x, t: sign(sub(x, t))),
    call=lambda x, t, **k: l1_loss(x, t, **k),
)


def _smooth_l1_value(n: Any, x: Tensor, t: Tensor) -> Tensor:
    beta, half = n.args
    d = abs(sub(x, t))
    inside = div(mul(mul(d, d), 0.5), beta)
    return where(lt(d, beta), inside, sub(d, half))


def _smooth_l1_slope(n: Any, x: Tensor, t: Tensor) -> Tensor:
    d = sub(x, t)
    return where(lt(abs(d), n.args[0]), div(d, n.args[0]), sign(d))


SMOOTH_L1_LOSS = define(
    "smooth_l1_loss",  # args (beta, beta / 2)
    value=_smooth_l1_value,
    slopes=_opposite(_smooth_l1_slope),
    call=lambda x, t, **k: smooth_l1_loss(x, t, beta=0.5, **k),
    args=(0.5, 0.25),
)


def _huber_value(n: Any, x: Tensor, t: Tensor) -> Tensor:
    delta, half = n.args
    d = abs(sub(x, t))
    inside = mul(mul(d, d), 0.5)
    return where(gt(d, delta), mul(sub(d, half), delta), inside)


def _huber_slope(n: Any, x: Tensor, t: Tensor) -> Tensor:
    d = sub(x, t)
    return where(gt(abs(d), n.args[0]), mul(sign(d), n.args[0]), d)


HUBER_LOSS = define(
    "huber_loss",  # args (delta, delta / 2)
    value=_huber_value,
    slopes=_opposite(_huber_slope),
    call=lambda x, t, **k: huber_loss(x, t, delta=0.5, **k),
    args=(0.5, 0.25),
)


def _clipped_log(x: Tensor) -> Tensor:
    """log(x), at least -100, so that a confident wrong answer costs a finite amount."""
    y = log(x)
    return where(lt(y, -100.0), -100.0, y)


def _bce_value(n: Any, x: Tensor, t: Tensor) -> Tensor:
    right = mul(t, _clipped_log(x))
    wrong = mul(sub(1, t), _clipped_log(sub(1, x)))
    return neg(add(right, wrong))


def _bce_slope(n: Any, x: Tensor, t: Tensor) -> Tensor:
    spread = mul(x, sub(1, x))
    return div(sub(x, t), where(lt(spread, 1e-12), 1e-12, spread))


BINARY_CROSS_ENTROPY = define(
    "binary_cross_entropy",
    value=_bce_value,
    slopes=(_bce_slope, lambda n, x, t: sub(_clipped_log(sub(1, x)), _clipped_log(x))),
    call=lambda x, t, **k: binary_cross_entropy(x, t, **k),
    low=0.1,
)


def _softplus_of_minus_abs(x: Tensor) -> Tensor:
    return log1p(exp(neg(abs(x))))


def _bce_logits_value(n: Any, x: Tensor, t: Tensor) -> Tensor:
    return add(sub(relu(x), mul(x, t)), _softplus_of_minus_abs(x))


BINARY_CROSS_ENTROPY_WITH_LOGITS = define(
    "binary_cross_entropy_with_logits",
    value=_bce_logits_value,
    slopes=(lambda n, x, t: sub(sigmoid(x), t), lambda n, x, t: neg(x)),
    call=lambda x, t, **k: binary_cross_entropy_with_logits(x, t, **k),
)


def _bce_pos_weight_expand(n: Any, x: Tensor, target: Tensor, pos_weight: Tensor) -> Tensor:
    dtype = compute_dtype(n)
    x, target, pos_weight = [to_dtype(v, dtype) for v in (x, target, pos_weight)]
    right = mul(mul(pos_weight, target), logsigmoid(x))
    wrong = mul(sub(1, target), logsigmoid(neg(x)))
    return to_dtype(neg(add(right, wrong)), n.meta.dtype)


def _bce_pos_weight_infer(metas: Metas, attrs: Attrs, shape: Any) -> Meta:
    dtype = dtypes.promote_types(metas[0].dtype, metas[1].dtype)
    return meta_of(
        broadcast_shapes("binary_cross_entropy_with_logits", [m.shape for m in metas]), dtype
    )


BCE_WITH_POS_WEIGHT = Op(
    "binary_cross_entropy_with_pos_weight",
    "composite",
    # inputs (logits, target, pos_weight), not reduced; differentiated through the expansion.
    infer=_bce_pos_weight_infer,
    expand=_bce_pos_weight_expand,
    saves="x",
    samples=s.calls(
        lambda: s.Sample(
            (s.uniform(4, 3), s.uniform(4, 3, low=0.0, seed=1), s.uniform(3, low=0.5, seed=2)),
            lambda x, t, w: binary_cross_entropy_with_logits(x, t, pos_weight=w),
        )
    ),
)


def _kl_value(n: Any, x: Tensor, t: Tensor) -> Tensor:
    if n.attrs[1]:
        return mul(exp(t), sub(t, x))
    entropy = where(eq(t, 0), 0, mul(t, log(t)))
    return sub(entropy, mul(t, x))


def _kl_slope(n: Any, x: Tensor, t: Tensor) -> Tensor:
    return neg(exp(t) if n.attrs[1] else t)


def _kl_target_slope(n: Any, x: Tensor, t: Tensor) -> Tensor:
    if n.attrs[1]:
        return mul(exp(t), add(sub(t, x), 1))
    return sub(add(log(t), 1), x)


KL_DIV = define(
    "kl_div",  # flag: the target is a logarithm too
    value=_kl_value,
    slopes=(_kl_slope, _kl_target_slope),
    call=lambda x, t, **k: kl_div(x, t, **k),
    low=0.1,
)


def mse_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None
) -> Tensor:
    """Mean of `(input - target)²`."""
    if reduction not in REDUCTIONS:
        check_reduction(reduction)
    return _record_loss(MSE_LOSS, input, target, weight, reduction)


def l1_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", weight: Tensor | None = None
) -> Tensor:
    """Mean of `|input - target|`."""
    check_reduction(reduction)
    return _record_loss(L1_LOSS, input, target, weight, reduction)


def smooth_l1_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0
) -> Tensor:
    """Mean of `|d|`, made quadratic where it is less than `beta`; d is the difference."""
    check_reduction(reduction)
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta; got {beta}")
    if beta == 0:
        return l1_loss(input, target, reduction)
    args = (float(beta), beta / 2)
    return _record_loss(SMOOTH_L1_LOSS, input, target, None, reduction, False, args)


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """Mean of `d²/2` where `|d| <= delta`, else `delta * (|d| - delta/2)`; d is the difference."""
    check_reduction(reduction)
    if delta <= 0:
        raise RuntimeError(
            f"huber_loss does not support non-positive values for delta; got {delta}"
        )
    args = (float(delta), delta / 2)
    return _record_loss(HUBER_LOSS, input, target, weight, reduction, False, args)


def _need_same_size(name: str, input: Tensor, target: Tensor) -> None:
    got, wanted = node_of(target).meta.shape, node_of(input).meta.shape
    if got != wanted:
        raise ValueError(
            f"{name}: target size ({list(got)}) must be the same as input size ({list(wanted)})"
        )


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """Mean of `-(target * log(input) + (1 - target) * log(1 - input))`, logs at least -100."""
    check_reduction(reduction)
    _need_same_size("binary_cross_entropy", input, target)
    return _record_loss(BINARY_CROSS_ENTROPY, input, target, weight, reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Binary cross entropy of `sigmoid(input)`, computed stably from the logits."""
    check_reduction(reduction)
    _need_same_size("binary_cross_entropy_with_logits", input, target)
    if pos_weight is None:
        op = BINARY_CROSS_ENTROPY_WITH_LOGITS
        return _record_loss(op, input, target, weight, reduction)
    each = record(BCE_WITH_POS_WEIGHT, (input, target, pos_weight))
    if weight is not None:
        each = mul(each, weight)
    if reduction == "mean":
        return rd.mean(each)
    return rd.sum(each) if reduction == "sum" else each


def kl_div(
    input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False
) -> Tensor:
    """Mean of `target * (log(target) - input)`, where `input` holds log-probabilities."""
    check_reduction(reduction, (*REDUCTIONS, "batchmean"))
    return _record_loss(KL_DIV, input, target, None, reduction, log_target)
