"""Linear layers."""

from __future__ import annotations

import math
from typing import Any

from livegrad.creation import empty
from livegrad.nn import functional as F, init
from livegrad.nn.lazy import LazyModuleMixin
from livegrad.nn.module import Module
from livegrad.nn.parameter import Parameter, UninitializedParameter
from livegrad.tensor import Tensor


class Identity(Module):
    """Gives back its input; any arguments are accepted.

    Example:
        >>> nn.Identity()(lg.ones(2))
        tensor([1., 1.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """`input`."""
        return input


class Linear(Module):
    """`input @ weight.T + bias`, with weight (out_features, in_features).

    Both start even in ±1/sqrt(in_features).

    Args:
        in_features: size of the last dim of the input.
        out_features: size of the last dim of the output.
        bias: whether there is one.

    Example:
        >>> nn.Linear(3, 2)(lg.ones(4, 3)).shape
        livegrad.Size([4, 2])
    """

    bias: Any

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights."""
        bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0.0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """See `livegrad.nn.functional.linear`."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear under the name that PyTorch gives to the output layer of MultiheadAttention."""


class Bilinear(Module):
    """`input1 @ weight[k] @ input2 + bias[k]` for each output k.

    All start even in ±1/sqrt(in1_features).
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(
            empty(out_features, in1_features, in2_features, device=device, dtype=dtype)
        )
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """See `livegrad.nn.functional.bilinear`."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class LazyLinear(LazyModuleMixin, Linear):
    """A Linear that takes `in_features` from its first input."""

    cls_to_become = Linear
    weight: UninitializedParameter

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draws new weights, once there are any."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Any) -> None:
        """Takes the number of features from `input`."""
        if self.has_uninitialized_params():
            self.in_features = input.shape[-1]
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()
        self.in_features = self.weight.shape[-1]
