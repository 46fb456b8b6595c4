"""`torch.autograd.graph`: the recorded graph, for programs that look into it or listen to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from livegrad.autograd.grad_fn import GradFn as Node
from livegrad.autograd.hooks import RemovableHandle, register_hook
from livegrad.autograd.reverse import WALKS, Walks
from livegrad.graph.handle import node_of
from livegrad.graph.node import place_of

__all__ = [
    "Node",
    "disable_saved_tensors_hooks",
    "register_multi_grad_hook",
    "save_on_cpu",
]


@contextmanager
def save_on_cpu(pin_memory: bool = False, device_type: str = "cuda") -> Iterator[None]:
    """Nothing, around a block: what backward needs is on the CPU anyway."""
    yield


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Nothing, around a block: there are no such hooks."""
    yield


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
