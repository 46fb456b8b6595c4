"""Activation modules; each says no more than the function of `livegrad.nn.functional` it calls."""

from __future__ import annotations

from typing import Any

from livegrad.creation import empty
from livegrad.nn import functional as F
from livegrad.nn.init import constant_
from livegrad.nn.module import Module
from livegrad.nn.parameter import Parameter
from livegrad.tensor import Tensor


class _Inplace(Module):
    """An activation whose only option is to write to its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Options that differ from the defaults."""
        return "inplace=True" if self.inplace else ""


class ReLU(_Inplace):
    """See `livegrad.nn.functional.relu`.

    Args:
        inplace: write to the input.

    Example:
        >>> nn.ReLU()(lg.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.relu(input, self.inplace)


class ReLU6(_Inplace):
    """See `livegrad.nn.functional.relu6`."""

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.relu6(input, self.inplace)


class SiLU(_Inplace):
    """See `livegrad.nn.functional.silu`.

    Example:
        >>> nn.SiLU()(lg.tensor([0.0, 1.0]))
        tensor([0.0000, 0.7311])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.silu(input, self.inplace)


class Mish(_Inplace):
    """See `livegrad.nn.functional.mish`."""

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.mish(input, self.inplace)


class SELU(_Inplace):
    """See `livegrad.nn.functional.selu`."""

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.selu(input, self.inplace)


class Hardswish(Module):
    """See `livegrad.nn.functional.hardswish`."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.hardswish(input, self.inplace)


class Hardsigmoid(Module):
    """See `livegrad.nn.functional.hardsigmoid`."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.hardsigmoid(input, self.inplace)


class ELU(Module):
    """See `livegrad.nn.functional.elu`."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Options."""
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class CELU(Module):
    """See `livegrad.nn.functional.celu`."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """Options."""
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class LeakyReLU(Module):
    """See `livegrad.nn.functional.leaky_relu`.

    Args:
        negative_slope: of what is below 0.
        inplace: whether the input takes the result.

    Example:
        >>> nn.LeakyReLU(0.1)(lg.tensor([-1.0, 2.0]))
        tensor([-0.1000,  2.0000])
    """

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """Options."""
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class RReLU(Module):
    """See `livegrad.nn.functional.rrelu`."""

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Options."""
        text = f"lower={self.lower}, upper={self.upper}"
        return text + (", inplace=True" if self.inplace else "")


class PReLU(Module):
    """See `livegrad.nn.functional.prelu`; the slope is learned."""

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the slope to `init`."""
        constant_(self.weight, float(self.init))

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """Options."""
        return f"num_parameters={self.num_parameters}"


class Hardtanh(Module):
    """See `livegrad.nn.functional.hardtanh`."""

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        # The old names of the limits.
        min_val = min_val if min_value is None else min_value
        max_val = max_val if max_value is None else max_value
        if min_val >= max_val:
            raise AssertionError("min_val must be less than max_val")
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """Options."""
        text = f"min_val={self.min_val}, max_val={self.max_val}"
        return text + (", inplace=True" if self.inplace else "")


class Threshold(Module):
    """See `livegrad.nn.functional.threshold`."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """Options."""
        text = f"threshold={self.threshold}, value={self.value}"
        return text + (", inplace=True" if self.inplace else "")


class Sigmoid(Module):
    """See `livegrad.sigmoid`.

    Example:
        >>> nn.Sigmoid()(lg.tensor([-1.0, 2.0]))
        tensor([0.2689, 0.8808])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.sigmoid(input)


class Tanh(Module):
    """See `livegrad.tanh`.

    Example:
        >>> nn.Tanh()(lg.tensor([-1.0, 2.0]))
        tensor([-0.7616,  0.9640])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.tanh(input)


class LogSigmoid(Module):
    """See `livegrad.nn.functional.logsigmoid`."""

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.logsigmoid(input)


class Softsign(Module):
    """See `livegrad.nn.functional.softsign`."""

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.softsign(input)


class Tanhshrink(Module):
    """See `livegrad.nn.functional.tanhshrink`."""

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.tanhshrink(input)


class GELU(Module):
    """See `livegrad.nn.functional.gelu`.

    Args:
        approximate: "none" or "tanh".

    Example:
        >>> nn.GELU()(lg.tensor([-1.0, 2.0]))
        tensor([-0.1587,  1.9545])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """Options."""
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """See `livegrad.nn.functional.softplus`."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Options."""
        return f"beta={self.beta}, threshold={self.threshold}"


class Hardshrink(Module):
    """See `livegrad.nn.functional.hardshrink`."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Options."""
        return f"{self.lambd}"


class Softshrink(Module):
    """See `livegrad.nn.functional.softshrink`."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """Options."""
        return str(self.lambd)


class GLU(Module):
    """See `livegrad.nn.functional.glu`."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        """Dim."""
        return f"dim={self.dim}"


class _AlongDim(Module):
    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        """Dim."""
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    """See `livegrad.nn.functional.softmax`.

    Args:
        dim: along which the results add up to 1.

    Example:
        >>> nn.Softmax(dim=0)(lg.tensor([0.0, 0.0]))
        tensor([0.5000, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.softmax(input, self.dim, _stacklevel=5)


class LogSoftmax(_AlongDim):
    """See `livegrad.nn.functional.log_softmax`.

    Args:
        dim: along which the exponentials of the results add up to 1.

    Example:
        >>> nn.LogSoftmax(dim=1)(lg.zeros(1, 2))
        tensor([[-0.6931, -0.6931]])
    """

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmin(_AlongDim):
    """See `livegrad.nn.functional.softmin`."""

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        return F.softmin(input, self.dim, _stacklevel=5)


class Softmax2d(Module):
    """Softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        """The activation."""
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, -3)
