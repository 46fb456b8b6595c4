"""Automatic differentiation: `backward`, `grad`, gradient modes, hooks, own functions, checks."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from livegrad.autograd.anomaly import detect_anomaly, set_detect_anomaly
from livegrad.autograd.backward import backward, grad
from livegrad.autograd.hooks import (
    RemovableHandle,
    register_hook,
    register_post_accumulate_grad_hook,
    retain_grad,
    retains_grad,
)
from livegrad.autograd.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from livegrad.ops.support.public import publish

if TYPE_CHECKING:  # imported when first used: see `__getattr__`
    from livegrad.autograd.function import Function, FunctionCtx, once_differentiable
    from livegrad.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck

publish(globals(), ("grad",))

_MODULES = {
    "Function": "livegrad.autograd.function",
    "FunctionCtx": "livegrad.autograd.function",
    "once_differentiable": "livegrad.autograd.function",
    "GradcheckError": "livegrad.autograd.gradcheck",
    "gradcheck": "livegrad.autograd.gradcheck",
    "gradgradcheck": "livegrad.autograd.gradcheck",
    "Variable": "livegrad.variable",
}


def __getattr__(name: str) -> Any:
    """What few programs use is imported when first used, to keep `import livegrad` quick."""
    if name in ("functional", "forward_ad", "graph", "profiler", "profiler_util"):
        return import_module(f"livegrad.autograd.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module 'livegrad.autograd' has no attribute {name!r}")
    module = import_module(_MODULES[name])
    # All of a module's names at once: importing `gradcheck` has put the module in the place of the
    # function.
    for each in [each for each, where in _MODULES.items() if where == module.__name__]:
        globals()[each] = getattr(module, each)
    return globals()[name]


__all__ = [
    "Function",
    "FunctionCtx",
    "GradcheckError",
    "RemovableHandle",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "once_differentiable",
    "register_hook",
    "register_post_accumulate_grad_hook",
    "retain_grad",
    "retains_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
]
