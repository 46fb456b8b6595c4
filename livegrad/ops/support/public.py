"""Public functions and methods are objects of their own, with the code of those in `ops`.

    livegrad.relu ─┐
    Tensor.relu   ─┼─ one code object        what users call: `livegrad.overrides` may change it
    ops' relu     ─┘                         what rules, planner and backward call: never changes

A call costs the same, and users can tell `livegrad.relu` from `Tensor.relu`, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import FunctionType
from typing import Any, ClassVar

from livegrad.graph.above import Above
from livegrad.graph.handle import Handle

# Where functions are defined that a namespace shows under its own name.
_SOURCES = (
    "livegrad.ops.",
    "livegrad.autograd.",
    "livegrad.creation",
    "livegrad.sequences",
    "livegrad.signal.",
)


def publish(namespace: dict[str, Any], names: Iterable[str] | None = None) -> None:
    """Gives a namespace (a module's globals) its own objects for the functions it shows.

    `names` are those it shows; by default all functions it has imported from where
    tensors are made and computed with.
    """
    module = namespace["__name__"]
    made: dict[FunctionType, FunctionType] = {}  # two names of one function stay one function
    for name in list(namespace if names is None else names):
        function = namespace[name]
        if not isinstance(function, FunctionType) or not function.__module__.startswith(_SOURCES):
            continue
        if name.startswith("_") or function.__module__ in ("livegrad.ops.support.out", __name__):
            continue
        if function not in made:
            made[function] = twin(function)
            made[function].__module__ = module  # where pickle finds it
            made[function].__name__ = made[function].__qualname__ = name
            note(function, made[function])
        namespace[name] = made[function]


# Functions of ops, and the public ones that stand for them.
PUBLIC: dict[FunctionType, FunctionType] = {}


def note(function: FunctionType, public: FunctionType) -> None:
    """Notes what a function is called by; that of `livegrad` itself goes before others."""
    if public.__module__ == "livegrad":
        PUBLIC[function] = public
    else:
        PUBLIC.setdefault(function, public)


def publish_methods(methods: type, cls: str, module: str) -> None:
    """Gives a class its own objects for the functions of ops that are its methods.

    `cls` and `module` say where users find it: the class may be a base of another.
    """
    for name, function in list(vars(methods).items()):
        if isinstance(function, FunctionType) and function.__module__ != module:
            # A wrapper of ops/support/out.py is an object of its own, and changes its code once.
            is_own = function.__globals__.get("wrapper") is function
            own = function if is_own else twin(function)
            own.__module__, own.__name__, own.__qualname__ = module, name, f"{cls}.{name}"
            setattr(methods, name, own)


def twin(function: FunctionType) -> FunctionType:
    """Another function with everything that `function` has."""
    own = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    own.__kwdefaults__ = function.__kwdefaults__
    own.__annotations__ = function.__annotations__
    own.__doc__ = function.__doc__
    own.__module__ = function.__module__
    own.__qualname__ = function.__qualname__
    own.__dict__.update(function.__dict__)
    return own


# ----------------------------------------------------------- objects that answer for functions


class Asking:
    """Whether public functions ask their arguments: `livegrad.overrides` has made them do so.

    `callers` are packages that call functions of ops with the user's tensors; `exchange` has one
    call the public functions instead.
    """

    installed = False
    callers: ClassVar[list[str]] = []
    exchange: Callable[[str], None]


def asks(package: str) -> None:
    """Has a package call the public functions, once these ask, in the place of those of ops."""
    Asking.callers.append(package)
    if Asking.installed:
        Asking.exchange(package)


def strangers(values: Iterable[Any]) -> bool:
    """Whether a call failed because public functions do not ask yet; from now on they do.

    It did if one of its arguments, or of their items, has `__torch_function__`.
    """
    if Asking.installed:
        return False
    for x in values:
        if any(map(_is_stranger, x if isinstance(x, tuple | list) else (x,))):
            Above.overrides().install()
            return True
    return False


def _is_stranger(x: Any) -> bool:
    return hasattr(type(x), "__torch_function__") and not isinstance(x, Handle)


def as_given(function: Any, values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call from the values of its parameters, without those left out."""
    code = function.__code__
    count = code.co_argcount
    defaults = function.__defaults__ or ()
    args = [values[name] for name in code.co_varnames[:count]]
    others = values.get("args", ()) if code.co_flags & CO_VARARGS else ()
    while not others and args and count - len(args) < len(defaults):
        if args[-1] is not defaults[len(args) - count - 1]:
            break
        args.pop()
    kwargs = dict(values.get("kwargs", {})) if code.co_flags & CO_VARKEYWORDS else {}
    for name in code.co_varnames[count : count + code.co_kwonlyargcount]:
        if values[name] is not (function.__kwdefaults__ or {}).get(name, Asking):
            kwargs[name] = values[name]
    return [*args, *others], kwargs
