"""`Variable`: what tensors that have gradients were wrapped in once."""

from __future__ import annotations

import warnings
from typing import Any

from livegrad.creation import zeros
from livegrad.tensor import Tensor


class _VariableMeta(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor)

    def __call__(
        cls, data: Any = None, requires_grad: bool | None = None, volatile: bool = False
    ) -> Tensor:
        """A tensor with the values of `data`, and without its history."""
        if volatile:
            warnings.warn(
                "volatile was removed and now has no effect. Use `with torch.no_grad():` instead.",
                stacklevel=2,
            )
        if data is None:
            return zeros(0)
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_(bool(requires_grad))


class Variable(metaclass=_VariableMeta):
    """Makes a leaf of a tensor; every tensor is an instance."""
