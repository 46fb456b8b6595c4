"""What is pending as rows of words, read once: nodes lie all over memory, and are looked at often.

    row     node │ spec │ family │ numbers │ place │ how many inputs │ for each its node and place

The place is that among what is pending, or -1. Rows of pending nodes are found by their places;
those of other nodes that a backward pass goes over are with its walk. Functions of words and lent
objects (native/words.py), as those that list pieces.
"""

from __future__ import annotations

from livegrad.graph.meta import Meta
from livegrad.graph.node import Node, Spec
from livegrad.native.calls import fetch, int_at, object_at, put_word, word_at
from livegrad.native.layout import ITEMS, SIZE, TUPLE_ITEMS
from livegrad.runtime.cpu.pieces.families import Family
from livegrad.runtime.cpu.pieces.layout import (
    BASE,
    COUNT,
    INPUT,
    INPUT_PLACE,
    ROW_ARGS,
    ROW_COUNT,
    ROW_FAMILY,
    ROW_INPUTS,
    ROW_NODE,
    ROW_PLACE,
    ROW_SPEC,
    ROWS,
    TAPE,
    TAPE_END,
    UPDATE,
    VALUES,
    WORD,
)
from livegrad.runtime.memory import Buffer


def entry_of(desk: int, table: int, place: int) -> int:
    """The word of a place in one of the desk's tables."""
    return word_at(word_at(desk + table) + WORD * place)


def set_entry(desk: int, table: int, place: int, word: int) -> int:
    """Sets the word of a place in one of the desk's tables."""
    put_word(word_at(desk + table) + WORD * place, word)
    return 0


def place_of(desk: int, x: Node) -> int:
    """The place of a pending node; -1 for any other."""
    place = int_at(id(x.index)) - word_at(desk + BASE)
    if place >= 0 and place < word_at(desk + COUNT):
        return place
    return -1


# ----------------------------------------------------------------------------------- reading them


NO_ROOM, HAS_UPDATES = -1, -2
# What nodes refer to is fetched some nodes before.
AHEAD = 8


def read_rows(desk: int, nodes: int, place: int) -> int:
    """Reads what is pending from `place` on; where a family is missing, or the end.

    NO_ROOM if the tape is too short, HAS_UPDATES if it meets one: they are for plans.
    """
    items, count, at = word_at(nodes + ITEMS), word_at(desk + COUNT), word_at(desk + TAPE)
    while place < count:
        if place + AHEAD < count:
            ahead: Node = object_at(items + WORD * (place + AHEAD))
            fetch(id(ahead.inputs))
        node: Node = object_at(items + WORD * place)
        spec: Spec = node.spec
        if spec.family is None:
            return place
        family: Family = spec.family
        if int_at(id(family.role)) == UPDATE:
            return HAS_UPDATES
        if at + row_bytes(id(node.inputs)) > word_at(desk + TAPE_END):
            return NO_ROOM
        set_entry(desk, ROWS, place, at)
        at = put_row(desk, node, place, at)
        put_word(desk + TAPE, at)
        place += 1
    return place


def row_bytes(inputs: int) -> int:
    """The bytes of the row of a node with a tuple of inputs."""
    return ROW_INPUTS + INPUT * word_at(inputs + SIZE)


def put_row(desk: int, node: Node, place: int, row: int) -> int:
    """Writes the row of a node, whose family is known; where the next one goes."""
    spec: Spec = node.spec
    inputs = id(node.inputs)
    count = word_at(inputs + SIZE)
    put_word(row + ROW_NODE, id(node))
    put_word(row + ROW_SPEC, id(spec))
    put_word(row + ROW_FAMILY, id(spec.family))
    put_word(row + ROW_ARGS, id(node.args))
    put_word(row + ROW_PLACE, place)
    put_word(row + ROW_COUNT, count)
    at = row + ROW_INPUTS
    for i in range(count):
        x: Node = object_at(inputs + TUPLE_ITEMS + WORD * i)
        put_word(at, id(x))
        put_word(at + INPUT_PLACE, place_of(desk, x))
        at += INPUT
    return at


# ----------------------------------------------------------------------------------- asking them


def row_at(desk: int, place: int) -> int:
    """The row of a pending node."""
    return entry_of(desk, ROWS, place)


def role_at(desk: int, place: int) -> int:
    """What a pending node is to the list; -1 if that is not known."""
    return role_in(entry_of(desk, ROWS, place))


def role_in(row: int) -> int:
    """What the node of a row is to the list; -1 if that is not known."""
    family: Family = object_at(row + ROW_FAMILY)
    return int_at(id(family.role))


def saved_in(row: int) -> int:
    """Which values the gradient of a row's node reads; -1 if that is not known."""
    family: Family = object_at(row + ROW_FAMILY)
    return int_at(id(family.saved))


def input_of(row: int, number: int) -> int:
    """Where a row tells of an input."""
    return row + ROW_INPUTS + INPUT * number


def value_of(desk: int, told: int) -> int:
    """Where the value is of an input that a row tells of; 0 if it has none (yet)."""
    place = word_at(told + INPUT_PLACE)
    if place >= 0:
        return entry_of(desk, VALUES, place)
    x: Node = object_at(told)
    if x.buffer is None:
        return 0
    return address_of(x.buffer)


def value_in(desk: int, row: int) -> int:
    """Where the value of a row's node is; 0 if it has none (yet)."""
    place = word_at(row + ROW_PLACE)
    if place >= 0:
        return entry_of(desk, VALUES, place)
    node: Node = object_at(row + ROW_NODE)
    if node.buffer is None:
        return 0
    return address_of(node.buffer)


def address_of(buffer: Buffer) -> int:
    """The address of a buffer; that of an empty one is never used."""
    address = int_at(id(buffer.ptr))
    if address == 0:
        return 1
    return address


def elements(row: int, number: int) -> int:
    """How many elements an input has."""
    x: Node = object_at(row + ROW_INPUTS + INPUT * number)
    meta: Meta = x.meta
    return int_at(id(meta.numel))


FUNCTIONS = [
    entry_of, set_entry, place_of, read_rows, row_bytes, put_row, row_at, role_at, role_in,
    saved_in, input_of, value_of, value_in, address_of, elements,
]  # fmt: skip
