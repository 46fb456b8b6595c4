"""Losses that are logarithms of likelihoods: cross entropy, divergence, Poisson, Gaussian."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from livegrad import dtypes
from livegrad.graph.blame import as_float, check_number
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.op import as_first, as_scaled
from livegrad.graph.record import unary
from livegrad.ops.elementwise.arithmetic import abs, add, div, mul, neg, sub, where
from livegrad.ops.elementwise.comparison import eq, gt, lt
from livegrad.ops.elementwise.pointwise_math import exp, log, log1p, sigmoid
from livegrad.ops.layers.activation import relu
from livegrad.ops.layers.smooth_activation import logsigmoid
from livegrad.ops.losses.class_loss import REDUCTIONS, check_reduction, old_reduction
from livegrad.ops.losses.loss import define, record_loss
from livegrad.ops.losses.loss_layout import by_steps, divergence, gaussian, poisson
from livegrad.ops.making.generate import filled
from livegrad.ops.picking.checking import CHECK_LABEL, CHECK_PREDICTION, CHECK_VARIANCE
from livegrad.ops.shaping.movement import reshape_to
from livegrad.ops.support import parts

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

# -------------------------------------------------------------------------------- cross entropy


def _clipped_log(x: Tensor) -> Tensor:
    """log(x), at least -100, so that a confident wrong answer costs a finite amount."""
    y = log(x)
    return where(lt(y, -100.0), -100.0, y)


def _bce_value(n: Any, x: Tensor, t: Tensor) -> Tensor:
    x, t = unary(CHECK_PREDICTION, x), unary(CHECK_LABEL, t)
    right = mul(t, _clipped_log(x))
    wrong = mul(sub(t, 1), _clipped_log(sub(1, x)))
    return sub(wrong, right)


def _bce_slope(n: Any, x: Tensor, t: Tensor) -> Tensor:
    x, t = unary(CHECK_PREDICTION, x), unary(CHECK_LABEL, t)
    spread = mul(x, sub(1, x))
    return div(sub(x, t), where(lt(spread, 1e-12), 1e-12, spread))


BINARY_CROSS_ENTROPY = define(
    "binary_cross_entropy",
    result="same",
    layout=as_first,
    value=_bce_value,
    slopes=(_bce_slope, lambda n, x, t: sub(_clipped_log(sub(1, x)), _clipped_log(x))),
    call=lambda x, t, **k: binary_cross_entropy(x, t, **k),
    grad_fn=parts.loss,
    low=0.1,
)


def _bce_logits_value(n: Any, x: Tensor, t: Tensor) -> Tensor:
    return add(sub(relu(x), mul(x, t)), log1p(exp(neg(abs(x)))))


BINARY_CROSS_ENTROPY_WITH_LOGITS = define(
    "binary_cross_entropy_with_logits",
    result="second",
    layout=lambda metas, attrs, meta: as_first(metas[1:], attrs, meta),
    value=_bce_logits_value,
    slopes=(lambda n, x, t: sub(sigmoid(x), t), lambda n, x, t: neg(x)),
    call=lambda x, t, **k: binary_cross_entropy_with_logits(x, t, **k),
    grad_fn=parts.loss,
)


def _pos_weight_value(n: Any, x: Tensor, t: Tensor, w: Tensor) -> Tensor:
    right = mul(mul(w, t), logsigmoid(x))
    return neg(add(right, mul(sub(1, t), logsigmoid(neg(x)))))


def _pos_weight_slope(n: Any, x: Tensor, t: Tensor, w: Tensor) -> Tensor:
    p = sigmoid(x)
    return sub(mul(sub(1, t), p), mul(mul(w, t), sub(1, p)))


BCE_WITH_POS_WEIGHT = define(
    "binary_cross_entropy_with_pos_weight",  # inputs (logits, target, pos_weight)
    result="second",
    layout=lambda metas, attrs, meta: as_scaled(metas[1:], attrs, meta),
    value=_pos_weight_value,
    slopes=(
        _pos_weight_slope,
        lambda n, x, t, w: sub(logsigmoid(neg(x)), mul(w, logsigmoid(x))),
        lambda n, x, t, w: neg(mul(t, logsigmoid(x))),
    ),
    call=lambda x, t, w, **k: binary_cross_entropy_with_logits(x, t, pos_weight=w, **k),
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
    result="floats",
    layout=by_steps(divergence),
    value=_kl_value,
    slopes=(_kl_slope, _kl_target_slope),
    call=lambda x, t, **k: kl_div(x, t, **k),
    flat=((0,), ()),
    low=0.1,
)


def _need_same_size(name: str, input: Tensor, target: Tensor) -> None:
    got, wanted = node_of(target).meta.shape, node_of(input).meta.shape
    if got != wanted:
        raise ValueError(
            f"{name}: target size ({list(got)}) must be the same as input size ({list(wanted)})"
        )


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Mean of `-(target * log(input) + (1 - target) * log(1 - input))`, logs at least -100.

    Example:
        >>> F.binary_cross_entropy(lg.tensor([0.5, 0.5]), lg.tensor([1.0, 0.0]))
        tensor(0.6931)
    """
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce)
    check_reduction(reduction)
    _need_same_size("binary_cross_entropy", input, target)
    return record_loss(BINARY_CROSS_ENTROPY, (input, target), weight, reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Binary cross entropy of `sigmoid(input)`, computed stably from the logits.

    Args:
        input: logits.
        target: probabilities.
        weight: of each element.
        reduction: "mean", "sum" or "none".
        pos_weight: of the positive class.

    Example:
        >>> F.binary_cross_entropy_with_logits(lg.tensor([0.0]), lg.tensor([1.0]))
        tensor(0.6931)
    """
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce)
    check_reduction(reduction)
    _need_same_size("binary_cross_entropy_with_logits", input, target)
    if pos_weight is None:
        op = BINARY_CROSS_ENTROPY_WITH_LOGITS
        return record_loss(op, (input, target), weight, reduction)
    return record_loss(BCE_WITH_POS_WEIGHT, (input, target, pos_weight), weight, reduction)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Mean of `target * (log(target) - input)`, where `input` holds log-probabilities.

    Args:
        input: log-probabilities.
        target: probabilities.
        reduction: "mean", "batchmean" (what the mathematics has), "sum" or "none".
        log_target: targets are logarithms, too.

    Example:
        >>> p = lg.tensor([[0.5, 0.5]])
        >>> F.kl_div(p.log(), p, reduction="batchmean")
        tensor(0.)
    """
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce)
    check_reduction(reduction, (*REDUCTIONS, "batchmean"))
    return record_loss(KL_DIV, (input, target), None, reduction, bool(log_target))


# ------------------------------------------------------------------------------------- Poisson


def _stirling(t: Tensor) -> Tensor:
    """Stirling's approximation of log(t!); 0 for t <= 1."""
    big = gt(t, 1)
    safe = where(big, t, 1)
    value = add(sub(mul(safe, log(safe)), safe), mul(log(mul(safe, 2 * math.pi)), 0.5))
    return where(big, value, 0)


def _poisson_value(n: Any, x: Tensor, t: Tensor) -> Tensor:
    log_input, full = n.attrs[1]
    if log_input:
        loss = sub(exp(x), mul(t, x))
    else:
        loss = sub(x, mul(t, log(add(x, n.args[0]))))
    return add(loss, _stirling(t)) if full else loss


def _poisson_slope(n: Any, x: Tensor, t: Tensor) -> Tensor:
    return sub(exp(x), t) if n.attrs[1][0] else sub(1, div(t, add(x, n.args[0])))


def _poisson_target_slope(n: Any, x: Tensor, t: Tensor) -> Tensor:
    log_input, full = n.attrs[1]
    slope = neg(x if log_input else log(add(x, n.args[0])))
    if not full:
        return slope
    big = gt(t, 1)
    safe = where(big, t, 1)
    return add(slope, where(big, add(log(safe), div(0.5, safe)), 0))


POISSON_NLL_LOSS = define(
    "poisson_nll_loss",  # flags (log_input, full), args (eps,)
    result="ranked",
    layout=by_steps(poisson),
    value=_poisson_value,
    slopes=(_poisson_slope, _poisson_target_slope),
    call=lambda x, t, **k: poisson_nll_loss(x, mul(t, 3), full=True, **k),
    flags=(False, False),
    args=(1e-3,),
    dtype="to float",
    low=0.1,
)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Mean of `exp(input) - target * input`: counts `target`, logarithms of rates `input`.

    Args:
        log_input: False: `input` holds the rates themselves; `eps` is added before their logarithm.
        full: add Stirling's approximation of `log(target!)`.
    """
    if size_average is not None or reduce is not None:
        reduction = old_reduction(size_average, reduce)
    check_reduction(reduction)
    flags = (bool(log_input), bool(full))
    return record_loss(POISSON_NLL_LOSS, (input, target), None, reduction, flags, (as_float(eps),))


# ------------------------------------------------------------------------------------ Gaussian


def _at_least(x: Tensor, low: float) -> Tensor:
    return where(lt(x, low), low, x)


def _gaussian_value(n: Any, x: Tensor, t: Tensor, var: Tensor) -> Tensor:
    var, d = _at_least(unary(CHECK_VARIANCE, var), n.args[0]), sub(x, t)
    loss = mul(add(log(var), div(mul(d, d), var)), 0.5)
    return add(loss, 0.5 * math.log(2 * math.pi)) if n.attrs[1] else loss


def _gaussian_slope(n: Any, x: Tensor, t: Tensor, var: Tensor) -> Tensor:
    return div(sub(x, t), _at_least(var, n.args[0]))


def _gaussian_variance_slope(n: Any, x: Tensor, t: Tensor, var: Tensor) -> Tensor:
    # As if the variance had not been limited: a variance that is too small can still grow.
    var, d = _at_least(var, n.args[0]), sub(x, t)
    return mul(sub(1, div(mul(d, d), var)), div(0.5, var))


GAUSSIAN_NLL_LOSS = define(
    "gaussian_nll_loss",  # inputs (mean, target, variance), flag full, args (eps,)
    layout=by_steps(gaussian),
    value=_gaussian_value,
    slopes=(
        _gaussian_slope,
        lambda n, x, t, var: _gaussian_slope(n, t, x, var),
        _gaussian_variance_slope,
    ),
    call=lambda x, t, var, **k: gaussian_nll_loss(x, t, var, full=True, **k),
    args=(1e-6,),
    low=0.2,
    autocast=None,
)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Mean of `(log(var) + (input - target)² / var) / 2`, variances being at least `eps`.

    Args:
        var: variances, of the size of `input`, or with the last (or one) dim left out or of size 1;
            or one number.
        full: add the constant `log(2π) / 2`.
    """
    shape, dtype = node_of(input).meta.shape, node_of(input).meta.dtype
    if not isinstance(var, Handle):
        check_number(var)
        if var < 0:
            raise ValueError(f"var has negative entry/entries; got {var}")
        var = filled(shape, var, dtype)
    given = node_of(var).meta.shape
    if given != shape:
        if shape[:-1] == given:
            var = reshape_to(var, (*given, 1))
        elif len(given) != len(shape) or not _one_size_is_1(shape, given):
            raise ValueError(f"var is of incorrect size; got {list(given)} for {list(shape)}")
    check_reduction(reduction)
    kinds = [node_of(x).meta.dtype for x in (input, target, var)]
    if dtypes.bool_ in kinds or kinds[2].category < dtypes.FLOAT:
        raise RuntimeError(
            "gaussian_nll_loss: expected numbers, and variances that are floats; got "
            f"{', '.join([kind.name for kind in kinds])}"
        )
    return record_loss(
        GAUSSIAN_NLL_LOSS, (input, target, var), None, reduction, bool(full), (as_float(eps),)
    )


def _one_size_is_1(shape: tuple[int, ...], given: tuple[int, ...]) -> bool:
    return [b for a, b in zip(shape, given, strict=True) if a != b] == [1]
