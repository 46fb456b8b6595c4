"""Cross entropy of a linear layer, as one function."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from livegrad.graph.handle import node_of
from livegrad.ops.losses.class_loss import cross_entropy
from livegrad.ops.products.matmul import linear
from livegrad.ops.shaping.movement import reshape_to

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """`cross_entropy(linear(input, linear_weight, linear_bias), target)`.

    Args:
        input: (N, F) or (F,).
        linear_weight: (C, …, F).
        options: accepted; how the work is cut is the compiler's business.
    """
    x, w = node_of(input).meta.shape, node_of(linear_weight).meta.shape
    name = "linear_cross_entropy"
    if len(x) not in (1, 2) or len(w) < 2:
        raise RuntimeError(
            f"{name}: expected input of 1 or 2 dims and linear_weight of at least 2; got {list(x)} "
            f"and {list(w)}"
        )
    if x[-1] != w[-1]:
        raise RuntimeError(
            f"{name}: expected equal input and linear_weight last dimensions (in_features), got "
            f"{x[-1]} and {w[-1]}, respectively"
        )
    outputs = w[:-1]
    if linear_bias is not None and node_of(linear_bias).meta.shape != outputs:
        raise RuntimeError(
            f"{name}: expected linear_bias shape {outputs}, got {node_of(linear_bias).meta.shape}"
        )
    if len(outputs) > 1 and len(x) == 1:
        raise RuntimeError(f"{name}: linear_weight {list(w)} requires batched input; got {list(x)}")
    shape = (*x[:-1], *outputs)
    if node_of(target).meta.shape == shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    if len(outputs) > 1:
        linear_weight = reshape_to(linear_weight, (prod(outputs), x[-1]))
        if linear_bias is not None:
            linear_bias = reshape_to(linear_bias, (prod(outputs),))
    return cross_entropy(
        reshape_to(linear(input, linear_weight, linear_bias), shape),
        target,
        weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
