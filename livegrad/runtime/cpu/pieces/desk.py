"""The memory that native code lists pieces in, and the addresses of that code."""

from __future__ import annotations

import contextlib
from array import array
from typing import Any

from livegrad.native.calls import call_native
from livegrad.native.collector import lasting
from livegrad.native.layout import is_known
from livegrad.native.subset import Untranslatable
from livegrad.runtime.cpu.background import Making, is_possible
from livegrad.runtime.cpu.pieces import (
    filling,
    linking,
    listing,
    matching,
    pulling,
    rows,
    survey,
    uses,
)
from livegrad.runtime.cpu.pieces.layout import (
    ADD,
    ADDS,
    BLOCK,
    BLOCKS,
    DEPTHS,
    DESK_BYTES,
    ENTRIES,
    ENTRIES_END,
    ENTRY,
    FOUND,
    FREE,
    GENERATION,
    IMAGES,
    IMAGES_END,
    KEPT,
    KNOWN,
    MADE,
    MEASURED,
    MOST_CLASSES,
    NUMBERED,
    ROWS,
    SCALARS,
    SCALARS_END,
    STRUCTURE,
    STRUCTURE_END,
    TAPE,
    TAPE_END,
    TARGETS,
    USES,
    VALUES,
    WORD,
    WORDS,
    WORDS_END,
)
from livegrad.runtime.cpu.pieces.matching import KNOWN_CARDS, KNOWN_WORDS
from livegrad.runtime.cpu.translations import are_stored, can_store, words

FUNCTIONS: Any = [
    *rows.FUNCTIONS, *filling.FUNCTIONS, *matching.FUNCTIONS, *listing.FUNCTIONS,
    *survey.FUNCTIONS, *uses.FUNCTIONS, *linking.FUNCTIONS, *pulling.FUNCTIONS,
]  # fmt: skip
KIND = "pieces"  # what they are known as on disk


class Native:
    """The addresses of the functions of words."""

    def __init__(self) -> None:
        found = words(FUNCTIONS, KIND)
        self.is_for_sizes = found[filling.is_for_sizes]
        self.begin = found[survey.begin]
        self.read_rows = found[rows.read_rows]
        self.mark_kept = found[survey.mark_kept]
        self.keep_for_backward = found[survey.keep_for_backward]
        self.write_structure = found[survey.write_structure]
        self.count_uses = found[survey.count_uses]
        self.list_nodes = found[listing.list_nodes]
        self.list_place = found[listing.list_place]
        self.find_rows = found[linking.find_rows]
        self.put_rows = found[linking.put_rows]
        self.link_up = found[linking.link_up]
        self.find_order = found[linking.find_order]
        self.count_saved = found[pulling.count_saved]
        self.list_gradients = found[pulling.list_gradients]


class Known:
    """The native functions, once they have been made: by another process, on a new machine."""

    native: Native | None = None
    cannot_be_had = False
    made_by: Making | None = None


def native(waits: bool = False) -> Native | None:
    """The native functions; None if they cannot be had (yet): then plans do the work.

    There may be no source files. What is not on disk is made by another process meanwhile, unless
    somebody `waits` for it.
    """
    if Known.native is None and not Known.cannot_be_had and (waits or _are_made()):
        with lasting(), contextlib.suppress(Untranslatable, OSError):
            Known.native = Native() if is_known() else None
        Known.cannot_be_had = Known.native is None
    return Known.native


def _are_made() -> bool:
    """Whether the code is on disk, or can only be made here; else another process is at it."""
    if Known.made_by is not None:
        return Known.made_by.is_over()
    if are_stored(FUNCTIONS, KIND) or not can_store() or not is_possible():
        return True
    Known.made_by = Making(_SOURCE)
    return False


_SOURCE = "from livegrad.runtime.cpu.pieces.desk import native; native(waits=True)"


# Repeated, it is new memory that is written once.
ZERO = array("q", [0])
# Tables with an entry per pending node.
_BY_PLACE = (VALUES, USES, TARGETS, DEPTHS, KEPT, ROWS, NUMBERED)
# Lists, with the place on the desk where the end of each is told.
_LISTS = (
    (ENTRIES, ENTRIES_END), (WORDS, WORDS_END), (SCALARS, SCALARS_END), (IMAGES, IMAGES_END),
)  # fmt: skip
# Words of each for one entry, on the average.
_PER_ENTRY = (ENTRY // WORD, 16, 4, 64)
_GENERATION, _ENTRIES = GENERATION // WORD, ENTRIES // WORD
# There is room for few at first: memory costs when it is first written to.
_FIRST_ENTRIES, _MOST_ENTRIES = 256, 4096
# Of one program: there is room for some on the list.
MOST_WORDS = 8 * _MOST_ENTRIES


class Desk:
    """What native code reads and writes while it lists the pieces of a flush: see layout.py.

    There is one for all flushes, which take turns.
    """

    def __init__(self) -> None:
        self.head = array("q", bytes(DESK_BYTES))
        self.address = self.head.buffer_info()[0]
        self.tables: dict[int, array[int]] = {}
        self.room = 0
        self.make_room(256)
        self.entries = 0
        self.lengthen_list()
        self._put_table(FREE, MOST_CLASSES)
        self._put_table(KNOWN, KNOWN_CARDS * KNOWN_WORDS)
        self.tape = 0
        self.lengthen_tape()
        self._put_table(BLOCKS, BLOCK)
        self.room_for_piece = 0
        self.fit(64)

    def _put_table(self, place: int, words: int) -> None:
        table = self.tables[place] = ZERO * words
        self[place] = table.buffer_info()[0]

    def __getitem__(self, place: int) -> int:
        return self.head[place // WORD]

    def __setitem__(self, place: int, word: int) -> None:
        self.head[place // WORD] = word

    def make_room(self, nodes: int) -> None:
        """Makes room for so many pending nodes."""
        if nodes > self.room:
            self.room = 2 * nodes
            for table in _BY_PLACE:
                self._put_table(table, self.room)
            self._put_table(STRUCTURE, 8 * self.room)
            self[STRUCTURE_END] = self[STRUCTURE] + WORD * 8 * self.room

    def lengthen_tape(self) -> None:
        """Makes room for more rows, none of which is written yet."""
        self.tape = 2 * self.tape or 4096
        self._put_table(TAPE, self.tape)
        self._tape_begins = self[TAPE]
        self[TAPE_END] = self._tape_begins + WORD * self.tape

    def rewind_tape(self) -> None:
        """Starts with the first row anew."""
        self[TAPE] = self._tape_begins

    def make_blocks(self, most: int) -> None:
        """Makes room for so many blocks of the arena."""
        if BLOCK // WORD * most > len(self.tables[BLOCKS]):
            self._put_table(BLOCKS, 2 * BLOCK // WORD * most)

    def fit(self, words: int) -> None:
        """Makes room for what a piece with so many words on its card reads and makes."""
        if words > self.room_for_piece:
            self.room_for_piece = 2 * words
            self._put_table(FOUND, 2 * words)
            self._put_table(MADE, 2 * words)
            self._put_table(ADDS, ADD // WORD * 2 * words)
            self._put_table(MEASURED, 1 + 2 * words)

    def lengthen_list(self) -> bool:
        """Starts a longer list; False if it is as long as it may be."""
        if self.entries == _MOST_ENTRIES:
            return False
        self.entries = 4 * self.entries or _FIRST_ENTRIES
        self._bounds: list[tuple[int, int]] = []
        for (start, end), length in zip(_LISTS, _PER_ENTRY, strict=True):
            self._put_table(start, length * self.entries)
            address = self[start]
            limit = address + WORD * length * self.entries
            self._bounds += [(start // WORD, address), (end // WORD, limit)]
        self.first_entry = self[ENTRIES]
        self.empty_list()
        return True

    def empty_list(self) -> None:
        """Starts the list anew: what a flush listed and then gave up is gone."""
        head = self.head
        head[_GENERATION] += 1
        for place, word in self._bounds:
            head[place] = word

    @property
    def listed(self) -> int:
        """How many entries there are."""
        return (self.head[_ENTRIES] - self.first_entry) // ENTRY


DESK = Desk()


def holds_for(card: int, sizes: list[int]) -> bool:
    """Whether a card holds for sizes: it is proven, and its code does not refuse them."""
    code = native()
    assert code is not None
    table = DESK.tables[MEASURED]
    table[: 1 + len(sizes)] = array("q", [len(sizes), *sizes])
    return bool(call_native(code.is_for_sizes, DESK.address, card))
