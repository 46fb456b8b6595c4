"""What a flush did piece by piece, for `explain()` and whoever listens to events."""

from __future__ import annotations

from array import array
from functools import cached_property
from types import SimpleNamespace
from typing import Any, ClassVar

from livegrad.compiler.plan import Notes, Plan, Step, StepNotes
from livegrad.graph.events import FLUSHING, RECORDED, numbers_of_nodes
from livegrad.graph.node import Node, Site, Spec
from livegrad.native.calls import AHEAD, fetch_item
from livegrad.native.hot import hot
from livegrad.runtime.cpu.pieces.desk import Desk
from livegrad.runtime.cpu.pieces.layout import (
    BASE,
    BLOCKS,
    BLOCKS_MADE,
    ENTRIES,
    ENTRY,
    ENTRY_CARD,
    ENTRY_PLACE,
    TOP,
    WORD,
    WORDS,
)
from livegrad.runtime.cpu.pieces.lives import Lived, blocks_of, lives_of, used_by
from livegrad.runtime.cpu.pieces.making import BY_CARD
from livegrad.runtime.cpu.pieces.moulds import Told

# Of longer lists it is not noted which memory each entry reads and writes.
_MOST_LIVES = 200_000


class Listed:
    """A list that has run. It stands where an Executable stands for a whole plan in events.

    What it says is put together when somebody asks: the entries of the list are copied as they are.
    """

    def __init__(self, nodes: list[Node], count: int, why: str) -> None:
        self.why = why
        self.sites: list[Site | None] = []
        self.specs: list[Spec] = []
        _note(nodes, count, self.sites, self.specs)
        self.numbers = numbers_of_nodes(nodes[:count]) if RECORDED else ()
        self.entries: array[int] = array("q")
        self.arena = 0
        # For each entry what it reads and writes, and blocks of the arena, if somebody looks.
        self._used: list[tuple[list[int], list[int]]] = []
        self._blocks: dict[int, int] = {}
        # By address: the place of a node whose value is kept, and its bytes.
        self._kept: dict[int, tuple[int, int]] = {}
        # Uses of weights whose gradients were added up several at a time.
        self.united = 0

    def take(self, desk: Desk, kept: list[tuple[Node, Any]]) -> None:
        """Copies the list, which is about to be run; `kept` are nodes and buffers for them."""
        words = desk.listed * (ENTRY // WORD)
        self.entries.frombytes(memoryview(desk.tables[ENTRIES]).cast("B")[: WORD * words])
        self.arena = desk[TOP]
        if FLUSHING and len(self.entries) <= _MOST_LIVES * (ENTRY // WORD):
            self._used += used_by(desk.tables[ENTRIES][:words], desk.tables[WORDS])
            self._blocks = blocks_of(desk.tables[BLOCKS], desk[BLOCKS_MADE])
            base = desk[BASE]
            self._kept = {x.ptr: (node.index - base, node.meta.nbytes) for node, x in kept}

    def steps_by(self, card: int) -> list[Told]:
        """What the steps of an entry with such a card are."""
        return _steps_of(card)

    @property
    def entry_cards(self) -> array[int]:
        """The card of each entry."""
        return self.entries[ENTRY_CARD // WORD :: ENTRY // WORD]

    @property
    def entry_places(self) -> array[int]:
        """The place of the node that each entry belongs to."""
        return self.entries[ENTRY_PLACE // WORD :: ENTRY // WORD]

    @property
    def lives(self) -> list[Lived]:
        """The values that steps hand on in memory, as far as somebody has looked."""
        steps = [len(_steps_of(card)) for card in self.entry_cards]
        return lives_of(self._used, list(self.entry_places), steps, self._blocks, self._kept)

    # Its kernels are many and small.
    is_timed = False
    # A plan found again has sites of its first time; these are of now.
    places: ClassVar[dict[int, int]] = {}

    def how(self, hit: bool) -> str:
        """How it was run."""
        merged = f"; gradients of {self.united} uses of weights merged" if self.united else ""
        return f"piece by piece: {self.why}{merged}"

    @property
    def runnable(self) -> Listed:
        """Who has the times of steps."""
        return self

    def step_times(self) -> list[float | None]:
        """Entries of a list are not timed one by one."""
        return [None] * len(self.plan.steps)

    @cached_property
    def step_places(self) -> list[int]:
        """For each step, the place of the node it belongs to; -1 for sums of gradients."""
        entries = zip(self.entry_places, self.entry_cards, strict=True)
        return [place for place, card in entries for _ in _steps_of(card)]

    @cached_property
    def plan(self) -> Plan:
        """What ran, as the steps of a plan."""
        steps, notes = [], []
        for place, card in zip(self.entry_places, self.entry_cards, strict=True):
            found = self.specs[place] if place >= 0 else None
            site = self.sites[place] if place >= 0 else None
            for told in _steps_of(card):
                shape = () if found is None else found.meta.shape
                steps.append(Step(told.kind, shape, signature=told.signature))
                notes.append(StepNotes([_named(op, site) for op in told.ops], {}))
        return Plan(
            steps,
            [],
            [],
            [],
            [],
            self.arena,
            0,
            0,
            0,
            0,
            [],
            notes=Notes(notes, list(self.sites), []),
        )


@hot
def _note(nodes: list[Node], count: int, sites: list[Site | None], specs: list[Spec]) -> None:
    for place in range(count):
        if place + AHEAD < count:
            fetch_item(nodes, place + AHEAD)
        node = nodes[place]
        sites.append(node.site)
        specs.append(node.spec)


def _steps_of(card: int) -> list[Told]:
    """What an entry's steps are; a copy has no card."""
    piece = BY_CARD.get(card)
    return [Told("copy", (), [], [])] if piece is None else piece.mould.steps


def _named(op: str, site: Site | None) -> Any:
    """What stands for a node in notes: some ops are known to the compiler only."""
    return SimpleNamespace(op=SimpleNamespace(name=op), site=site)
