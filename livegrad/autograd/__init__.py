"""Automatic differentiation: `backward`, `grad`, gradient modes, hooks, own functions, checks."""

from __future__ import annotations

from typing import Any

from livegrad.autograd.anomaly import detect_anomaly, set_detect_anomaly
from livegrad.autograd.backward import backward, grad
from livegrad.autograd.function import Function, FunctionCtx, once_differentiable
from livegrad.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
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

publish(globals(), ("grad",))


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in ("functional", "forward_ad"):  # imported when first used: `import livegrad` is quick
        return import_module(f"livegrad.autograd.{name}")
    if name == "Variable":  # what tensors were called in old programs
        return import_module("livegrad.tensor").Tensor
    raise AttributeError(f"module 'livegrad.autograd' has no attribute {name!r}")


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
