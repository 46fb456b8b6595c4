"""The walk of a recorded backward pass as tables: rows of its nodes, links between them, the order.

walk     interior nodes 0 … m - 1 and leaves m …, by these numbers the gradients so far and how many
         contributions are still to come; per interior node its links: for each input the number
         its gradient goes to
order    interior nodes, each after all that use it: as `autograd.reverse.ordered` has it, so
         that sums are added up in the same order, to the same bits

Functions of words and lent objects (native/words.py), as those that list pieces.
"""

from __future__ import annotations

from livegrad.graph.node import Node, Spec
from livegrad.native.calls import fetch, int_at, object_at, put_word, quotient, remainder, word_at
from livegrad.native.layout import ITEMS, SIZE, TUPLE_ITEMS
from livegrad.runtime.cpu.pieces.layout import (
    INPUT_PLACE,
    MISSING_ROWS,
    NUMBERED,
    ROW_COUNT,
    ROW_NODE,
    ROW_PLACE,
    ROW_SPEC,
    WORD,
)
from livegrad.runtime.cpu.pieces.rows import (
    entry_of,
    input_of,
    place_of,
    put_row,
    row_at,
    row_bytes,
    set_entry,
)

# Nodes and rows are fetched some time before they are looked at.
AHEAD = 6

# A walk.
INTERIOR = 0  # the list of interior nodes (the object's address)
SIZES = 8  # m
LINKS = 16  # table: links of all interior nodes, one after the other
STARTS = 24  # table: where those of each begin
ORDER, ORDERED = 32, 40  # table, and how many
GRADS = 48  # table: the gradient so far
COMING = 56  # table: contributions that are still to come
WAITING = 64  # table: uses that have not been passed, to find the order
LEAF_TARGETS = 72  # table: where a leaf's gradient must be, or 0
NUMBERS, KNOWN = (
    80,
    88,
)  # table: nodes and their numbers, found by address; how many it has room for
WAITING_USES = 96  # table: per leaf, uses whose gradients are added up together: see uses.py
NODE_ROWS = 104  # table: the rows of interior nodes
TAPE_OF_WALK = 112  # where the rows go of those that are not pending
WALK = 120

NOTHING = -1  # of links: no gradient goes there. -2 - n: n waits for this node, but gets nothing


# ------------------------------------------------------------------------- links between nodes


def find_rows(desk: int, interior: int, rows: int) -> int:
    """Finds the rows of interior nodes, as far as they are pending; how many inputs all have.

    How many bytes the rows of the others take, for which there is 0, is noted on the desk.
    """
    items, count, edges = word_at(interior + ITEMS), word_at(interior + SIZE), 0
    put_word(desk + MISSING_ROWS, 0)
    for i in range(count):
        if i + 2 * AHEAD < count:
            fetch(word_at(items + WORD * (i + 2 * AHEAD)))
            ahead: Node = object_at(items + WORD * (i + AHEAD))
            fetch(id(ahead.index))
        node: Node = object_at(items + WORD * i)
        place, row = place_of(desk, node), 0
        if place >= 0:
            row = row_at(desk, place)
            edges += word_at(row + ROW_COUNT)
            set_entry(desk, NUMBERED, place, i + 1)
        else:
            inputs = id(node.inputs)
            edges += word_at(inputs + SIZE)
            put_word(desk + MISSING_ROWS, word_at(desk + MISSING_ROWS) + row_bytes(inputs))
        put_word(rows + WORD * i, row)
    return edges


def put_rows(desk: int, walk: int, number: int) -> int:
    """Writes the rows of interior nodes that are not pending, from a number on; the number of one
    whose family is not known, or the end."""
    rows, count = word_at(walk + NODE_ROWS), word_at(walk + SIZES)
    items, at = word_at(word_at(walk + INTERIOR) + ITEMS), word_at(walk + TAPE_OF_WALK)
    while number < count:
        if word_at(rows + WORD * number) == 0:
            node: Node = object_at(items + WORD * number)
            spec: Spec = node.spec
            if spec.family is None:
                return number
            put_word(rows + WORD * number, at)
            at = put_row(desk, node, -1, at)
            put_word(walk + TAPE_OF_WALK, at)
        number += 1
    return number


def entry_for(walk: int, node: int) -> int:
    """Where the number of a node is noted, or is to be: the node's address, then the number."""
    known = word_at(walk + KNOWN)
    at = remainder(quotient(node, 16), known)
    entry = word_at(walk + NUMBERS) + 2 * WORD * at
    while word_at(entry) != 0 and word_at(entry) != node:
        at += 1
        entry += 2 * WORD
        if at == known:
            at, entry = 0, word_at(walk + NUMBERS)
    return entry


def note_number(walk: int, node: int, number: int) -> int:
    """Notes the number of a node that is not pending."""
    entry = entry_for(walk, node)
    put_word(entry, node)
    put_word(entry + WORD, number)
    return 0


def number_all(walk: int, leaves: int) -> int:
    """Numbers leaves, and interior nodes that are not pending."""
    count, items = word_at(walk + SIZES), word_at(leaves + ITEMS)
    for i in range(count):
        row = word_at(word_at(walk + NODE_ROWS) + WORD * i)
        if word_at(row + ROW_PLACE) < 0:
            note_number(walk, word_at(row + ROW_NODE), i)
    for i in range(word_at(leaves + SIZE)):
        note_number(walk, word_at(items + WORD * i), count + i)
    return 0


def number_of(desk: int, walk: int, told: int) -> int:
    """The number of an input that a row tells of, or -1 if no gradient goes there."""
    place = word_at(told + INPUT_PLACE)
    if place >= 0 and entry_of(desk, NUMBERED, place) != 0:
        return entry_of(desk, NUMBERED, place) - 1
    entry = entry_for(walk, word_at(told))
    if word_at(entry) != 0:
        return word_at(entry + WORD)
    return NOTHING


def link_up(desk: int, walk: int, leaves: int) -> int:
    """Fills in for each input of each interior node the number that its gradient goes to."""
    count, rows = word_at(walk + SIZES), word_at(walk + NODE_ROWS)
    number_all(walk, leaves)
    starts, links = word_at(walk + STARTS), word_at(walk + LINKS)
    at = 0
    for i in range(count):
        put_word(starts + WORD * i, at)
        row = word_at(rows + WORD * i)
        spec: Spec = object_at(row + ROW_SPEC)
        for k in range(word_at(row + ROW_COUNT)):
            link = number_of(desk, walk, input_of(row, k))
            if link >= 0 and not flows_to(id(spec.flows), k):
                link = -2 - link
            put_word(links + WORD * at, link)
            at += 1
    put_word(starts + WORD * count, at)
    for i in range(count):  # the next walk has numbers of its own
        place = word_at(word_at(rows + WORD * i) + ROW_PLACE)
        if place >= 0:
            set_entry(desk, NUMBERED, place, 0)
    return 0


def flows_to(flows: int, place: int) -> bool:
    """Whether an input is among those that gradients flow to."""
    for i in range(word_at(flows + SIZE)):
        if int_at(word_at(flows + TUPLE_ITEMS + WORD * i)) == place:
            return True
    return False


def find_order(walk: int) -> int:
    """Fills in the order, and how many contributions each will get."""
    count, links, starts = word_at(walk + SIZES), word_at(walk + LINKS), word_at(walk + STARTS)
    coming, waiting = word_at(walk + COMING), word_at(walk + WAITING)
    total = word_at(starts + WORD * count)
    for i in range(total):
        link = word_at(links + WORD * i)
        if link >= 0:
            put_word(coming + WORD * link, word_at(coming + WORD * link) + 1)
        if link < NOTHING:
            link = -2 - link
        if link >= 0:
            put_word(waiting + WORD * link, word_at(waiting + WORD * link) + 1)
    order, made, at = word_at(walk + ORDER), 1, 0
    put_word(order, 0)
    while at < made:
        number = word_at(order + WORD * at)
        first = word_at(starts + WORD * number)
        for i in range(word_at(starts + WORD * number + WORD) - first):
            link = word_at(links + WORD * (first + i))
            if link < NOTHING:
                link = -2 - link
            if link >= 0:
                left = word_at(waiting + WORD * link) - 1
                put_word(waiting + WORD * link, left)
                if left == 0 and link < count:
                    put_word(order + WORD * made, link)
                    made += 1
        at += 1
    put_word(walk + ORDERED, made)
    return 0


FUNCTIONS = [
    find_rows, put_rows, entry_for, note_number, number_all, number_of, link_up, flows_to,
    find_order,
]  # fmt: skip
