"""Whether loss and gradients are finite, asked right before updates overwrite parameters.

An optimiser records one node over the latest loss and all its gradients. Its kernel writes nothing:
a NaN or an infinity makes the plan stop there, while parameters still have the values that the step
was computed from, so that what made it can be found by computing the step again (`debug/`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from livegrad.device import CPU
from livegrad.dtypes import FLOAT
from livegrad.graph.handle import wrap
from livegrad.graph.losses import LOSSES
from livegrad.graph.lowering import lowered_by
from livegrad.graph.meta import Meta
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.graph.state import LOCAL
from livegrad.native.hot import hot
from livegrad.ops.bookkeeping.pending import Pending
from livegrad.ops.support import samples as s


class NotFinite(ArithmeticError):
    """What stops a plan in front of an update; nobody but the flush sees it."""


def _complaint(node: Any, value: int) -> tuple[type[Exception], str]:
    return NotFinite, "a gradient is not finite"


def _infer(metas: Sequence[Meta], attrs: Any, shape: Any) -> Meta:
    return metas[0]


FINITE = Op(
    "finite",
    "update",
    # Inputs are gradients; attrs (how many,), args (1.0 if the plan is to stop, else 0.0,).
    infer=_infer,
    expand=lambda args, *gradients: (),
    lower=lowered_by("finite.Finite"),
    complaint=_complaint,
    samples=s.calls(),
)


def asks(node: Any) -> bool:
    """Whether a node is the question."""
    return node.spec.op is FINITE


# A write of so many bytes in the same flush is made in place, which a plan that may stop could not.
_LARGE = 1 << 16


@hot
def check_gradients(groups: list[Any]) -> None:
    """Records the question for the gradients of an optimiser; the caller flushes, after updates."""
    state = LOCAL.state
    if state.reference or state.grad or state.flusher is not None:
        return
    for node in state.written:
        if node.meta.nbytes + 0 > _LARGE:
            return
    gradients: list[Any] = []
    for group in groups:
        for p in group["params"]:
            g = p._grad
            if g is None:
                continue
            meta = g._node.meta
            if meta.device is CPU and meta.dtype.category >= FLOAT:
                gradients.append(g)
    if not gradients:
        return
    if LOSSES.latest is not None:
        loss = LOSSES.latest()
        if loss is not None and _may_be_asked(loss):
            gradients.append(wrap(loss))
    held = state.held
    state.held = True
    try:
        asked = record(FINITE, gradients, (len(gradients),), (1.0,))
        state.handles[-1] = Pending(asked._node, gradients)
    finally:
        state.held = held


@hot
def _may_be_asked(node: Any) -> bool:
    """Whether a loss is computed, or pending in this thread, which is going to."""
    meta = node.meta
    if meta.device is not CPU or meta.dtype.category < FLOAT:
        return False
    state = LOCAL.state
    place = node.index - state.base
    return node.buffer is not None or 0 <= place < len(state.nodes)


__all__ = ["FINITE", "NotFinite", "asks", "check_gradients"]
