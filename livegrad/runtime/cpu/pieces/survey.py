"""Looks at what is pending, natively: what is kept, which structure it is, what is needed.

Functions of words and lent objects (native/words.py), as those that list pieces.
"""

from __future__ import annotations

from typing import Any

from livegrad.graph.node import Node, Spec
from livegrad.native.calls import int_at, object_at, put_word, word_at
from livegrad.native.layout import ITEMS
from livegrad.runtime.cpu.follow import references, stands_for
from livegrad.runtime.cpu.pieces.families import Family
from livegrad.runtime.cpu.pieces.layout import (
    ALIAS,
    BASE,
    BLOCKS_MADE,
    COMPUTED,
    COUNT,
    DEPTHS,
    FREE,
    GRADIENT_OF,
    INPUT_PLACE,
    KEPT,
    KEPT_MADE,
    MOST_CLASSES,
    MOST_COPIED,
    ROW_COUNT,
    ROW_INPUTS,
    ROW_SPEC,
    SCRATCH_NEEDED,
    STRUCTURE,
    STRUCTURE_END,
    TARGETS,
    THREAD_SCRATCH_NEEDED,
    TOP,
    UNITED,
    USES,
    VALUES,
    VIEW,
    WORD,
    WRITES,
)
from livegrad.runtime.cpu.pieces.rows import (
    elements,
    entry_of,
    input_of,
    role_at,
    role_in,
    row_at,
    set_entry,
)
from livegrad.runtime.liveness import is_claim, is_kept


def begin(desk: int, base: int, count: int) -> int:
    """Clears the desk for a flush."""
    put_word(desk + BASE, base)
    put_word(desk + COUNT, count)
    for i in range(count):
        set_entry(desk, VALUES, i, 0)
        set_entry(desk, USES, i, 0)
        set_entry(desk, TARGETS, i, 0)
        set_entry(desk, DEPTHS, i, 0)
    for i in range(MOST_CLASSES):
        set_entry(desk, FREE, i, 0)
    put_word(desk + BLOCKS_MADE, 0)
    put_word(desk + TOP, 0)
    put_word(desk + KEPT_MADE, 0)
    put_word(desk + SCRATCH_NEEDED, 0)
    put_word(desk + THREAD_SCRATCH_NEEDED, 0)
    put_word(desk + UNITED, 0)
    return 0


# ------------------------------------------------------------------------------- what is kept


def mark_kept(desk: int, nodes: int, handles: int) -> int:
    """Marks what the program can still see; whether a graph that backward may walk is kept."""
    items, holders, claims = word_at(nodes + ITEMS), word_at(handles + ITEMS), 0
    for i in range(word_at(desk + COUNT)):
        node: Node = object_at(items + WORD * i)
        handle: Any = object_at(holders + WORD * i)
        # Only the pending list is ours.
        if is_kept(references(handle) - 1, stands_for(handle), node):
            set_entry(desk, TARGETS, i, 1)
            if is_claim(node):
                claims = 1
    return claims


def keep_for_backward(desk: int, nodes: int, place: int) -> int:
    """From `place` down, marks what rules read of graphs that backward may still walk.

    The place where Python is needed, or -1. That a node is claimed is noted among the depths.
    """
    items = word_at(nodes + ITEMS)
    while place >= 0:
        node: Node = object_at(items + WORD * place)
        claimed = entry_of(desk, DEPTHS, place)
        if claimed == 0 and entry_of(desk, TARGETS, place) != 0 and is_claim(node):
            claimed = 1
        if claimed != 0:
            spec: Spec = node.spec
            if spec.family is None:
                return place
            family: Family = spec.family
            saved, role = int_at(id(family.saved)), int_at(id(family.role))
            if saved < 0 or role < 0:
                return place
            if saved >= 2 and role != VIEW:
                set_entry(desk, TARGETS, place, 1)
            claim_inputs(desk, row_at(desk, place), saved == 1 or saved == 3)
            set_entry(desk, DEPTHS, place, 0)
        place -= 1
    return -1


def claim_inputs(desk: int, row: int, saves: bool) -> int:
    """Marks the inputs of a claimed node as claimed, and as kept if its rules read them.

    Of a view, what it is a view of is kept: who needs it looks again.
    """
    for i in range(word_at(row + ROW_COUNT)):
        x: Node = object_at(input_of(row, i))
        place = word_at(input_of(row, i) + INPUT_PLACE)
        if place >= 0 and is_claim(x):
            set_entry(desk, DEPTHS, place, 1)
        while saves and place >= 0:
            if role_at(desk, place) != VIEW:
                set_entry(desk, TARGETS, place, 1)
                place = -1
            else:
                place = word_at(row_at(desk, place) + ROW_INPUTS + INPUT_PLACE)
    return 0


# ------------------------------------------------------------------- which structure it is


def write_structure(desk: int) -> int:
    """Writes what tells this structure from others: specs, links, what is kept. 0 if too long."""
    at = word_at(desk + STRUCTURE)
    for place in range(word_at(desk + COUNT)):
        row = row_at(desk, place)
        count = word_at(row + ROW_COUNT)
        if at + WORD * (2 + count) > word_at(desk + STRUCTURE_END):
            return 0
        put_word(at, word_at(row + ROW_SPEC))
        put_word(at + WORD, entry_of(desk, TARGETS, place))
        at += 2 * WORD
        for i in range(count):
            put_word(at, word_at(input_of(row, i) + INPUT_PLACE))
            at += WORD
    return at - word_at(desk + STRUCTURE)


# ---------------------------------------------------------------------- what is needed at all


def count_uses(desk: int, nodes: int, place: int) -> int:
    """From `place` down, counts how often values are read; where Python is needed, or -1.

    What is kept has a target other than 0 when this begins. The kept places are listed.
    """
    while place >= 0:
        kept = entry_of(desk, TARGETS, place)
        if kept != 0 or entry_of(desk, USES, place) != 0:
            row = row_at(desk, place)
            role = role_in(row)
            if role == WRITES:
                if elements(row, 0) > MOST_COPIED and not is_made_here(desk, row):
                    return place
            elif role != COMPUTED and role != VIEW and role != ALIAS and role != GRADIENT_OF:
                return place
            if role == GRADIENT_OF:
                kept = 1
                set_entry(desk, TARGETS, place, 1)
            count_reads(desk, row, role == ALIAS and kept != 0)
            if kept != 0:
                made = word_at(desk + KEPT_MADE)
                set_entry(desk, KEPT, made, place)
                put_word(desk + KEPT_MADE, made + 1)
        place -= 1
    return -1


def is_made_here(desk: int, row: int) -> bool:
    """Whether what a node changes a part of is made on this list, from nothing, such as zeros that
    a gradient is added to: then copying it costs no more than making it."""
    place = word_at(input_of(row, 0) + INPUT_PLACE)
    return place >= 0 and word_at(row_at(desk, place) + ROW_COUNT) == 0


def count_reads(desk: int, row: int, keeps: bool) -> int:
    """Counts that each input of a node is read; `keeps`: and must outlive the flush."""
    for i in range(word_at(row + ROW_COUNT)):
        place = word_at(input_of(row, i) + INPUT_PLACE)
        if place >= 0:
            set_entry(desk, USES, place, entry_of(desk, USES, place) + 1)
            if keeps:
                set_entry(desk, TARGETS, place, 1)
    return 0


FUNCTIONS = [
    begin, mark_kept, keep_for_backward, claim_inputs, write_structure, count_uses,
    is_made_here, count_reads, references, stands_for, is_claim, is_kept,
]  # fmt: skip
