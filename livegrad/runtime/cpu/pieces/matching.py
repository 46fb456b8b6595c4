"""Which card is for a node, natively: its inputs are seen so, and all is of such sizes.

Looking takes several loads for each dim of each input. What was found is noted, by the spec:
nodes of one spec have inputs of the same shapes. So the card that was found on this list serves
again, if inputs are seen through views of the same specs, and its registers are still for them.

    known    spec │ card │ its registers │ which time these were computed │ for each input, the
             specs of the views that it is seen through, the outer one first
"""

from __future__ import annotations

from livegrad.graph.node import Node, Spec
from livegrad.native.calls import object_at, put_word, quotient, remainder, word_at
from livegrad.native.layout import TUPLE_ITEMS
from livegrad.runtime.cpu.pieces.filling import begin_measuring, is_for_sizes, measure
from livegrad.runtime.cpu.pieces.layout import (
    FILLED,
    FILLING,
    GENERATION,
    INPUT,
    INPUT_PLACE,
    KEY,
    KNOWN,
    REGISTERS,
    ROW_COUNT,
    ROW_INPUTS,
    ROW_NODE,
    ROW_SPEC,
    UNREAD,
    VALUES,
    WORD,
)
from livegrad.runtime.cpu.pieces.rows import address_of, entry_of, place_of, row_at, value_of

# Entries of the table of what is known, and their words. A spec has one for each way.
KNOWN_CARDS = 1024
_MOST_INPUTS = 4
KNOWN_SPEC, KNOWN_CARD, KNOWN_REGISTERS, KNOWN_FILLING, KNOWN_VIEWS = range(0, 40, 8)
KNOWN_WORDS = 4 + 2 * _MOST_INPUTS
_KNOWN_BYTES = 8 * KNOWN_WORDS

# Ways of looking for cards, besides whether the first input is seen through a view.
FORWARD, BACKWARD = 0, 2


def known_card(desk: int, row: int, way: int) -> int:
    """Where the card of nodes like this one is noted; 0 if they have too many inputs for that."""
    count = word_at(row + ROW_COUNT)
    if count > _MOST_INPUTS:
        return 0
    if count > 0:
        place = word_at(row + ROW_INPUTS + INPUT_PLACE)
        if place >= 0 and entry_of(desk, VALUES, place) == 0:
            way += 1
    spec = word_at(row + ROW_SPEC)
    at = remainder(quotient(spec, 16) + 257 * way, KNOWN_CARDS)
    return word_at(desk + KNOWN) + _KNOWN_BYTES * at


def finds_again(desk: int, row: int, known: int, found: int) -> int:
    """The card that is noted, if it is for the node of a row; else 0. Values are found as below."""
    card = word_at(known + KNOWN_CARD)
    if word_at(known + KNOWN_SPEC) != word_at(row + ROW_SPEC) or card == 0:
        return 0
    registers = word_at(known + KNOWN_REGISTERS)
    if word_at(registers + FILLING) != word_at(known + KNOWN_FILLING):
        return 0
    if word_at(registers + FILLED) != word_at(desk + GENERATION):
        return 0
    told, views = row + ROW_INPUTS, known + KNOWN_VIEWS
    for i in range(word_at(row + ROW_COUNT)):
        value = value_through(desk, told, word_at(views), word_at(views + WORD))
        if value == SEEN_OTHERWISE:
            return 0
        put_word(found + WORD * i, value)
        told += INPUT
        views += 2 * WORD
    put_word(card + REGISTERS, registers)
    return card


SEEN_OTHERWISE = -(1 << 62)  # less than any value


def value_through(desk: int, told: int, outer: int, inner: int) -> int:
    """The value of an input that is seen through views of these specs, or of none; 0 if it is not
    read; SEEN_OTHERWISE if it is."""
    if outer == UNREAD:
        return 0
    value = value_of(desk, told)
    if outer != 0:
        place = word_at(told + INPUT_PLACE)
        if value != 0 or place < 0 or word_at(row_at(desk, place) + ROW_SPEC) != outer:
            return SEEN_OTHERWISE
        told = row_at(desk, place) + ROW_INPUTS
        value = value_of(desk, told)
    if inner != 0:
        place = word_at(told + INPUT_PLACE)
        if value != 0 or place < 0 or word_at(row_at(desk, place) + ROW_SPEC) != inner:
            return SEEN_OTHERWISE
        value = value_of(desk, row_at(desk, place) + ROW_INPUTS)
    if value == 0:
        return SEEN_OTHERWISE
    return value


def note_found(desk: int, row: int, known: int, card: int) -> int:
    """Notes a card that is for the node of a row, unless what it looks through is not pending."""
    told, views, key = row + ROW_INPUTS, known + KNOWN_VIEWS, word_at(card + KEY)
    put_word(known + KNOWN_CARD, 0)
    for _ in range(word_at(row + ROW_COUNT)):
        seen = word_at(key)
        key += WORD
        put_word(views, 0)
        put_word(views + WORD, 0)
        if seen == UNREAD:
            put_word(views, UNREAD)
        elif seen > 2:
            return 0
        elif seen > 0:
            at = told
            for k in range(seen):
                place = word_at(at + INPUT_PLACE)
                if place < 0:
                    return 0
                put_word(views + WORD * k, word_at(row_at(desk, place) + ROW_SPEC))
                at = row_at(desk, place) + ROW_INPUTS
            key += WORD * seen
        told += INPUT
        views += 2 * WORD
    put_word(known + KNOWN_SPEC, word_at(row + ROW_SPEC))
    put_word(known + KNOWN_REGISTERS, word_at(card + REGISTERS))
    put_word(known + KNOWN_FILLING, word_at(word_at(card + REGISTERS) + FILLING))
    put_word(known + KNOWN_CARD, card)
    return 0


def finds(desk: int, row: int, card: int, found: int) -> bool:
    """Whether a card is for the node of a row.

    Then the values of inputs are found, and the card's registers are for the sizes.
    """
    key, at, told = word_at(card + KEY), begin_measuring(desk), row + ROW_INPUTS
    for i in range(word_at(row + ROW_COUNT)):
        x: Node = object_at(told)
        views = word_at(key)
        key += WORD
        at = measure(desk, card, x.meta, at)
        if at < 0:
            return False
        value = 0
        if views != UNREAD:
            value = value_of(desk, told)
            for _ in range(views):
                spec: Spec = x.spec
                if id(spec.family) != word_at(key) or value != 0:
                    return False
                key += WORD
                x = object_at(id(x.inputs) + TUPLE_ITEMS)
                at = measure(desk, card, x.meta, at)
                if at < 0:
                    return False
                value = value_of_node(desk, x)
            if value == 0:
                return False
        put_word(found + WORD * i, value)
        told += INPUT
    node: Node = object_at(row + ROW_NODE)
    if measure(desk, card, node.meta, at) < 0:
        return False
    return is_for_sizes(desk, card)


def value_of_node(desk: int, x: Node) -> int:
    """Where the value of a node is; 0 if it has none (yet)."""
    place = place_of(desk, x)
    if place >= 0:
        return entry_of(desk, VALUES, place)
    if x.buffer is None:
        return 0
    return address_of(x.buffer)


FUNCTIONS = [
    known_card, finds_again, value_through, note_found, finds, value_of_node,
]  # fmt: skip
