"""Pieces: the program of one op by itself, or of its gradient, and what native code knows of it.

A piece is for a family of specs, and for how inputs are seen: computed, or through one or two
views. What it depends on besides, which gradients are wanted and the kinds of numbers, is on its
card, too; and which sizes are 0, 1, or equal.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

from livegrad.compiler.expand import in_scratch, make_node
from livegrad.dtypes import DType
from livegrad.graph.handle import LEAF, wrap
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.node import Node
from livegrad.ops.elementwise import arithmetic as ew
from livegrad.ops.products.outer_sums import add_outer
from livegrad.runtime.counters import counters
from livegrad.runtime.cpu.known import is_on, keep, look_up
from livegrad.runtime.cpu.pieces.desk import DESK, MOST_WORDS, holds_for
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
    MOST_SETS,
    NEXT,
    OUT_TABLE,
    PATTERN,
    PROVEN,
    PROVEN_COUNT,
    REGISTERS,
    RESULT,
    RESULT_ADD,
    RESULT_TABLE,
    RESULT_USES,
    SET_HEAD,
    SETS,
    UNFIT,
    USES_A,
    USES_B,
    USES_COLUMNS,
    USES_OFF,
    USES_ROWS,
    USES_WORDS,
    VIEW,
    WORD,
    WRITES,
)
from livegrad.runtime.cpu.pieces.moulds import Mould, Unfit, read_mould
from livegrad.runtime.cpu.pieces.questions import Question, Views, looked_through
from livegrad.runtime.cpu.pieces.uses import MOST_UNITED
from livegrad.runtime.fault import Fault

# -------------------------------------------------------------------------------------- pieces


class Piece:
    """A mould, and its card:

    node, its views ──► plan with symbols ──► mould ──► card: what the list is made from

    It is known to hold for the sizes that it is `proven` for; often enough compared with ordinary
    plans, `for_all`. What it gives for others is compared by means of its `outline`; a piece that
    is `for_few` has none.
    """

    def __init__(self, question: Question, mould: Mould, proof: Proof) -> None:
        self.known_by = question.known_by
        self.families = question.families  # their addresses are on the card
        self.mould = mould
        image, self.kernels = mould.linked()
        self.outline: Any = None
        self.proof = proof
        self.card = array("q", _card(question, mould, image))
        self.address = self.card.buffer_info()[0]
        self._link()
        self.writes = mould.writes
        self.is_alias = not mould.steps and mould.sources == [-1]
        BY_CARD[self.address] = self

    def _link(self) -> None:
        """Makes addresses of the places of tables."""
        for place in _TABLES:
            self.card[place] = self.address + WORD * self.card[place]
        self._note_proof()

    def _note_proof(self) -> None:
        """Notes on the card which sizes it is proven for."""
        proof = self.proof
        self._proven = array("q", [size for sizes in proof.proven for size in sizes])
        self.card[PROVEN // WORD] = self._proven.buffer_info()[0]
        self.card[PROVEN_COUNT // WORD] = ANY_SIZES if proof.for_all else len(proof.proven)

    def holds(self, question: Question) -> bool:
        """Whether it is proven for these sizes, and its code does not refuse them."""
        return holds_for(self.address, question.sizes)

    def prove(self, question: Question) -> bool:
        """Whether it holds for these sizes, too; proven often enough, it is taken to for all."""
        proof = self.proof
        if proof.for_few or proof.for_all:
            return False
        if self.outline is None:  # another process has learnt it
            self.outline = learning().relearnt(question, self.mould)
            if self.outline is None:
                return False
        is_so: bool | None = learning().is_planned_so(question, self.outline)
        if is_so is None:
            return False
        if is_so:
            proof.proven.append(question.sizes)
        proof.for_few = not is_so
        proof.for_all = is_so and len(proof.proven) > CHECKS
        if proof.for_few or proof.for_all:
            self.outline = None
        self._note_proof()
        return is_so

    def fault(self, node: Node, status: int, code: int, value: int) -> Fault:
        """What the program has refused when it was run for `node`, in the words of the op."""
        fault = Fault(status - 1, code=code, value=value)
        if code:
            key, _, _, mask = self.known_by
            # The nodes that the piece was made with have other sizes.
            question = Question(node, looked_through(node, key), mask)
            fault.complain(learning().suspect_of(question, fault))
        return fault

    def set_uses(self, number: int, table: array[int]) -> None:
        """Notes the table of uses of a result: see uses.py."""
        at = (self.card[RESULT_TABLE // WORD] - self.address + RESULT * number) // WORD
        self.card[at + RESULT_USES // WORD] = table.buffer_info()[0]

    def set_sum(self, number: int, adding: array[int]) -> None:
        """Notes where the first card that adds such results is noted."""
        at = (self.card[RESULT_TABLE // WORD] - self.address + RESULT * number) // WORD
        self.card[at + RESULT_ADD // WORD] = adding.buffer_info()[0]


class Proof:
    """The sizes that a piece was compared with plans for; whether it is taken to hold for all
    sizes, or is known to hold for those alone."""

    def __init__(
        self, proven: list[list[int]], for_all: bool = False, for_few: bool = False
    ) -> None:
        self.proven, self.for_all, self.for_few = proven, for_all, for_few


# How often it is compared with plans for other sizes.
CHECKS = 3


def learning() -> Any:
    """What learns, with the compiler, which is imported for what is on no disk."""
    from livegrad.runtime.cpu.pieces import learning

    return learning


# The piece that a card is of.
BY_CARD: WeakValueDictionary[int, Piece] = WeakValueDictionary()

# Places of tables on a card, which are written there as addresses.
_TABLES = [
    place // WORD
    for place in (
        KEY, KINDS, OUT_TABLE, RESULT_TABLE, MASK, PATTERN, REGISTERS, SETS, CODE, CODE_END, IMAGE,
        FILLS,
    )
]  # fmt: skip


def _card(question: Question, mould: Mould, image: list[int]) -> list[int]:
    """A card, with the places of its tables where their addresses are going to be."""
    mask = question.mask or []
    inputs = [i for i, wanted in enumerate(mask) if wanted]
    results: list[int] = []
    for number, source in enumerate(mould.sources):
        results += [source, mould.results[number], inputs[number] if inputs else 0, 0, 0]
    saved = [] if question.mask is None else [question.saved & 1, question.saved & 2]
    sizes, kinds, outs = len(question.sizes), [int(x) for x in question.kinds], len(mould.outs)
    tables = {
        "key": question.key,
        "kinds": kinds,
        "outs": mould.outs,
        "results": results,
        "saved": saved,
        "mask": [int(x) for x in mask],
        "pattern": question.pattern,
        "registers": [-1, 0, 0, *[0] * (sizes + len(mould.code))] * MOST_SETS,
        "code": [word for instruction in mould.code for word in instruction],
        "image": image if mould.steps else [],
        "fills": [word for fill in mould.fills for word in fill],
    }
    at, place = CARD // WORD, {}
    for name, table in tables.items():
        place[name] = at
        at += len(table)
    head = [
        0, mould.leaves, outs, len(mould.sources), len(kinds),
        1 + mould.leaves + outs + len(kinds),
        place["key"], place["kinds"], place["outs"], place["results"], place["mask"],
        place["pattern"], len(question.pattern), sizes, 0, 0,
        place["registers"] + SET_HEAD // WORD, place["code"], place["image"], place["image"],
        len(tables["image"]), place["fills"], len(mould.fills), mould.scratch,
        mould.thread_scratch, place["registers"], WORD * len(tables["registers"]) // MOST_SETS, 0,
    ]  # fmt: skip
    return [*head, *[word for table in tables.values() for word in table]]


# ------------------------------------------------------------------------------- making them


def make_forward(node: Node, views: Sequence[Views]) -> Piece:
    """The piece that computes a node: a new one, or one that is now known to hold for it."""
    return _found_or_made(family_of(node), Question(node, views))


def make_backward(node: Node, views: Sequence[Views], mask: list[bool]) -> None:
    """The piece that computes the gradients of a node's inputs from that of its value."""
    family, question = family_of(node), Question(node, views, mask)
    _found_or_made(family, question)
    wanted = [x.meta.plain for x, is_wanted in zip(node.inputs, mask, strict=True) if is_wanted]
    sums = [adding(meta) for meta in wanted]
    # Of all that answer: which of them is taken, native code decides.
    for piece in _answering(family, question):
        for number, noted in enumerate(sums):
            piece.set_sum(number, noted)
        uses = uses_of(question)
        if uses is not None:
            piece.set_uses(*uses)


class Unlearnt(Exception):
    """A piece is not known yet, and is not to be learnt before other ways have been looked for."""


class Learning:
    """Whether pieces may be learnt now, which takes the planner and perhaps LLVM."""

    allowed = True


def _found_or_made(family: Family, question: Question) -> Piece:
    """The piece that answers: in memory, on disk, or learnt now."""
    answering = _answering(family, question) or _load(family, question)
    for piece in answering:
        if piece.holds(question):
            return piece
    if not Learning.allowed:
        raise Unlearnt
    for piece in answering:
        if piece.prove(question) and piece.holds(question):
            _store(question, answering)
            return piece
    if len(family.pieces) > _MOST_PIECES:
        raise Unfit
    piece = _learn(family, question, any([piece.proof.for_few for piece in answering]))
    _store(question, [*answering, piece])
    return piece


def _answering(family: Family, question: Question) -> list[Piece]:
    """The pieces that are for such nodes, if they hold for their sizes."""
    return [piece for piece in family.pieces if piece.known_by == question.known_by]


# Of one family: there may be some for which only their own sizes are proven.
_MOST_PIECES = 256


def _learn(family: Family, question: Question, spoilt: bool) -> Piece:
    try:
        mould, outline = learning().learn(question, spoilt)
        if len(mould.image) > MOST_WORDS:
            raise Unfit
    except Unfit:
        _store(question, [])
        raise
    proof = Proof([question.sizes], for_few=outline is None)
    piece = _add(family, question, mould, proof)
    piece.outline = outline
    counters.pieces_made += 1
    return piece


def _add(family: Family, question: Question, mould: Mould, proof: Proof) -> Piece:
    """A new piece of a family, the first that native code meets."""
    piece = Piece(question, mould, proof)
    DESK.fit(len(piece.card))
    family.pieces.append(piece)
    which = "forward" if question.mask is None else "backward"
    piece.card[NEXT // WORD] = getattr(family, which)
    setattr(family, which, piece.address)
    return piece


# ------------------------------------------------------------------------------- between processes


def _load(family: Family, question: Question) -> list[Piece]:
    """The pieces that another process has stored for such nodes; Unfit if it found there are none.

    For each its mould and its proof.
    """
    text = question.text() if is_on() else None
    stored = None if text is None else look_up("piece", text)
    if stored is None:
        return []
    told = json.loads(stored)
    if not told:
        raise Unfit
    found = [(read_mould(mould), Proof(*proof)) for mould, proof in told]
    pieces = [_add(family, question, *each) for each in found]
    counters.pieces_loaded += len(pieces)
    return pieces


def _store(question: Question, pieces: list[Piece]) -> None:
    """Stores all that answers a question; nothing if nothing can."""
    text = question.text() if is_on() and len(pieces) <= _MOST_STORED else None
    if text is not None:
        told = [[x.mould.plain(), list(vars(x.proof).values())] for x in pieces]
        keep("piece", text, json.dumps(told, separators=(",", ":")).encode())


# Of one kind: more are for many sizes one by one, and are learnt anew.
_MOST_STORED = 16


class Adding:
    """The pieces that add two gradients of one dtype; where the first card is noted, and for how
    many elements there is one."""

    def __init__(self) -> None:
        self.first = array("q", [0])
        self.family = Family()
        self.elements: set[int] = set()


_adding: dict[DType, Adding] = {}


def adding(meta: Meta) -> array[int]:
    """Where the first card that adds gradients of this kind is noted; there is one for the size.

    What they look like does not matter: they lie in memory as vectors.
    """
    found = _adding.setdefault(meta.dtype, Adding())
    if meta.numel not in found.elements:
        flat = meta_of((meta.numel,), meta.dtype)
        leaves = [_leaf_of(flat) for _ in range(2)]
        _, made = in_scratch(None, lambda: ew.add(*[wrap(x) for x in leaves]))
        _found_or_made(found.family, Question(made[-1], [[], []]))
        found.first[0] = found.family.forward
        found.elements.add(meta.numel)
    return found.first


# Tables of uses, by dtype and which two of the values that are read are the rows.
_uses: dict[tuple[DType, int, int], array[int]] = {}


def uses_of(question: Question) -> tuple[int, array[int]] | None:
    """The result of a gradient that is an outer product of rows, and the table of such uses."""
    node, mask, outer = question.node, question.mask, question.node.op.outer
    if outer is None or mask is None or not mask[outer[0]] or node.meta.dtype.is_complex:
        return None
    weight, *rows = outer
    read = [node if i < 0 else node.inputs[i] for i in rows]
    if any([x.meta.ndim > 2 or x.meta.shape[:-1] not in ((), (1,)) for x in read]):
        return None
    if question.looks[weight]:
        return None
    a, b = [1 + i for i in rows]
    table = _uses.setdefault((node.meta.dtype, a, b), array("q", [0] * USES_WORDS))
    table[USES_A // WORD], table[USES_B // WORD] = a, b
    return sum(mask[:weight]), table


def provide_wanted_sums() -> bool:
    """Makes the pieces that native code has asked for to add up uses; False if it has not."""
    provided = False
    for (dtype, *_), table in _uses.items():
        rows, columns = table[USES_ROWS // WORD], table[USES_COLUMNS // WORD]
        if rows:
            provided = True
            table[USES_ROWS // WORD] = 0
            for slot in range(4):
                try:
                    table[slot] = _make_sums(dtype, rows, columns, MOST_UNITED >> slot)
                except Unfit:
                    table[USES_OFF // WORD] = 1
    return provided


def _make_sums(dtype: DType, rows: int, columns: int, count: int) -> int:
    """The first of the cards that add so many outer products to a matrix, one for these sizes."""
    sizes = [(rows, columns), *[(1, rows), (1, columns)] * count]
    leaves = [_leaf_of(meta_of(shape, dtype)) for shape in sizes]
    _, made = in_scratch(None, lambda: add_outer(*[wrap(x) for x in leaves]))
    family = family_of(made[-1])
    _found_or_made(family, Question(made[-1], [[] for _ in leaves]))
    return family.forward


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
    if kind == "host" or node.meta.dtype.is_complex or node.op.inserted:
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
