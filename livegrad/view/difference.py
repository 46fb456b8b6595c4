"""How two graphs differ: nodes added and removed, shapes changed, kernels, times."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from livegrad.view.nodes import LEAF, GraphNode

if TYPE_CHECKING:
    from livegrad.view.asking import Graph

# Beyond this many nodes, orders are not compared: what is there is counted.
_MOST_ALIGNED = 4000


@dataclass(repr=False)
class Difference:
    """`removed` are nodes of the first graph, `added` of the second, `changed` are pairs."""

    before: Graph
    after: Graph
    added: list[GraphNode] = field(default_factory=list)
    removed: list[GraphNode] = field(default_factory=list)
    changed: list[tuple[GraphNode, GraphNode]] = field(default_factory=list)
    same: list[tuple[GraphNode, GraphNode]] = field(default_factory=list)
    new_kernels: list[str] = field(default_factory=list)
    gone_kernels: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    @property
    def slower(self) -> list[tuple[GraphNode, GraphNode]]:
        """Pairs that took longer, by how much, the most first."""
        pairs = [*self.same, *self.changed]
        later = [(a, b) for a, b in pairs if b.seconds > a.seconds]
        return sorted(later, key=lambda pair: pair[0].seconds - pair[1].seconds)

    def __repr__(self) -> str:
        return self.__str__()

    def __str__(self) -> str:
        if not self:
            return "the same operations with the same shapes"
        lines = [f"- {node}" for node in self.removed]
        lines += [f"+ {node}" for node in self.added]
        lines += [f"~ {a}   became {list(b.shape)} {b.dtype}" for a, b in self.changed]
        if self.new_kernels:
            lines.append(f"kernels that are new: {len(self.new_kernels)}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """For the page."""
        return {
            "added": [n.number for n in self.added],
            "removed": [n.number for n in self.removed],
            "changed": [[a.number, b.number] for a, b in self.changed],
            "same": [[a.number, b.number] for a, b in self.same],
            "new_kernels": self.new_kernels,
            "gone_kernels": self.gone_kernels,
        }


def difference(before: Graph, after: Graph) -> Difference:
    """What changed from one graph to another.

    Operations are the same if module, op, function and phase are, in the order recorded: lines move
    when a file is edited. Values that were there before are none.
    """
    made = Difference(before, after)
    ours, theirs = ([node for node in graph if node.phase != LEAF] for graph in (before, after))
    for a, b in _aligned(ours, theirs):
        if a is None and b is not None:
            made.added.append(b)
        elif b is None and a is not None:
            made.removed.append(a)
        elif a is not None and b is not None:
            alike = (a.shape, a.dtype) == (b.shape, b.dtype)
            (made.same if alike else made.changed).append((a, b))
    old, new = _kernels(before), _kernels(after)
    made.new_kernels = sorted((new - old).elements())
    made.gone_kernels = sorted((old - new).elements())
    return made


def _kernels(graph: Graph) -> Counter[str]:
    return Counter([kernel.name for kernel in graph.kernels if kernel.name])


def _key(node: GraphNode) -> tuple[Any, ...]:
    return node.phase, node.module, node.op, node.file, node.function, node.name


Pairs = list[tuple[GraphNode | None, GraphNode | None]]


def _aligned(ours: list[GraphNode], theirs: list[GraphNode]) -> Pairs:
    if max(len(ours), len(theirs)) > _MOST_ALIGNED:
        return _counted(ours, theirs)
    pairs: Pairs = []
    keys = [_key(node) for node in ours], [_key(node) for node in theirs]
    for tag, i, j, k, m in SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
        if tag == "equal":
            pairs += zip(ours[i:j], theirs[k:m], strict=True)
        else:
            pairs += [(node, None) for node in ours[i:j]]
            pairs += [(None, node) for node in theirs[k:m]]
    return pairs


def _counted(ours: list[GraphNode], theirs: list[GraphNode]) -> Pairs:
    """Pairs by what nodes are, whatever their order."""
    waiting: dict[tuple[Any, ...], list[GraphNode]] = {}
    for node in ours:
        waiting.setdefault(_key(node), []).append(node)
    pairs: Pairs = []
    for node in theirs:
        found = waiting.get(_key(node))
        pairs.append((found.pop(0) if found else None, node))
    return pairs + [(node, None) for nodes in waiting.values() for node in nodes]
