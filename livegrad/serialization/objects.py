"""Objects on the way out: modules, optimisers, what a program's own classes hold.

An object is written as the name of its class and the plain state that `__getstate__` gives, never
as code; what refers to it again says its number:

    {"$object": "livegrad.nn.Linear", "id": 0, "state": {"in_features": 2, …}}   {"$ref": 0}

Classes and functions are names. instances.py is the way back.
"""

from __future__ import annotations

import functools
import pathlib
import warnings
from argparse import Namespace
from collections import OrderedDict, defaultdict, deque
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from livegrad.nn.hooks import Hooks
from livegrad.serialization.naming import find, name_of
from livegrad.serialization.walk import Attribute
from livegrad.settings import MemoryFormat
from livegrad.subclassing import attributes_of

if TYPE_CHECKING:
    from livegrad.serialization.structure import Encoder

NAMESPACES: dict[str, Any] = {"argparse": Namespace, "types": SimpleNamespace}
# The tables of a module: what is in them is known by its path, as in a state dict.
_TABLES = ("_parameters", "_buffers", "_modules")


def reduces(cls: Any) -> bool:
    """Whether a class says itself how it is made, which only running it would do."""
    return (
        cls.__reduce_ex__ is not object.__reduce_ex__
        or cls.__reduce__ is not object.__reduce__
        or hasattr(cls, "__getnewargs__")
        or hasattr(cls, "__getnewargs_ex__")
    )


def blank(cls: Any) -> Any:
    """An object whose class has not been asked how to make it; TypeError if there is none."""
    for base in (OrderedDict, dict, list):
        if issubclass(cls, base):
            return base.__new__(cls)
    return object.__new__(cls)


def _can_be_made(cls: type) -> bool:
    try:
        blank(cls)
    except TypeError:
        return False
    return True


def encode_object(encoder: Encoder, x: Any) -> Any:
    """`x`, which is no plain value, as JSON; TypeError if that cannot be."""
    if id(x) in encoder.objects:
        return {"$ref": encoder.objects[id(x)][0]}
    for kinds, rule in _RULES:
        if isinstance(x, kinds):
            return rule(encoder, x)
    if isinstance(x, tuple):
        return _named_tuple(encoder, x)
    return _instance(encoder, x)


def _known(encoder: Encoder, x: Any, owner: Any = None) -> str:
    """The name of a class or function that can be found by it."""
    name = name_of(x)
    if find(name) is x:
        return name
    where = "" if owner is None else f" of type {name}"
    place, kind = encoder.walk.place, "class" if isinstance(x, type) else "function"
    raise TypeError(
        f"save: {place} is{where or f' the {kind} {name}'}, which load could not find: it is no "
        f"{kind} that a module has under this name. Define it at the top of a module, or leave it "
        "out: with __getstate__ a class says what is saved of it"
    )


def _named(encoder: Encoder, x: Any) -> Any:
    return {"$class" if isinstance(x, type) else "$function": _known(encoder, x)}


def _enum(encoder: Encoder, x: Enum) -> Any:
    return {"$enum": [_known(encoder, type(x), x), x.name]}


def _method(encoder: Encoder, x: MethodType) -> Any:
    return {"$method": [encoder.encode(x.__self__), x.__name__]}


def _partial(encoder: Encoder, x: functools.partial[Any]) -> Any:
    parts = (x.func, list(x.args), dict(x.keywords))
    return {"$partial": [encoder.encode(part) for part in parts]}


def _path(encoder: Encoder, x: pathlib.PurePath) -> Any:
    return {"$path": str(x)}


def _deque(encoder: Encoder, x: deque[Any]) -> Any:
    return {"$deque": encoder.encode(list(x)), "most": x.maxlen}


def _constant(encoder: Encoder, x: Any) -> Any:
    return {"$constant": x.__reduce__()}


def _namespace(encoder: Encoder, x: Any) -> Any:
    kind = next((k for k, cls in NAMESPACES.items() if type(x) is cls), None)
    if kind is None:
        return _instance(encoder, x)
    return {"$namespace": _attributes(encoder, vars(x)), "kind": kind}


def _named_tuple(encoder: Encoder, x: Any) -> Any:
    if not hasattr(type(x), "_fields"):
        encoder.walk.refuse(x)
    return {"$named": [_known(encoder, type(x), x), encoder.encode(list(x))]}


_RULES: tuple[tuple[Any, Any], ...] = (
    ((type, FunctionType, BuiltinFunctionType), _named),
    (Enum, _enum),
    (MethodType, _method),
    (functools.partial, _partial),
    (pathlib.PurePath, _path),
    (deque, _deque),
    (MemoryFormat, _constant),
    ((Namespace, SimpleNamespace), _namespace),
)


# ----------------------------------------------------------------------------------- instances


def _instance(encoder: Encoder, x: Any) -> Any:
    cls: Any = type(x)
    made_otherwise = reduces(cls) and not isinstance(x, dict | list)
    if made_otherwise or isinstance(x, defaultdict) or not _can_be_made(cls):
        encoder.walk.refuse(x, " (its class says by itself how it is made)")
    name = _known(encoder, cls, x)
    number = len(encoder.objects)
    encoder.objects[id(x)] = (number, x)
    out: dict[str, Any] = {"$object": name, "id": number}
    encoder.within += 1
    encoder.walk.keys.tensors = True
    if isinstance(x, dict):
        out["pairs"] = encoder.pairs(x)
    elif isinstance(x, list):
        out["items"] = encoder.items(x)
    with encoder.walk.inside(x):
        _add_state(encoder, x, out)
    encoder.within -= 1
    encoder.walk.keys.tensors = encoder.within > 0
    return out


def _add_state(encoder: Encoder, x: Any, out: dict[str, Any]) -> None:
    state = x.__getstate__()
    slots = None
    cls: Any = type(x)
    if type(state) is tuple and len(state) == 2 and cls.__getstate__ is object.__getstate__:
        state, slots = state
    if state is not None:
        out["state"] = _state(encoder, x, state)
    if slots:
        out["slots"] = _attributes(encoder, slots)


def _state(encoder: Encoder, x: Any, state: Any) -> Any:
    if type(state) is not dict or not all([type(key) is str for key in state]):
        return encoder.encode(state)
    # A table of hooks that is empty is made anew.
    kept = {k: v for k, v in state.items() if type(v) is not Hooks or v}
    tables = {name: kept.pop(name) for name in _TABLES if type(kept.get(name)) is dict}
    out = _attributes(encoder, kept)
    if not tables:
        return out
    pairs = [[name, {"$dict": _pairs(encoder, table)}] for name, table in tables.items()]
    return {"$dict": [*_as_pairs(out), *pairs]}


def _as_pairs(x: Any) -> list[Any]:
    return x["$dict"] if "$dict" in x else [list(pair) for pair in x.items()]


def _attributes(encoder: Encoder, values: dict[str, Any]) -> Any:
    pairs = _pairs(encoder, values)
    if any([key.startswith("$") for key in values]):
        return {"$dict": pairs}
    return dict(pairs)


def _pairs(encoder: Encoder, values: dict[str, Any]) -> list[tuple[str, Any]]:
    pairs = []
    for key, value in values.items():
        encoder.walk.path.append(Attribute(key))
        pairs.append((key, encoder.encode(value)))
        encoder.walk.path.pop()
    return pairs


def add_attributes(encoder: Encoder, x: Any, out: dict[str, Any]) -> None:
    """Adds what a program has set on a tensor of an object to its description."""
    for hook in (x.__dict__.get("_hooks") or {}).values():
        warnings.warn(f"save: the hook {hook!r} of {encoder.walk.place} is not saved", stacklevel=2)
    attributes = attributes_of(x)
    if attributes:
        out["attributes"] = encoder.encode(attributes)
