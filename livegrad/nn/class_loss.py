"""Loss modules of classes; each says no more than the function it calls."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from livegrad.nn import functional as F
from livegrad.nn.linear import Linear
from livegrad.nn.loss import _Loss, _WeightedLoss
from livegrad.tensor import Tensor


class CrossEntropyLoss(_WeightedLoss):
    """See `livegrad.nn.functional.cross_entropy`.

    Args:
        weight: of each class.
        ignore_index: a class that does not count.
        reduction: "mean", "sum" or "none".
        label_smoothing: how much of each target is spread over all classes.

    Example:
        >>> nn.CrossEntropyLoss()(lg.zeros(2, 4), lg.tensor([0, 3]))
        tensor(1.3863)
    """

    def __init__(
        self,
        weight: Any = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return F.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(_WeightedLoss):
    """See `livegrad.nn.functional.nll_loss`.

    Args:
        weight: of each class.
        ignore_index: a class that does not count.
        reduction: "mean", "sum" or "none".

    Example:
        >>> nn.NLLLoss()(lg.log(lg.tensor([[0.25, 0.75]])), lg.tensor([1]))
        tensor(0.2877)
    """

    def __init__(
        self,
        weight: Any = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return F.nll_loss(
            input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class NLLLoss2d(NLLLoss):
    """The old name of NLLLoss for images."""


@dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """How PyTorch cuts a linear_cross_entropy into pieces; accepted, but the compiler decides."""

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None


class LinearCrossEntropyLoss(_WeightedLoss):
    """A Linear layer and the cross entropy of its results.

    Results are (N, num_classes, *out_features); the weight of the layer has its first dims merged.
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Any = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(
                f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}"
            )
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(
                f"expected label_smoothing to be in range [0, 1], got {label_smoothing}"
            )
        super().__init__(weight, reduction=reduction)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        rows = num_classes * math.prod(out_features)
        self.linear = Linear(in_features, rows, bias, device, dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """See `livegrad.nn.functional.linear_cross_entropy`."""
        sizes = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape(*sizes, self.linear.in_features),
            target,
            linear_bias=None if bias is None else bias.reshape(sizes),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        """Sizes and options."""
        names = ("num_classes", "out_features", "reduction", "ignore_index", "label_smoothing")
        values = {name: getattr(self, name) for name in names}
        values = {"in_features": self.linear.in_features, **values, "options": self.options}
        order = ("in_features", "num_classes", "out_features", "bias", *names[2:], "options")
        values["bias"] = self.linear.bias is not None
        return ", ".join([f"{name}={values[name]}" for name in order])


class MultiMarginLoss(_WeightedLoss):
    """See `livegrad.nn.functional.multi_margin_loss`."""

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Any = None,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.ndim != 1:
            raise ValueError(f"MultiMarginLoss: weight must have 1 dim; got {weight.ndim}")
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return F.multi_margin_loss(
            input,
            target,
            p=self.p,
            margin=self.margin,
            weight=self.weight,
            reduction=self.reduction,
        )


class MultiLabelMarginLoss(_Loss):
    """See `livegrad.nn.functional.multilabel_margin_loss`."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """See `livegrad.nn.functional.multilabel_soft_margin_loss`."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss."""
        return F.multilabel_soft_margin_loss(
            input, target, weight=self.weight, reduction=self.reduction
        )
