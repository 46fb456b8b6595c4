"""Pass 1, expand: recorded nodes become primitive ones.

Composite ops are replaced by what their `expand` rule records. Run-time numbers become IntArg and
FloatArg, which remember the slot they arrive in, so that a plan holds slots and never values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from livegrad.graph.node import Node, Spec
from livegrad.graph.record import LEAF, FloatArg, IntArg, wrap
from livegrad.graph.state import LOCAL, State


@dataclass
class Recorded:
    """What a flush hands to the compiler: nodes to compute, in order, and what they read."""

    nodes: list[Node]
    leaves: list[Node]
    outputs: list[int]


@dataclass
class Primitives:
    """The expanded graph. `index` of each node is its place in `nodes`; leaves come first."""

    nodes: list[Node]
    leaves: int
    outputs: list[Node]
    # Run-time numbers that a run brings along.
    ints: int = 0
    floats: int = 0


def copy_node(node: Node, inputs: tuple[Node, ...], args: tuple[Any, ...]) -> Node:
    """A planning copy of `node` with other inputs and args."""
    return make_node(node.spec, inputs, args, node.site)


def make_node(spec: Spec, inputs: tuple[Node, ...], args: tuple[Any, ...], site: Any) -> Node:
    """A node for planning only: it is on no thread's pending list."""
    node = object.__new__(Node)
    node.spec = spec
    node.meta = spec.meta
    node.inputs = inputs
    node.args = args
    node.grad_to = None
    node.buffer = None
    node.cut = None
    node.spent = False
    node.index = -1
    node.site = site
    return node


class Expander:
    """Walks the recorded nodes once, expanding as it goes."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.final: dict[Node, Node] = {}
        self.ints = 0
        self.floats = 0

    def leaf(self, node: Node) -> None:
        """A computed value the plan reads."""
        self._append(node, copy_node(node, (), ()) if node.op is LEAF else self._as_leaf(node))

    def _as_leaf(self, node: Node) -> Node:
        spec = LEAF.cache.get(node.meta) or LEAF.remember(node.meta, (), (), node.meta)
        return make_node(spec, (), (), node.site)

    def _append(self, node: Node, primitive: Node) -> None:
        primitive.index = len(self.nodes)
        self.nodes.append(primitive)
        self.final[node] = primitive
        self.final[primitive] = primitive

    def recorded(self, node: Node) -> None:
        """A node the program recorded: number its args, then lower it."""
        self.lower(node, self._slots(node))

    def _slots(self, node: Node) -> tuple[Any, ...]:
        all_floats = node.spec.floats
        return tuple([self._slot(a, all_floats or type(a) is float) for a in node.args])

    def _slot(self, number: Any, is_float: bool) -> Any:
        if is_float:
            arg: Any = FloatArg(number)
            arg.slot = self.floats
            self.floats += 1
        else:
            arg = IntArg(number)
            arg.slot = self.ints
            self.ints += 1
        return arg

    def lower(self, node: Node, args: tuple[Any, ...]) -> None:
        """Appends `node`, or what it expands to, with its inputs replaced by primitives."""
        inputs = tuple([self.final[x] for x in node.inputs])
        copy = copy_node(node, inputs, args)
        if node.op.kind != "composite":
            self._append(node, copy)
            return
        assert node.op.expand is not None
        # A thread state of its own: what the rule records is not pending for the program.
        scratch = State()
        scratch.grad, scratch.reference, scratch.site = False, False, node.site
        outer, LOCAL.state = LOCAL.state, scratch
        try:
            result = node.op.expand(copy, *[wrap(x) for x in inputs])
        finally:
            LOCAL.state = outer
        for made in scratch.nodes:
            if made not in self.final:
                self.lower(made, made.args)
        self.final[node] = self.final[result._node]


def expand(recorded: Recorded) -> Primitives:
    """The primitive graph of `recorded`."""
    walk = Expander()
    for leaf in recorded.leaves:
        walk.leaf(leaf)
    for node in recorded.nodes:
        walk.recorded(node)
    outputs = [walk.final[recorded.nodes[i]] for i in recorded.outputs]
    return Primitives(walk.nodes, len(recorded.leaves), outputs, walk.ints, walk.floats)
