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

import sys
import threading
from functools import wraps
from types import CodeType, FunctionType
from typing import Any

from livegrad.graph.state import Runtime
from livegrad.nn.parameter import Buffer, Parameter
from livegrad.ops.support.public import PUBLIC, twin
from livegrad.ops.support.strangers import Asking
from livegrad.ops.support.wrapping import is_wrapper
from livegrad.overrides.catalogue import Entry, entries
from livegrad.overrides.protocol import (
    PLAIN,
    STATE,
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    answer,
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
            _make_overridable(entry)
        Asking.installed = True
        Asking.exchange = exchange
        for package in Asking.callers:
            exchange(package)


def _undisturbed(function: Any) -> Any:
    @wraps(function)
    def run(*args: Any) -> Any:
        with DisableTorchFunction():
            return function(*args)

    return run


def _make_overridable(entry: Entry) -> None:
    function = entry.function
    plain = twin(function)
    if is_wrapper(function):
        function.__globals__["wrapper"] = plain  # which may change its code
    function.__code__ = _asking(function.__code__.co_freevars, Ask(entry, plain))
    function.__defaults__ = function.__kwdefaults__ = None
    function.__wrapped__ = plain  # where `inspect` finds parameters


def exchange(package: str) -> None:
    """Puts public functions in the place of those of ops, in the modules of a package."""
    for name, module in list(sys.modules.items()):
        if not f"{name}.".startswith(f"{package}.") or name == "livegrad.nn.functional":
            continue
        for key, value in list(vars(module).items()):
            if isinstance(value, FunctionType) and value in PUBLIC:
                setattr(module, key, PUBLIC[value])


class Ask:
    """A call of an overridable function."""

    __slots__ = ("factory", "func", "operator", "plain")

    def __init__(self, entry: Entry, plain: FunctionType) -> None:
        self.func = entry.func
        self.plain = plain
        self.factory = entry.factory
        self.operator = entry.operator

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        state = STATE
        asked = []
        if state.subclasses:
            asked = overloaded(tensors_in(args, kwargs))
            if asked and self.factory:  # sizes may be objects that answer, tensors do not
                asked = [x for x in asked if not isinstance(x, Tensor)]
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


def _asking(free: tuple[str, ...], ask: Ask) -> CodeType:
    """The code of a function, with these free variables, whose calls are answered by `ask`.

    A function's code can be exchanged only for such code; what it does not use, it may have.
    """
    code = _template.__code__
    constants = tuple([ask if x == "ask" else x for x in code.co_consts])
    return code.replace(co_consts=constants, co_freevars=free)


def _template(*args: Any, **kwargs: Any) -> Any:
    ask: Any = "ask"  # stands for an Ask
    return ask(args, kwargs)
