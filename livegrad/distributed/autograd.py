"""Backward passes whose gradients are kept apart, by a number: `torch.distributed.autograd`."""

from __future__ import annotations

from itertools import count
from typing import Any, ClassVar

from livegrad.autograd import grad as gradients_of
from livegrad.tensor import Tensor


class _Contexts:
    """The gradients of each context that is open."""

    numbers = count(1)
    open: ClassVar[dict[int, dict[Any, Any]]] = {}


class context:
    """`with context() as number:` gradients of `backward(number, …)` are kept until its end."""

    def __enter__(self) -> int:
        self.number = next(_Contexts.numbers)
        _Contexts.open[self.number] = {}
        return self.number

    def __exit__(self, *error: object) -> None:
        del _Contexts.open[self.number]


DistAutogradContext = context


def is_available() -> bool:
    """Yes."""
    return True


def _kept(context_id: int) -> dict[Any, Any]:
    if context_id not in _Contexts.open:
        raise RuntimeError(f"Could not find autograd context with id: {context_id}")
    return _Contexts.open[context_id]


def backward(context_id: int, roots: list[Tensor], retain_graph: bool = False) -> None:
    """Adds the gradients of all leaves behind `roots` to those of a context, not to `grad`."""
    kept = _kept(context_id)
    if not roots:
        raise RuntimeError("No tensors provided for gradient computation.")
    for root in roots:
        if not root.requires_grad:
            raise RuntimeError("requires_grad not set on root")
        if root.numel() != 1:
            raise RuntimeError(
                f"{root.shape} is not a scalar, all roots need to be scalar; sum it first"
            )
    leaves = _leaves(roots)
    found = gradients_of(roots, leaves, retain_graph=retain_graph, allow_unused=True)
    for leaf, gradient in zip(leaves, found, strict=True):
        if gradient is not None:
            kept[leaf] = gradient if leaf not in kept else kept[leaf] + gradient


def get_gradients(context_id: int) -> dict[Any, Any]:
    """The gradients of a context, by the tensors they belong to."""
    return dict(_kept(context_id))


def _leaves(roots: list[Tensor]) -> list[Tensor]:
    """All leaves that gradients of `roots` reach."""
    found: dict[int, Tensor] = {id(x): x for x in roots if x.is_leaf}
    todo, seen = [x.grad_fn for x in roots if x.grad_fn is not None], set()
    while todo:
        function: Any = todo.pop()
        if function in seen:
            continue
        seen.add(function)
        if hasattr(function, "variable"):
            found[id(function.variable)] = function.variable
        todo += [above for above, _ in function.next_functions if above is not None]
    return list(found.values())


__all__ = ["backward", "context", "get_gradients", "is_available"]
