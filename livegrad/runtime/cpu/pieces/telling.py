"""What a flush did piece by piece, for `explain()` and whoever listens to events."""

from __future__ import annotations

from array import array
from functools import cached_property
from types import SimpleNamespace
from typing import Any, ClassVar

from livegrad.compiler.plan import Notes, Plan, Step, StepNotes
from livegrad.graph.events import RECORDED, numbers_of_nodes
from livegrad.graph.node import Node, Site, Spec
from livegrad.native.calls import fetch_item
from livegrad.native.hot import hot
from livegrad.runtime.cpu.pieces.layout import ENTRY, ENTRY_CARD, ENTRY_PLACE, WORD
from livegrad.runtime.cpu.pieces.making import BY_CARD
from livegrad.runtime.cpu.pieces.moulds import Told


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
        # Uses of weights whose gradients were added up several at a time.
        self.united = 0

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
        width = ENTRY // WORD
        return [
            self.entries[at + ENTRY_PLACE // WORD]
            for at in range(0, len(self.entries), width)
            for _ in _steps_of(self.entries[at + ENTRY_CARD // WORD])
        ]

    @cached_property
    def plan(self) -> Plan:
        """What ran, as the steps of a plan."""
        steps, notes = [], []
        width = ENTRY // WORD
        for at in range(0, len(self.entries), width):
            place, card = [self.entries[at + x // WORD] for x in (ENTRY_PLACE, ENTRY_CARD)]
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


_AHEAD = 8  # nodes are fetched some time before they are looked at


@hot
def _note(nodes: list[Node], count: int, sites: list[Site | None], specs: list[Spec]) -> None:
    for place in range(count):
        if place + _AHEAD < count:
            fetch_item(nodes, place + _AHEAD)
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
