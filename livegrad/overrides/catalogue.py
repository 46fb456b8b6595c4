"""Which functions can be overridden, and under which names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from types import FunctionType
from typing import Any, NamedTuple

from livegrad.tensor import Tensor

# Modules whose public functions can be overridden, besides Tensor's methods.
NAMESPACES = (
    "livegrad",
    "livegrad.nn.functional",
    "livegrad.nn.init",
    "livegrad.linalg",
    "livegrad.special",
    "livegrad.fft",
)
# Functions that are not public themselves, but are called by modules with the user's tensors.
PARTS = {
    "livegrad.autograd": ("grad",),
    "livegrad.nn.recurrent": ("cat", "recurrent"),
    "livegrad.nn.recurrent_cells": ("step",),
}
# Functions that make tensors from nothing: modes see them, their arguments are not asked.
FACTORIES = frozenset(
    """
    arange as_tensor asarray bartlett_window blackman_window empty empty_permuted empty_strided eye
    fftfreq from_dlpack from_numpy frombuffer full hamming_window hann_window kaiser_window linspace
    logspace ones rand randint randn randperm range rfftfreq scalar_tensor tensor tril_indices
    triu_indices zeros
    """.split()
)
# Functions that nobody overrides.
IGNORED = (("livegrad", "is_tensor"), ("livegrad.nn.init", "calculate_gain"))
# Operators that PyTorch reports as the method they stand for; others report themselves.
REPORTED = {
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__mul__": "mul", "__rmul__": "mul",
    "__truediv__": "div", "__mod__": "remainder", "__matmul__": "matmul", "__ne__": "ne",
    "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge", "__rand__": "bitwise_and",
    "__ror__": "bitwise_or", "__rxor__": "bitwise_xor", "__iadd__": "add_", "__isub__": "sub_",
    "__imul__": "mul_", "__itruediv__": "div_", "__ifloordiv__": "floor_divide_",
    "__imod__": "remainder_", "__neg__": "neg", "__abs__": "abs", "__pos__": "positive",
}  # fmt: skip
_BINARY = frozenset(
    f"__{side}{name}__"
    for name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
    for side in ("", "r", "i")
) | frozenset("__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __rdiv__".split())
# Methods of Python's own protocols that are not operations on the tensor, and what makes classes.
_PYTHONS = frozenset(
    """
    __new__ __init__ __init_subclass__ __torch_function__ __hash__ __iter__ __copy__
    __array_namespace__ __dlpack_device__ as_subclass
    """.split()
)


class Entry(NamedTuple):
    """A function to be made overridable; `func` is what `__torch_function__` gets to see."""

    function: Any
    func: Any
    name: str
    factory: bool = False
    operator: bool = False


def entries() -> Iterator[Entry]:
    """Everything that can be overridden, each function once."""
    seen: set[FunctionType] = set()
    for namespace in NAMESPACES:
        for name, function in public_functions(namespace):
            if function not in seen:
                seen.add(function)
                full = f"{namespace}.{name}"
                yield Entry(function, function, full, factory=name in FACTORIES)
    top = import_module("livegrad")
    for namespace, names in PARTS.items():
        for name in names:
            function = getattr(import_module(namespace), name)
            yield Entry(function, getattr(top, name, function), f"{namespace}.{name}")
    for name, member in _members():
        if isinstance(member, FunctionType):
            func = getattr(Tensor, REPORTED.get(name, name))
            yield Entry(member, func, f"livegrad.Tensor.{name}", operator=name in _BINARY)
        elif isinstance(member, property):
            for getter, how in ((member.fget, "__get__"), (member.fset, "__set__")):
                if isinstance(getter, FunctionType):  # not those in C, such as that of `grad`
                    full = f"livegrad.Tensor.{name}.{how}"
                    yield Entry(getter, getattr(member, how), full)


def public_functions(namespace: str) -> Iterator[tuple[str, FunctionType]]:
    """The public functions of a module, by name."""
    for name, function in list(vars(import_module(namespace)).items()):
        if name.startswith("_") or not isinstance(function, FunctionType):
            continue
        if function.__module__ == namespace and (namespace, name) not in IGNORED:
            yield name, function


def _members() -> Iterator[tuple[str, Any]]:
    """The methods and properties of Tensor that users know."""
    seen: set[str] = set()
    for cls in Tensor.__mro__[:-1]:
        for name, member in list(vars(cls).items()):
            private = name.startswith("_") and not name.startswith("__")
            if not private and name not in _PYTHONS and name not in seen:
                seen.add(name)
                yield name, member


# ------------------------------------------------------------------------- PyTorch's names for it


@cache
def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """Functions whose results stay of the class they have, whatever the arguments are."""
    found = [vars(cls).get(name) for cls in Tensor.__mro__ for name in ("_base", "grad")]
    return {member.__get__ for member in found if isinstance(member, property)}


@cache
def _names() -> dict[Any, str]:
    # Of two entries that report one function, the first has its own name.
    names: dict[Any, str] = {}
    for entry in sorted(entries(), key=lambda e: e.name.rpartition(".")[2] in REPORTED):
        names.setdefault(entry.func, entry.name)
    return names


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """What can be overridden by arguments, by module, and by Tensor for its methods."""
    found: dict[Any, list[Callable[..., Any]]] = {}
    for func, name in _names().items():
        place, _, short = name.rpartition(".")
        if name.startswith("livegrad.Tensor."):
            found.setdefault(Tensor, []).append(func)
        elif short not in FACTORIES:
            found.setdefault(import_module(place), []).append(func)
    return found


def get_ignored_functions() -> set[Callable[..., Any]]:
    """Public functions that arguments cannot override."""
    names = _names().items()
    factories = {func for func, name in names if name.rpartition(".")[2] in FACTORIES}
    others = {getattr(import_module(place), name) for place, name in IGNORED}
    return factories | others


def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """For each function that can be overridden, one that takes anything and gives -1."""
    return {
        func: lambda *args, **kwargs: -1
        for functions in get_overridable_functions().values()
        for func in functions
    }


def resolve_name(f: Any) -> str | None:
    """The name under which users find a function, such as `livegrad.Tensor.add`."""
    return _names().get(f)


def is_tensor_method_or_property(func: Any) -> bool:
    """Whether `func` is a method of Tensor, or the getter or setter of one of its properties."""
    return (resolve_name(func) or "").startswith("livegrad.Tensor.")
