"""`torch.ops`: operations by the names of PyTorch's dispatcher.

ops.aten.relu(x), ops.aten.add.Tensor(x, y)     the function of that name, whatever the overload
ops.mine.cube(x)                                what `torch.library.custom_op("mine::cube")` made
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import ModuleType
from typing import Any, NoReturn

import livegrad
from livegrad.library.operation import definition
from livegrad.nn import functional
from livegrad.porting import names
from livegrad.porting.modules.aten import FUNCTIONS


class OpOverload:
    """One overload of an operation; all of them call one function."""

    def __init__(self, packet: OpOverloadPacket, overload: str) -> None:
        self._packet, self._overload = packet, overload
        self.__name__ = f"{packet.__name__}.{overload}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        own = definition(self.name())
        return (own or self._packet)(*args, **kwargs)

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """The operation with all its overloads."""
        return self._packet

    def name(self) -> str:
        """Its name, such as "aten::add.Tensor"."""
        end = "" if self._overload == "default" else f".{self._overload}"
        return f"{self._packet}{end}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self._packet}', overload='{self._overload}')>"


class OpOverloadPacket:
    """An operation, called with the arguments of the public function."""

    def __init__(self, namespace: str, name: str, function: Any) -> None:
        self._namespace, self._function = namespace, function
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __getattr__(self, overload: str) -> OpOverload:
        if overload.startswith("__"):
            raise AttributeError(overload)
        found = OpOverload(self, overload)
        setattr(self, overload, found)
        return found

    def __str__(self) -> str:
        return f"{self._namespace}::{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self._namespace}.{self.__name__}')>"


class _Namespace(ModuleType):
    def __init__(self, name: str) -> None:
        super().__init__(f"torch.ops.{name}")
        self._name = name

    def __getattr__(self, name: str) -> OpOverloadPacket:
        if name.startswith("__"):
            raise AttributeError(name)
        function = _function(self._name, name)
        if function is None:
            raise AttributeError(
                f"'_OpNamespace' '{self._name}' object has no attribute {name!r}",
                name=name,
                obj=self,
            )
        found = OpOverloadPacket(self._name, name, function)
        setattr(self, name, found)
        return found


def _enter(name: str, args: str | None = None) -> Any:
    """Begins a block that a profile shows under a name."""
    profiler: Any = names.find("torch.autograd.profiler")
    block = nullcontext() if profiler is None else profiler.record_function(name, args)
    block.__enter__()
    return block


def _exit(block: Any) -> None:
    """Ends it."""
    block.__exit__(None, None, None)


_PROFILER = {
    f"_record_function_{word}{end}": function
    for word, function in (("enter", _enter), ("exit", _exit))
    for end in ("", "_new")
}


def _function(namespace: str, name: str) -> Any:
    if namespace == "profiler":
        return _PROFILER.get(name)
    if namespace != "aten":
        return definition(f"{namespace}::{name}")
    found = next(filter(None, (_attribute(*place) for place in _places(name))), None)
    return FUNCTIONS.get(name) if found is None else found


def _places(name: str) -> list[tuple[Any, str]]:
    """Where the function of an operation may be, best first."""
    places: list[tuple[Any, str]] = [(livegrad, name), (functional, name), (livegrad.Tensor, name)]
    prefix, _, rest = name.partition("_")
    if prefix in ("linalg", "special", "fft"):
        places.append((getattr(livegrad, prefix), rest))
    return places


def _attribute(owner: Any, name: str) -> Any:
    found = getattr(owner, name, None)
    return found if callable(found) and not isinstance(found, type) else None


class _Ops(ModuleType):
    """The module itself, which has a namespace for each name."""

    def __getattr__(self, name: str) -> _Namespace:
        if name.startswith("__"):
            raise AttributeError(name)
        found = _Namespace(name)
        setattr(self, name, found)
        return found

    def load_library(self, path: Any) -> NoReturn:
        """OSError: what is compiled for PyTorch's C++ cannot be loaded."""
        raise OSError(
            f"ops.load_library: {path} is compiled for PyTorch itself. "
            "Write operations in Python: torch.library.custom_op"
        )


sys.modules[__name__].__class__ = _Ops
