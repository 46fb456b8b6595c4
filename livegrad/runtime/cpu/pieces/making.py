"""Pieces: the plan of one op by itself, or of one op's gradient, and what native code knows of it.

A piece is for a spec, and for how its inputs are seen: computed, or through one or two views. What
it depends on besides, which gradients are wanted and the kinds of numbers, is on its card, too.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

from livegrad.compiler.expand import Recorded, in_scratch, leaf_for, make_node
from livegrad.compiler.pipeline import compile_plan
from livegrad.compiler.plan import Plan
from livegrad.compiler.sizes import plan_for
from livegrad.device import CPU, backend_of
from livegrad.graph.handle import LEAF, wrap
from livegrad.graph.meta import Meta
from livegrad.graph.node import Node, Spec
from livegrad.graph.numbers import Specialised
from livegrad.graph.op import REGISTRY
from livegrad.ops.elementwise import arithmetic as ew
from livegrad.runtime.counters import counters
from livegrad.runtime.cpu.pieces.layout import (
    ALIAS,
    CARD,
    COMPUTED,
    GRADIENT,
    GRADIENT_OF,
    RESULT,
    RESULT_ADD,
    RESULT_TABLE,
    UNFIT,
    UNREAD,
    VIEW,
    WORD,
)
from livegrad.runtime.cpu.segments import Segment
from livegrad.runtime.fault import Fault
from livegrad.runtime.memory import capacity_for
from livegrad.runtime.speedup import original_functions

Views = list[Node]  # through which an input is seen, the innermost first


class Unfit(Exception):
    """Something that cannot be listed: NumPy runs it, or its plan is for its numbers only."""


class Piece:
    """A plan of one op, and its card:

    specs of node and views ──► plan ──► program ◄── card: what the list is made from
    """

    def __init__(
        self, recorded: Recorded, nodes: Sequence[Node], key: list[int], wanted: _Wanted | None
    ) -> None:
        self.recorded = recorded
        self.plan = plan = _planned(recorded)
        cpu: Any = backend_of(CPU)
        self.runnable = cpu.assemble(plan)
        self.program = _program_of(self.runnable)
        self.specs = [node.spec for node in nodes]  # their addresses are on the card
        self.results = _results(plan)
        self.wanted = wanted
        self.reads = plan.leaves
        self.card = array("q", self._words(nodes, key))
        self.address = self.card.buffer_info()[0]
        self._link_tables()
        if self.program is not None:
            BY_PROGRAM[self.program.address] = self
        counters.pieces_made += 1

    def _words(self, nodes: Sequence[Node], key: list[int]) -> list[int]:
        """The card, with the places of its tables where their addresses are going to be."""
        plan, wanted = self.plan, self.wanted
        kinds = [node.spec.floats or type(a) is float for node in nodes for a in node.args]
        outs = [word for b in plan.buffers for word in size_class(b.nbytes)]
        results: list[int] = []
        inputs = [] if wanted is None else [i for i, w in enumerate(wanted.mask) if w]
        for number, (source, output) in enumerate(zip(self.results, plan.outputs, strict=True)):
            results += [source, output.nbytes, inputs[number] if inputs else 0, 0]
        saved = [] if wanted is None else [wanted.reads_inputs, wanted.reads_result]
        mask = [] if wanted is None else wanted.mask
        head = [
            0, 0 if self.program is None else self.program.address, plan.leaves, len(plan.buffers),
            len(self.results), len(kinds), 1 + plan.leaves + len(plan.buffers) + len(kinds),
            plan.arena,
        ]  # fmt: skip
        tables: list[list[Any]] = [key, kinds, outs, results, mask]
        at, places = CARD // WORD, []
        for table in tables:
            at += len(saved) if table is mask else 0
            places.append(at)
            at += len(table)
        return [*head, *places, *key, *kinds, *outs, *results, *saved, *mask]

    def _link_tables(self) -> None:
        first = CARD // WORD - 5
        for place in range(first, first + 5):
            self.card[place] = self.address + WORD * self.card[place]

    def fault(self) -> Fault:
        """What the program has refused when it was run last."""
        code, value = self.program.fault()
        fault = Fault(self.program.status_in_list() - 1, code=code, value=value)
        if code:
            # The nodes of a plan that was filled in have other sizes.
            plan = compile_plan(self.recorded) if self.plan.filled else self.plan
            fault.complain(fault.suspect(plan))
        return fault

    def set_sum(self, number: int, adding: Piece) -> None:
        """Notes the piece that adds such results."""
        at = (self.card[RESULT_TABLE // WORD] - self.address + RESULT * number) // WORD
        self.card[at + RESULT_ADD // WORD] = adding.address


# The piece that a program is of.
BY_PROGRAM: WeakValueDictionary[int, Piece] = WeakValueDictionary()


class _Wanted:
    """Of a gradient: for which inputs, and made from what."""

    def __init__(self, mask: list[bool], saved: int) -> None:
        self.mask = mask
        self.reads_inputs, self.reads_result = bool(saved & 1), bool(saved & 2)


def _program_of(runnable: Any) -> Any:
    segments = runnable.segments
    if not segments:
        return None
    if len(segments) > 1 or not isinstance(segments[0], Segment):
        raise Unfit
    return segments[0].program


def _results(plan: Plan) -> list[int]:
    """For each result the new tensor that it is, or -1 - the number of one read or made before."""
    first = 1 + plan.leaves
    found: list[int] = []
    for output in plan.outputs:
        if output.leaf >= 0:
            found.append(-1 - output.leaf)
        elif output.slot - first in found:
            found.append(-1 - plan.leaves - (output.slot - first))
        else:
            found.append(output.slot - first)
    return found


_classes: dict[int, int] = {}


def size_classes() -> int:
    """How many sizes there are so far."""
    return len(_classes)


def size_class(nbytes: int) -> tuple[int, int]:
    """The bytes that a tensor takes in the arena, and the number of that size."""
    capacity = capacity_for(nbytes)
    return capacity, _classes.setdefault(capacity, len(_classes))


# ------------------------------------------------------------------------------- making them


def _planned(recorded: Recorded) -> Plan:
    if any([node.op.kind == "host" for node in recorded.nodes]):
        raise Unfit
    before, Specialised.seen = Specialised.seen, False
    try:
        plan = plan_for(recorded, original_functions)
        if Specialised.seen or any([step.host for step in plan.steps]):
            raise Unfit
        return plan
    finally:
        Specialised.seen = before


def _seen(x: Node, views: Views, nodes: list[Node]) -> tuple[Node, Node]:
    """A leaf, and what an input is when it is seen through views of that, which are recorded."""
    leaf = leaf_for(views[0].inputs[0] if views else x)
    at = leaf
    for view in views:
        at = make_node(view.spec, (at,), view.args, view.site)
        nodes.append(at)
    return leaf, at


def _key(views: Sequence[Views | None]) -> list[int]:
    key = []
    for each in views:
        if each is None:
            key.append(UNREAD)
        else:
            key += [len(each), *[id(view.spec) for view in reversed(each)]]
    return key


def make_forward(node: Node, views: Sequence[Views]) -> Piece:
    """The piece that computes a node."""
    nodes: list[Node] = []
    pairs = [_seen(x, each, nodes) for x, each in zip(node.inputs, views, strict=True)]
    nodes.append(make_node(node.spec, tuple([at for _, at in pairs]), node.args, node.site))
    recorded = Recorded(nodes, [leaf for leaf, _ in pairs], [len(nodes) - 1])
    looked = [view for each in views for view in each]
    piece = Piece(recorded, [*looked, node], _key(views), None)
    return _added(piece, node.spec, "forward")


def make_backward(node: Node, views: Sequence[Views], mask: list[bool]) -> Piece:
    """The piece that computes the gradients of a node's inputs from that of its value."""
    reads_inputs = node.spec.saved & 1
    nodes: list[Node] = []
    looks = [each if reads_inputs else [] for each in views]
    pairs = [_seen(x, each, nodes) for x, each in zip(node.inputs, looks, strict=True)]
    g, y = leaf_for(node), leaf_for(node)
    op = REGISTRY["pull"]
    spec = Spec(op, (node.op, node.attrs, tuple(mask)), g.meta)
    spec.floats = node.spec.floats
    pull = make_node(spec, (g, *[at for _, at in pairs], y), node.args, node.site)
    nodes.append(pull)
    first = len(nodes)
    wanted = [x.meta.plain for x, m in zip(node.inputs, mask, strict=True) if m]
    for number, meta in enumerate(wanted):
        result = Spec(REGISTRY["gradient_of"], (number,), meta)
        nodes.append(make_node(result, (pull,), (), node.site))
    leaves = [g, *[leaf for leaf, _ in pairs], y]
    recorded = Recorded(nodes, leaves, list(range(first, len(nodes))))
    looked = [view for each in looks for view in each]
    key = _key(looks if reads_inputs else [None] * len(looks))
    piece = Piece(recorded, [*looked, node], key, _Wanted(mask, node.spec.saved))
    return _added(piece, node.spec, "backward")


def _added(piece: Piece, spec: Spec, way: str) -> Piece:
    """Puts the card of a piece in front of those of its spec."""
    piece.card[0] = getattr(spec, way)
    setattr(spec, way, piece.address)
    spec.pieces = [*(spec.pieces or ()), piece]
    return piece


_adding: dict[Meta, Piece] = {}


def adding(meta: Meta) -> Piece:
    """The piece that adds two gradients of this kind."""
    found = _adding.get(meta)
    if found is None:
        leaves = [_leaf_of(meta) for _ in range(2)]
        _, made = in_scratch(None, lambda: ew.add(*[wrap(x) for x in leaves]))
        found = _adding[meta] = Piece(Recorded([made[-1]], leaves, [0]), [made[-1]], [0, 0], None)
    return found


def _leaf_of(meta: Meta) -> Node:
    spec = LEAF.cache.get(meta) or LEAF.remember(meta, (), (), meta)
    return make_node(spec, (), (), None)


# --------------------------------------------------------------------- what a spec is to the list


def find_role(node: Node) -> int:
    """Fills in what a node's spec is to the list."""
    spec = node.spec
    spec.role = _role(node)
    return spec.role


def _role(node: Node) -> int:
    kind = node.op.kind
    if kind == "gradient":
        return GRADIENT
    if kind == "gradient_of":
        return GRADIENT_OF
    if kind in ("host", "update") or node.meta.dtype.is_complex:
        return UNFIT
    if kind in ("elementwise", "generate", "kernel"):
        return COMPUTED
    try:
        piece = make_forward(node, [[] for _ in node.inputs])
    except Unfit:
        return UNFIT
    if piece.program is None:
        return ALIAS if piece.results == [-1] else UNFIT
    return VIEW if kind == "movement" and len(node.inputs) == 1 else COMPUTED


def find_saved(spec: Spec) -> int:
    """Fills in which values the gradient of a node is made from: 1 inputs, 2 its own."""
    saves = spec.op.saves
    spec.saved = ("x" in saves) + 2 * ("y" in saves)
    return spec.saved
