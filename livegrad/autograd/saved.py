"""`saved_tensors_hooks`: what a backward pass needs goes through functions of the program's.

    y = f(x)      ──► the node of f is noted as it is recorded
    f is done     ──► pack(tensor) for each value that the gradient rules of the node read
    y.backward()  ──► the rules get unpack(packed) in its place

A node has no list of what it saves: its rules read operands and results, and their code tells which
(graph/reading.py). So which values are shown may differ from PyTorch's, whose rules are others.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

from livegrad.autograd.modes import enable_grad, no_grad
from livegrad.autograd.reverse import Pair, fit, reverse, through_rules
from livegrad.graph.above import Above
from livegrad.graph.events import NOTED, RECORDED
from livegrad.graph.handle import leaf_node, node_of, wrap
from livegrad.graph.node import CYCLES, Interior, LeafRef, Node
from livegrad.graph.reading import read_by
from livegrad.graph.state import LOCAL, flush, setting
from livegrad.ops.elementwise.arithmetic import cast

Pack = Callable[[Any], Any]


class _Active(threading.local):
    """Of one thread: the hooks that are on, the innermost last, and nodes that they wait for."""

    refusal: str | None = None

    def __init__(self) -> None:
        self.hooks: list[saved_tensors_hooks] = []
        self.nodes: list[Node] = []


ACTIVE = _Active()


def _note(node: Node) -> None:
    if ACTIVE.hooks and node.grad_to is True:
        ACTIVE.nodes.append(node)


def _listening(event: Any) -> None:
    """That there is a listener makes each node be told of."""


class _Users:
    """How many blocks of hooks there are in all threads; without any, nobody listens."""

    count = 0
    lock = threading.Lock()

    @classmethod
    def change(cls, by: int) -> None:
        with cls.lock:
            before, cls.count = cls.count, cls.count + by
            if not before:
                NOTED.append(_note)
                RECORDED.append(_listening)
            elif not cls.count:
                NOTED.remove(_note)
                RECORDED.remove(_listening)


class saved_tensors_hooks:
    """Within it, `pack_hook(tensor)` is kept instead of tensors that backward needs.

    `unpack_hook` of that gives the tensor, or one of the same shape, when backward comes.
    """

    def __init__(self, pack_hook: Pack, unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> Any:
        if ACTIVE.refusal is not None:
            raise RuntimeError(ACTIVE.refusal)
        CYCLES.are_possible = True  # what is packed may be a result, kept by its own node
        _Users.change(1)
        self._mode = Above.overrides().AfterEach(pack_noted)
        self._mode.__enter__()
        ACTIVE.hooks.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        pack_noted()
        ACTIVE.hooks.pop()
        self._mode.__exit__(*exception)
        _Users.change(-1)


class Packed:
    """What `pack_hook` made of a tensor."""

    __slots__ = ("hooks", "kept")

    def __init__(self, hooks: saved_tensors_hooks, tensor: Any) -> None:
        self.hooks = hooks
        with no_grad():
            self.kept = hooks.pack_hook(tensor)

    def unpacked(self) -> Any:
        """The tensor again."""
        with setting(site=None):
            found = self.hooks.unpack_hook(self.kept)
        if not hasattr(found, "_node"):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(found).__name__}"
            )
        return found


def packed(tensor: Any) -> Packed | None:
    """A tensor that a Function saves, as the hooks that are on keep it; None if there are none."""
    return Packed(ACTIVE.hooks[-1], tensor) if ACTIVE.hooks else None


def pack_noted() -> None:
    """Packs what the rules of the nodes read that were recorded since the last time."""
    while ACTIVE.nodes:
        nodes, ACTIVE.nodes = ACTIVE.nodes, []
        for node in nodes:
            if node.grad_to is True and ACTIVE.hooks:
                _pack(node, ACTIVE.hooks[-1])


def _pack(node: Node, hooks: saved_tensors_hooks) -> None:
    places, reads_result = reads(node)
    if not places and not reads_result:
        return
    kept = {i: Packed(hooks, _shown(node.inputs[i])) for i in sorted(places)}
    result = Packed(hooks, wrap(node)) if reads_result else None
    pull = _pull if node.spec.op.grads is not None else _pull_through_expansion
    reference = weakref.ref(node)  # the node keeps this, not the other way round
    node.grad_to = Interior(None, lambda g: pull(_alive(reference), g, kept, result))


def _alive(reference: Any) -> Node:
    node: Node | None = reference()
    assert node is not None, "a node that is walked is there"
    return node


def _shown(x: Node) -> Any:
    """A tensor of an input: a leaf itself, or one with its history."""
    leaf: Any = x.grad_to() if type(x.grad_to) is LeafRef else None
    return leaf if leaf is not None and leaf._node is x else wrap(x)


def reads(node: Node) -> tuple[set[int], bool]:
    """Which inputs the gradient rules of a node read, and whether its result."""
    op = node.spec.op
    inputs = range(len(node.inputs))
    if op.grads is None:
        return set(inputs), False
    read: set[int] = set()  # places among the parameters of rules: g, y, *operands
    operands = _operands(node)
    for i in inputs:
        if node.inputs[i].grad_to is None:
            continue
        place = operands.index(i)
        found = read_by(op.grads[place]) if place < len(op.grads) else frozenset()
        read |= set(range(1, 2 + len(operands))) if found is None else found
    # A rule may use an operand for its shape alone: `saves` says whether values are read.
    places = {operands[p - 2] for p in read if 2 <= p < 2 + len(operands) and "x" in op.saves}
    return {i for i in places if i is not None}, 1 in read and "y" in op.saves


def _operands(node: Node) -> list[int | None]:
    """For each operand of the rules, which input it is; None for a number."""
    if node.spec.op.kind != "elementwise" or not node.args:
        return list(range(len(node.inputs)))
    count = iter(range(len(node.inputs)))
    return [next(count) if letter == "t" else None for letter in node.spec.attrs[1]]


def _unpacked(node: Node, kept: dict[int, Packed]) -> list[Any]:
    return [kept[i].unpacked() if i in kept else wrap(x) for i, x in enumerate(node.inputs)]


def _pull(node: Node, g: Any, kept: dict[int, Packed], result: Packed | None) -> list[Pair]:
    found: dict[Node, Any] = {}
    y = wrap(node) if result is None else _in_place_of(node, result.unpacked())
    through_rules(node, g, None, found, _unpacked(node, kept), y)
    return list(found.items())


def _in_place_of(node: Node, value: Any) -> Any:
    """A tensor of another value in the place of a result: its rule may ask how it was made."""
    meta, found = node.meta, node_of(value)
    if found is node:
        return value
    if found.meta.shape != meta.shape:
        raise RuntimeError(
            f"unpack_hook: got a tensor of shape {found.meta.shape}; expected {meta.shape}"
        )
    found = node_of(cast(value, meta.dtype))
    flush("unpack_hook", found)
    made = leaf_node(meta, found.buffer)
    made.spec, made.args = node.spec, node.args
    return wrap(made)


def _pull_through_expansion(
    node: Node, g: Any, kept: dict[int, Packed], result: Packed | None
) -> list[Pair]:
    """The gradients of a composite without rules, from what its inputs are unpacked to."""
    create_graph = LOCAL.state.grad
    operands = _unpacked(node, kept)
    for i, x in enumerate(node.inputs):
        if x.grad_to is not None and node_of(operands[i]).grad_to is None:
            operands[i] = operands[i].detach().requires_grad_()
    inner = {
        node_of(o) for o, x in zip(operands, node.inputs, strict=True) if x.grad_to is not None
    }
    assert node.spec.op.expand is not None
    hooks, ACTIVE.hooks = ACTIVE.hooks, []
    try:
        with enable_grad():
            y = node_of(node.spec.op.expand(node, *operands))
    finally:
        ACTIVE.hooks = hooks
    if y.grad_to is None:
        return []
    wanted = {id(x) for x in inner}
    _, arrived = reverse([(y, fit(g, y.meta))], create_graph, wanted, inner)
    pairs: list[Pair] = []
    for found, gx in arrived:
        for o, x in zip(operands, node.inputs, strict=True):
            if x.grad_to is not None and node_of(o) is found:
                pairs.append((x, fit(gx, x.meta)))
                break
    return pairs
