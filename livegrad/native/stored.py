"""Translations that outlive a process: native code, and where the objects are that it refers to.

    objects ──► [["global", "livegrad.graph.node", "Node"], ["value", "add"], …]   as JSON
            ◄──  looked up again by the next process, which translates nothing

An object that is neither a literal nor has a name in the package cannot be written down; then
there is nothing stored, and the next process translates again.
"""

from __future__ import annotations

import ast
import builtins
import functools
import hashlib
import json
import os
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from livegrad.native import prelude
from livegrad.native.unit import Translation
from livegrad.native.watch import Constant

Reference = list[Any]  # what it is, and names, a literal, or references
_LITERALS = (float, bytes)
# What JSON gives back as it was.
_JSON = (str, int, bool, type(None))


def key_of(functions: list[FunctionType], kind: str) -> str:
    """What a translation depends on: the functions, the package as it is, the interpreter."""
    names = [f"{f.__module__}.{f.__qualname__}" for f in functions]
    return hashlib.sha256(repr((kind, sys.version, names, sources())).encode()).hexdigest()


@functools.cache
def sources() -> str:
    """A digest of when the files of the package were last changed, and of their sizes."""
    stamps = []
    directories = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    for directory in directories:  # grows while it is walked
        with os.scandir(directory) as found:
            for entry in found:
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    stamps.append(f"{entry.path} {status.st_mtime_ns} {status.st_size}")
                elif entry.name != "__pycache__" and entry.is_dir():
                    directories.append(entry.path)
    return hashlib.sha256("\n".join(sorted(stamps)).encode()).hexdigest()


def _is_foreign(module: ModuleType) -> bool:
    return module.__name__ in sys.modules and module.__name__.partition(".")[0] != "livegrad"


def _modules() -> dict[str, ModuleType]:
    found = list(sys.modules.items())
    ours = [name.partition(".")[0] == "livegrad" for name, _ in found]
    return {
        name: module
        for (name, module), mine in zip(found, ours, strict=True)
        if mine and isinstance(module, ModuleType)
    }


# ---------------------------------------------------------------------------------- writing down


def written(translation: Translation, originals: dict[int, FunctionType]) -> bytes | None:
    """The objects and constants of a translation as text; None if one has no name.

    `originals` are the functions that stand behind built-in ones, by the ids of those.
    """
    known = _names_of_objects(originals)
    first = len(prelude.OBJECTS)
    objects = [_reference(x, known) for x in translation.objects[first:]]
    names = {id(vars(m)): name for name, m in list(sys.modules.items()) if hasattr(m, "__dict__")}
    constants = [
        [names.get(id(c.namespace)), c.name, _reference(c.value, known)]
        for c in translation.constants
    ]
    if None in objects or any([None in each for each in constants]):
        return None
    return json.dumps([objects, constants]).encode()


def _reference(x: Any, known: dict[int, Reference]) -> Reference | None:
    if type(x) in _JSON:
        return ["value", x]
    if type(x) in _LITERALS and x == x:
        return ["literal", repr(x)]
    if type(x) is tuple:
        parts = [_reference(y, known) for y in x]
        return None if None in parts else ["tuple", *parts]
    return known.get(id(x))


def _names_of_objects(originals: dict[int, FunctionType]) -> dict[int, Reference]:
    """By id: names in modules of the package, in its classes, and in modules that it uses.

    Where it is defined, or else where it was first known: the next process may ask before all the
    modules that import it are there.
    """
    found: dict[int, Reference] = {}
    used = [x for m in _modules().values() for x in vars(m).values() if isinstance(x, ModuleType)]
    for other in (builtins, *[x for x in used if _is_foreign(x)]):
        for name, x in list(vars(other).items()):
            found[id(x)] = ["global", other.__name__, name]
    for module_name, module in _modules().items():
        found[id(module)] = ["module", module_name]
        for name, x in list(vars(module).items()):
            real = originals.get(id(x), x)
            if id(real) not in found or getattr(real, "__module__", None) == module_name:
                found[id(real)] = ["global", module_name, name]
            if isinstance(real, type) and real.__module__ == module_name:
                for attribute, y in list(vars(real).items()):
                    found.setdefault(id(y), ["member", module_name, name, attribute])
    return found


# -------------------------------------------------------------------------------- looking up again


def found_again(
    text: bytes, originals: dict[int, FunctionType]
) -> tuple[list[Any], list[Constant]] | None:
    """The objects and constants of a stored translation; None if one is not there any more."""
    objects, constants = json.loads(text)
    try:
        found = [_looked_up(x, originals) for x in objects]
        watched = [_constant(module, name, x, originals) for module, name, x in constants]
    except (KeyError, AttributeError):
        return None
    return [*prelude.OBJECTS.values(), *found], watched


def _constant(
    module: str, name: str, reference: Reference, originals: dict[int, FunctionType]
) -> Constant:
    """A name with the very object that it has now, if that is what it was: others are patches."""
    namespace = vars(sys.modules[module])
    value = _looked_up(reference, originals)
    now = namespace.get(name, vars(builtins).get(name))
    same = type(now) is type(value) and reference[0] in _BY_VALUE and now == value
    return Constant(namespace, name, now if same else value)


_BY_VALUE = ("value", "literal", "tuple")


def _looked_up(reference: Reference, originals: dict[int, FunctionType]) -> Any:
    kind = reference[0]
    if kind == "tuple":
        return tuple([_looked_up(x, originals) for x in reference[1:]])
    first, *rest = reference[1:]
    if kind == "value":  # names are compared by identity first
        return sys.intern(first) if type(first) is str else first
    if kind == "literal":
        return ast.literal_eval(first)
    module = sys.modules[first]
    if kind == "module":
        return module
    x = vars(module)[rest[0]]
    if kind == "member":
        return vars(x)[rest[1]]
    return originals.get(id(x), x)


# ---------------------------------------------------------------------------------------- both


class Store:
    """Bytes by key that outlive the process: the disk cache of whoever compiles."""

    def __init__(
        self, get: Callable[[str], bytes | None], put: Callable[[str, bytes], None]
    ) -> None:
        self._get = get
        self._put = put

    def look_up(
        self, key: str, originals: dict[int, FunctionType]
    ) -> tuple[list[Any], list[Constant], bytes] | None:
        """Objects, constants and native code of a translation that was stored."""
        stored = self._get(key)
        if stored is None:
            return None
        length = int.from_bytes(stored[:8], "little")
        found = found_again(stored[8 : 8 + length], originals)
        return None if found is None else (*found, stored[8 + length :])

    def keep(
        self,
        key: str,
        translation: Translation,
        originals: dict[int, FunctionType],
        code: bytes,
    ) -> None:
        """Stores a translation, if all its objects can be found again."""
        text = written(translation, originals)
        if text is not None:
            self._put(key, len(text).to_bytes(8, "little") + text + code)
