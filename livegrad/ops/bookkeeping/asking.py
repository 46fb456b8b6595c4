"""When gradients are asked about, besides right before updates (`finite.py`).

g.mul_(factor) by clip_grad_norm_     before it writes: the question is about what backward gave
large writes over what was there      are computed before: a plan that may stop could not make them
steps of an optimiser's own           before they begin, see `optim/own_steps.py`
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from livegrad.graph.above import Above
from livegrad.graph.losses import HELD
from livegrad.graph.state import LOCAL, State, flush
from livegrad.graph.views import taken_by
from livegrad.graph.watch import BLAMING
from livegrad.ops.bookkeeping.finite import LARGE, ask_apart, may_ask


def ask(groups: Sequence[Any], *others: Any) -> bool:
    """Records the question about the gradients of some groups, and others; whether it could."""
    state = LOCAL.state
    before, state.grad = state.grad, False
    try:
        return may_ask(state) and ask_apart(groups, *others)
    finally:
        state.grad = before


@contextmanager
def asked_early(parameters: Sequence[Any], *others: Any) -> Iterator[None]:
    """Asks about gradients before the block overwrites them, instead of when they are used.

    `others` are what tells of them, and what they are going to be multiplied by. If anything is
    recorded between the block and the step, the gradients may be others by then: the step asks
    about them, too.
    """
    asked = BLAMING.enabled and BLAMING.reads and ask([{"params": parameters}], *others)
    yield
    if asked:
        BLAMING.asked = LOCAL.state.position


def look_at_gradients(groups: Sequence[Any]) -> None:
    """Computes gradients; if some are not finite, it is found out why, and said."""
    asked = ask(groups)
    if not asked and LOCAL.state.written:
        _compute_and_hold()
        asked = ask(groups)
    if asked:
        flush("optimizer.step()")
    HELD.clear()
    if BLAMING.untold is not None:
        Above.blaming().tell()


def compute_large_writes(state: State) -> None:
    """Computes what is pending, if large writes over values that were there are among it.

    What they were computed from is held, for the case that a gradient is not finite.
    """
    for node, place in state.written.items():
        if node.meta.nbytes > LARGE and taken_by(node, place).buffer is not None:
            _compute_and_hold()
            return


def _compute_and_hold() -> None:
    HELD.hold(LOCAL.state.nodes)
    flush("optimizer.step()")


__all__ = ["ask", "asked_early", "compute_large_writes", "look_at_gradients"]
