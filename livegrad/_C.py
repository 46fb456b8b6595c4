"""The names of `torch._C` that programs with classes of their own use."""
# ruff: noqa: N999

from __future__ import annotations

from livegrad.overrides import DisableTorchFunction, DisableTorchFunctionSubclass
from livegrad.tensor import disabled_torch_function as _disabled_torch_function_impl

__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "_disabled_torch_function_impl",
]
