"""`livegrad._assert`: an assertion that programs which are traced can make, too.

`livegrad._assert_async` asserts a value; a GPU, of which there is none, would do so later.
"""

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


def _assert_async(input: Tensor, assert_msg: str = "") -> None:
    """RuntimeError if the one value of `input` is zero."""
    if not bool(input):
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")


_assert_async.__module__ = "livegrad"
