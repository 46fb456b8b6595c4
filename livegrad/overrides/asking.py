"""Makes the public functions ask their arguments, once there is somebody to ask.

Nothing of this exists until a program defines a subclass of Tensor, enters a mode, imports
`livegrad.overrides`, or gives a function an object with `__torch_function__`. Then each public
function, method and property getter (objects of their own, see
`ops/support/public.py`) gets new code:

    livegrad.relu ── was ─► code of relu
                  └─ is ──► asks ──► somebody answers
                                 └─► nobody: a twin with the code of relu

The function objects stay the same ones, because people keep tables of them.
"""

from __future__ import annotations

import threading
from functools import partial, wraps
from types import FunctionType
from typing import Any

from livegrad.graph.state import Runtime
from livegrad.nn.parameter import Buffer, Parameter
from livegrad.ops.support.public import answered, exchange
from livegrad.ops.support.strangers import Asking
from livegrad.overrides.catalogue import Entry, entries
from livegrad.overrides.protocol import (
    PLAIN,
    STATE,
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    answer,
    is_asked,
    overloaded,
    tensors_in,
)
from livegrad.tensor import Tensor

_lock = threading.Lock()


def install() -> None:
    """Makes the public functions overridable; the second call does nothing."""
    with _lock:
        if Asking.installed:
            return
        PLAIN.update((Parameter, Buffer))
        # What is pending may be computed at any line: its rules are nobody's business.
        Runtime.flush = staticmethod(_undisturbed(Runtime.flush))
        Runtime.evaluate = staticmethod(_undisturbed(Runtime.evaluate))
        for entry in entries():
            answered(entry.function, partial(Ask, entry))
        Asking.installed = True
        Asking.add(exchange)


def _undisturbed(function: Any) -> Any:
    @wraps(function)
    def run(*args: Any) -> Any:
        with DisableTorchFunction():
            return function(*args)

    return run


class Ask:
    """A call of an overridable function."""

    __slots__ = ("factory", "func", "operator", "plain", "spread")

    def __init__(self, entry: Entry, plain: FunctionType) -> None:
        self.func = entry.func
        self.plain = plain
        self.factory = entry.factory
        self.operator = entry.operator
        self.spread = plain.__name__ == "einsum"  # operands in a list are asked one by one

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        state = STATE
        asked = []
        if self.spread and len(args) == 2 and isinstance(args[0], str):
            operands = args[1]
            args = (args[0], *(operands if isinstance(operands, list | tuple) else [operands]))
        if state.subclasses:
            asked = overloaded(tensors_in(args, kwargs))
            if asked and self.factory:  # sizes may be objects that answer, tensors do not
                asked = [x for x in asked if not isinstance(x, Tensor)]
            if asked and all(is_asked(self.func, x) for x in asked):  # they want what it does
                asked = []
        if not asked and not state.modes:
            if not self.factory:
                return self.plain(*args, **kwargs)
            with DisableTorchFunctionSubclass():
                return self.plain(*args, **kwargs)
        if not self.operator:
            return answer(self.func, asked, args, kwargs)
        try:
            return answer(self.func, asked, args, kwargs)
        except TypeError:  # the class of the other operand may know better
            return NotImplemented
