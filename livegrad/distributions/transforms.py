"""Transforms of random variables, under the names of `torch.distributions.transforms`."""

from __future__ import annotations

from livegrad.distributions.number_transforms import (
    AbsTransform as AbsTransform,
    AffineTransform as AffineTransform,
    ExpTransform as ExpTransform,
    PowerTransform as PowerTransform,
    SigmoidTransform as SigmoidTransform,
    SoftplusTransform as SoftplusTransform,
    TanhTransform as TanhTransform,
    _clipped_sigmoid as _clipped_sigmoid,
)
from livegrad.distributions.transform import (
    CatTransform as CatTransform,
    ComposeTransform as ComposeTransform,
    CumulativeDistributionTransform as CumulativeDistributionTransform,
    IndependentTransform as IndependentTransform,
    ReshapeTransform as ReshapeTransform,
    StackTransform as StackTransform,
    Transform as Transform,
    _InverseTransform as _InverseTransform,
    identity_transform as identity_transform,
)
from livegrad.distributions.vector_transforms import (
    CorrCholeskyTransform as CorrCholeskyTransform,
    LowerCholeskyTransform as LowerCholeskyTransform,
    PositiveDefiniteTransform as PositiveDefiniteTransform,
    SoftmaxTransform as SoftmaxTransform,
    StickBreakingTransform as StickBreakingTransform,
)
