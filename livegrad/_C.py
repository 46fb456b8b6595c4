"""The names of `torch._C` that programs and packages in Python use."""
# ruff: noqa: N999

from __future__ import annotations

from typing import Any
from zipfile import ZipFile

from livegrad.autograd.below import below_autograd as _AutoDispatchBelowAutograd
from livegrad.device import Device
from livegrad.graph.state import LOCAL
from livegrad.nn.module import asked_of_to
from livegrad.overrides import DisableTorchFunction, DisableTorchFunctionSubclass
from livegrad.random import Generator
from livegrad.tensor import (
    Tensor as TensorBase,
    disabled_torch_function as _disabled_torch_function_impl,
)

__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "Generator",
    "Graph",
    "PyTorchFileReader",
    "ScriptMethod",
    "TensorBase",
    "TensorType",
    "Value",
    "_AutoDispatchBelowAutograd",
    "_disabled_torch_function_impl",
    "_get_tracing_state",
    "_log_api_usage_once",
]

__path__: list[str] = []  # names below it are files elsewhere (porting/names.py)

DeviceObjType = Device
_TensorBase = TensorBase
_TensorMeta = type(TensorBase)
Graph, ScriptMethod, TensorType, Value = (
    type(name, (), {"__doc__": "A part of TorchScript's graph: there is none."})
    for name in ("Graph", "ScriptMethod", "TensorType", "Value")
)


class PyTorchFileReader:
    """The records of a file that `save` wrote, by name."""

    def __init__(self, file: Any) -> None:
        self._archive = ZipFile(file)
        names = self._archive.namelist()
        self._root = names[0].partition("/")[0] + "/" if names else ""

    def get_all_records(self) -> list[str]:
        """The names of all."""
        return [name.removeprefix(self._root) for name in self._archive.namelist()]

    def has_record(self, name: str) -> bool:
        """Whether there is one of a name."""
        return self._root + name in self._archive.namelist()

    def get_record(self, name: str) -> bytes:
        """The bytes of one."""
        return self._archive.read(self._root + name)


def _log_api_usage_once(event: str) -> None:
    """Nothing: nobody counts."""


def _get_tracing_state() -> None:
    """None: Python runs."""


class _nn:
    """What PyTorch's layers share in C++."""

    @staticmethod
    def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
        """What `Module.to` is asked for: device, dtype, whether not to wait, memory format."""
        device, dtype = asked_of_to(args, kwargs)
        place = None if device is None else Device(device)
        return place, dtype, kwargs.get("non_blocking", False), kwargs.get("memory_format")


def _are_functorch_transforms_active() -> bool:
    """Whether `vmap`, `grad` or the like is running the program."""
    return LOCAL.state.flusher is not None
