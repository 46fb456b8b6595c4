"""Dropout layers."""

from __future__ import annotations

from typing import Any

from livegrad.nn import functional as F
from livegrad.nn.module import Module


class _Dropout(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Probability."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """While training, makes each element 0 with probability `p` and scales the rest to match."""

    def forward(self, input: Any) -> Any:
        """See `livegrad.nn.functional.dropout`."""
        if not self.training:
            return input
        return F.dropout(input, self.p, True, self.inplace)
