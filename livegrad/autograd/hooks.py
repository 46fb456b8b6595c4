"""Hooks on gradients: `register_hook`, `retain_grad`, `register_post_accumulate_grad_hook`."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from livegrad.graph.handle import may_be_stale, node_of
from livegrad.graph.node import CYCLES, Interior, LeafRef, Node, place_of

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

_numbers = itertools.count()


def numbers_from(least: int) -> None:
    """Gives hooks to come numbers from `least` on."""
    global _numbers
    _numbers = itertools.count(max(next(_numbers), least))


class RemovableHandle:
    """What registering a hook returns: `remove()` takes the hook away; also a context manager."""

    def __init__(self, hooks: dict[int, Any], hook: Callable[..., Any]) -> None:
        CYCLES.are_possible = True  # a hook may refer to what it hangs on
        self.id = next(_numbers)
        self._hooks: dict[int, Any] | None = hooks
        hooks[self.id] = hook

    def remove(self) -> None:
        """Takes the hook away; a second call does nothing."""
        if self._hooks is not None:
            self._hooks.pop(self.id, None)
            self._hooks = None

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def register_hook(tensor: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Calls `hook(grad)` when the gradient of `tensor` is complete; a result replaces it.

    On a computed tensor the hook stays with the value it has now, also if written to later.
    """
    node = node_of(tensor)
    if node.grad_to is None:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if not node.interior:
        return RemovableHandle(leaf_hooks(tensor), hook)
    return RemovableHandle(interior_of(place_of(node)).hooks, hook)


def register_post_accumulate_grad_hook(
    tensor: Tensor, hook: Callable[[Tensor], None]
) -> RemovableHandle:
    """Calls `hook(tensor)` after `backward` has added to the leaf's `.grad`."""
    node = node_of(tensor)
    if node.grad_to is None:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if node.interior:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return RemovableHandle(leaf_post_hooks(tensor), hook)


def retain_grad(tensor: Tensor) -> None:
    """Makes `backward` fill `.grad` of a computed tensor, too; nothing to do for leaves."""
    node = node_of(tensor)
    if node.grad_to is None:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if node.interior and not retains_grad(tensor):
        interior_of(place_of(node)).retained.append(weakref.ref(tensor))
        tensor._retains_grad = True


def retains_grad(tensor: Tensor) -> bool:
    """Whether `retain_grad` was called on a computed tensor.

    Where in the graph it does so may be where it was before it took another shape in place.
    """
    node = tensor._node if may_be_stale(tensor) else node_of(tensor)
    return tensor._retains_grad and node.interior


def interior_of(node: Node) -> Interior:
    """The place of a node inside of the graph, made if it has none yet."""
    if type(node.grad_to) is not Interior:
        node.grad_to = Interior()
    return node.grad_to


def leaf_hooks(tensor: Tensor) -> dict[int, Any]:
    """The hooks on the gradient of a leaf: the tensor's own, and known where its gradient goes."""
    hooks = own_dict(tensor, "_hooks")
    to = _leaf_ref(tensor)
    if to is not None:
        to.hooks = hooks
    return hooks


def leaf_post_hooks(tensor: Tensor) -> dict[int, Any]:
    """The hooks that are shown a leaf with its gradient, and so hold it where that goes."""
    to = _leaf_ref(tensor)
    if to is not None:
        to.held = tensor
    return own_dict(tensor, "_post_hooks")


def _leaf_ref(tensor: Tensor) -> LeafRef | None:
    """Where the gradient of a leaf goes; None for a view that requires one only as its base does.

    To that, no gradient comes.
    """
    to = tensor._node.grad_to
    return to if isinstance(to, LeafRef) and to() is tensor else None


def own_dict(tensor: Tensor, name: str) -> dict[int, Any]:
    """The dict of that name in the tensor itself, so that it dies with it."""
    hooks: dict[int, Any] | None = tensor.__dict__.get(name)
    if hooks is None:
        hooks = tensor.__dict__[name] = {}
    return hooks
