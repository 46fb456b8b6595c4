"""Initial values of parameters. Every function writes in place, outside the graph."""

from __future__ import annotations

import math
import warnings
from statistics import NormalDist
from typing import Any

import numpy as np

from livegrad.autograd import no_grad
from livegrad.creation import empty_like
from livegrad.ops.elementwise.arithmetic import where
from livegrad.ops.making.constants import from_array
from livegrad.ops.making.random import rand
from livegrad.sequences import eye as _eye
from livegrad.tensor import Tensor

_LINEAR = ("linear", "conv1d", "conv2d", "conv3d", "sigmoid")


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """The factor by which a nonlinearity shrinks the spread of its input, inverted."""
    if nonlinearity in _LINEAR or nonlinearity.startswith("conv_transpose"):
        return 1.0
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, int | float):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Values drawn evenly from [a, b).

    Args:
        tensor: what is filled.
        a, b: the least value, and what all are below.
        generator: what draws; livegrad's default one if None.

    Example:
        >>> w = nn.init.uniform_(lg.empty(100), -1, 1)
        >>> bool((w.abs() <= 1).all())
        True
    """
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Values drawn from a normal distribution.

    Args:
        tensor: what is filled.
        mean, std: of the distribution.
        generator: what draws; livegrad's default one if None.

    Example:
        >>> nn.init.normal_(lg.empty(2, 3), std=0.02).shape
        livegrad.Size([2, 3])
    """
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Values drawn from a normal distribution, those outside [a, b] drawn again."""
    if tensor.is_meta:
        return tensor
    low, high = (a - mean) / std, (b - mean) / std
    kept = _NORMAL.cdf(high) - _NORMAL.cdf(low)
    with no_grad():
        if kept < _RARE:
            return tensor.copy_(from_array(_from_tail(tensor, low, high, generator) * std + mean))
        tensor.normal_(mean, std, generator=generator)
        while True:
            outside = (tensor < a) | (tensor > b)
            if not outside.any():
                return tensor
            again = empty_like(tensor).normal_(mean, std, generator=generator)
            tensor.copy_(where(outside, again, tensor))


_NORMAL = NormalDist()
_RARE = 0.2  # below this share of accepted values, drawing again takes too long


def _from_tail(tensor: Tensor, low: float, high: float, generator: Any) -> Any:
    """Standard normal values in [low, high], by inverting the distribution function."""
    share = tensor.uniform_(0.0, 1.0, generator=generator).detach().double().numpy()
    flip = low > 0  # the upper tail is the lower one mirrored, where the function is precise
    first, last = (-high, -low) if flip else (low, high)
    start, end = _NORMAL.cdf(first), _NORMAL.cdf(last)
    points = np.clip(start + share * (end - start), 5e-324, None)
    values = np.clip(np.vectorize(_NORMAL.inv_cdf, otypes=[float])(points), first, last)
    return -values if flip else values


def constant_(tensor: Tensor, val: float) -> Tensor:
    """`val` everywhere.

    Args:
        tensor: what is filled.
        val: a number.

    Example:
        >>> nn.init.constant_(lg.empty(2), 0.5)
        tensor([0.5000, 0.5000])
    """
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """1 everywhere.

    Example:
        >>> nn.init.ones_(lg.empty(2))
        tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """0 everywhere.

    Example:
        >>> nn.init.zeros_(nn.Linear(3, 2).bias)
        Parameter containing:
        tensor([0., 0.], requires_grad=True)
    """
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """1 on the diagonal of a matrix, 0 elsewhere."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with no_grad():
        return tensor.copy_(_eye(*tensor.shape, device=tensor.device))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """The kernels of a convolution that gives back its input: 1 in the middle, 0 elsewhere."""
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    outputs, inputs, *sizes = tensor.shape
    if outputs % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    if tensor.is_meta:
        return tensor
    per_group = outputs // groups
    value = np.zeros(tuple(tensor.shape))
    middle = tuple([size // 2 for size in sizes])
    for group in range(groups):
        for channel in range(min(per_group, inputs)):
            value[(group * per_group + channel, channel, *middle)] = 1
    with no_grad():
        return tensor.copy_(from_array(value))


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """A normal matrix with a share `sparsity` of each column set to 0, at random places."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    if tensor.is_meta:
        return tensor
    zeros = math.ceil(sparsity * rows)
    normal_(tensor, 0.0, std, generator)
    with no_grad():
        # The rank of each element among random numbers says whether it is kept.
        order = rand(rows, columns, generator=generator).argsort(0).argsort(0)
        return tensor.copy_(where(order < zeros, 0.0, tensor))


def fans(tensor: Tensor) -> tuple[int, int]:
    """How many values enter and leave each unit of a weight (out, in, …)."""
    if tensor.ndim < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


_calculate_fan_in_and_fan_out = fans


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Even, with variance `gain² * 2 / (fan_in + fan_out)`.

    Args:
        tensor: a weight (out, in, …).
        gain: see `calculate_gain`.
        generator: what draws; livegrad's default one if None.

    Example:
        >>> w = nn.init.xavier_uniform_(lg.empty(3, 3))
        >>> bool((w.abs() <= 1).all())
        True
    """
    bound = gain * math.sqrt(6.0 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal, with variance `gain² * 2 / (fan_in + fan_out)`."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(fans(tensor))), generator)


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """The fan that a mode names."""
    if mode.lower() not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return fans(tensor)[mode.lower() == "fan_out"]


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Even, with variance `gain² / fan`; `a` is the slope of leaky_relu.

    Args:
        tensor: a weight (out, in, …).
        a: the slope of leaky_relu.
        mode: "fan_in" keeps the size of values forward, "fan_out" that of gradients backward.
        nonlinearity: what comes behind the layer, see `calculate_gain`.
        generator: what draws; livegrad's default one if None.

    Example:
        >>> w = nn.init.kaiming_uniform_(lg.empty(4, 6), nonlinearity="relu")
        >>> bool((w.abs() <= 1).all())
        True
    """
    if 0 in tensor.shape:
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Normal, with variance `gain² / fan`; `a` is the slope of leaky_relu.

    Args:
        tensor: a weight (out, in, …).
        a: the slope of leaky_relu.
        mode: "fan_in" keeps the size of values forward, "fan_out" that of gradients backward.
        nonlinearity: what comes behind the layer, see `calculate_gain`.
        generator: what draws; livegrad's default one if None.

    Example:
        >>> conv = nn.Conv2d(3, 8, 3)
        >>> nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu").shape
        livegrad.Size([8, 3, 3, 3])
    """
    if 0 in tensor.shape:
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """A (semi-)orthogonal matrix, from the QR decomposition of a normal one.

    Args:
        tensor: a weight of two dims or more, those after the first taken as one.
        gain: what the matrix is multiplied by.
        generator: what draws; livegrad's default one if None.

    Example:
        >>> w = nn.init.orthogonal_(lg.empty(2, 3))
        >>> lg.allclose(w @ w.T, lg.eye(2), atol=1e-6)
        True
    """
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0 or tensor.is_meta:
        return tensor
    rows, columns = tensor.shape[0], tensor.numel() // tensor.shape[0]
    normal_(tensor, generator=generator)
    drawn = tensor.detach().double().numpy().reshape(rows, columns)
    wide = rows < columns
    q, r = np.linalg.qr(drawn.T if wide else drawn)
    q = q * np.sign(np.diag(r))  # so that all orthogonal matrices are equally likely
    value = gain * np.ascontiguousarray(q.T if wide else q).reshape(tuple(tensor.shape))
    with no_grad():
        return tensor.copy_(from_array(value))


def _old(function: Any) -> Any:
    """A function under the name it had before it said that it writes in place."""

    def renamed(*args: Any, **kwargs: Any) -> Any:
        name = function.__name__
        warnings.warn(
            f"`nn.init.{name[:-1]}` is now deprecated in favor of `nn.init.{name}`.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    renamed.__name__ = function.__name__[:-1]
    renamed.__doc__ = f"The old name of `{function.__name__}`."
    return renamed


uniform = _old(uniform_)
normal = _old(normal_)
constant = _old(constant_)
eye = _old(eye_)
dirac = _old(dirac_)
xavier_uniform = _old(xavier_uniform_)
xavier_normal = _old(xavier_normal_)
kaiming_uniform = _old(kaiming_uniform_)
kaiming_normal = _old(kaiming_normal_)
orthogonal = _old(orthogonal_)
sparse = _old(sparse_)

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]
