"""The graph of a tensor or a step as a plain object: ask it, print it, compare it.

```python
import livegrad as lg

with lg.watch() as watching:
    y = (lg.ones(3, 4).exp() @ lg.ones(4, 2)).sum()
    print(y.item())
g = watching.graph()
print(g)                                    # as a tree
print(g.find("matmul")[0].line)             # nodes by op, module, line, shape, or a function
```
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from livegrad.graph.events import NODES
from livegrad.graph.handle import Handle, node_of
from livegrad.view import drawing, reasons
from livegrad.view.difference import Difference, difference
from livegrad.view.nodes import LEAF, GraphKernel, GraphNode, Life


@dataclass
class Graph:
    """Nodes, kernels, and what connects them."""

    nodes: dict[int, GraphNode]
    kernels: list[GraphKernel] = field(default_factory=list)
    lives: list[Life] = field(default_factory=list)
    title: str = ""
    seconds: float = 0.0
    error: dict[str, Any] | None = None
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[GraphNode]:
        return iter(self.nodes.values())

    def __getitem__(self, number: int) -> GraphNode:
        return self.nodes[number]

    @cached_property
    def edges(self) -> list[tuple[int, int]]:
        """From a value to what reads it; those from a forward node to its gradient not counted."""
        return [(x, n.number) for n in self for x in n.inputs if x in self.nodes]

    @cached_property
    def readers(self) -> dict[int, list[int]]:
        """For each node, who reads it."""
        found: dict[int, list[int]] = {}
        for source, target in self.edges:
            found.setdefault(source, []).append(target)
        return found

    @property
    def lines(self) -> dict[str, list[GraphNode]]:
        """Nodes by the line of the program that recorded them, as `file.py:12`."""
        return _grouped(self, lambda node: node.where)

    @property
    def modules(self) -> dict[str, list[GraphNode]]:
        """Nodes by the path of the module whose forward recorded them."""
        return _grouped(self, lambda node: node.module)

    @property
    def nbytes(self) -> int:
        """Bytes of all values."""
        return sum([node.nbytes for node in self])

    # ---- asking --------------------------------------------------------------------------------

    def find(
        self,
        what: str | Callable[[GraphNode], bool] | None = None,
        *,
        op: str | None = None,
        module: str | None = None,
        line: int | str | None = None,
        shape: Iterable[int] | None = None,
        phase: str | None = None,
    ) -> list[GraphNode]:
        """Nodes for which all of this is true.

        A text is looked for in op, name, module, line and function; `module` is a path, of which
        all that is below counts; `line` is a number, or `file.py:12`.
        """
        wanted = None if shape is None else tuple(shape)

        def fits(node: GraphNode) -> bool:
            return (
                (what is None or (what(node) if callable(what) else _mentions(node, what)))
                and (op is None or node.op == op)
                and (module is None or _is_below(node.module, module))
                and (line is None or line in (node.line, node.where))
                and (wanted is None or node.shape == wanted)
                and (phase is None or node.phase == phase)
            )

        return [node for node in self if fits(node)]

    def path(self, start: Any, end: Any) -> list[GraphNode]:
        """A shortest way from one node to another; [] if there is none."""
        first, last = self._number(start), self._number(end)
        before: dict[int, int] = {first: first}
        waiting = deque([first])
        while waiting and last not in before:
            here = waiting.popleft()
            for reader in self.readers.get(here, ()):
                if reader not in before:
                    before[reader] = here
                    waiting.append(reader)
        if last not in before:
            return []
        way = [last]
        while way[-1] != first:
            way.append(before[way[-1]])
        return [self.nodes[number] for number in reversed(way)]

    def _number(self, what: Any) -> int:
        if isinstance(what, GraphNode):
            return what.number
        if isinstance(what, int):
            if what not in self.nodes:
                raise KeyError(f"graph: there is no node {what}")
            return what
        if isinstance(what, str):
            found = self.find(what)
            if not found:
                raise KeyError(f"graph: nothing here mentions {what!r}")
            return found[0].number
        return self._number(number_of(what))

    def kernel(self, kernel: Any) -> GraphKernel:
        """A kernel by its number, its name, or a node that it computes."""
        if isinstance(kernel, GraphKernel):
            return kernel
        for each in self.kernels:
            if kernel in (each.number, each.name):
                return each
        if isinstance(kernel, GraphNode) and kernel.kernels:
            return self.kernel(kernel.kernels[0])
        raise KeyError(f"graph: there is no kernel {kernel!r}; there are {len(self.kernels)}")

    def why(self, kernel: Any) -> str:
        """What a kernel consists of, and why it has not more in it."""
        return reasons.why(self, self.kernel(kernel))

    def diff(self, other: Graph) -> Difference:
        """What `other` has more, less and otherwise."""
        return difference(self, other)

    # ---- other forms ---------------------------------------------------------------------------

    def to_dot(self) -> str:
        """The graph in Graphviz's language, one cluster for each module."""
        return drawing.dot(self)

    def to_networkx(self) -> Any:
        """A networkx.DiGraph; nodes have the fields of `GraphNode` as attributes."""
        try:
            import networkx
        except ImportError:
            raise ImportError("to_networkx: networkx is missing: pip install networkx") from None
        made = networkx.DiGraph()
        for node in self:
            made.add_node(node.number, **{k: v for k, v in asdict(node).items() if k != "inputs"})
        made.add_edges_from(self.edges)
        return made

    def tree(self, most: int = 400) -> str:
        """As text: modules, and in them their operations, in the order they were recorded."""
        return drawing.tree(self, most)

    def __str__(self) -> str:
        return self.tree()

    def __repr__(self) -> str:
        return f"<Graph {self.title}: {len(self.nodes)} nodes, {len(self.kernels)} kernels>"

    def _repr_html_(self) -> str:
        return drawing.html_of_graph(self)


def number_of(what: Any) -> int:
    """The number of a tensor's value, by which graphs know it."""
    if not isinstance(what, Handle):
        raise TypeError(f"graph: expected a tensor, a node or a number; got {type(what).__name__}")
    return NODES[node_of(what)]


def _grouped(graph: Graph, key: Callable[[GraphNode], str]) -> dict[str, list[GraphNode]]:
    found: dict[str, list[GraphNode]] = {}
    for node in graph:
        if node.phase != LEAF:
            found.setdefault(key(node), []).append(node)
    return found


def _mentions(node: GraphNode, text: str) -> bool:
    return any(
        [text in each for each in (node.op, node.name, node.module, node.where, node.function)]
    )


def _is_below(path: str, top: str) -> bool:
    return path == top or path.startswith(top + ".")
