"""The walk of a recorded backward pass, as tables that native code goes by."""

from __future__ import annotations

from livegrad.graph.node import Node
from livegrad.native.calls import put_word, quotient, word_at
from livegrad.native.hot import hot
from livegrad.runtime.cpu.pieces.calling import call_with_3
from livegrad.runtime.cpu.pieces.desk import ZERO, Desk, Native
from livegrad.runtime.cpu.pieces.families import family_of
from livegrad.runtime.cpu.pieces.layout import MISSING_ROWS, WORD
from livegrad.runtime.cpu.pieces.linking import (
    COMING,
    GRADS,
    INTERIOR,
    KNOWN,
    LEAF_TARGETS,
    LINKS,
    NODE_ROWS,
    NUMBERS,
    ORDER,
    ORDERED,
    SIZES,
    STARTS,
    TAPE_OF_WALK,
    WAITING,
    WAITING_USES,
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
        self.rows = ZERO * count
        rows = self.rows.buffer_info()[0]
        edges = call_with_3(code.find_rows, desk.address, id(self.interior), rows)
        computed = desk[MISSING_ROWS] // WORD
        self.is_pending = not computed
        # A block for each contribution and each sum, all of which there may be at a time.
        self.blocks = 2 * edges + total
        self.memory = ZERO * _words(edges, count, leaves, computed)
        self.address = self.memory.buffer_info()[0]
        self.targets = _lay_out(self.address, self.interior, rows, edges, leaves, computed)
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


@hot
def _known(leaves: int, computed: int) -> int:
    """For how many nodes there is room in a table by address."""
    return 2 * (leaves + computed) + 1


@hot
def _words(edges: int, count: int, leaves: int, computed: int) -> int:
    """How many words a walk takes, with its tables."""
    by_node = edges + 5 * count + 1 + computed
    by_leaf = 4 * leaves + WAITING_WORDS * leaves
    return quotient(WALK, WORD) + by_node + by_leaf + 2 * _known(leaves, computed)


@hot
def _lay_out(
    walk: int, interior: list[Node], rows: int, edges: int, leaves: int, computed: int
) -> int:
    """Writes where the tables of a walk begin; where that of the leaves' targets does."""
    count = len(interior)
    total = count + leaves
    known = _known(leaves, computed)
    put_word(walk + INTERIOR, id(interior))
    put_word(walk + SIZES, count)
    put_word(walk + ORDERED, 0)
    put_word(walk + KNOWN, known)
    put_word(walk + NODE_ROWS, rows)
    at = walk + WALK
    for place, words in (
        (LINKS, edges),
        (STARTS, count + 1),
        (ORDER, count),
        (GRADS, total),
        (COMING, total),
        (WAITING, total),
        (LEAF_TARGETS, leaves),
        (NUMBERS, 2 * known),
        (WAITING_USES, WAITING_WORDS * leaves),
        (TAPE_OF_WALK, computed),
    ):
        put_word(walk + place, at)
        at += WORD * words
    return word_at(walk + LEAF_TARGETS)
