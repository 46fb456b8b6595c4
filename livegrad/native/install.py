"""Puts translated functions in the place of their Python originals."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType, ModuleType
from typing import Any, ClassVar

from livegrad.native import capi
from livegrad.native.hot import is_method
from livegrad.native.layout import slots_of

_METH_FASTCALL_KEYWORDS = 0x82


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def translate(
    functions: list[FunctionType],
    classes: Iterable[type],
    compile_ir: Callable[[str, str], int],
) -> dict[FunctionType, Any]:
    """Built-in functions that mean what `functions` do."""
    # Imported when needed: what was translated once is found on disk.
    from livegrad.native.translate import translate_unit

    made = translate_unit(slots_of(classes), functions)
    return link(functions, made.objects, compile_ir(made.ir, "livegrad_native"))


def link(functions: list[FunctionType], objects: list[Any], entry: int) -> dict[FunctionType, Any]:
    """Built-in functions of a module that was compiled and loaded; `entry` is its entry."""
    found = addresses_of(functions, objects, entry)
    return {f: _callable(f, address) for f, address in zip(functions, found, strict=True)}


def addresses_of(functions: list[FunctionType], objects: list[Any], entry: int) -> list[int]:
    """The addresses of a module's functions, which from now on refer to `objects`."""
    addresses = capi.addresses() + [id(x) for x in objects]
    table = (ctypes.c_size_t * len(addresses))(*addresses)
    out = (ctypes.c_size_t * len(functions))()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(entry)(table, out)
    _keep_for_good(objects)
    return list(out)


def _keep_for_good(x: Any) -> None:
    """Native code refers to `x` as long as the process lives, also while the interpreter ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(x))


def _callable(function: FunctionType, address: int) -> Any:
    """The native code at `address` as Python sees it: a built-in function, or a method."""
    definition = _MethodDef(
        function.__name__.encode(),
        address,
        _METH_FASTCALL_KEYWORDS,
        (function.__doc__ or "").encode(),
    )
    _keep_for_good(definition)
    where = ctypes.addressof(definition)
    if is_method(function):
        return _new_method()(_class_of(function), where)
    return _new_function()(where, None, function.__module__)  # profilers show the module


@functools.cache
def _new_method() -> Any:
    make = ctypes.pythonapi.PyDescr_NewMethod
    make.restype, make.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_void_p]
    return make


@functools.cache
def _new_function() -> Any:
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.py_object]
    return make


def _class_of(method: FunctionType) -> type:
    name = method.__qualname__.rpartition(".")[0]
    cls: type = getattr(sys.modules[method.__module__], name)
    return cls


class _Known:
    """Where some functions are, native or not: looking through all modules takes a while."""

    functions: frozenset[int] = frozenset()
    modules = 0
    places: ClassVar[list[tuple[dict[str, Any], str]]] = []
    # Which names of a module any of them may have, as another process has found.
    by_module: ClassVar[dict[str, Sequence[str]]] = {}


def know_places(by_module: dict[str, Sequence[str]]) -> None:
    """Says, for some modules, which of their names hot functions have."""
    _Known.by_module = by_module
    _Known.modules = 0


def _places(functions: frozenset[int]) -> list[tuple[dict[str, Any], str]]:
    """The global names of the package that some functions have, by their ids."""
    if functions != _Known.functions or len(sys.modules) != _Known.modules:
        _Known.places = [
            (vars(module), key)
            for name, module in list(sys.modules.items())
            if name.startswith("livegrad") and isinstance(module, ModuleType)
            for key in _names_of(name, vars(module), functions)
        ]
        _Known.functions, _Known.modules = functions, len(sys.modules)
    return _Known.places


def _names_of(module: str, names: dict[str, Any], functions: frozenset[int]) -> list[str]:
    """The names of a module that some functions have."""
    known = _Known.by_module.get(module)
    if known is not None:
        return [key for key in known if id(names.get(key)) in functions]
    if functions.isdisjoint(map(id, list(names.values()))):
        return []
    return [key for key, x in list(names.items()) if id(x) in functions]


def exchange(replacements: dict[Any, Any], again: bool = False) -> None:
    """Puts each value where its key is: in modules of the package, and classes.

    `again`: since the last time nobody has assigned to the names of these functions.
    """
    by_id = {id(old): new for old, new in replacements.items()}
    if not again:
        _Known.modules = 0
    for names, key in _places(frozenset([*by_id, *[id(new) for new in by_id.values()]])):
        new = by_id.get(id(names.get(key)))
        if new is not None:
            names[key] = new
    for old, new in replacements.items():
        method = old if isinstance(old, FunctionType) else new
        if is_method(method):
            setattr(_class_of(method), method.__name__, new)
