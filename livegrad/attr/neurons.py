"""What the elements of an input have to do with one value of a layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from livegrad import Tensor
from livegrad.attr.asking import Forward, as_tuple, extras, like, slopes, values_of
from livegrad.attr.paths import IntegratedGradients
from livegrad.nn import Module

Selector = int | tuple[int | slice, ...] | Callable[[Any], Tensor]


class _Neuron:
    def __init__(self, forward_func: Forward, layer: Module) -> None:
        self.forward_func = forward_func
        self.layer = layer

    def answers(self, selector: Selector, before: bool) -> Forward:
        """The value of each example, as a model that is asked about inputs."""

        def forward(*args: Any) -> Tensor:
            values = values_of(self.forward_func, self.layer, args, (), before)
            if callable(selector):
                return selector(values)
            place = selector if isinstance(selector, tuple) else (selector,)
            return values[(slice(None), *place)]  # type: ignore[no-any-return]

        return forward


class NeuronGradient(_Neuron):
    """The gradient of one value of a layer with respect to the inputs."""

    def attribute(
        self,
        inputs: Any,
        neuron_selector: Selector,
        additional_forward_args: Any = None,
        attribute_to_neuron_input: bool = False,
    ) -> Any:
        """A value for each element of the inputs."""
        forward = self.answers(neuron_selector, attribute_to_neuron_input)
        more = extras(additional_forward_args)
        return like(inputs, slopes(forward, as_tuple(inputs), None, more))


class NeuronIntegratedGradients(_Neuron):
    """Integrated gradients of one value of a layer."""

    def __init__(
        self, forward_func: Forward, layer: Module, multiply_by_inputs: bool = True
    ) -> None:
        super().__init__(forward_func, layer)
        self.multiply_by_inputs = multiply_by_inputs

    def attribute(
        self,
        inputs: Any,
        neuron_selector: Selector,
        baselines: Any = None,
        additional_forward_args: Any = None,
        n_steps: int = 50,
        method: str = "gausslegendre",
        internal_batch_size: int | None = None,
        attribute_to_neuron_input: bool = False,
    ) -> Any:
        """A value for each element of the inputs."""
        forward = self.answers(neuron_selector, attribute_to_neuron_input)
        return IntegratedGradients(forward, self.multiply_by_inputs).attribute(
            inputs,
            baselines,
            None,
            additional_forward_args,
            n_steps,
            method,
            internal_batch_size,
        )
