"""After a refused value: what has to go, and what written tensors go back to."""

from __future__ import annotations

from typing import Any

from livegrad.graph.node import Node
from livegrad.graph.record import Cell
from livegrad.graph.state import State


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


def _restore(handle: Any, written: dict[Node, Node], lost: set[Node]) -> None:
    """Puts a tensor or cell, and what it is a view of, back to before the writes that failed."""
    handle._node = _last_good(handle._node, written, lost)
    cell = handle if isinstance(handle, Cell) else getattr(handle, "_cell", None)
    while cell is not None:
        good = _last_good(cell._node, written, lost)
        if good is not cell._node or cell is handle:
            cell._node = good
            cell.version += 1  # views look again
        cell = None if cell.parent is None else cell.parent[0]


def _last_good(node: Node, written: dict[Node, Node], lost: set[Node]) -> Node:
    """The value before all the writes that failed; `node` itself if it was not written so."""
    before = node
    while before in lost and before in written:
        before = written[before]
    return node if before in lost else before
