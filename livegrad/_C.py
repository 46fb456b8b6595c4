"""The names of `torch._C` that programs and packages in Python use."""
# ruff: noqa: N999

from __future__ import annotations

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
    "TensorBase",
    "_disabled_torch_function_impl",
    "_get_tracing_state",
    "_log_api_usage_once",
]

_TensorBase = TensorBase


def _log_api_usage_once(event: str) -> None:
    """Nothing: nobody counts."""


def _get_tracing_state() -> None:
    """None: Python runs."""
