"""Values of plans as text that means the same in every process of this version of the package.

    (generate_rows, (Stream(float32, 1),), …) ──► [{"function": "livegrad.compiler.rows:…"},
                                              ◄──  [{"livegrad.compiler.signature:Stream": …}], …]

What is known by its name is found again by it: dtypes, operations, functions and named tuples, if
they are the package's own. The text is JSON, so reading it runs no code but that of the package.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import fields
from importlib import import_module
from types import FunctionType
from typing import Any

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.op import REGISTRY, Op

_PACKAGE = __name__.partition(".")[0]
_AS_THEY_ARE = (type(None), bool, int, float, str)
_TUPLES = (tuple, list)


class Unwritable(Exception):
    """Something that has no name in the package, or is not known to have one."""


class Written:
    """A value as its text, which is read when somebody needs the value."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Written) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)


def text_of(x: Any) -> str:
    """The text of a value: equal ones have equal texts. Unwritable if it has none."""
    from json import dumps  # `import livegrad` is quicker without it

    return x.text if type(x) is Written else dumps(plain(x), separators=(",", ":"))


def written_call(name: str, *told: Any) -> Written:
    """The text of a function, by its module and name, and of what it is told: (function, *told)."""
    return Written(text_of((_Reference(name), *told)))


class _Reference(str):
    """The name of a function that need not be imported."""


def text_or_none(x: Any) -> str | None:
    """The text of a value, if it has one."""
    try:
        return text_of(x)
    except Unwritable:
        return None


def value_of(x: Any) -> Any:
    """A value that may be written as itself."""
    from json import loads

    return read(loads(x.text)) if type(x) is Written else x


def plain(x: Any) -> Any:
    """A value as what JSON can say. Unwritable if there is no way."""
    kind = type(x)
    if kind in _AS_THEY_ARE:
        return x
    if kind is tuple:
        return [plain(y) for y in x]
    if kind is list:
        return {"list": [plain(y) for y in x]}
    if kind is bytes:
        return {"bytes": x.hex()}
    if kind is DType:
        return {"dtype": x.name}
    if kind is Op:
        return {"op": _name_of_op(x)}
    if kind is _Reference:
        return {"function": str(x)}
    if kind is FunctionType:
        return {"function": _name_of(x)}
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return {_name_of(kind): [plain(y) for y in x]}
    raise Unwritable(repr(x))


def read(x: Any) -> Any:
    """The value that `plain` made `x` of."""
    if type(x) is list:
        return tuple([read(y) for y in x])
    if type(x) is not dict:
        return x
    ((kind, told),) = x.items()
    rule = _READERS.get(kind)
    return rule(told) if rule is not None else _class_named(kind)(*[read(y) for y in told])


def _name_of_op(op: Op) -> str:
    if REGISTRY.get(op.name) is not op or not is_own(op):
        raise Unwritable(op.name)
    return op.name


def _name_of(x: Any) -> str:
    """Of a function or class, if it is found under it again."""
    name = f"{x.__module__}:{x.__qualname__}"
    if x.__module__.partition(".")[0] != _PACKAGE or _named(name) is not x:
        raise Unwritable(name)
    return name


def _named(name: str) -> Any:
    module, _, own = name.partition(":")
    if module.partition(".")[0] != _PACKAGE:
        raise Unwritable(name)
    return vars(import_module(module)).get(own)


def _class_named(name: str) -> Any:
    found = _named(name)
    if not isinstance(found, type) or not hasattr(found, "_fields"):
        raise Unwritable(name)
    return found


_READERS: dict[str, Callable[[Any], Any]] = {
    "list": lambda told: [read(y) for y in told],
    "bytes": bytes.fromhex,
    "dtype": dtypes.by_name,
    "op": REGISTRY.__getitem__,
    "function": _named,
}


# ------------------------------------------------------------------------------ the package's own


@functools.cache
def is_own(op: Op) -> bool:
    """Whether all rules of an op are the package's: those of others may change unnoticed."""
    return all([_is_own(getattr(op, name)) for name in _PLANNED])


# What no plan depends on, or has not been loaded.
_NOT_PLANNED = ("lower", "cache", "promoted", "ref", "batch", "flops", "samples")
_PLANNED = [f.name for f in fields(Op) if f.name not in _NOT_PLANNED]


def _is_own(x: Any) -> bool:
    if type(x) in _AS_THEY_ARE:
        return True
    if type(x) in _TUPLES:
        return all([_is_own(y) for y in x])
    if isinstance(x, functools.partial):
        return _is_own([x.func, *x.args, *x.keywords.values()])
    if isinstance(x, FunctionType):
        captured = [cell.cell_contents for cell in x.__closure__ or ()]
        return _is_in_package(x.__module__) and all([_is_own(y) for y in captured])
    if callable(x):
        return _is_in_package(getattr(x, "__module__", None) or "")
    return _is_in_package(type(x).__module__)


def _is_in_package(module: str) -> bool:
    return module.partition(".")[0] in (_PACKAGE, "numpy", "builtins", "math", "operator")
