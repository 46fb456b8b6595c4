"""What is pending becomes plain nodes: taken just before a flush, when inputs are still known.

A recorded `backward` is one node; here it becomes one node for every forward node that the gradient
goes through, with the edges turned round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from livegrad.compiler.flops import flops_of as product_flops
from livegrad.graph.events import NODES
from livegrad.graph.node import Node
from livegrad.graph.state import State
from livegrad.view.calls import BACKWARD_MARK, NAMES, UPDATE_MARK, names_by_node
from livegrad.view.nodes import BACKWARD, FORWARD, LEAF, SETUP, UPDATE, GraphNode
from livegrad.view.places import place_of

# What was counted before: an operation may have to be expanded for it.
_PRODUCTS: dict[Any, int] = {}
_MOST_KNOWN = 4096


class Captured:
    """The nodes of one flush. `order` has the number of each pending node, by its place."""

    def __init__(self) -> None:
        self.nodes: dict[int, GraphNode] = {}
        self.order: list[int] = []
        self.is_summary = False  # nodes stand for many that are alike: see summary.py
        # Of each recorded backward, for each leaf: who gives it its gradient, and its name.
        self.gradients: dict[int, list[tuple[list[int], str]]] = {}


def capture(state: State, modules: Sequence[str]) -> Captured:
    """What is pending in a thread; `modules` has, for each node, the module it belongs to."""
    made = Captured()
    made.order = [NODES[node] for node in state.nodes]
    for node, module in zip(state.nodes, modules, strict=True):
        if node.op.kind == "gradient" and _mirror(made, node, state):
            continue
        _add(made, node, module)
    _add_leaves(made, state.nodes)
    find_modules_of_gradients(made.nodes)
    return made


def history(root: Node, inner: Sequence[Node]) -> Captured:
    """`inner`, which are what a value was computed from, and the leaves that they read."""
    made = Captured()
    for node in inner:
        _add(made, node, "")
    _add_leaves(made, inner or [root])
    if not inner:
        made.nodes[NODES[root]] = leaf(root, {})
    return made


# --------------------------------------------------------------------------------------- nodes


def _add(made: Captured, node: Node, module: str) -> None:
    found = plain(node, tuple([NODES[x] for x in node.inputs]), module)
    if node.op.kind == "gradient_of":
        _connect_gradient(made, node, found)
    made.nodes[found.number] = found


def plain(node: Node, inputs: tuple[int, ...], module: str) -> GraphNode:
    """A pending node; `module` is what was noted of it."""
    phase = FORWARD
    if node.op.kind in ("gradient", "gradient_of") or module == BACKWARD_MARK:
        phase, module = BACKWARD, ""
    elif module.startswith(UPDATE_MARK) or node.op.kind == "update":
        phase, module = UPDATE, module.removeprefix(UPDATE_MARK)
    found = _plain(node, NODES[node], phase, inputs, module)
    found.requires_grad = node.requires_grad
    if phase == FORWARD and found.function.endswith("__init__"):
        found.phase = SETUP
    return found


def _plain(node: Node, number: int, phase: str, inputs: tuple[int, ...], module: str) -> GraphNode:
    meta, place = node.meta, place_of(node.site)
    return GraphNode(
        number, node.op.name, phase, tuple(meta.shape), meta.dtype.name, inputs,
        file=place.file, line=place.line, function=place.function, module=module,
        attrs=_attrs(node), nbytes=meta.nbytes, flops=flops_of(node),
    )  # fmt: skip


def _attrs(node: Node) -> str:
    if node.op.kind in ("gradient", "gradient_of"):
        return ""
    told = [repr(x) for x in (*node.attrs, *node.args) if x is not None]
    return ", ".join(told)[:200]


def flops_of(node: Node) -> int:
    """About how many operations a node takes: two per multiplication of products."""
    if node.op.kind in ("movement", "leaf", "gradient", "gradient_of"):
        return 0
    return products_of(node) or max([node.meta.numel, *[x.meta.numel for x in node.inputs]])


def products_of(node: Node) -> int:
    """The operations of the products that a node consists of; 0 if there are none."""
    op = node.op
    if not node.inputs or (op.flops is None and op.kind != "composite"):
        return 0  # or its inputs are known no more
    key = node.spec, tuple([x.meta for x in node.inputs])
    known = _PRODUCTS.get(key)
    if known is None:
        if len(_PRODUCTS) >= _MOST_KNOWN:
            _PRODUCTS.clear()
        known = _PRODUCTS[key] = int(product_flops(node))
    return known


def _add_leaves(made: Captured, nodes: Sequence[Node]) -> None:
    """Adds what was there before: parameters by their names, the rest as inputs."""
    leaves = {NODES[x]: x for node in nodes for x in node.inputs if NODES[x] not in made.nodes}
    names = names_by_node(leaves.values())
    readers = {x: node for node in made.nodes.values() for x in node.inputs}
    for number, x in leaves.items():
        if x.op.kind == "gradient":
            continue
        made.nodes[number] = found = leaf(x, names)
        reader = readers.get(number)
        if not found.name and reader is not None and reader.phase == UPDATE:
            found.op, found.module = "state", reader.module


def leaf(node: Node, names: dict[int, str]) -> GraphNode:
    """A value that was there before; `names` are those of parameters, by the address of a node."""
    name = names.get(id(node), "")
    found = _plain(node, NODES[node], LEAF, (), name.rpartition(".")[0])
    found.name, found.flops = name, 0
    found.op = "parameter" if name else "input"
    return found


# ------------------------------------------------------------------------------------ gradients


def _mirror(made: Captured, gradient: Node, state: State) -> bool:
    """Adds, for each node that a gradient goes through, the one that its gradient is made by."""
    held = state.walks.get(gradient)
    if held is None:
        return False
    interior = held.interior
    numbers = {id(node): NODES[node] for node in interior}
    readers: dict[int, list[int]] = {}
    for node in interior:
        for x in node.inputs:
            readers.setdefault(id(x), []).append(-numbers[id(node)])
    for node in interior:
        number = numbers[id(node)]
        # The gradient begins at the root's value.
        first = (number,) if node is interior[0] else ()
        inputs = tuple(dict.fromkeys([*first, *readers.get(id(node), ())]))
        forward = made.nodes.get(number)
        module = forward.module if forward is not None else ""
        made.nodes[-number] = mirrored(node, number, inputs, module)
    names = [NAMES.name_of(leaf()) for leaf in held.leaves]
    made.gradients[NODES[gradient]] = [
        (readers.get(each, []), name) for each, name in zip(held.ids, names, strict=True)
    ]
    return True


def mirrored(node: Node, number: int, inputs: tuple[int, ...], module: str) -> GraphNode:
    """The gradient of a node that is known by a number."""
    found = _plain(node, -number, BACKWARD, inputs, module)
    found.of, found.op, found.attrs = number, f"{node.op.name} backward", ""
    found.flops += products_of(node)  # of products, the gradient is two
    return found


def _connect_gradient(made: Captured, node: Node, found: GraphNode) -> None:
    """A leaf's gradient reads the gradients of what reads the leaf, and has its name."""
    leaves = made.gradients.get(NODES[node.inputs[0]], [])
    number = node.attrs[0]
    if number < len(leaves):
        readers, name = leaves[number]
        found.inputs = tuple(dict.fromkeys(readers))
        found.module, _, own = name.rpartition(".")
        found.name = f"{own} gradient" if own else ""
    found.op = "gradient"


def find_modules_of_gradients(nodes: dict[int, GraphNode]) -> None:
    """Gradients that were recorded rule by rule belong to the module of the node that they are the
    gradient of: they have its line, and read it or what it reads."""
    by_line: dict[tuple[str, int], list[GraphNode]] = {}
    for node in nodes.values():
        if node.phase == FORWARD:
            by_line.setdefault((node.file, node.line), []).append(node)
    for node in nodes.values():
        if node.phase != BACKWARD or node.module or node.of in nodes:
            continue
        alike = by_line.get((node.file, node.line), [])
        reads = set(node.inputs)
        near = [x for x in alike if x.number in reads or reads.intersection(x.inputs)]
        for forward in (near or alike)[:1]:
            node.module = forward.module


def find_uses_of_gradients(nodes: dict[int, GraphNode]) -> None:
    """What is made of gradients between backward and the step is part of the update.

    Penalties on gradients are not, because gradients flow through them; nor is what modules do.
    """
    uses: set[int] = set()
    for node in nodes.values():
        if node.phase != FORWARD or node.requires_grad or node.module:
            continue
        read = [nodes[x] for x in node.inputs if x in nodes]
        if any([x.phase == BACKWARD or x.number in uses for x in read]):
            node.phase = UPDATE
            uses.add(node.number)
