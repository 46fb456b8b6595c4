"""Dropout: noise while training, nothing otherwise."""

from __future__ import annotations

from collections.abc import Callable

from livegrad.graph.events import MODE, tell
from livegrad.graph.state import LOCAL
from livegrad.nn import functional as F
from livegrad.nn.module import Module
from livegrad.tensor import Tensor


class _DropoutNd(Module):
    _function: Callable[..., Tensor]

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """`input` with some of it dropped; while not training, `input`."""
        if MODE and self.training is not LOCAL.state.grad:
            tell(MODE, self)
        if not self.training:
            return input
        return type(self)._function(input, self.p, True, self.inplace)

    def extra_repr(self) -> str:
        """Probability."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """While training, makes each element 0 with probability `p` and scales the rest to match.

    Args:
        p: the probability of 0.
        inplace: write to the input.

    Example:
        >>> nn.Dropout(0.5).eval()(lg.ones(3))
        tensor([1., 1., 1.])
    """

    _function = staticmethod(F.dropout)


class Dropout1d(_DropoutNd):
    """While training, makes whole channels of (N, C, L) or (C, L) 0 with probability `p`."""

    _function = staticmethod(F.dropout1d)


class Dropout2d(_DropoutNd):
    """While training, makes whole channels of (N, C, H, W) or (C, H, W) 0 with probability `p`."""

    _function = staticmethod(F.dropout2d)


class Dropout3d(_DropoutNd):
    """While training, makes whole channels of (N, C, D, H, W) 0 with probability `p`."""

    _function = staticmethod(F.dropout3d)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance, for SELU networks."""

    def forward(self, input: Tensor) -> Tensor:
        """See `livegrad.nn.functional.alpha_dropout`."""
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """AlphaDropout of whole channels."""

    def forward(self, input: Tensor) -> Tensor:
        """See `livegrad.nn.functional.feature_alpha_dropout`."""
        return F.feature_alpha_dropout(input, self.p, self.training)
