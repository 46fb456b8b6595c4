"""Pass 2, legalise: rewrite primitives into the forms that templates exist for.

- equal expressions are computed once; clones and casts to the same dtype vanish
- a reduction folds one run of dims and keeps them as size 1
- products get operands of which terms or lines are neighbours; reshapes and kernels get theirs in
  plain order
- concatenation, padding and writes to a part become parts stored into one buffer
- what computes with complex values runs on the host, what moves them moves pairs of reals
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from livegrad.compiler.access import storage
from livegrad.compiler.expand import Primitives, copy_node, expression, in_scratch, make_node
from livegrad.compiler.hosting import touches_complex, whole_meta
from livegrad.compiler.inserted import COPY
from livegrad.graph.handle import wrap
from livegrad.graph.node import Node, Spec
from livegrad.ops.elementwise.conjugate import VIEW_AS_COMPLEX


class Legaliser:
    """Builds the legal graph in one walk; `final` maps old nodes to new ones."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.final: dict[Node, Node] = {}
        self.seen: dict[tuple[Any, ...], Node] = {}

    # ------------------------------------------------------------------ building blocks

    def add(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """Appends a copy of `node` with new inputs, unless an equal one is there already."""
        key = expression(node, inputs)
        found = self.seen.get(key)
        if found is None:
            found = copy_node(node, inputs, node.args)
            found.index = len(self.nodes)
            self.nodes.append(found)
            self.seen[key] = found
        return found

    def leaf(self, node: Node) -> Node:
        """A value the plan reads: never merged with another of the same shape."""
        node.index = len(self.nodes)
        self.nodes.append(node)
        return node

    def rewrite(self, make: Callable[..., Any], *nodes: Node, site: Any = None) -> Node:
        """What `make` records when given tensors for `nodes`, legalised in turn."""
        result, recorded = in_scratch(site, lambda: make(*[wrap(x) for x in nodes]))
        for x in nodes:
            self.final[x] = x
        for made in recorded:
            if made not in self.final:
                self.final[made] = self.visit(made, tuple([self.final[x] for x in made.inputs]))
        return self.final[result._node]

    def copy(self, x: Node) -> Node:
        """`x` stored in plain order."""
        if x.meta.dtype.is_complex:
            return self.whole(self.copy(self.pairs(x)))
        spec = COPY.cache.get(x.meta)
        if spec is None:
            spec = COPY.remember(x.meta, (x.meta.dtype, "t"), (x.meta,), x.meta)
        return self.add(make_node(spec, (x,), (), x.site), (x,))

    def in_order(self, x: Node) -> Node:
        """A node with the elements of `x` in plain order in memory."""
        return x.op.lower.in_order(self, x)

    def once(self, node: Node, inputs: tuple[Node, ...], make: Callable[[], Node]) -> Node:
        """What `make` gives, or gave for an equal node."""
        key = expression(node, inputs)
        if key not in self.seen:
            self.seen[key] = make()
        return self.seen[key]

    def pairs(self, x: Node) -> Node:
        """Complex `x` as pairs of reals."""
        return x.op.lower.pairs(self, x)

    def whole(self, pairs: Node) -> Node:
        """Pairs of reals as complex values; who reads them from memory asks for them in order."""
        spec = Spec(VIEW_AS_COMPLEX, (), whole_meta(pairs.meta))
        return self.add(make_node(spec, (pairs,), (), pairs.site), (pairs,))

    # ------------------------------------------------------------------------- visiting

    def visit(self, node: Node, inputs: tuple[Node, ...]) -> Node:
        """The legal form of `node`, whose inputs are legal."""
        lower = node.op.lower
        if touches_complex(node):
            return lower.legalise_complex(self, node, inputs)
        return lower.legalise(self, node, inputs)


def legalise(primitives: Primitives) -> Primitives:
    """The legal graph, without nodes that no output needs."""
    walk = Legaliser()
    wanted = set(primitives.outputs)
    for node in primitives.nodes:
        inputs = tuple([walk.final[x] for x in node.inputs])
        walk.final[node] = walk.leaf(node) if node.op.kind == "leaf" else walk.visit(node, inputs)
        if node in wanted:  # copied here, if at all: before writes to what it is a view of
            walk.in_order(walk.final[node])
    written = _written(walk.nodes)
    outputs = [_output(walk, walk.final[x], written) for x in primitives.outputs]
    nodes = _needed(walk.nodes, primitives.leaves, outputs)
    return Primitives(nodes, primitives.leaves, outputs, primitives.ints, primitives.floats)


def _written(nodes: list[Node]) -> set[Node]:
    """The leaves that updates overwrite."""
    found: set[Node] = set()
    for node in nodes:
        if node.op.kind == "update":
            count = node.attrs[0]
            for s in node.op.written:
                found.update(node.inputs[s * count : (s + 1) * count])
    return found


def _output(walk: Legaliser, node: Node, written: set[Node]) -> Node:
    """An output must be memory in plain order; a value that already is keeps its buffer."""
    ordered = walk.in_order(node)
    return walk.copy(node) if storage(ordered) in written else ordered


def _needed(nodes: list[Node], leaves: int, outputs: list[Node]) -> list[Node]:
    """The nodes that outputs depend on (and all leaves), renumbered, in order."""
    wanted = bytearray(len(nodes))
    for node in outputs:
        wanted[node.index] = 1
    for node in reversed(nodes):
        if node.op.kind == "update":
            wanted[node.index] = 1
        if wanted[node.index]:
            for x in node.inputs:
                wanted[x.index] = 1
    kept = [n for n in nodes if wanted[n.index] or n.index < leaves]
    for number, node in enumerate(kept):
        node.index = number
    return kept
