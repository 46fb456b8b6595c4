"""After a refused value: what has to go, and what written tensors go back to."""

from __future__ import annotations

from typing import Any

from livegrad.graph.handle import Cell
from livegrad.graph.node import Node
from livegrad.graph.state import State
from livegrad.graph.views import taken_by


def dependents(nodes: list[Node], failed: Node) -> set[Node]:
    """`failed` and the pending nodes that need it."""
    lost = {failed}
    for node in nodes:
        if not lost.isdisjoint(node.inputs):
            lost.add(node)
    return lost


def take_back(state: State, lost: set[Node]) -> None:
    """Removes nodes from what is pending; tensors written with them go back to older values."""
    for node, handle in zip(state.nodes, state.handles, strict=True):
        if node in lost:
            _restore(handle, state.written, lost)
    places = [place for place, node in enumerate(state.nodes) if node not in lost]
    state.base += len(state.nodes)
    # In place: whoever else has the list must not keep handles alive.
    state.nodes[:] = [state.nodes[place] for place in places]
    state.handles[:] = [state.handles[place] for place in places]
    for place, node in enumerate(state.nodes):
        node.index = state.base + place


def _restore(handle: Any, written: dict[Node, Any], lost: set[Node]) -> None:
    """Puts a tensor or cell, and what it is a view of, back to before the writes that failed."""
    share = getattr(handle, "_share", None)
    cell = handle if isinstance(handle, Cell) else None if share is None else share.cell
    if cell is not handle:
        handle._node, failed = _last_good(handle._node, written, lost)
        if failed:
            _uncount(handle, failed)
    while cell is not None:
        good, failed = _last_good(cell._node, written, lost)
        if good is not cell._node or cell is handle:
            cell._node = good
            cell.version += 1  # views look again
            cell.uncounted += 1 + failed
        cell = None if cell.parent is None else cell.parent[0]


def _uncount(x: Any, failed: int) -> None:
    """Takes writes that failed out of the count that `x` alone has."""
    share = x._share
    if share is None:
        x._writes -= failed
    elif share.apart is not None:  # and none of these is among those that its cell counts
        share.apart[0] -= failed
        share.count_with(share.apart)
        share.cell.uncounted -= failed


def _last_good(node: Node, written: dict[Node, Any], lost: set[Node]) -> tuple[Node, int]:
    """The value before all the writes that failed, and how many did.

    `node` itself if it was not written so.
    """
    before, failed = node, 0
    while before in lost and before in written:
        before, failed = taken_by(before, written[before]), failed + 1
    return (node, 0) if before in lost else (before, failed)
