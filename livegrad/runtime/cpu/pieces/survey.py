"""Looks at what is pending, natively: what is kept, which structure it is, what is needed.

Functions of words and lent objects (native/words.py), as those that list pieces.
"""

from __future__ import annotations

from typing import Any

from livegrad.graph.node import Node, Spec
from livegrad.native.calls import int_at, object_at, put_word, word_at
from livegrad.native.layout import ITEMS, SIZE, TUPLE_ITEMS
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
    KEPT,
    KEPT_MADE,
    MOST_CLASSES,
    MOST_COPIED,
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
from livegrad.runtime.cpu.pieces.listing import elements, entry_of, place_of, role_of, set_entry
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
            claim_inputs(desk, id(node.inputs), saved == 1 or saved == 3)
            set_entry(desk, DEPTHS, place, 0)
        place -= 1
    return -1


def claim_inputs(desk: int, inputs: int, saves: bool) -> int:
    """Marks the inputs of a claimed node as claimed, and as kept if its rules read them.

    Of a view, what it is a view of is kept: who needs it looks again.
    """
    for i in range(word_at(inputs + SIZE)):
        x: Node = object_at(inputs + TUPLE_ITEMS + WORD * i)
        place = place_of(desk, x)
        if place >= 0 and is_claim(x):
            set_entry(desk, DEPTHS, place, 1)
        while saves and place >= 0:
            if role_of(x) != VIEW:
                set_entry(desk, TARGETS, place, 1)
                place = -1
            else:
                x = object_at(id(x.inputs) + TUPLE_ITEMS)
                place = place_of(desk, x)
    return 0


# ------------------------------------------------------------------- which structure it is


def write_structure(desk: int, nodes: int) -> int:
    """Writes what tells this structure from others: specs, links, what is kept. 0 if too long."""
    items, at = word_at(nodes + ITEMS), word_at(desk + STRUCTURE)
    for place in range(word_at(desk + COUNT)):
        node: Node = object_at(items + WORD * place)
        inputs = id(node.inputs)
        count = word_at(inputs + SIZE)
        if at + WORD * (2 + count) > word_at(desk + STRUCTURE_END):
            return 0
        put_word(at, id(node.spec))
        put_word(at + WORD, entry_of(desk, TARGETS, place))
        at += 2 * WORD
        for i in range(count):
            x: Node = object_at(inputs + TUPLE_ITEMS + WORD * i)
            put_word(at, place_of(desk, x))
            at += WORD
    return at - word_at(desk + STRUCTURE)


# ---------------------------------------------------------------------- what is needed at all


def count_uses(desk: int, nodes: int, place: int) -> int:
    """From `place` down, counts how often values are read; where Python is needed, or -1.

    What is kept has a target other than 0 when this begins. The kept places are listed.
    """
    items = word_at(nodes + ITEMS)
    while place >= 0:
        kept = entry_of(desk, TARGETS, place)
        if kept != 0 or entry_of(desk, USES, place) != 0:
            node: Node = object_at(items + WORD * place)
            role = role_of(node)
            if role == WRITES:
                if elements(id(node.inputs), 0) > MOST_COPIED and not is_made_here(desk, node):
                    return place
            elif role != COMPUTED and role != VIEW and role != ALIAS and role != GRADIENT_OF:
                return place
            if role == GRADIENT_OF:
                kept = 1
                set_entry(desk, TARGETS, place, 1)
            count_reads(desk, id(node.inputs), role == ALIAS and kept != 0)
            if kept != 0:
                made = word_at(desk + KEPT_MADE)
                set_entry(desk, KEPT, made, place)
                put_word(desk + KEPT_MADE, made + 1)
        place -= 1
    return -1


def is_made_here(desk: int, node: Node) -> bool:
    """Whether what a node changes a part of is made on this list, from nothing, such as zeros that
    a gradient is added to: then copying it costs no more than making it."""
    x: Node = object_at(id(node.inputs) + TUPLE_ITEMS)
    return place_of(desk, x) >= 0 and word_at(id(x.inputs) + SIZE) == 0


def count_reads(desk: int, inputs: int, keeps: bool) -> int:
    """Counts that each of a tuple of tensors is read; `keeps`: and must outlive the flush."""
    for i in range(word_at(inputs + SIZE)):
        x: Node = object_at(inputs + TUPLE_ITEMS + WORD * i)
        place = place_of(desk, x)
        if place >= 0:
            set_entry(desk, USES, place, entry_of(desk, USES, place) + 1)
            if keeps:
                set_entry(desk, TARGETS, place, 1)
    return 0


FUNCTIONS = [
    begin, mark_kept, keep_for_backward, claim_inputs, write_structure, count_uses,
    is_made_here, count_reads, references, stands_for, is_claim, is_kept,
]  # fmt: skip
