"""Full backward hooks: seeing, and changing, the gradients that pass a module."""

from __future__ import annotations

from typing import Any

from livegrad.autograd.function import Function
from livegrad.nn.hooks import GlobalHooks
from livegrad.ops.support.strangers import asks
from livegrad.tensor import Tensor


class _Gate(Function):
    """Values of tensors; their gradients are shown to `passing` together, which may change them."""

    @staticmethod
    def forward(ctx: Any, passing: Any, *tensors: Any) -> tuple[Any, ...]:
        """The tensors themselves: what comes out are views of them."""
        ctx.passing = passing
        ctx.set_materialize_grads(False)
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        """The gradients, as `passing` gives them back."""
        return (None, *ctx.passing(grads))


class Watch:
    """One call of a module with backward hooks.

        inputs ─► gate ─► forward ─► outputs ─► gate        the gates see the gradients
                   └ hooks                        └ pre-hooks

    If no input needs a gradient, the hooks run at the second gate, after the pre-hooks. Hooks that
    are registered after the call are for later ones. A gradient that comes to the inputs by another
    way than the outputs, as one of a gradient may, is not theirs.
    """

    def __init__(self, module: Any) -> None:
        self.module = module
        self.pre_hooks = [*GlobalHooks.backward_pre.values(), *module._backward_pre_hooks.values()]
        self.hooks = [*GlobalHooks.backward.values(), *module._backward_hooks.values()]
        self.places_in: list[int] = []
        self.places_out: list[int] = []
        self.inputs_given = 0
        self.outputs_given = 0
        self.grad_output: tuple[Any, ...] | None = None

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, with tensors that need a gradient replaced by watched ones."""
        self.inputs_given = len(args)
        watched, self.places_in = self._through_gate(list(args), self._arrived)
        return tuple(watched)

    def outputs(self, result: Any) -> Any:
        """The result with its tensors replaced by watched ones."""
        single = not isinstance(result, tuple | list)
        parts = [result] if single else list(result)
        self.outputs_given = len(parts)
        parts, self.places_out = self._through_gate(parts, self._left)
        if single:
            return parts[0]
        make = getattr(type(result), "_make", type(result))  # a NamedTuple takes single fields
        return make(parts)

    @staticmethod
    def _through_gate(values: list[Any], passing: Any) -> tuple[list[Any], list[int]]:
        places = [i for i, x in enumerate(values) if isinstance(x, Tensor) and x.requires_grad]
        if places:
            passed = _Gate.apply(passing, *[values[i] for i in places])
            for i, x in zip(places, passed, strict=True):
                values[i] = x
            if not passed[0].requires_grad:  # under no_grad
                places = []
        return values, places

    def _left(self, grads: tuple[Any, ...]) -> list[Any]:
        """The gradients of the outputs are known."""
        grad_output = _spread(grads, self.places_out, self.outputs_given)
        for hook in self.pre_hooks:
            changed = hook(self.module, grad_output)
            if changed is not None:
                grad_output = changed if isinstance(changed, tuple) else (changed,)
        self.grad_output = grad_output
        if not self.places_in:
            self._run((None,) * self.inputs_given)
        return [grad_output[i] for i in self.places_out]

    def _arrived(self, grads: tuple[Any, ...]) -> list[Any]:
        """The gradients of the inputs are known."""
        if self.grad_output is None:
            return list(grads)
        grad_input = self._run(_spread(grads, self.places_in, self.inputs_given))
        return [grad_input[i] for i in self.places_in]

    def _run(self, grad_input: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in self.hooks:
            changed = hook(self.module, grad_input, self.grad_output)
            if changed is not None:
                grad_input = changed if isinstance(changed, tuple) else (changed,)
        self.grad_output = None
        return grad_input


def _spread(grads: tuple[Any, ...], places: list[int], count: int) -> tuple[Any, ...]:
    """Gradients at their places among `count`, None at the others."""
    spread: list[Any] = [None] * count
    for place, g in zip(places, grads, strict=True):
        spread[place] = g
    return tuple(spread)


asks(__name__)
