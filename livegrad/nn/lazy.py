"""Lazy modules: their sizes are taken from the first input."""

from __future__ import annotations

from typing import Any

from livegrad.nn.module import Module
from livegrad.nn.parameter import is_lazy


class LazyModuleMixin(Module):
    """A module with UninitializedParameters, which the first call gives their shapes.

        LazyLinear(5) ── first call on (n, 3) ──► Linear(3, 5)

    Subclasses name the class they become, create uninitialized parameters, and define
    `initialize_parameters`, which is called with the arguments of `forward`.
    """

    cls_to_become: type[Module] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._initialize_hook = self.register_forward_pre_hook(_initialize, with_kwargs=True)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Gives the parameters their shapes, from the arguments of a call."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer of this module still waits for its shape."""
        members = [*self._parameters.values(), *self._buffers.values()]
        return any(is_lazy(x) for x in members)


def _initialize(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    module.initialize_parameters(*args, **kwargs)
    if module.has_uninitialized_params():
        raise RuntimeError(
            f"module {module._get_name()} has not been fully initialized; initialize_parameters "
            "must materialize every parameter and buffer"
        )
    handle = module.__dict__.pop("_initialize_hook")
    module._forward_pre_hooks_with_kwargs.pop(handle.id, None)
    handle.remove()
    if module.cls_to_become is not None:
        module.__class__ = module.cls_to_become
