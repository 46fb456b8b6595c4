"""`torch.autograd.graph`: the recorded graph, for programs that look into it or listen to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from livegrad.autograd.grad_fn import GradFn as Node
from livegrad.autograd.hooks import RemovableHandle, register_hook

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

    Then it begins anew, for the next backward pass.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    found: dict[int, Any] = {}

    def come(place: int, grad: Any) -> None:
        if mode == "any":
            if not found:
                fn(grad)
            found[place] = grad
        else:
            found[place] = grad
            if len(found) == len(tensors):
                fn([found[i] for i in range(len(tensors))])
        if len(found) == len(tensors):
            found.clear()

    return Handles([register_hook(x, partial(come, i)) for i, x in enumerate(tensors)])


class Handles:
    """Takes several hooks away at once."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self._handles = handles

    def remove(self) -> None:
        """Takes the hooks away."""
        for handle in self._handles:
            handle.remove()
