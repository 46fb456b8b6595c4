"""Helpers around networks; each subpackage is imported when first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PARTS = (
    "backcompat",
    "benchmark",
    "checkpoint",
    "collect_env",
    "data",
    "deterministic",
    "dlpack",
    "hooks",
    "model_zoo",
    "tensorboard",
)
# What is there in PyTorch as soon as torch is imported, and is torch's alone.
_OF_TORCH = {
    "_contextlib": "contexts",
    "_foreach_utils": "foreach_utils",
    "_python_dispatch": "dispatch",
    "_pytree": "pytree",
    "weak": "weak",
}


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f"livegrad.utils.{name}")
    if name in _OF_TORCH:
        return import_module(f"livegrad.porting.modules.{_OF_TORCH[name]}")
    if name == "swap_tensors":
        return import_module("livegrad.utils.swapping").swap_tensors
    raise AttributeError(f"module 'livegrad.utils' has no attribute {name!r}")
