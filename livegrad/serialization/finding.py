"""Which classes and functions a file may name.

A file can only name what the program has imported or allowed, and it never brings code: this says
which of that may stand in what it holds.

| | by default | with `weights_only=False` |
|---|---|---|
| modules, optimisers, schedulers, enums, named tuples | imported | imported |
| other classes | allowed | imported, but not Python's own |
| functions | our operations, those of `math` | the same, and plain functions, not Python's own |
| a class's own `__setstate__` | called if the class is allowed | ... also if it is a module |

*Allowed* is what `add_safe_globals` or `safe_globals` were given.
"""

from __future__ import annotations

import collections
from enum import Enum
from types import BuiltinFunctionType, FunctionType
from typing import Any

from livegrad.graph.handle import Handle
from livegrad.serialization.allowed import allowed_as
from livegrad.serialization.errors import LoadError
from livegrad.serialization.files import Source
from livegrad.serialization.naming import find, is_standard
from livegrad.serialization.objects import reduces
from livegrad.serialization.strict_json import shown

# Of these packages of ours, classes only compute, and their `__setstate__` takes plain state.
_MODEL_PACKAGES = ("livegrad.nn.", "livegrad.optim.", "livegrad.amp.")
# Where operations are published, and nothing that does more than compute.
_OPERATIONS = frozenset(
    ("livegrad", "livegrad.nn.functional", "livegrad.special", "livegrad.linalg", "livegrad.fft")
)
# Types of values that a file could hold anyway.
_PLAIN_TYPES = frozenset(
    (bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset, range)
    + (collections.OrderedDict, collections.Counter, collections.deque, collections.defaultdict)
)


def _is_model_code(x: Any) -> bool:
    return f"{x.__module__}.".startswith(_MODEL_PACKAGES)


def is_model(cls: type) -> bool:
    """Whether a class is one of modules, optimisers or schedulers: ours, or derived from ours."""
    return any([_is_model_code(base) for base in cls.__mro__])


class Finder:
    """Finds classes and functions for one file."""

    def __init__(self, source: Source, weights_only: bool) -> None:
        self.source = source
        self.trusting = not weights_only
        self._found: dict[str, type] = {}

    def class_of_instances(self, name: str) -> type:
        """A class of which the file holds objects."""
        if name not in self._found:
            self._found[name] = self._checked(name)
        return self._found[name]

    def _checked(self, name: str) -> type:
        cls = self._class(name)
        if allowed_as(name) is None:
            if not is_model(cls) and not (self.trusting and not is_standard(cls)):
                raise self._not_allowed(name, f"objects of {shown(name)}")
            if hasattr(cls, "__del__"):
                raise self._not_allowed(name, f"objects of {shown(name)}, which has a __del__,")
        made_otherwise = reduces(cls) and not issubclass(cls, dict | list)
        if made_otherwise or issubclass(cls, Handle | type | BaseException):
            raise self.source.error(
                f"it holds an object of {shown(name)}, which only running its code would make"
            )
        return cls

    def class_as_value(self, name: str) -> type:
        """A class that the file holds itself."""
        cls = self._class(name)
        known = cls in _PLAIN_TYPES or is_model(cls) or allowed_as(name) is not None
        if not known and (not self.trusting or is_standard(cls)):
            raise self._not_allowed(name, f"the class {shown(name)}")
        return cls

    def class_of_values(self, name: str, kind: str) -> Any:
        """An enum or a class of named tuples, of which values are taken without running code."""
        cls: Any = self._class(name)
        fits = issubclass(cls, Enum) if kind == "enum" else _is_named_tuple(cls)
        if not fits:
            raise self.source.error(f"it holds a {kind} of {shown(name)}, which is none")
        return cls

    def function(self, name: str) -> Any:
        """A function that the file names."""
        allowed = allowed_as(name)
        if allowed is not None:
            return allowed
        found = find(name)
        if found is None:
            raise self._missing(name, "the function")
        if isinstance(found, BuiltinFunctionType) and found.__module__ == "math":
            return found
        if isinstance(found, FunctionType):
            module = found.__module__ or ""
            if module in _OPERATIONS:
                return found
            ours = module.partition(".")[0] == "livegrad"
            if self.trusting and not ours and not is_standard(found):
                return found
        raise self._not_allowed(name, f"the function {shown(name)}")

    def may_set_state(self, cls: type, name: str) -> bool:
        """Whether `__setstate__` of a class is called."""
        if allowed_as(name) is not None or _is_model_code(cls.__setstate__):  # type: ignore[attr-defined]
            return True
        return self.trusting and is_model(cls)

    def _class(self, name: str) -> type:
        allowed = allowed_as(name)
        found = find(name) if allowed is None else allowed
        if found is None:
            raise self._missing(name, "an object of the class")
        if not isinstance(found, type):
            raise self.source.error(f"it names {shown(name)} as a class, which it is not")
        return found

    def _missing(self, name: str, what: str) -> LoadError:
        _module, _, last = name.rpartition(".")
        return self.source.error(
            f"it holds {what} {shown(name)}, which this program does not have: import or define it "
            f"before loading (load imports nothing), or, if it is called otherwise now, allow it: "
            f"livegrad.serialization.add_safe_globals([({last}, {shown(name)!r})])"
        )

    def _not_allowed(self, name: str, what: str) -> LoadError:
        last = name.rpartition(".")[2]
        return self.source.error(
            f"it holds {what}; allow it if you trust it, with "
            f"livegrad.serialization.add_safe_globals([{last}])"
            + ("" if self.trusting else ", or trust the whole file with weights_only=False")
        )


def _is_named_tuple(cls: type) -> bool:
    return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)
