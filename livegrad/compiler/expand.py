"""Pass 1, expand: recorded nodes become primitive ones.

Composite ops are replaced by what their `expand` rule records, and the gradient of a graph by what
its gradient rules record. Run-time numbers become IntArg and FloatArg, which remember the slot they
arrive in, so that a plan holds slots and never values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from livegrad.device import CPU
from livegrad.graph.handle import LEAF, wrap
from livegrad.graph.meta import on_device
from livegrad.graph.node import Node, Site, Spec, quote_site
from livegrad.graph.numbers import FloatArg, IntArg
from livegrad.graph.state import scratch_state
from livegrad.graph.symbol import SymbolicFloat


@dataclass
class Recorded:
    """What a flush hands to the compiler: nodes to compute, in order, and what they read.

    `twins` are filled in when they are expanded: for each node, the site that its gradient has.
    """

    nodes: list[Node]
    leaves: list[Node]
    outputs: list[int]
    twins: list[Site | None] = field(default_factory=list)


def without_device(recorded: Recorded) -> Recorded:
    """The same as if it were on the CPU: plans do not say where they run."""
    if not recorded.nodes or recorded.nodes[0].meta.device is CPU:
        return recorded
    copies = {x: leaf_for(x) for x in recorded.leaves}
    for node in recorded.nodes:
        inputs = tuple([copies[x] for x in node.inputs])
        copies[node] = copy_node(node, inputs, node.args)
    nodes, leaves = ([copies[x] for x in xs] for xs in (recorded.nodes, recorded.leaves))
    return Recorded(nodes, leaves, recorded.outputs)


@dataclass
class Primitives:
    """The expanded graph. `index` of each node is its place in `nodes`; leaves come first.

    `overwrites` has, for values that take the memory of another, that other one; `fences`, for the
    nodes that store them there, what must be done before, first of all the value they change;
    `moved`, for leaves' values that are changed, the leaf. See compiler/overwrite.py.
    """

    nodes: list[Node]
    leaves: int
    outputs: list[Node]
    # Run-time numbers that a run brings along.
    ints: int = 0
    floats: int = 0
    overwrites: dict[Node, Node] = field(default_factory=dict)
    fences: dict[Node, list[Node]] = field(default_factory=dict)
    moved: dict[Node, Node] = field(default_factory=dict)

    def home(self, node: Node) -> Node:
        """The value whose memory a stored one is in: its own, unless it overwrites another."""
        while node in self.overwrites:
            node = self.overwrites[node]
        return node

    @property
    def updates(self) -> list[Node]:
        """The nodes that are there for what they write."""
        return [n for n in self.nodes if n.op.kind == "update"]


def copy_node(node: Node, inputs: tuple[Node, ...], args: tuple[Any, ...]) -> Node:
    """A planning copy of `node` with other inputs and args."""
    return make_node(node.spec, inputs, args, node.site)


def make_node(spec: Spec, inputs: tuple[Node, ...], args: tuple[Any, ...], site: Any) -> Node:
    """A node for planning only: it is on no thread's pending list."""
    spec = spec.plain or spec
    node = object.__new__(Node)
    node.spec = spec
    node.meta = spec.meta
    node.inputs = inputs
    node.args = args
    node.grad_to = None
    node.buffer = None
    node.cut = None
    node.walked = None
    node.spent = False
    node.index = -1
    node.site = site
    return node


def leaf_for(node: Node) -> Node:
    """What stands for a computed value in a plan."""
    meta = on_device(node.meta.plain, CPU)
    spec = LEAF.cache.get(meta) or LEAF.remember(meta, (), (), meta)
    return make_node(spec, (), (), node.site)


class Expander:
    """Walks the recorded nodes once, expanding as it goes."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.final: dict[Node, Node] = {}
        self.ints = 0
        self.floats = 0
        # Copies of what was recorded, composites and all, for gradients to be taken of.
        self.shadows: dict[Node, Node] | None = None
        self.gradients: dict[Node, list[Node]] = {}
        # The sites of these copies, in the order of what was recorded: gradients have them.
        self.twins: list[Site | None] = []
        # What composites have become, by what they compute.
        self.expanded: dict[tuple[Any, ...], Node] = {}

    def leaf(self, node: Node) -> None:
        """A computed value the plan reads."""
        self._append(node, leaf_for(node))
        self._shadow(node, self.final[node])

    def _shadow(self, node: Node, copy: Node) -> None:
        """Notes the copy through which a gradient walks over `node`."""
        if self.shadows is None:
            return
        self.shadows[node] = copy
        self.final[copy] = self.final[node]

    def _append(self, node: Node, primitive: Node) -> None:
        primitive.index = len(self.nodes)
        self.nodes.append(primitive)
        self.final[node] = primitive
        self.final[primitive] = primitive

    def recorded(self, node: Node) -> None:
        """A node the program recorded: number its args, then lower it."""
        if node.op.kind == "gradient_of":
            self.final[node] = self.gradients[node.inputs[0]][node.attrs[0]]
            self.twins.append(None)
        elif node.op.kind == "gradient":
            self._gradient(node)
            self.twins.append(None)
        else:
            args = self._slots(node)
            self.lower(node, args)
            if self.shadows is not None:
                inputs = tuple([self.shadows.get(x, x) for x in node.inputs])
                twin = _twin(node.site)
                self.twins.append(twin)
                self._shadow(node, make_node(node.spec, inputs, args, twin))

    def _gradient(self, node: Node) -> None:
        """Applies the gradient rules to the recorded graph below `node`."""
        rule = node.op.expand
        assert rule is not None
        assert self.shadows is not None
        tensors = [wrap(self.shadows.get(x, x)) for x in node.inputs]
        told = copy_node(node, node.inputs, self._slots(node)) if node.args else node
        results, made = in_scratch(node.site, lambda: rule(told, *tensors))
        for m in made:
            self.lower(m, m.args)
        self.gradients[node] = [self.final[x._node] for x in results]

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
        key = expression(copy, inputs)
        if key not in self.expanded:
            self.expanded[key] = self._expanded(copy)
        self.final[node] = self.expanded[key]

    def _expanded(self, node: Node) -> Node:
        """What a composite node, whose inputs are primitives, becomes."""
        rule = node.op.expand
        assert rule is not None
        inputs = [wrap(x) for x in node.inputs]
        result, nodes = in_scratch(node.site, lambda: rule(node, *inputs))
        for m in nodes:
            if m not in self.final:
                self.lower(m, m.args)
        made = result._node.meta
        # Of symbols, only the values have to be the same.
        if made is not node.meta and (made.shape, made.dtype) != (node.meta.shape, node.meta.dtype):
            raise AssertionError(f"{node.op.name} expands to {made}, not {node.meta}")
        return self.final[result._node]


def expression(node: Node, inputs: tuple[Node, ...]) -> tuple[Any, ...]:
    """What two nodes have in common exactly if they compute the same."""
    return (
        node.spec.op.name,
        node.spec.attrs,
        node.meta.plain,
        tuple([id(x) for x in inputs]),
        tuple([_arg_key(a) for a in node.args]),
    )


def _arg_key(arg: Any) -> Any:
    if isinstance(arg, IntArg | FloatArg):
        return (type(arg), arg.slot)
    if isinstance(arg, SymbolicFloat):
        return (SymbolicFloat, arg.term, float.__add__(arg, 0.0))
    return (type(arg), arg)


def in_scratch(site: Site | None, rule: Callable[[], Any]) -> tuple[Any, list[Node]]:
    """What `rule` returns and the nodes it records, none of them pending for the program."""
    with scratch_state() as scratch:
        scratch.grad, scratch.reference, scratch.site = False, False, site
        scratch.held = True
        try:
            return rule(), scratch.nodes
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            if site is not None and "(recorded at " not in str(error):
                error.args = (f"{error} (recorded at {quote_site(site)})",)
                error.recorded_at = site  # type: ignore[union-attr]
            raise


def expand(recorded: Recorded) -> Primitives:
    """The primitive graph of `recorded`."""
    walk = Expander()
    _tell_apart(recorded.nodes)
    if any(node.op.kind == "gradient" for node in recorded.nodes):
        walk.shadows = {}
    for leaf in recorded.leaves:
        walk.leaf(leaf)
    for node in recorded.nodes:
        walk.recorded(node)
    outputs = [walk.final[recorded.nodes[i]] for i in recorded.outputs]
    recorded.twins = walk.twins
    return Primitives(walk.nodes, len(recorded.leaves), outputs, walk.ints, walk.floats)


def _twin(site: Site | None) -> Site | None:
    """The same place as another object: nodes of a gradient are told from those of its value."""
    return None if site is None else (site[0], site[1])


def _tell_apart(nodes: list[Node]) -> None:
    """Gives nodes with one site, such as those of one backward, sites of their own.

    Planned nodes have the site of the node they come from: by it a fault finds that node.
    """
    seen: set[int] = set()
    for node in nodes:
        if id(node.site) in seen and node.site is not None:
            code, instruction = node.site
            node.site = (code, instruction)
        seen.add(id(node.site))
