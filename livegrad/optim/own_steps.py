"""Steps that optimisers have of their own, written by users or as special as LBFGS's.

`Optimizer.step` tells listeners of a step, and has gradients looked at before they are used. Here
the same is done around a `step` that does not call it:

    own step ──► gradients computed, finite? ──► the step, lazily as ever
    with a closure                               whenever the closure has been called
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from livegrad.graph.events import STEP, tell
from livegrad.graph.watch import BLAMING
from livegrad.ops.bookkeeping.asking import look_at_gradients


def take(step: Callable[..., Any], optimizer: Any, args: Any, kwargs: Any) -> Any:
    """Calls a step of an optimiser's own."""
    own = _Own(optimizer)
    closures = [x for x in (*args, *kwargs.values()) if callable(x)]
    if not closures:
        own.gradients_are_there()
    args = tuple([own.asked_after(x) if callable(x) else x for x in args])
    kwargs = {key: own.asked_after(x) if callable(x) else x for key, x in kwargs.items()}
    try:
        return step(optimizer, *args, **kwargs)
    finally:
        own.end()


class _Own:
    """One step under way."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self._was_told = False
        if BLAMING.enabled:
            BLAMING.optimizer, BLAMING.reads = optimizer, True  # what it reads is looked at

    def asked_after(self, closure: Callable[..., Any]) -> Callable[..., Any]:
        """A closure after whose calls gradients are looked at."""

        @wraps(closure)
        def called(*args: Any, **kwargs: Any) -> Any:
            loss = closure(*args, **kwargs)
            self.gradients_are_there()
            return loss

        return called

    def gradients_are_there(self) -> None:
        """Has them looked at; tells listeners of the step, once."""
        if BLAMING.enabled:
            look_at_gradients(self.optimizer.param_groups)
        if STEP and not self._was_told:
            self._was_told = True
            tell(STEP, self.optimizer, True)

    def end(self) -> None:
        BLAMING.optimizer = None
        if STEP and self._was_told:
            tell(STEP, self.optimizer, False)


__all__ = ["take"]
