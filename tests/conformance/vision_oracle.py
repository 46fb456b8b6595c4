"""torchvision beside PyTorch's CPU: its wheel's C++ wants CUDA, its Python does not."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

import pytest

# Modules that only tell PyTorch about torchvision's C++.
_CPP = ("torchvision._autograd_registrations", "torchvision._meta_registrations")


def torchvision() -> ModuleType:
    """torchvision; skips where it (`pip install --no-deps torchvision`) or torch is missing."""
    pytest.importorskip("torch")
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed", allow_module_level=True)
    for name in _CPP:
        sys.modules.setdefault(name, ModuleType(name))
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("torchvision")


def submodule(name: str) -> ModuleType:
    """A module of torchvision."""
    torchvision()
    return importlib.import_module(name)
