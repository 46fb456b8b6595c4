"""`torch.autograd.graph`: the recorded graph, for programs that look into it or listen to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from livegrad.autograd.backward import GradientEdge
from livegrad.autograd.grad_fn import GradFn as Node
from livegrad.autograd.hooks import RemovableHandle, register_hook
from livegrad.autograd.modes import no_grad
from livegrad.autograd.reverse import WALKS, Walks
from livegrad.autograd.saved import ACTIVE, saved_tensors_hooks
from livegrad.graph.handle import node_of
from livegrad.graph.node import place_of

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


class save_on_cpu(saved_tensors_hooks):
    """Keeps what backward needs on the CPU: where it is anyway."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda x: x, lambda x: x)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Within it, `saved_tensors_hooks` raise RuntimeError with the message."""
    before, ACTIVE.refusal = ACTIVE.refusal, error_message
    try:
        yield
    finally:
        ACTIVE.refusal = before


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """The edge of a tensor, which `autograd.grad` takes in its place."""
    if not tensor.requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require "
            "gradients"
        )
    function = tensor.grad_fn
    if function is None:
        function = tensor.view_as(tensor).grad_fn.next_functions[0][0]
    return GradientEdge(function, tensor.output_nr, tensor)


def increment_version(tensor: Any) -> None:
    """Counts a write to tensors that happened without their knowing."""
    for x in tensor if isinstance(tensor, Iterable) and not hasattr(tensor, "_node") else [tensor]:
        with no_grad():
            x.add_(0) if x.dtype.category else x.logical_or_(False)


class _AllowMutation:
    """What `allow_mutation_on_saved_tensors` gives: nothing is copied, so nothing is freed."""

    def clear(self) -> None:
        """Forgets copies, of which there are none."""


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_AllowMutation]:
    """Within it, values that backward needs may be changed in place: here they always may."""
    yield _AllowMutation()


def register_multi_grad_hook(
    tensors: Sequence[Any], fn: Callable[..., Any], *, mode: str = "all"
) -> Any:
    """Calls `fn` with all gradients when the last has come, or ("any") with the first to come.

    Those that a backward pass does not reach are None, and not waited for.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    Walks.are_watched = True
    places = [_place(x) for x in tensors]
    found: dict[int, Any] = {}
    walk = 0

    def come(place: int, grad: Any) -> None:
        nonlocal walk
        if walk != WALKS.number:
            found.clear()
            walk = WALKS.number
        found[place] = grad
        if mode == "any":
            if len(found) == 1:
                fn(grad)
        elif len(found) == sum([id(x) in WALKS.reached for x in places]):
            fn([found.get(i) for i in range(len(places))])

    return Handles([register_hook(x, partial(come, i)) for i, x in enumerate(tensors)])


def _place(x: Any) -> Any:
    """Where gradients of a tensor come by."""
    node = node_of(x)
    return place_of(node) if node.interior else node.grad_to


class Handles:
    """Takes several hooks away at once."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self._handles = handles

    def remove(self) -> None:
        """Takes the hooks away."""
        for handle in self._handles:
            handle.remove()
