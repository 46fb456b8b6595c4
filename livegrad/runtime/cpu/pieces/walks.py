"""The walk of a recorded backward pass, as tables that native code goes by."""

from __future__ import annotations

from array import array

from livegrad.graph.node import Node
from livegrad.runtime.cpu.pieces.calling import call_with_3
from livegrad.runtime.cpu.pieces.desk import Desk, Native
from livegrad.runtime.cpu.pieces.families import family_of
from livegrad.runtime.cpu.pieces.layout import MISSING_ROWS, WORD
from livegrad.runtime.cpu.pieces.linking import (
    GRADS,
    LINKS,
    ORDER,
    ORDERED,
    STARTS,
    WALK,
)
from livegrad.runtime.cpu.pieces.uses import WAITING_WORDS


class Walk:
    """A walk, and the memory of its tables: see linking.py. `targets` is the address of one.

    It may need so many `blocks` of the arena. `is_pending` says that no node had its value before.
    """

    def __init__(self, gradient: Node, code: Native, desk: Desk) -> None:
        # Whoever recorded one has imported it.
        from livegrad.autograd.pending import recorded_walk

        recorded = recorded_walk(gradient)
        self.interior: list[Node] = recorded.interior
        count, leaves = len(self.interior), len(recorded.leaves)
        total = count + leaves
        self.rows = array("q", bytes(WORD * count))
        rows = self.rows.buffer_info()[0]
        edges = call_with_3(code.find_rows, desk.address, id(self.interior), rows)
        computed = desk[MISSING_ROWS] // WORD
        self.is_pending = not computed
        # A block for each contribution and each sum, all of which there may be at a time.
        self.blocks = 2 * edges + total
        known = 2 * (leaves + computed) + 1
        uses = WAITING_WORDS * leaves
        # links, starts, order, grads, coming, waiting, targets of leaves, numbers by node, uses,
        # rows of what is not pending
        sizes = (
            edges, count + 1, count, total, total, total, leaves, 2 * known, uses,
            computed,
        )  # fmt: skip
        self.memory = array("q", bytes(WALK + WORD * sum(sizes)))
        self.address = at = self.memory.buffer_info()[0]
        at += WALK
        tables = []
        for size in sizes:
            tables.append(at)
            at += WORD * size
        links, starts, order, grads, coming, waiting, self.targets, numbers, united, *more = tables
        words = (
            id(self.interior), count, links, starts, order, 0, grads, coming, waiting,
            self.targets, numbers, known, united, rows, *more,
        )  # fmt: skip
        self.memory[: len(words)] = array("q", words)
        number = 0 if computed else count
        while number < count:
            number = call_with_3(code.put_rows, desk.address, self.address, number)
            if number < count:
                family_of(self.interior[number])
        call_with_3(code.link_up, desk.address, self.address, id(recorded.leaves))

    def _table(self, place: int) -> int:
        """Where a table begins in the memory."""
        return (self.memory[place // WORD] - self.address) // WORD

    def set_seed(self, address: int) -> None:
        """Sets the gradient that enters at the end."""
        self.memory[self._table(GRADS)] = address

    @property
    def ordered(self) -> int:
        """How many nodes the order has."""
        return self.memory[ORDERED // WORD]

    def number_at(self, place: int) -> int:
        """The interior node at a place of the order."""
        return self.memory[self._table(ORDER) + place]

    def mask(self, number: int) -> list[bool]:
        """Of an interior node, for which inputs a gradient is wanted."""
        first = self._table(LINKS) + self.memory[self._table(STARTS) + number]
        links = self.memory[first : first + len(self.interior[number].inputs)]
        return [link >= 0 for link in links]
