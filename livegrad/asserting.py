"""`livegrad._assert`: an assertion that programs which are traced can make, too."""

from __future__ import annotations

from typing import Any

from livegrad.graph.above import Above
from livegrad.tensor import Tensor


def _assert(condition: Any, message: str = "") -> Any:
    """`assert condition, message`; an object that answers for functions is asked instead."""
    asks = hasattr(type(condition), "__torch_function__") and type(condition) is not Tensor
    if asks and Above.overrides().has_torch_function((condition,)):
        handle = Above.overrides().handle_torch_function
        return handle(_assert, (condition,), condition, message)
    assert condition, message
    return None


_assert.__module__ = "livegrad"
