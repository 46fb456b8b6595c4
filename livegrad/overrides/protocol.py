"""`__torch_function__`: who answers a call of a public function, if an argument or a mode may.

    f(a, b) ──► modes, the innermost first ──► arguments, subclasses before their bases ──► f itself

Each is asked with `__torch_function__(func, types, args, kwargs)` and may say NotImplemented. While
a mode answers, it is switched off; while `Tensor.__torch_function__` calls the function, arguments
are not asked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from livegrad.dtypes import DType
from livegrad.overrides.catalogue import get_default_nowrap_functions, resolve_name
from livegrad.tensor import Tensor, disabled_torch_function

Args = tuple[Any, ...]
Kwargs = dict[str, Any]

# Classes of arguments that never override, so that they need not be asked.
PLAIN: set[type] = {
    Tensor, DType, type(None), bool, int, float, complex, str, slice, type(...), dict,
}  # fmt: skip


class _State(threading.local):
    """Of one thread: whether arguments are asked, and the modes that are, the innermost last.

    `defaults` says whether `default` calls a function, `asked` who is asked about what.
    """

    subclasses = True
    defaults = False

    def __init__(self) -> None:
        self.modes: list[Any] = []
        self.asked: tuple[tuple[Any, Any], ...] = ()


STATE = _State()


class DisableTorchFunctionSubclass:
    """Within it, arguments are not asked; modes still are."""

    def __enter__(self) -> None:
        self.before, STATE.subclasses = STATE.subclasses, False

    def __exit__(self, *exception: object) -> None:
        STATE.subclasses = self.before


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """Within it, neither arguments nor modes are asked."""

    def __enter__(self) -> None:
        super().__enter__()
        self.modes, STATE.modes = STATE.modes, []

    def __exit__(self, *exception: object) -> None:
        STATE.modes = self.modes
        super().__exit__()


def may_override(kind: type) -> bool:
    """Whether objects of a class answer for functions."""
    if kind in PLAIN:
        return False
    method = getattr(kind, "__torch_function__", None)
    return method is not None and method is not disabled_torch_function


def overloaded(relevant_args: Iterable[Any], tensors: bool = False) -> list[Any]:
    """The arguments to be asked, in that order: one of each class, subclasses before bases.

    With `tensors`, plain ones are among them.
    """
    found: list[Any] = []
    kinds: list[type] = []
    for x in relevant_args:
        kind = type(x)
        if kind in kinds or not (may_override(kind) or (tensors and kind is Tensor)):
            continue
        bases = [i for i, other in enumerate(kinds) if issubclass(kind, other)]
        place = bases[0] if bases else len(kinds)
        found.insert(place, x)
        kinds.insert(place, kind)
    return found


def tensors_in(args: Args, kwargs: Kwargs) -> Iterator[Any]:
    """Arguments, and what is in lists and tuples of them."""
    for x in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(x, tuple | list):
            yield from x
        else:
            yield x


def is_asked(func: Any, x: Any) -> bool:
    """Whether an argument is being asked about a function: it calls what it is asked about."""
    return any(f is func and y is x for f, y in STATE.asked)


def answer(func: Any, asked: list[Any], args: Args, kwargs: Kwargs) -> Any:
    """The result of `func` as the innermost mode, or one of the arguments `asked`, gives it."""
    types = tuple([type(x) for x in asked])
    if STATE.modes:
        with _innermost() as mode:
            result = mode.__torch_function__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    for x in asked:
        if is_asked(func, x):
            continue
        before = STATE.asked
        STATE.asked = (*before, (func, x))
        try:
            result = x.__torch_function__(func, types, args, kwargs)
        finally:
            STATE.asked = before
        if result is not NotImplemented:
            return result
    listed = "\n".join([f"  - tensor subclass {kind}" for kind in types])
    raise TypeError(
        f"Multiple dispatch failed for {_called(func)!r}; all __torch_function__ handlers returned "
        f"NotImplemented:\n\n{listed}"
    )


def _called(func: Any) -> str:
    return resolve_name(func) or str(getattr(func, "__qualname__", func))


@contextmanager
def _innermost() -> Iterator[Any]:
    """The innermost mode, which is switched off meanwhile."""
    modes = STATE.modes
    STATE.modes = modes[:-1]
    try:
        yield modes[-1]
    finally:
        STATE.modes = modes


def default(cls: type, func: Any, types: Iterable[type], args: Args, kwargs: Kwargs) -> Any:
    """What `Tensor.__torch_function__` does: calls `func`; new tensors are made `cls`."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    if STATE.defaults:  # a function of others, which asks whatever we say
        return NotImplemented
    with DisableTorchFunctionSubclass():
        STATE.defaults = True
        try:
            result = func(*args, **kwargs)
        finally:
            STATE.defaults = False
        if func in get_default_nowrap_functions():
            return result
        return _converted(result, cls, {id(x) for x in tensors_in(args, kwargs)})


def _converted(result: Any, cls: type, old: set[int]) -> Any:
    """Tensors as `cls`: `old` ones, which somebody else holds, as aliases; new ones themselves."""
    if isinstance(result, Tensor):
        if isinstance(result, cls):
            return result
        return result.as_subclass(cls) if id(result) in old else result._become(cls)
    if isinstance(result, tuple | list):
        items = [_converted(x, cls, old) for x in result]
        return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
    return result


# ------------------------------------------------------------------------- PyTorch's names for it


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a mode, or one of the arguments, answers for functions."""
    return bool(STATE.modes) or (
        STATE.subclasses and any(may_override(type(x)) for x in relevant_args)
    )


def has_torch_function_unary(arg: Any) -> bool:
    """`has_torch_function((arg,))`."""
    return has_torch_function((arg,))


def has_torch_function_variadic(*args: Any) -> bool:
    """`has_torch_function(args)`."""
    return has_torch_function(args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """The result of a function of the user's own, as a mode or one of the arguments gives it."""
    asked = overloaded(relevant_args, tensors=True) if STATE.subclasses else []
    return answer(public_api, asked, args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[..., Any]:
    """Makes a function overridable; `dispatcher`, with its parameters, gives the relevant ones."""
    from functools import wraps

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def overridable(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(overridable, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return overridable

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Whether an object is a tensor, or of a class with `__torch_function__`."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")
