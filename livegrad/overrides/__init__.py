"""Overriding what functions do for one's own classes: `torch.overrides` for livegrad.

A class with `__torch_function__`, a subclass of Tensor or not, is asked when a public function gets
an object of it; a `TorchFunctionMode` is asked by all functions. How: docs/design.md, *Overrides*.
"""

from __future__ import annotations

from livegrad.overrides.asking import install
from livegrad.overrides.catalogue import (
    get_default_nowrap_functions,
    get_ignored_functions,
    get_overridable_functions,
    get_testing_overrides,
    is_tensor_method_or_property,
    resolve_name,
)
from livegrad.overrides.modes import (
    AfterEach as AfterEach,
    BaseTorchFunctionMode,
    TorchFunctionMode,
    enable_reentrant_dispatch,
)
from livegrad.overrides.protocol import (
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    default as default,
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
    is_tensor_like,
    wrap_torch_function,
)

install()  # whoever imports this has something to override

__all__ = [
    "BaseTorchFunctionMode",
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "TorchFunctionMode",
    "enable_reentrant_dispatch",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]
