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
    handle._node, failed = _last_good(handle._node, written, lost)
    cell = handle if isinstance(handle, Cell) else getattr(handle, "_cell", None)
    if cell is handle:
        _show_again(cell, failed)
    elif cell is None and failed:
        handle._writes -= failed
    while cell is not None:
        good, failed = _last_good(cell._node, written, lost)
        if good is not cell._node:
            cell._node = good
            _show_again(cell, failed)
        cell = None if cell.parent is None else cell.parent[0]


def _show_again(cell: Cell, failed: int) -> None:
    """Has views look again; writes that failed are not counted."""
    cell.version += 1
    cell.uncounted += 1 + failed


def _last_good(node: Node, written: dict[Node, Node], lost: set[Node]) -> tuple[Node, int]:
    """The value before the writes that failed, and their number; `node` if it was not written."""
    before, failed = node, 0
    while before in lost and before in written:
        before, failed = written[before], failed + 1
    return (node, 0) if before in lost else (before, failed)
