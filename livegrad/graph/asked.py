"""What updates ask before they write: whether loss and gradients are finite.

The attrs of an update are (how many parameters, how many streams, whether it asks). Its inputs are
the streams, parameters first and gradients second, each with a tensor per parameter; what it asks
about besides follows them.
"""

from __future__ import annotations

from livegrad.graph.node import Node
from livegrad.native.hot import hot


def asks(node: Node) -> bool:
    """Whether a node is an update that asks."""
    return node.spec.op.kind == "update" and bool(node.spec.attrs[2])


@hot
def only_asks(update: Node) -> bool:
    """Whether an update writes nothing: it is a question by itself."""
    return not update.spec.attrs[0]


def asked_of(node: Node) -> tuple[Node, ...]:
    """The values that a node asks about, if it does: gradients, then others."""
    if not asks(node):
        return ()
    count, streams, _ = node.spec.attrs
    return (*node.inputs[count : 2 * count], *node.inputs[count * streams :])


__all__ = ["asked_of", "asks", "only_asks"]
