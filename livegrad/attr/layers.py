"""What a layer's values have to do with the answer."""

from __future__ import annotations

from typing import Any

from livegrad import Tensor, autograd, enable_grad, no_grad
from livegrad.attr.asking import (
    Forward,
    Tensors,
    as_tuple,
    ask,
    baselines_of,
    extras,
    like,
    repeated,
    values_of,
    watching,
)
from livegrad.attr.paths import difference, integrated
from livegrad.attr.slopes import GuidedBackprop
from livegrad.nn import Module, functional as F


class LayerAttribution:
    """A method that looks at the values of one layer."""

    def __init__(self, forward_func: Forward, layer: Module) -> None:
        self.forward_func = forward_func
        self.layer = layer

    @staticmethod
    def interpolate(
        layer_attribution: Tensor, interpolate_dims: Any, interpolate_mode: str = "nearest"
    ) -> Tensor:
        """Attributions (batch, channels, ...) at the size of the input, to be shown over it."""
        return F.interpolate(layer_attribution, interpolate_dims, mode=interpolate_mode)


class LayerActivation(LayerAttribution):
    """The values of a layer themselves."""

    def attribute(
        self,
        inputs: Any,
        additional_forward_args: Any = None,
        attribute_to_layer_input: bool = False,
    ) -> Any:
        """What the layer gives, or is given."""
        more = extras(additional_forward_args)
        with no_grad():
            return values_of(
                self.forward_func, self.layer, as_tuple(inputs), more, attribute_to_layer_input
            )


def values_and_slopes(
    forward: Forward,
    layer: Module,
    inputs: Tensors,
    target: Any,
    more: tuple[Any, ...],
    before: bool,
) -> tuple[Tensors, Tensors]:
    """The values of a layer, and the gradients of the answers with respect to them."""
    found: list[Any] = []

    def cut(value: Any) -> Any:
        leaves = tuple([x.detach().requires_grad_() for x in as_tuple(value)])
        found.append(leaves)
        return leaves if isinstance(value, tuple) or before else leaves[0]

    with enable_grad(), watching(layer, cut, before):
        answers = ask(forward, inputs, target, more)
        if not found:
            raise ValueError(f"the model does not use the layer {type(layer).__name__}")
        values = found[-1]
        slopes = tuple(autograd.grad(answers.sum(), values))
    return tuple([x.detach() for x in values]), slopes


class LayerGradientXActivation(LayerAttribution):
    """Each value of a layer times the gradient."""

    def attribute(
        self,
        inputs: Any,
        target: Any = None,
        additional_forward_args: Any = None,
        attribute_to_layer_input: bool = False,
    ) -> Any:
        """A value for each of the layer's."""
        values, slopes = values_and_slopes(
            *(self.forward_func, self.layer, as_tuple(inputs), target),
            *(extras(additional_forward_args), attribute_to_layer_input),
        )
        found = [x * slope for x, slope in zip(values, slopes, strict=True)]
        return found[0] if len(found) == 1 else tuple(found)


class LayerGradCam(LayerAttribution):
    """Grad-CAM: the channels of a layer, each weighted by its mean gradient, added up."""

    def attribute(
        self,
        inputs: Any,
        target: Any = None,
        additional_forward_args: Any = None,
        attribute_to_layer_input: bool = False,
        relu_attributions: bool = False,
        attr_dim_summation: bool = True,
    ) -> Any:
        """A value for each place of the layer: (batch, 1, ...)."""
        values, slopes = values_and_slopes(
            *(self.forward_func, self.layer, as_tuple(inputs), target),
            *(extras(additional_forward_args), attribute_to_layer_input),
        )
        found = []
        for x, slope in zip(values, slopes, strict=True):
            places = tuple(range(2, x.ndim))
            weighted = x * (slope.mean(places, keepdim=True) if places else slope)
            total = weighted.sum(1, keepdim=True) if attr_dim_summation else weighted
            found.append(F.relu(total) if relu_attributions else total)
        return found[0] if len(found) == 1 else tuple(found)


class GuidedGradCam(LayerAttribution):
    """Guided gradients of the input, where Grad-CAM of a layer says that it matters."""

    def __init__(self, model: Module, layer: Module) -> None:
        super().__init__(model, layer)
        self.cam, self.guided = LayerGradCam(model, layer), GuidedBackprop(model)

    def attribute(
        self,
        inputs: Any,
        target: Any = None,
        additional_forward_args: Any = None,
        interpolate_mode: str = "nearest",
        attribute_to_layer_input: bool = False,
    ) -> Any:
        """A value for each element of the inputs."""
        cam = self.cam.attribute(
            inputs, target, additional_forward_args, attribute_to_layer_input, True
        )
        guided = as_tuple(self.guided.attribute(inputs, target, additional_forward_args))
        return like(
            inputs,
            [x * self.interpolate(cam, x.shape[2:], interpolate_mode) for x in guided],
        )


class LayerIntegratedGradients(LayerAttribution):
    """Integrated gradients of a layer's values, from those of a baseline to those of the input."""

    def __init__(
        self, forward_func: Forward, layer: Module, multiply_by_inputs: bool = True
    ) -> None:
        super().__init__(forward_func, layer)
        self.multiply_by_inputs = multiply_by_inputs

    def attribute(
        self,
        inputs: Any,
        baselines: Any = None,
        target: Any = None,
        additional_forward_args: Any = None,
        n_steps: int = 50,
        method: str = "gausslegendre",
        internal_batch_size: int | None = None,
        return_convergence_delta: bool = False,
        attribute_to_layer_input: bool = False,
    ) -> Any:
        """A value for each of the layer's."""
        given, more = as_tuple(inputs), extras(additional_forward_args)
        bases = tuple(
            [
                base if isinstance(base, Tensor) else x * 0 + base
                for x, base in zip(given, baselines_of(baselines, given), strict=True)
            ]
        )
        before = attribute_to_layer_input
        with no_grad():
            asked = (self.forward_func, self.layer)
            ends = as_tuple(values_of(*asked, given, more, before))
            starts = as_tuple(values_of(*asked, bases, more, before))
        rows = given[0].size(0)

        def slopes_at(batch: Tensors, wanted: Any, rest: tuple[Any, ...]) -> Tensors:
            leaves = tuple([x.detach().requires_grad_() for x in batch])
            taken = leaves if before or len(leaves) > 1 else leaves[0]
            copies = batch[0].size(0) // ends[0].size(0)
            repeats = tuple([repeated(x, rows, copies) for x in given])
            with enable_grad(), watching(self.layer, lambda value: taken, before):
                answers = ask(self.forward_func, repeats, wanted, rest)
                return tuple(autograd.grad(answers.sum(), leaves))

        found = integrated(
            *(slopes_at, ends, starts, target, more, n_steps, method, internal_batch_size)
        )
        if self.multiply_by_inputs:
            triples = zip(ends, starts, found, strict=True)
            found = tuple([(end - start) * slope for end, start, slope in triples])
        result = found[0] if len(found) == 1 else found
        if not return_convergence_delta:
            return result
        return result, difference(self.forward_func, found, bases, given, target, more)
