"""The names of functorch, from before it was `torch.func`: transforms, modules as functions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from livegrad.func import (
    functional_call as functional_call,
    grad as grad,
    grad_and_value as grad_and_value,
    hessian as hessian,
    jacfwd as jacfwd,
    jacrev as jacrev,
    jvp as jvp,
    linearize as linearize,
    stack_module_state as stack_module_state,
    vjp as vjp,
    vmap as vmap,
)
from livegrad.nn import Module
from livegrad.tensor import Tensor

__path__: list[str] = []  # `torch._functorch.vmap` is a file elsewhere (porting/names.py)

Tensors = tuple[Tensor, ...]


class FunctionalModuleWithBuffers(Module):
    """A module without state: called with its parameters, its buffers, and the arguments."""

    def __init__(
        self, stateless: Module, parameters: Sequence[str], buffers: Sequence[str]
    ) -> None:
        super().__init__()
        self.stateless_model = stateless
        self.param_names, self.buffer_names = tuple(parameters), tuple(buffers)

    def forward(
        self, params: Sequence[Tensor], buffers: Sequence[Tensor], *args: Any, **kwargs: Any
    ) -> Any:
        """What the module gives with these for its own."""
        given = dict(zip(self.param_names, params, strict=True))
        given |= zip(self.buffer_names, buffers, strict=True)
        return functional_call(self.stateless_model, given, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A module without buffers and state: called with its parameters and the arguments."""

    def forward(self, params: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        """What the module gives with these for its own."""
        return super().forward(params, (), *args, **kwargs)


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, Tensors, Tensors]:
    """(a function of parameters, buffers and inputs; copies of the parameters; of the buffers)."""
    own = copy.deepcopy(model)
    params, buffers = dict(own.named_parameters()), dict(own.named_buffers())
    function = FunctionalModuleWithBuffers(_stateless(model), list(params), list(buffers))
    return function, _values(params, disable_autograd_tracking), tuple(buffers.values())


def make_functional(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, Tensors]:
    """(a function of parameters and inputs; copies of the parameters); for no buffers."""
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use "
            "make_functional_with_buffers(model) instead."
        )
    params = dict(copy.deepcopy(model).named_parameters())
    function = FunctionalModule(_stateless(model), list(params), ())
    return function, _values(params, disable_autograd_tracking)


def combine_state_for_ensemble(
    models: Sequence[Module],
) -> tuple[FunctionalModuleWithBuffers, Tensors, Tensors]:
    """One function for modules of the same kind, with their parameters and buffers stacked."""
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    params, buffers = stack_module_state(list(models))
    function = FunctionalModuleWithBuffers(_stateless(models[0]), list(params), list(buffers))
    return function, _values(params, constant=True), tuple(buffers.values())


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """`func` itself: in-place writes are recorded as new values anyway."""
    return func


def _stateless(model: Module) -> Module:
    """A copy whose tensors have no values."""
    return copy.deepcopy(model).to("meta")


def _values(params: Mapping[str, Tensor], constant: bool) -> Tensors:
    return tuple([x.detach() if constant else x for x in params.values()])
