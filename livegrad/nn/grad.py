"""Gradients of convolutions by themselves: for input or weight, from that of the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from livegrad import autograd
from livegrad.autograd.modes import enable_grad, is_grad_enabled
from livegrad.creation import zeros
from livegrad.nn import functional as F
from livegrad.tensor import Tensor

Size = int | Sequence[int]
Convolve = Callable[..., Tensor]


def _gradient(
    g: Tensor, other: Tensor, size: Sequence[int], convolve: Callable[[Tensor], Tensor]
) -> Tensor:
    """For an operand of which only the size counts."""
    differentiable = is_grad_enabled() and (g.requires_grad or other.requires_grad)
    with enable_grad():
        wanted = zeros(*size, dtype=g.dtype, device=g.device, requires_grad=True)
        gradients = autograd.grad(convolve(wanted), wanted, g, create_graph=differentiable)
    found: Tensor = gradients[0]
    return found


def _for_input(convolve: Convolve) -> Convolve:
    def gradient(
        input_size: Sequence[int],
        weight: Tensor,
        grad_output: Tensor,
        stride: Size = 1,
        padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
    ) -> Tensor:
        lie = (None, stride, padding, dilation, groups)
        return _gradient(grad_output, weight, input_size, lambda x: convolve(x, weight, *lie))

    return _named(gradient, f"{convolve.__name__}_input", "an input of `input_size`")


def _for_weight(convolve: Convolve) -> Convolve:
    def gradient(
        input: Tensor,
        weight_size: Sequence[int],
        grad_output: Tensor,
        stride: Size = 1,
        padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
    ) -> Tensor:
        lie = (None, stride, padding, dilation, groups)
        return _gradient(grad_output, input, weight_size, lambda w: convolve(input, w, *lie))

    return _named(gradient, f"{convolve.__name__}_weight", "a weight of `weight_size`")


def _named(function: Convolve, name: str, of: str) -> Convolve:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The gradient of `{name.split('_')[0]}` for {of}."
    return function


conv1d_input, conv1d_weight = _for_input(F.conv1d), _for_weight(F.conv1d)
conv2d_input, conv2d_weight = _for_input(F.conv2d), _for_weight(F.conv2d)
conv3d_input, conv3d_weight = _for_input(F.conv3d), _for_weight(F.conv3d)
