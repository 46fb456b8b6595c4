"""Where a view lies in the memory of the whole, for what is written to it at once.

    x[i][0][k] = 1      x ──► Cell ──► Node, computed
                        x[i], x[i][0]: recorded just now, for this write alone

The views between, which nobody else refers to, need never be computed: they are taken off the list
of what is pending, and the write goes to the memory of the whole. Whatever else could tell the
difference refers to the node of the whole, to its buffer, or to one of the views' nodes.
"""

from __future__ import annotations

from typing import Any

from livegrad.graph.handle import COUNTS_ARE_KNOWN, NOBODY, Share, node_of
from livegrad.graph.record import forget_from
from livegrad.graph.state import LOCAL
from livegrad.native.calls import half_at
from livegrad.native.hot import hot
from livegrad.native.layout import REFERENCES


@hot
def is_writable_part(x: Any, share: Share) -> bool:
    """Whether a view, which is brought up to date, shows ordinary memory, and has no graph."""
    cell = share.cell
    if share.made is not None or share.root is not None:
        return False
    if cell.memory is not None or cell.parent is not None or cell._node.grad_to is not None:
        return False
    node = node_of(x)
    return node.grad_to is None and not node.spent


@hot
def pending_views(x: Any, steps: int) -> int:
    """How many nodes were recorded last for a view of so many steps, and are seen by it alone.

    None if it is computed: then it refers to nothing. -1 if others may see one of them.
    """
    node = x._node
    if node.buffer is not None:
        return -1 if node.inputs else 0
    state = LOCAL.state
    nodes = state.nodes
    last = len(nodes)
    if steps > last or not COUNTS_ARE_KNOWN:
        return -1
    for i in range(steps):
        handle = state.handles[last - 1 - i]
        if nodes[last - 1 - i] is not node or not node.inputs:
            return -1
        # The list's, ours, and that of the view itself, or of the next one.
        referrers = 3
        if handle is not NOBODY and handle is not x:
            # A tensor that is gone, but for the list's reference to it and ours.
            if half_at(id(handle) + REFERENCES) != 2:
                return -1
            referrers += 1
        if node in state.written:  # it looked again, after a write
            referrers += 1
        if half_at(id(node) + REFERENCES) != referrers:
            return -1
        node = node.inputs[0]
    return steps


@hot
def forget_views(count: int) -> None:
    """Takes the latest nodes, those of a view that looks again when it is used next, off the list
    of what is pending."""
    state = LOCAL.state
    first = len(state.nodes) - count
    for i in range(count):
        node = state.nodes[first + i]
        node.index = -1
        node.inputs = ()
        state.written.pop(node, None)
    forget_from(first)
