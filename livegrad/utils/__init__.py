"""Helpers around networks; each subpackage is imported when first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PARTS = ("benchmark", "checkpoint", "data", "tensorboard")


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f"livegrad.utils.{name}")
    raise AttributeError(f"module 'livegrad.utils' has no attribute {name!r}")
