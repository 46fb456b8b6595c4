"""Limits on gradients. Nothing is read: the limits are computed with the rest of the step."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from livegrad.autograd import no_grad
from livegrad.creation import zeros
from livegrad.ops.bookkeeping.asking import asked_early
from livegrad.ops.reductions.statistics import norm
from livegrad.ops.shaping.joining import stack
from livegrad.tensor import Tensor


def _listed(tensors: Any) -> list[Any]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _with_gradients(parameters: Any) -> list[Any]:
    return [p for p in _listed(parameters) if p.grad is not None]


def get_total_norm(
    tensors: Iterable[Any],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: Any = None,
) -> Tensor:
    """The norm of all tensors together, as if they were one vector."""
    grads, norm_type = _listed(tensors), float(norm_type)
    if not grads:
        return zeros(())
    with no_grad():
        total = norm(stack([norm(g, norm_type) for g in grads]), norm_type)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: Any = None,
) -> Tensor:
    """Scales all gradients so that their common norm is at most `max_norm`; returns the norm.

    Args:
        parameters: a tensor or several; those without a gradient are left out.
        max_norm: the greatest norm that gradients may have together.
        norm_type: which norm that is; `inf` is the greatest element.
        error_if_nonfinite: whether a norm that is NaN or infinite is an error.
        foreach: accepted.

    Example:
        >>> w = lg.zeros(2, requires_grad=True)
        >>> (w * lg.tensor([3.0, 4.0])).sum().backward()
        >>> nn.utils.clip_grad_norm_([w], max_norm=1.0), w.grad
        (tensor(5.), tensor([0.6000, 0.8000]))
    """
    params = _with_gradients(parameters)
    total = get_total_norm([p.grad for p in params], norm_type, error_if_nonfinite)
    # A norm is finite only if all gradients are, and is looked at in their place; how many elements
    # are not 0 tells nothing.
    _scale(params, float(max_norm), total, [] if float(norm_type) > 0 else params)
    return total


def clip_grads_with_norm_(
    parameters: Any, max_norm: float, total_norm: Any, foreach: Any = None
) -> None:
    """Scales all gradients, whose common norm is `total_norm`, so that it is at most `max_norm`."""
    params, limit = _with_gradients(parameters), float(max_norm)
    if params and not isinstance(total_norm, Tensor):
        raise TypeError(
            "clip_grads_with_norm_(): argument 'total_norm' must be Tensor, "
            f"not {type(total_norm).__name__}"
        )
    if params and total_norm.dim():
        raise RuntimeError(
            f"clip_grads_with_norm_: total_norm should be one number, of 0 dimensions; it has "
            f"shape {list(total_norm.shape)}"
        )
    _scale(params, limit, total_norm, params)


def _scale(params: list[Any], max_norm: float, total: Any, looked_at: list[Any]) -> None:
    """Scales gradients; whether `looked_at`, the norm and the factor are finite is asked before."""
    if not params:
        return
    with no_grad():
        factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
        with asked_early(looked_at, total, factor):
            for p in params:
                p.grad.mul_(factor)


clip_grad_norm = clip_grad_norm_  # the old name


def clip_grad_value_(parameters: Any, clip_value: float, foreach: Any = None) -> None:
    """Limits every element of every gradient to [-clip_value, clip_value]."""
    parameters, limit = _listed(parameters), float(clip_value)
    params = _with_gradients(parameters)
    if not params:
        raise RuntimeError(
            f"clip_grad_value_: none of the {len(parameters)} parameters has a gradient. "
            "Call it after backward()"
        )
    with no_grad(), asked_early(params):
        for p in params:
            p.grad.clamp_min_(-limit).clamp_max_(limit)
