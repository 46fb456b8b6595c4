"""Helpers around networks; each subpackage is imported when first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PARTS = (
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


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f"livegrad.utils.{name}")
    if name == "swap_tensors":
        return import_module("livegrad.utils.swapping").swap_tensors
    raise AttributeError(f"module 'livegrad.utils' has no attribute {name!r}")
