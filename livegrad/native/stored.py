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
from collections.abc import Callable, Sequence
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from livegrad.native import prelude
from livegrad.native.watch import Constant

if TYPE_CHECKING:
    from livegrad.native.unit import Translation

Reference = list[Any]  # what it is, and names, a literal, or references
_LITERALS = (float, bytes)
# What JSON gives back as it was.
_JSON = (str, int, bool, type(None))


def key_of(functions: list[FunctionType], kind: str) -> str:
    """What a translation depends on: the functions, the package as it is, the interpreter."""
    names = [f"{f.__module__}.{f.__qualname__}" for f in functions]
    return hashlib.sha256(repr((kind, sys.version, names, sources())).encode()).hexdigest()


# The folders of the package with ops, their rules, what they are compiled by, and hot functions.
COMPILED_FROM = ("autograd", "compiler", "func", "graph", "native", "nn", "ops", "optim", "runtime")


@functools.cache
def sources() -> str:
    """A digest of when the files that code is made from were last changed, and of their sizes."""
    stamps = []
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    directories = [package]
    for directory in directories:  # grows while it is walked
        with os.scandir(directory) as found:
            for entry in found:
                name = entry.name
                if name.endswith(".py"):
                    status = entry.stat()
                    stamps.append(f"{entry.path} {status.st_mtime_ns} {status.st_size}")
                elif "." in name or name == "__pycache__":
                    continue
                elif name in COMPILED_FROM if directory is package else entry.is_dir():
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


def written(
    translation: Translation, functions: list[FunctionType], originals: dict[int, FunctionType]
) -> bytes | None:
    """The objects and constants of a translation as text; None if one has no name. And where the
    functions are that were translated: looking through all modules takes a while.

    `originals` are the functions that stand behind built-in ones, by the ids of those.
    """
    known = _names_of_objects(originals)
    names = {id(vars(m)): name for name, m in list(sys.modules.items()) if hasattr(m, "__dict__")}
    # Each reference is written once.
    numbers: dict[str, int] = {}
    objects = [
        numbers.setdefault(json.dumps(_reference(x, known)), len(numbers))
        for x in translation.objects[len(prelude.OBJECTS) :]
    ]
    constants: dict[str, list[tuple[str, int]]] = {}
    for c in translation.constants:
        number = numbers.setdefault(json.dumps(_reference(c.value, known)), len(numbers))
        constants.setdefault(names.get(id(c.namespace), ""), []).append((c.name, number))
    if "null" in numbers or "" in constants:
        return None
    references = [json.loads(text) for text in numbers]
    places = _places_of(functions, originals)
    without = " ".join([module for module, found in places.items() if not found])
    places = {module: found for module, found in places.items() if found}
    return json.dumps([references, objects, constants, places, without]).encode()


def _places_of(
    functions: list[FunctionType], originals: dict[int, FunctionType]
) -> dict[str, list[str]]:
    """By the name of each module: its names for any of the functions."""
    wanted = {id(f) for f in functions}
    return {
        module_name: [
            name
            for name, x in list(vars(module).items())
            if id(x) in wanted or id(originals.get(id(x))) in wanted
        ]
        for module_name, module in _modules().items()
    }


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


class Found:
    """A stored translation: its objects, the constants that it took, where its functions are by
    module, and its code."""

    def __init__(
        self,
        objects: list[Any],
        constants: list[Constant],
        places: dict[str, Sequence[str]],
        code: bytes,
    ) -> None:
        self.objects, self.constants, self.places, self.code = objects, constants, places, code


def found_again(text: bytes, originals: dict[int, FunctionType], code: bytes) -> Found | None:
    """A translation, if all that it refers to is still there."""
    references, objects, constants, places, without = json.loads(text)
    try:
        values = [_looked_up(x, originals) for x in references]
        watched = [
            Constant(namespace, name, _as_now(namespace, name, references[i][0], values[i]))
            for module, named in constants.items()
            for namespace in (sys.modules[module].__dict__,)
            for name, i in named
        ]
    except (KeyError, AttributeError):
        return None
    found = [values[i] for i in objects]
    places |= dict.fromkeys(without.split(), ())
    return Found([*prelude.OBJECTS.values(), *found], watched, places, code)


def _as_now(namespace: dict[str, Any], name: str, kind: str, value: Any) -> Any:
    """The very object that a name has now, if that is what it was: others are patches."""
    if kind in _BY_VALUE:
        now = namespace.get(name, vars(builtins).get(name))
        if type(now) is type(value) and now == value:
            return now
    return value


_BY_VALUE = ("value", "literal", "tuple")


def _looked_up(reference: Reference, originals: dict[int, FunctionType]) -> Any:
    kind = reference[0]
    first: Any = reference[1] if len(reference) > 1 else None
    if kind == "global":
        x = sys.modules[first].__dict__[reference[2]]
        return originals.get(id(x), x)
    if kind == "value":  # names are compared by identity first
        return sys.intern(first) if type(first) is str else first
    if kind == "tuple":
        return tuple([_looked_up(x, originals) for x in reference[1:]])
    if kind == "literal":
        return ast.literal_eval(first)
    module = sys.modules[first]
    return module if kind == "module" else vars(vars(module)[reference[2]])[reference[3]]


# ---------------------------------------------------------------------------------------- both


class Store:
    """Bytes by key that outlive the process: the disk cache of whoever compiles."""

    def __init__(
        self, get: Callable[[str], bytes | None], put: Callable[[str, bytes], None]
    ) -> None:
        self._get = get
        self._put = put
        # What `has` has read, which is looked up next.
        self._read: dict[str, bytes] = {}

    def has(self, key: str) -> bool:
        """Whether a translation is stored."""
        found = self._read.get(key) or self._get(key)
        if found is not None:
            self._read[key] = found
        return found is not None

    def look_up(self, key: str, originals: dict[int, FunctionType]) -> Found | None:
        """A translation that was stored."""
        stored = self._read.pop(key, None) or self._get(key)
        if stored is None:
            return None
        length = int.from_bytes(stored[:8], "little")
        return found_again(stored[8 : 8 + length], originals, stored[8 + length :])

    def keep(
        self,
        key: str,
        translation: Translation,
        functions: list[FunctionType],
        originals: dict[int, FunctionType],
        code: bytes,
    ) -> None:
        """Stores a translation, if all its objects can be found again."""
        text = written(translation, functions, originals)
        if text is not None:
            self._put(key, len(text).to_bytes(8, "little") + text + code)
