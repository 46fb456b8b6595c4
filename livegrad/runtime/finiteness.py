"""Gradients that are not finite: noticed before an update, and looked into while all is there.

A plan notices by itself: it has a kernel for it, and stops. What is run piece by piece is looked at
here, before the graph is let go.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from livegrad.graph.above import Above
from livegrad.graph.node import Node
from livegrad.ops.bookkeeping.finite import asks
from livegrad.runtime.memory import Buffer
from livegrad.runtime.values import to_compute


def look_into(asked: Node) -> None:
    """Has what is wrong found out; then the question is answered, and the plan goes through."""
    Above.blaming().gradients_not_finite(asked)
    asked.args = (0.0,)


def look_at_listed(nodes: Sequence[Node], count: int, kept: list[tuple[Node, Buffer]]) -> None:
    """Looks at the gradients that updates behind the first `count` nodes are to use.

    Those that were computed just now are in `kept`; their nodes have not been given them yet.
    """
    if count >= len(nodes) or not asks(nodes[count]):
        return
    asked = nodes[count]
    made = {id(node): buffer for node, buffer in kept}
    for x in asked.inputs:
        buffer = made.get(id(x), x.buffer)
        if not _is_finite(x, buffer):
            look_into(asked)
            return


def _is_finite(node: Node, buffer: Buffer) -> bool:
    meta = node.meta
    values = to_compute(buffer.view(meta.dtype.storage, meta.shape, writeable=False), meta.dtype)
    # A sum is finite only if all are, and is made quickly; it may overflow.
    with np.errstate(all="ignore"):
        return bool(np.isfinite(values.sum()) or np.isfinite(values).all())
