"""Graphs of very many nodes: those that are alike become one, which says how many it stands for.

    for _ in range(500_000):
        x = (x * w).tanh()              mul ×500,000 ⇄ tanh ×500,000

Nodes are alike if one instruction of the program recorded them in one module, with one shape. What
is kept so depends on the length of the program, not on how often its loops went round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from livegrad.graph.events import NODES
from livegrad.graph.handle import node_of
from livegrad.graph.node import Node
from livegrad.graph.state import State
from livegrad.graph.walking import inputs_first
from livegrad.view.asking import Graph
from livegrad.view.calls import NAMES, names_by_node
from livegrad.view.capture import Captured, capture, history, leaf, mirrored, plain
from livegrad.view.nodes import GraphNode

# Of more nodes, gradients included, there is a summary.
MOST_NODES = 50_000
# In a summary of more nodes, those of several shapes are one, too.
_MOST_GROUPS = 2_000
_MOST_INPUTS = 48


def captured(state: State, modules: Sequence[str]) -> Captured:
    """What is pending in a thread, node by node or as a summary."""
    walks = [state.walks.get(node) for node in state.nodes if node.op.kind == "gradient"]
    count = len(state.nodes) + sum([len(walk.interior) for walk in walks if walk is not None])
    return (
        capture(state, modules)
        if count <= MOST_NODES
        else _Summary(state.nodes, modules, state.walks).made
    )


def graph_of(tensor: Any) -> Graph:
    """What a tensor was computed from, as far as it is still known."""
    root = node_of(tensor)
    order = inputs_first([root], lambda node: node.inputs)
    inner = [node for node in order if node.inputs or node.buffer is None]
    if len(inner) <= MOST_NODES:
        made = history(root, inner)
    else:
        made = _Summary(inner, [""] * len(inner), {}).made
    return Graph(made.nodes, title=f"{root.op.name} {list(root.meta.shape)}")


class _Summary:
    """Goes over nodes once, and keeps one of each kind."""

    def __init__(self, nodes: Sequence[Node], modules: Sequence[str], walks: Any) -> None:
        self.made = Captured()
        self.made.is_summary = True
        self._groups: dict[Any, GraphNode] = {}
        self._reads: dict[int, set[int]] = {}
        self._numbers: dict[int, int] = {}  # by the address of a node: what stands for it
        self._modules: dict[Any, str] = {}  # by the instruction that recorded a node
        self._parameters = names_by_node([])
        for node, module in zip(nodes, modules, strict=True):
            walk = walks.get(node)
            if walk is None:
                self.made.order.append(self._add(node, module))
            else:
                self.made.order.append(0)
                self._mirror(node, walk)
        for number, reads in self._reads.items():
            found = sorted(reads - {number}, key=abs)
            self.made.nodes[number].inputs = tuple(found[:_MOST_INPUTS])

    def _group(self, node: Node, kind: Any, make: Callable[[], GraphNode]) -> int:
        """The number of what stands for nodes like this one; `make` makes it of the first."""
        alike = node.spec if len(self._groups) < _MOST_GROUPS else node.op
        key = (id(alike), _where(node), kind)
        found = self._groups.get(key)
        if found is None:
            first = make()
            found = self._groups[key] = self.made.nodes.setdefault(first.number, first)
            self._reads.setdefault(found.number, set())
            if found is first:
                return found.number
        found.nbytes += found.nbytes // found.count
        found.flops += found.flops // found.count
        found.count += 1
        return found.number

    def _add(self, node: Node, module: str) -> int:
        number = self._group(node, module, lambda: plain(node, (), module))
        self._numbers[id(node)] = number
        self._modules[_where(node)] = self.made.nodes[number].module
        reads = self._reads[number]
        for x in node.inputs:
            known = self._numbers.get(id(x))
            reads.add(self._add_leaf(x) if known is None else known)
        if node.op.kind == "gradient_of":
            self._connect(node, number)
        return number

    def _add_leaf(self, node: Node) -> int:
        names = self._parameters
        kind = "leaf", names.get(id(node), "")
        number = self._numbers[id(node)] = self._group(node, kind, lambda: leaf(node, names))
        return number

    def _mirror(self, gradient: Node, walk: Any) -> None:
        """Adds the gradients of the nodes that a backward pass goes through: readers come first."""
        waiting: dict[int, set[int]] = {}
        for node in walk.interior:
            known = self._numbers.get(id(node))
            module = self._modules.get(_where(node), "")

            def make(node: Node = node, known: Any = known, module: str = module) -> GraphNode:
                return mirrored(node, known or NODES[node], (), module)

            number = self._group(node, ("backward", module), make)
            self._reads[number] |= waiting.pop(id(node), set())
            for x in node.inputs:
                waiting.setdefault(id(x), set()).add(number)
        self.made.gradients[NODES[gradient]] = [
            (sorted(waiting.get(each, ())), NAMES.name_of(of()))
            for each, of in zip(walk.ids, walk.leaves, strict=True)
        ]
        self._numbers[id(gradient)] = 0

    def _connect(self, node: Node, number: int) -> None:
        """A leaf's gradient reads the gradients of what reads the leaf."""
        found = self.made.nodes[number]
        leaves = self.made.gradients.get(NODES[node.inputs[0]], [])
        found.op = "gradient"
        if node.attrs[0] < len(leaves):
            self._reads[number] |= set(leaves[node.attrs[0]][0])


def _where(node: Node) -> tuple[int, int]:
    """The instruction that recorded a node."""
    site = node.site
    return (0, 0) if site is None else (id(site[0]), site[1])
