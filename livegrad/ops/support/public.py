"""Public functions and methods are objects of their own, with the code of those in `ops`.

    livegrad.relu ─┐
    Tensor.relu   ─┼─ one code object        what users call: `livegrad.overrides` may change it
    ops' relu     ─┘                         what rules, planner and backward call: never changes

A call costs the same, and users can tell `livegrad.relu` from `Tensor.relu`, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType
from typing import Any

from livegrad.ops.support.wrapping import wrapped

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
