"""What updates ask before they write: whether loss and gradients are finite.

The attrs of an update are (how many parameters, how many streams, whether it asks). Its inputs are
the streams, parameters first and gradients second, each with a tensor per parameter; what it asks
about besides follows them.
"""

from __future__ import annotations

from livegrad.graph.node import Node


def asks(node: Node) -> bool:
    """Whether a node is an update that asks."""
    return node.spec.op.kind == "update" and bool(node.spec.attrs[2])


def asked_of(node: Node) -> tuple[Node, ...]:
    """The values that an update asks about: gradients, then others."""
    count, streams, asked = node.spec.attrs
    if not asked:
        return ()
    return (*node.inputs[count : 2 * count], *node.inputs[count * streams :])


__all__ = ["asked_of", "asks"]
