"""What is pending on several devices: each computes its own, in plans or node by node."""

from __future__ import annotations

from typing import Any

from livegrad.device import CPU, Device, backend_of
from livegrad.graph import spent
from livegrad.graph.node import Node
from livegrad.graph.state import State
from livegrad.runtime.fault import Fault
from livegrad.runtime.protocol import NodeByNode
from livegrad.runtime.snapshot import Snapshot

Part = tuple[Device, list[Node], list[Any]]


def concerns_others(state: State, roots: tuple[Node, ...]) -> bool:
    """Whether a flush has something to compute that is not the CPU's."""
    return state.elsewhere or any([root.meta.device is not CPU for root in roots])


def take_apart(state: State, roots: tuple[Node, ...]) -> list[Part]:
    """What is pending, and where missing `roots` are, by device.

    The state has nothing pending any more: a handle must not be on two lists, or it looks alive.
    """
    parts: dict[Device, tuple[list[Node], list[Any]]] = {}
    for node, handle in zip(state.nodes, state.handles, strict=True):
        nodes, handles = parts.setdefault(node.meta.device, ([], []))
        nodes.append(node)
        handles.append(handle)
    for root in roots:
        if root.buffer is None:
            parts.setdefault(root.meta.device, ([], []))
    state.move_on()
    state.nodes, state.handles, state.elsewhere = [], [], False
    return [(device, *lists) for device, lists in parts.items()]


def node_by_node(nodes: list[Node]) -> NodeByNode | None:
    """The backend of nodes whose device computes no plans."""
    backend: Any = backend_of(nodes[0].meta.device) if nodes else None
    return backend if hasattr(backend, "run_node") else None


def run_nodes(backend: NodeByNode, snapshot: Snapshot) -> None:
    """Computes what is kept, and what that needs, one node after the other."""
    nodes, keep = snapshot.nodes, snapshot.keep
    for place in _needed(snapshot):
        node = nodes[place]
        try:
            node.buffer = backend.run_node(node)
        except (IndexError, ValueError, RuntimeError) as error:
            fault = Fault(place, type(error), str(error))
            fault.recorded = node
            raise fault.blamed_on(node.site) from None
    for node, kept in zip(nodes, keep, strict=True):
        if not kept:
            node.buffer = None
        elif node.interior:
            spent.propagate(node)
        else:
            node.inputs = ()
    spent.flushed()


def _needed(snapshot: Snapshot) -> list[int]:
    """Places of the nodes that are kept or that others need, in order."""
    needed = bytearray(snapshot.keep)
    for place in range(len(needed) - 1, -1, -1):
        if needed[place]:
            for x in snapshot.nodes[place].inputs:
                at = x.index - snapshot.base
                if 0 <= at < len(needed):
                    needed[at] = 1
    return [place for place, wanted in enumerate(needed) if wanted]
