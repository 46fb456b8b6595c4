"""Public functions and methods are objects of their own, with the code of those in `ops`.

    livegrad.relu ─┐
    Tensor.relu   ─┼─ one code object        what users call: `livegrad.overrides` may change it
    ops' relu     ─┘                         what rules, planner and backward call: never changes

A call costs the same, and users can tell `livegrad.relu` from `Tensor.relu`, as in PyTorch.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterable
from types import CodeType, FunctionType
from typing import Any

from livegrad.ops.support.wrapping import is_wrapper, wrapped

# Where functions are defined that a namespace shows under its own name.
_SOURCES = (
    "livegrad.ops.",
    "livegrad.autograd.",
    "livegrad.creation",
    "livegrad.sequences",
    "livegrad.signal.",
)
_MAKERS = (__name__, "livegrad.ops.support.out")


def publish(namespace: dict[str, Any], names: Iterable[str] | None = None) -> None:
    """Gives a namespace (a module's globals) its own objects for the functions it shows.

    `names` are those it shows; by default all functions it has imported from where
    tensors are made and computed with.
    """
    module = namespace["__name__"]
    made: dict[FunctionType, FunctionType] = {}  # two names of one function stay one function
    for name in list(namespace if names is None else names):
        function = namespace[name]
        if not isinstance(function, FunctionType) or not _is_shown(name, function, module):
            continue
        if function not in made:
            own = wrapped(function) or twin(function)
            own.__module__ = module  # where pickle finds it
            is_known = namespace.get(function.__name__) is function
            own.__name__ = own.__qualname__ = function.__name__ if is_known else name
            note(function, own)
            made[function] = own
        namespace[name] = made[function]


def _is_shown(name: str, function: FunctionType, module: str) -> bool:
    """Whether a name of a module is that of a public function."""
    takes_more = "out" in vars(function)
    if function.__module__ == module:
        return takes_more
    if name.startswith("_") and not takes_more:
        return False
    return function.__module__.startswith(_SOURCES) and function.__module__ not in _MAKERS


# Functions of ops, and the public ones that stand for them.
PUBLIC: dict[FunctionType, FunctionType] = {}


def note(function: FunctionType, public: FunctionType) -> None:
    """Notes what a function is called by; that of `livegrad` itself goes before others."""
    if public.__module__ == "livegrad":
        PUBLIC[function] = public
    else:
        PUBLIC.setdefault(function, public)


def exchange(package: str, only: Container[FunctionType] | None = None) -> None:
    """Puts public functions in the place of those of ops, in the modules of a package.

    With `only`, those among them.
    """
    for name, module in list(sys.modules.items()):
        if not f"{name}.".startswith(f"{package}.") or name == "livegrad.nn.functional":
            continue
        for key, value in list(vars(module).items()):
            public = PUBLIC.get(value) if isinstance(value, FunctionType) else None
            if public is not None and (only is None or public in only):
                setattr(module, key, public)


def publish_methods(methods: type, cls: str, module: str) -> None:
    """Gives a class its own objects for the functions of ops that are its methods.

    `cls` and `module` say where users find it: the class may be a base of another.
    """
    for name, function in list(vars(methods).items()):
        if isinstance(function, FunctionType) and function.__module__ != module:
            own = wrapped(function, as_method=True) or twin(function)
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


# ------------------------------------------------------------------------ calls answered by others

# What answers calls of a function: it is given their arguments.
Answer = Callable[[tuple[Any, ...], dict[str, Any]], Any]


def answered(function: FunctionType, by: Callable[[FunctionType], Answer]) -> None:
    """Has all calls of a public function answered by `by(plain)`.

    `plain` is a twin that does what the function did before. The function object stays the same
    one, because people keep tables of them.
    """
    plain = twin(function)
    if is_wrapper(function):
        function.__globals__["wrapper"] = plain  # which may change its code
    function.__code__ = _asking(function.__code__.co_freevars, by(plain))
    function.__defaults__ = function.__kwdefaults__ = None
    function.__wrapped__ = plain  # type: ignore[attr-defined]  # where `inspect` finds parameters


def _asking(free: tuple[str, ...], ask: Answer) -> CodeType:
    """The code of a function, with these free variables, whose calls are answered by `ask`.

    A function's code can be exchanged only for such code; what it does not use, it may have.
    """
    code = _template.__code__
    constants = tuple([ask if x == "ask" else x for x in code.co_consts])
    return code.replace(co_consts=constants, co_freevars=free)


def _template(*args: Any, **kwargs: Any) -> Any:
    ask: Any = "ask"  # stands for an Answer
    return ask(args, kwargs)
