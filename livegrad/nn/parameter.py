"""Parameter and Buffer: tensors that a Module knows as its own."""

from __future__ import annotations

from typing import Any

from livegrad.creation import empty
from livegrad.graph.state import LOCAL
from livegrad.native.hot import hot_slots
from livegrad.ops.elementwise import clone
from livegrad.tensor import Tensor


def _own_value(data: Any) -> Any:
    """A tensor with a node of its own, holding the value of `data` without its history."""
    state = LOCAL.state
    grad, state.grad = state.grad, False
    try:
        return clone(empty(0) if data is None else data)
    finally:
        state.grad = grad


@hot_slots
class Parameter(Tensor):
    """A tensor that is learned: assigned to a Module, it appears in its `parameters()`.

    It takes the value of `data`; later in-place changes of `data` do not reach it.
    """

    __slots__ = ()

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Parameter:
        out: Parameter = _own_value(data)
        out.__class__ = cls
        if requires_grad:
            out.requires_grad_()
        return out

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class Buffer(Tensor):
    """A tensor that is kept but not learned: assigned to a Module, it becomes a buffer."""

    __slots__ = ()
    persistent = True

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Buffer:
        out: Buffer = _own_value(data)
        out.__class__ = cls
        out.persistent = persistent
        return out
