"""Full backward hooks: seeing, and changing, the gradients that pass a module."""

from __future__ import annotations

from typing import Any

from livegrad.nn.hooks import GlobalHooks
from livegrad.ops.elementwise import clone
from livegrad.tensor import Tensor


class Watch:
    """One call of a module with backward hooks.

        inputs ─► copies ─► forward ─► outputs ─► copies      hooks on the copies see the gradients

    The hooks run when the gradients of all inputs that need one have arrived; if no input needs
    one, when those of the outputs have.
    """

    def __init__(self, module: Any) -> None:
        self.module = module
        self.grad_input: list[Any] = []
        self.grad_output: list[Any] = []
        self.needed: set[int] = set()
        self.waiting: set[int] = set()

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, with tensors that need a gradient replaced by watched copies."""
        self.grad_input = [None] * len(args)
        watched = list(args)
        for place, x in enumerate(args):
            if isinstance(x, Tensor) and x.requires_grad:
                watched[place] = clone(x)
                if watched[place].requires_grad:  # not under no_grad
                    self.needed.add(place)
                    watched[place].register_hook(lambda g, place=place: self._arrived(place, g))
        self.waiting = set(self.needed)
        return tuple(watched)

    def outputs(self, result: Any) -> Any:
        """The result with its tensors replaced by watched copies."""
        single = not isinstance(result, tuple | list)
        parts = [result] if single else list(result)
        self.grad_output = [None] * len(parts)
        for place, y in enumerate(parts):
            if isinstance(y, Tensor) and y.requires_grad:
                parts[place] = clone(y)
                parts[place].register_hook(lambda g, place=place: self._left(place, g))
        return parts[0] if single else type(result)(parts)

    def _left(self, place: int, g: Any) -> Any:
        """The gradient of output `place` is known."""
        self.grad_output[place] = g
        own = self.module._backward_pre_hooks
        for hook in [*GlobalHooks.backward_pre.values(), *own.values()]:
            changed = hook(self.module, tuple(self.grad_output))
            if changed is not None:
                changed = changed if isinstance(changed, tuple) else (changed,)
                self.grad_output = list(changed)
        if not self.needed:
            self._run()
        return self.grad_output[place]

    def _arrived(self, place: int, g: Any) -> Any:
        """The gradient of input `place` is known; the last one to arrive runs the hooks."""
        self.grad_input[place] = g
        self.waiting.discard(place)
        if not self.waiting:
            self._run()
        return self.grad_input[place]

    def _run(self) -> None:
        self.waiting = set(self.needed)  # for another backward through the same graph
        own = self.module._backward_hooks
        for hook in [*GlobalHooks.backward.values(), *own.values()]:
            changed = hook(self.module, tuple(self.grad_input), tuple(self.grad_output))
            if changed is not None:
                self.grad_input = list(changed if isinstance(changed, tuple) else (changed,))
