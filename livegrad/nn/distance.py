"""Distances and similarities of vectors."""

from __future__ import annotations

from livegrad.nn import functional as F
from livegrad.nn.module import Module
from livegrad.tensor import Tensor


class CosineSimilarity(Module):
    """See `livegrad.nn.functional.cosine_similarity`."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """The cosine of the angle between vectors."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """See `livegrad.nn.functional.pairwise_distance`."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """The p-norm of the difference of vectors."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
