"""Forward mode through a Function: its `jvp`, transposed.

Jacobian-vector products are made by two walks of reverse mode (`livegrad.func.jvp`): the first
gives wᵀJ for weights w, the second is taken along the tangents. In the first, a Function that has a
`jvp` answers with it, not with its `backward`: `jvp` is linear in the tangents, and gradients are
pulled back through what it recorded for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import local
from typing import TYPE_CHECKING, Any

from livegrad.autograd.modes import enable_grad
from livegrad.autograd.reverse import Pair, fit, reverse
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.node import Node
from livegrad.ops.elementwise.arithmetic import clone
from livegrad.ops.making.generate import filled_as

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


class _Mode(local):
    """Whether the walk of this thread is the first of forward mode."""

    first = False


_mode = _Mode()


def is_first_walk() -> bool:
    """Whether gradients are pulled back for forward mode now."""
    return _mode.first


@contextmanager
def first_walk() -> Iterator[None]:
    """Gradients that are pulled back here are for forward mode."""
    outer, _mode.first = _mode.first, True
    try:
        yield
    finally:
        _mode.first = outer


class Pushed:
    """What the `jvp` of one call made of tangents of its inputs; it is run once, as in PyTorch."""

    def __init__(self, function: Any, ctx: Any, inputs: Sequence[Node | None]) -> None:
        self.name = function.__name__
        with enable_grad():
            tangents = [None if x is None or x.grad_to is None else _tangent(x) for x in inputs]
            self.sources = [None if t is None else node_of(t) for t in tangents]
            found = function.jvp(ctx, *tangents)
        self.outputs = found if isinstance(found, tuple | list) else (found,)

    def pull(self, inputs: Sequence[Node | None], received: dict[int, Tensor]) -> list[Pair]:
        """The gradients of the inputs, from those of the outputs by place."""
        seeds = [
            (node_of(y), fit(received[i], node_of(y).meta)) for i, y in self._reached(received)
        ]
        if not seeds:
            return []
        sources = [s for s in self.sources if s is not None]
        _, arrived = reverse(seeds, True, {id(s) for s in sources}, set(sources))
        found = dict(arrived)
        return [
            (x, found[s])
            for x, s in zip(inputs, self.sources, strict=True)
            if x is not None and s is not None and s in found
        ]

    def _reached(self, received: dict[int, Tensor]) -> list[tuple[int, Tensor]]:
        """The outputs with a gradient that depend on a tangent, and their places."""
        if max(received) >= len(self.outputs):
            raise RuntimeError(
                f"{self.name}.jvp returned {len(self.outputs)} results; expected a tangent for "
                "each output of forward"
            )
        found = []
        for i in received:
            y = self.outputs[i]
            if y is not None and not isinstance(y, Handle):
                raise TypeError(f"{self.name}.jvp: expected Tensor or None at index {i}, not {y!r}")
            if y is not None and node_of(y).grad_to is not None:
                found.append((i, y))
        return found


def _tangent(x: Node) -> Tensor:
    """A tangent to differentiate for; what it is does not matter, as all is linear in it."""
    tangent = clone(filled_as(x.meta, 0))
    tangent._node.grad_to = True
    return tangent
