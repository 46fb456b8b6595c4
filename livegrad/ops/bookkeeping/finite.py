"""Whether loss and gradients are finite, asked right before updates overwrite parameters.

Updates ask themselves (`update.py`). The kernel that looks writes nothing: a NaN or an infinity
makes the plan stop there, while parameters still have the values that the step was computed from,
so that what made it can be found by computing the step again (`debug/`).

What is about to be computed in front of updates, and so without them, asks by a node of its own: an
update of nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from livegrad.device import CPU
from livegrad.dtypes import FLOAT, float32
from livegrad.graph.handle import wrap
from livegrad.graph.infer import infer_spec
from livegrad.graph.losses import LOSSES
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.node import Node
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.graph.state import LOCAL, State, was_dropped
from livegrad.native.hot import hot
from livegrad.ops.bookkeeping.pending import Pending
from livegrad.ops.support import samples as s


class NotFinite(ArithmeticError):
    """What stops a plan in front of an update; nobody but the flush sees it."""


def complaint(node: Any, value: int) -> tuple[type[Exception], str]:
    """What an update says of gradients that are not finite."""
    return NotFinite, "a gradient is not finite"


def _infer(metas: Sequence[Meta], attrs: Any, shape: Any) -> Meta:
    return meta_of((), float32)


FINITE = Op(
    "finite",
    "update",
    infer=_infer,
    expand=lambda args: (),
    complaint=complaint,
    samples=s.calls(),
)

_ASKS = (0, 1, True)  # no parameters, one stream

# A write of so many bytes in the same flush is made in place, which a plan that may stop could not.
LARGE = 1 << 16


@hot
def may_ask(state: State) -> bool:
    """Whether a plan of what is pending may stop, so that updates may ask."""
    if state.reference or state.grad or state.flusher is not None:
        return False
    return not state.written or not any([x.meta.nbytes + 0 > LARGE for x in state.written])


@hot
def latest_loss(state: State) -> Any:
    """Where backward started, if it is computed, or pending here, which is going to."""
    latest = LOSSES.latest
    loss = None if latest is None else latest()
    if loss is None or not _is_looked_at(loss.meta) or was_dropped(state, loss):
        return None
    return wrap(loss)


@hot
def _is_looked_at(meta: Meta) -> bool:
    return meta.device is CPU and meta.dtype.category >= FLOAT


def ask_apart(groups: Sequence[Any], *others: Any) -> bool:
    """Records the question for all gradients of some groups, as a node of its own; if any."""
    found = [p._grad for group in groups for p in group["params"] if p._grad is not None]
    asked = [x for x in (*found, *others) if _is_looked_at(x._node.meta)]
    if asked:
        _ask_about(LOCAL.state, asked)
    return bool(asked)


@hot
def _ask_about(state: State, asked: list[Any]) -> None:
    loss = latest_loss(state)
    if loss is not None:
        asked.append(loss)
    held, state.held = state.held, True
    try:
        asking = record(FINITE, asked, _ASKS)
        state.handles[-1] = Pending(asking._node, asked)
    finally:
        state.held = held


def settle(node: Node) -> None:
    """Has an update that asks, ask no more."""
    count, streams, _ = node.spec.attrs
    inputs = node.inputs[: count * streams]
    op = node.spec.op
    key = (tuple([x.meta for x in inputs]), (count, streams, False), None)
    node.spec = op.cache.get(key) or infer_spec(op, key, inputs, node.args)
    node.inputs = inputs


__all__ = [
    "FINITE",
    "LARGE",
    "NotFinite",
    "ask_apart",
    "complaint",
    "latest_loss",
    "may_ask",
    "settle",
]
