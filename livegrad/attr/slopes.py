"""Gradients of the answer with respect to the input, plain or changed on their way."""

from __future__ import annotations

from typing import Any

from livegrad.attr.asking import Forward, as_tuple, extras, like, slopes
from livegrad.nn import Module, ReLU, functional as F


class Saliency:
    """How much the answer changes with each element: the gradient, by default without its sign.

    >>> import livegrad
    >>> x = livegrad.tensor([[1.0, -2.0]])
    >>> Saliency(lambda x: x[:, :1] * 3 - x[:, 1:] ** 2).attribute(x, target=0)
    tensor([[3., 4.]])
    """

    def __init__(self, forward_func: Forward) -> None:
        self.forward_func = forward_func

    def attribute(
        self, inputs: Any, target: Any = None, abs: bool = True, additional_forward_args: Any = None
    ) -> Any:
        """A value for each element of the inputs."""
        more = extras(additional_forward_args)
        found = slopes(self.forward_func, as_tuple(inputs), target, more)
        return like(inputs, [x.abs() if abs else x for x in found])


class InputXGradient:
    """Each element times the gradient: what it adds, if the model were linear."""

    def __init__(self, forward_func: Forward) -> None:
        self.forward_func = forward_func

    def attribute(
        self, inputs: Any, target: Any = None, additional_forward_args: Any = None
    ) -> Any:
        """A value for each element of the inputs."""
        given = as_tuple(inputs)
        found = slopes(self.forward_func, given, target, extras(additional_forward_args))
        return like(inputs, [x.detach() * slope for x, slope in zip(given, found, strict=True)])


class _Rectified:
    """Gradients that are changed where they pass a ReLU."""

    def __init__(self, model: Module) -> None:
        if not isinstance(model, Module):
            raise TypeError(f"{type(self).__name__} needs a Module, whose layers it can look at")
        self.model = model

    @staticmethod
    def changed(grad_input: Any, grad_output: Any) -> Any:
        raise NotImplementedError

    def attribute(
        self, inputs: Any, target: Any = None, additional_forward_args: Any = None
    ) -> Any:
        """A value for each element of the inputs."""
        hooks = [
            layer.register_full_backward_hook(
                lambda _, grad_input, grad_output: self.changed(grad_input, grad_output)
            )
            for layer in self.model.modules()
            if isinstance(layer, ReLU)
        ]
        try:
            more = extras(additional_forward_args)
            return like(inputs, slopes(self.model, as_tuple(inputs), target, more))
        finally:
            for hook in hooks:
                hook.remove()


class GuidedBackprop(_Rectified):
    """Gradients of which, at each `nn.ReLU`, only what is positive goes on."""

    @staticmethod
    def changed(grad_input: Any, grad_output: Any) -> Any:
        """What goes on: what would have, if positive."""
        return tuple([F.relu(x) for x in grad_input])


class Deconvolution(_Rectified):
    """Gradients that pass each `nn.ReLU` if they are positive, whatever went through it before."""

    @staticmethod
    def changed(grad_input: Any, grad_output: Any) -> Any:
        """What goes on: what comes, if positive."""
        return tuple([F.relu(x) for x in grad_output])
