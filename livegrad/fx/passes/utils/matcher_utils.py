"""Finding a small graph, a pattern, within a large one.

A node of the pattern matches one of the same op, target and arguments; a placeholder of the
pattern matches anything, the same thing wherever it is used. What matches in the middle must not
be used elsewhere, because it is to go away.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from livegrad.fx.graph import Graph
from livegrad.fx.node import Node, nodes_in


@dataclass
class InternalMatch:
    """Where the pattern was found: `nodes_map` leads from its nodes to those of the graph.

    `anchors` are the pattern's results; its placeholders lead to whatever they stand for.
    """

    anchors: list[Node]
    nodes_map: dict[Node, Node] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)

    def computed(self) -> set[Node]:
        """The nodes of the graph that compute what the pattern computes."""
        return {n for p, n in self.nodes_map.items() if p.op != "placeholder"}


class SubgraphMatcher:
    """Looks for one pattern; with `ignore_literals`, numbers and strings may differ."""

    def __init__(self, pattern: Graph, ignore_literals: bool = False) -> None:
        self.pattern = pattern
        self.ignore_literals = ignore_literals
        self.placeholders = [n for n in pattern.nodes if n.op == "placeholder"]
        output = pattern.output_node()
        self.returned = nodes_in(output.args)
        returned = set(self.returned)
        # Results that no other result is computed from: the search starts there.
        self.anchors = [n for n in dict.fromkeys(self.returned) if set(n.users) <= {output}]
        self.kept = returned
        if not self.anchors or any([n.op == "placeholder" for n in self.anchors]):
            raise ValueError("a pattern must return something that it computes")

    def match(self, graph: Graph) -> list[InternalMatch]:
        """Where the pattern is in a graph; matches do not overlap, the first one stays."""
        taken: set[Node] = set()
        found: list[InternalMatch] = []
        for nodes in self._candidates(graph, 0, {}):
            made = {p: n for p, n in nodes.items() if p.op != "placeholder"}
            if taken.isdisjoint(made.values()) and self._is_contained(made):
                taken.update(made.values())
                found.append(self._described(nodes))
        return found

    def _candidates(self, graph: Graph, at: int, known: Any) -> Iterator[dict[Node, Any]]:
        if at == len(self.anchors):
            yield known
            return
        for node in graph.nodes:
            nodes = dict(known)
            if self._matches(self.anchors[at], node, nodes):
                yield from self._candidates(graph, at + 1, nodes)

    def _described(self, nodes: dict[Node, Any]) -> InternalMatch:
        return InternalMatch(
            list(self.anchors),
            nodes,
            [nodes.get(p) for p in self.placeholders],
            [nodes[n] for n in self.returned],
        )

    def _is_contained(self, made: dict[Node, Node]) -> bool:
        """Whether what goes away is used by nothing that stays."""
        inside = set(made.values())
        return all([p in self.kept or set(node.users) <= inside for p, node in made.items()])

    def _matches(self, pattern: Any, value: Any, nodes: dict[Node, Any]) -> bool:
        """Whether a node, or an argument, is as the pattern says; notes the nodes."""
        if isinstance(pattern, Node):
            if pattern in nodes:
                return bool(nodes[pattern] is value or nodes[pattern] == value)
            if pattern.op == "placeholder":
                nodes[pattern] = value
                return True
            if not isinstance(value, Node) or value in nodes.values():
                return False
            if (pattern.op, pattern.target) != (value.op, value.target):
                return False
            nodes[pattern] = value
            return self._matches(pattern.args, value.args, nodes) and self._matches(
                pattern.kwargs, value.kwargs, nodes
            )
        if isinstance(pattern, tuple | list):
            alike = isinstance(value, tuple | list) and len(value) == len(pattern)
            return alike and all(
                [self._matches(p, v, nodes) for p, v in zip(pattern, value, strict=True)]
            )
        if isinstance(pattern, dict):
            alike = isinstance(value, dict) and value.keys() == pattern.keys()
            return alike and all([self._matches(p, value[k], nodes) for k, p in pattern.items()])
        if isinstance(value, Node):
            return False
        return self.ignore_literals or (type(pattern) is type(value) and pattern == value)


__all__ = ["InternalMatch", "SubgraphMatcher"]
