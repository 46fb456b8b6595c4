"""`torch.onnx`: names that programs import. There is no export yet; a call says so."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import IntEnum
from types import ModuleType
from typing import Any, NoReturn, TypeVar

F = TypeVar("F")

__path__: list[str] = []  # what is asked of packages

_NOT_YET = (
    "livegrad does not export to ONNX yet. Save the weights, save(model.state_dict(), 'w.pt'): "
    "PyTorch reads that file, and exports"
)


class OnnxExporterError(RuntimeError):
    """An export that failed."""


class ExportOptions:
    """How an export is to be made."""

    def __init__(self, **options: Any) -> None:
        self.options = options


class TrainingMode(IntEnum):
    """How a module is to be exported."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(IntEnum):
    """Which operators an export may use."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    RAW = 3
    ONNX_FALLTHROUGH = 4


def is_in_onnx_export() -> bool:
    """False."""
    return False


def export(*args: Any, **options: Any) -> NoReturn:
    """OnnxExporterError: says what to use."""
    raise OnnxExporterError(_NOT_YET)


dynamo_export = _export = export


def parse_args(*kinds: str) -> Callable[[F], F]:
    """A decorator that changes nothing: what it describes would be used by an export."""
    return lambda function: function


def _part(name: str, **members: Any) -> ModuleType:
    """A file of PyTorch's that packages import from when they describe their operations."""
    module = ModuleType(f"{__name__}.{name}")
    module.__dict__.update(members)
    sys.modules[module.__name__] = module
    return module


def shape_as_tensor(x: Any) -> Any:
    """The shape of a tensor, as one."""
    return x.new_tensor(list(x.shape)).long()


operators = _part("operators", shape_as_tensor=shape_as_tensor)
symbolic_helper = _part("symbolic_helper", parse_args=parse_args)
for _version in range(7, 21):
    globals()[f"symbolic_opset{_version}"] = _part(f"symbolic_opset{_version}")


def register_custom_op_symbolic(*args: Any, **options: Any) -> None:
    """Nothing: it would be used by an export."""


unregister_custom_op_symbolic = register_custom_op_symbolic
