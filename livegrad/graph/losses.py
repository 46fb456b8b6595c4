"""Where backward started lately: what `livegrad.blame` looks at, as long as it lives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import ref

from livegrad.graph.handle import Handle
from livegrad.graph.node import LeafRef, Node
from livegrad.graph.watch import BLAMING
from livegrad.native.hot import hot, hot_slots

_MOST = 8


@hot_slots
class Losses:
    """Weak references to the outputs of the latest backward passes; `place` is the newest one's."""

    __slots__ = ("latest", "place", "refs")

    def __init__(self) -> None:
        self.latest: Any = None
        self.refs: list[Any] = [None] * _MOST
        self.place = 0

    def living(self) -> list[Node]:
        """The nodes that still live, the newest first."""
        newest = self.place + 1
        refs = [x for x in [*self.refs[newest:], *self.refs[:newest]] if x is not None]
        found = [x() for x in reversed(refs)]
        return [node for node in found if node is not None and node.cut is None]


LOSSES = Losses()


class Held:
    """What pending nodes are computed from, for a while after they have been."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.inputs: list[tuple[Node, ...]] = []

    def hold(self, nodes: list[Node]) -> None:
        """Remembers the inputs of nodes that are about to be computed."""
        self.nodes, self.inputs = nodes, [node.inputs for node in nodes]

    def clear(self) -> None:
        """Lets go of them."""
        if self.nodes:
            self.nodes, self.inputs = [], []

    @contextmanager
    def put_back(self) -> Iterator[None]:
        """Nodes have the inputs that they had, within a `with` block."""
        pairs = zip(self.nodes, self.inputs, strict=False)  # more may have been computed
        dropped = [(node, given) for node, given in pairs if given and not node.inputs]
        for node, given in dropped:
            node.inputs = given
        try:
            yield
        finally:
            for node, _ in dropped:
                node.inputs = ()


HELD = Held()


@hot
def note_loss(tensors: Any) -> None:
    """Notes where backward starts."""
    if isinstance(tensors, Handle):
        _note(tensors._node)
    else:
        for x in tensors:
            if isinstance(x, Handle):
                _note(x._node)


@hot
def _note(node: Node) -> None:
    place = LOSSES.place + 1
    if place == _MOST:
        place = 0
    LOSSES.place = place
    LOSSES.latest = LOSSES.refs[place] = ref(node)


def note_update(node: Node) -> None:
    """Notes that a program trains by hand, if it writes to a parameter after a backward pass.

    From then on numbers that are read are looked at, as behind an optimiser's steps.
    """
    if isinstance(node.grad_to, LeafRef) and LOSSES.latest is not None:
        BLAMING.reads = True


__all__ = ["HELD", "LOSSES", "Held", "note_loss", "note_update"]
