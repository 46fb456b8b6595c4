"""Pieces: the program of one op by itself, or of its gradient, and what native code knows of it.

A piece is for a family of specs, and for how inputs are seen: computed, or through one or two
views. What it depends on besides, which gradients are wanted and the kinds of numbers, is on its
card, too; and which sizes are 0, 1, or equal.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

from livegrad.compiler.expand import Recorded, in_scratch, leaf_for, make_node
from livegrad.compiler.pipeline import compile_plan
from livegrad.compiler.plan import Plan, Signature
from livegrad.compiler.sizes import CHECKS
from livegrad.dtypes import DType
from livegrad.graph.handle import LEAF, wrap
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.node import Node, Spec
from livegrad.ops.elementwise import arithmetic as ew
from livegrad.runtime.counters import counters
from livegrad.runtime.cpu.pieces.desk import MOST_WORDS, holds_for
from livegrad.runtime.cpu.pieces.families import Family, family_of
from livegrad.runtime.cpu.pieces.layout import (
    ALIAS,
    ANY_SIZES,
    CARD,
    CODE,
    CODE_END,
    COMPUTED,
    FILLS,
    GRADIENT,
    GRADIENT_OF,
    IMAGE,
    KEY,
    KINDS,
    MASK,
    NEXT,
    OUT_TABLE,
    PATTERN,
    PROVEN,
    PROVEN_COUNT,
    REGISTERS,
    RESULT,
    RESULT_ADD,
    RESULT_TABLE,
    UNFIT,
    UNREAD,
    VIEW,
    WORD,
    WRITES,
)
from livegrad.runtime.cpu.pieces.moulds import Mould, Unfit, fixed, learn, numbered
from livegrad.runtime.fault import Fault
from livegrad.runtime.speedup import original_functions

Views = list[Node]  # through which an input is seen, the innermost first


class Question:
    """What a piece is asked for: nodes by themselves, and what tells them from others."""

    def __init__(
        self,
        node: Node,
        views: Sequence[Views],
        mask: list[bool] | None = None,
    ) -> None:
        family = family_of(node)
        self.mask = mask
        self.saved = 0 if mask is None else family.saved
        reads_inputs = mask is None or bool(self.saved & 1)
        looks = [each if reads_inputs else [] for each in views]
        self.key = [UNREAD] * len(looks) if not reads_inputs else key_of_views(looks)
        self.families = [family, *[family_of(view) for each in looks for view in each]]
        with_numbers = [*[view for each in looks for view in each], node]
        metas = [m for x, each in zip(node.inputs, looks, strict=True) for m in _metas(x, each)]
        self.pattern, self.sizes = numbered([*metas, node.meta])
        self.recorded = _recorded(node, looks, mask)
        self.kinds = [x.spec.floats or type(a) is float for x in with_numbers for a in x.args]

    def is_answered_by(self, piece: Piece) -> bool:
        """Whether a piece is for such nodes, if it holds for their sizes."""
        return piece.known_by == self.known_by

    @property
    def known_by(self) -> tuple[Any, ...]:
        """All that a piece must agree with, but for sizes."""
        return self.key, self.pattern, self.kinds, self.mask


def key_of_views(looks: Sequence[Views]) -> list[int]:
    key = []
    for each in looks:
        key += [len(each), *[id(family_of(view)) for view in reversed(each)]]
    return key


def _looked_through(node: Node, key: list[int]) -> list[Views]:
    """The views that a key tells of."""
    found: list[Views] = []
    at = 0
    for x in node.inputs:
        views: Views = []
        for _ in range(max(key[at], 0)):
            views.insert(0, x)
            x = x.inputs[0]
        at += 1 + len(views)
        found.append(views)
    return found


def _metas(x: Node, views: Views) -> list[Meta]:
    """Of an input, and what it is a view of: in the order in which native code comes by."""
    return [x.meta, *[view.inputs[0].meta for view in reversed(views)]]


def _recorded(node: Node, looks: Sequence[Views], mask: list[bool] | None) -> Recorded:
    """The node by itself, or its gradient, as if it had been recorded on its own."""
    nodes: list[Node] = []
    pairs = [_seen(x, each, nodes) for x, each in zip(node.inputs, looks, strict=True)]
    inputs, leaves = tuple([at for _, at in pairs]), [leaf for leaf, _ in pairs]
    if mask is None:
        nodes.append(make_node(node.spec, inputs, node.args, node.site))
        return Recorded(nodes, leaves, [len(nodes) - 1])
    # Whoever recorded a backward pass has imported it.
    from livegrad.autograd import pending

    g, y = leaf_for(node), leaf_for(node)
    spec = Spec(pending.PULL, (node.op, node.attrs, tuple(mask)), g.meta)
    spec.floats = node.spec.floats
    pull = make_node(spec, (g, *inputs, y), node.args, node.site)
    nodes.append(pull)
    first = len(nodes)
    wanted = [x.meta.plain for x, m in zip(node.inputs, mask, strict=True) if m]
    for number, meta in enumerate(wanted):
        result = Spec(pending.GRADIENT_OF, (number,), meta)
        nodes.append(make_node(result, (pull,), (), node.site))
    return Recorded(nodes, [g, *leaves, y], list(range(first, len(nodes))))


def _seen(x: Node, views: Views, nodes: list[Node]) -> tuple[Node, Node]:
    """A leaf, and what an input is when it is seen through views of that, which are recorded."""
    leaf = leaf_for(views[0].inputs[0] if views else x)
    at = leaf
    for view in views:
        at = make_node(view.spec, (at,), view.args, view.site)
        nodes.append(at)
    return leaf, at


# -------------------------------------------------------------------------------------- pieces


class Piece:
    """A mould, and its card:

    node, its views ──► plan with symbols ──► mould ──► card: what the list is made from
    """

    def __init__(self, question: Question, mould: Mould) -> None:
        self.known_by = question.known_by
        self.families = question.families  # their addresses are on the card
        self.kernels = mould.kernels
        self.outline = mould.outline
        self.checks = 0
        self.proven: array[int] = array("q", question.sizes)
        plan = mould.plan
        self.steps = [_told(plan, number) for number in range(len(plan.steps))]
        self.results = _results(plan)
        self.card = array("q", _card(question, mould, self.results))
        self.address = self.card.buffer_info()[0]
        self._link()
        self.writes = bool(plan.donations)
        self.is_alias = not plan.steps and self.results == [-1]
        BY_CARD[self.address] = self
        counters.pieces_made += 1

    def _link(self) -> None:
        """Makes addresses of the places of tables."""
        for place in _TABLES:
            self.card[place] = self.address + WORD * self.card[place]
        self._put_proven(1, self.proven)

    def _put_proven(self, count: int, sizes: array[int]) -> None:
        self.card[PROVEN // WORD] = sizes.buffer_info()[0]
        self.card[PROVEN_COUNT // WORD] = count

    def holds(self, question: Question) -> bool:
        """Whether it is proven for these sizes, and its code does not refuse them."""
        return holds_for(self.address, question.sizes)

    def prove(self, question: Question) -> bool:
        """Whether it holds for these sizes, too; proven often enough, it is taken to for all."""
        if self.outline is None:
            return False
        filled = self.outline.fill(question.sizes)
        if filled is None:
            return False
        if filled != compile_plan(question.recorded):
            self.outline = None
            return False
        self.checks += 1
        if self.checks >= CHECKS:
            self.outline = None
            self._put_proven(ANY_SIZES, self.proven)
        else:
            self.proven = self.proven + array("q", question.sizes)
            self._put_proven(1 + self.checks, self.proven)
        return True

    @property
    def is_spoilt(self) -> bool:
        """Whether it has turned out to hold for its own sizes only."""
        return self.outline is None and self.card[PROVEN_COUNT // WORD] != ANY_SIZES

    def fault(self, node: Node, status: int, code: int, value: int) -> Fault:
        """What the program has refused when it was run for `node`, in the words of the op."""
        fault = Fault(status - 1, code=code, value=value)
        if code:
            key, _, _, mask = self.known_by
            # The nodes that the piece was made with have other sizes.
            question = Question(node, _looked_through(node, key), mask)
            fault.complain(fault.suspect(compile_plan(question.recorded)))
        return fault

    def set_sum(self, number: int, adding: array[int]) -> None:
        """Notes where the first card that adds such results is noted."""
        at = (self.card[RESULT_TABLE // WORD] - self.address + RESULT * number) // WORD
        self.card[at + RESULT_ADD // WORD] = adding.buffer_info()[0]


# The piece that a card is of.
BY_CARD: WeakValueDictionary[int, Piece] = WeakValueDictionary()

# Places of tables on a card, which are written there as addresses.
_TABLES = [
    place // WORD
    for place in (
        KEY, KINDS, OUT_TABLE, RESULT_TABLE, MASK, PATTERN, REGISTERS, CODE, CODE_END, IMAGE, FILLS,
    )
]  # fmt: skip


def _card(question: Question, mould: Mould, sources: list[int]) -> list[int]:
    """A card, with the places of its tables where their addresses are going to be."""
    plan, mask = mould.plan, question.mask or []
    inputs = [i for i, wanted in enumerate(mask) if wanted]
    results: list[int] = []
    for number, source in enumerate(sources):
        results += [source, mould.results[number], inputs[number] if inputs else 0, 0]
    saved = [] if question.mask is None else [question.saved & 1, question.saved & 2]
    sizes, kinds = len(question.sizes), [int(x) for x in question.kinds]
    tables = {
        "key": question.key,
        "kinds": kinds,
        "outs": mould.outs,
        "results": results,
        "saved": saved,
        "mask": [int(x) for x in mask],
        "pattern": question.pattern,
        "registers": [0] * (sizes + len(mould.code)),
        "code": [word for instruction in mould.code for word in instruction],
        "image": mould.image if plan.steps else [],
        "fills": [word for fill in mould.fills for word in fill],
    }
    at, place = CARD // WORD, {}
    for name, table in tables.items():
        place[name] = at
        at += len(table)
    head = [
        0, plan.leaves, len(plan.buffers), len(sources), len(kinds),
        1 + plan.leaves + len(plan.buffers) + len(kinds),
        place["key"], place["kinds"], place["outs"], place["results"], place["mask"],
        place["pattern"], len(question.pattern), sizes, 0, 0,
        place["registers"], place["code"], place["image"], place["image"], len(tables["image"]),
        place["fills"], len(mould.fills), mould.scratch, mould.thread_scratch, -1, 0,
    ]  # fmt: skip
    return [*head, *[word for table in tables.values() for word in table]]


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


def _told(plan: Plan, number: int) -> tuple[str, Signature, list[Any]]:
    """What `explain()` says of a step: its kind, its kernel's signature, and the ops."""
    assert plan.notes is not None
    step, notes = plan.steps[number], plan.notes.steps[number]
    return step.kind, step.signature, [node.op for node in notes.nodes]


# ------------------------------------------------------------------------------- making them


def make_forward(node: Node, views: Sequence[Views]) -> Piece:
    """The piece that computes a node: a new one, or one that is now known to hold for it."""
    return _found_or_made(family_of(node), Question(node, views))


def make_backward(node: Node, views: Sequence[Views], mask: list[bool]) -> Piece:
    """The piece that computes the gradients of a node's inputs from that of its value."""
    return _found_or_made(family_of(node), Question(node, views, mask))


def _found_or_made(family: Family, question: Question) -> Piece:
    answering: list[Piece] = [piece for piece in family.pieces if question.is_answered_by(piece)]
    for piece in answering:
        if piece.holds(question) or (piece.prove(question) and piece.holds(question)):
            return piece
    if len(family.pieces) > _MOST_PIECES:
        raise Unfit
    spoilt = any([piece.is_spoilt for piece in answering])
    mould = _mould(question, spoilt)
    if len(mould.image) > MOST_WORDS:
        raise Unfit
    piece = Piece(question, mould)
    family.pieces.append(piece)
    which = "forward" if question.mask is None else "backward"
    piece.card[NEXT // WORD] = getattr(family, which)
    setattr(family, which, piece.address)
    return piece


# Of one family: there may be some for which only their own sizes are proven.
_MOST_PIECES = 256


def _mould(question: Question, spoilt: bool) -> Mould:
    if any([node.op.kind == "host" for node in question.recorded.nodes]):
        raise Unfit
    if not question.sizes or spoilt:
        return fixed(question.recorded, question.sizes)
    try:
        with original_functions():
            return learn(question.recorded, question.sizes)
    except Exception:  # as in compiler/sizes.py: there are ordinary plans
        return fixed(question.recorded, question.sizes)


class Adding:
    """The pieces that add two gradients of one dtype; where the first card is noted."""

    def __init__(self) -> None:
        self.first = array("q", [0])
        self.family = Family()


_adding: dict[DType, Adding] = {}


def adding(meta: Meta) -> array[int]:
    """Where the first card that adds gradients of this kind is noted; there is one for the size.

    What they look like does not matter: they lie in memory as vectors.
    """
    found = _adding.setdefault(meta.dtype, Adding())
    flat = meta_of((meta.numel,), meta.dtype)
    leaves = [_leaf_of(flat) for _ in range(2)]
    _, made = in_scratch(None, lambda: ew.add(*[wrap(x) for x in leaves]))
    question = Question(made[-1], [[], []])
    _found_or_made(found.family, question)
    found.first[0] = found.family.forward
    return found.first


def _leaf_of(meta: Meta) -> Node:
    spec = LEAF.cache.get(meta) or LEAF.remember(meta, (), (), meta)
    return make_node(spec, (), (), None)


# -------------------------------------------------------------------- what a family is to the list


def find_role(node: Node) -> int:
    """Fills in what a node's family is to the list."""
    family = family_of(node)
    family.role = _role(node)
    return family.role


def _role(node: Node) -> int:
    kind = node.op.kind
    if kind == "gradient":
        return GRADIENT
    if kind == "gradient_of":
        return GRADIENT_OF
    if kind in ("host", "update") or node.meta.dtype.is_complex or node.op.inserted:
        return UNFIT
    if kind in ("elementwise", "generate"):
        return COMPUTED
    if kind == "kernel" and (not node.inputs or node.inputs[0].meta.plain is not node.meta.plain):
        return COMPUTED  # it is no other value of which a part is changed
    try:
        piece = make_forward(node, [[] for _ in node.inputs])
    except Unfit:
        return UNFIT
    if piece.is_alias:
        return ALIAS
    if piece.writes:
        return WRITES
    return VIEW if kind == "movement" and len(node.inputs) == 1 else COMPUTED


def find_saved(node: Node) -> int:
    """Fills in which values the gradient of a node is made from: 1 inputs, 2 its own."""
    family, saves = family_of(node), node.op.saves
    family.saved = ("x" in saves) + 2 * ("y" in saves)
    return family.saved
