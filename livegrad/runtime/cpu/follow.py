"""Following a known step natively: is what was recorded the plan's own structure once more?

A training step repeats. For a plan that has been run before, one native call checks that the
pending nodes are the recorded structure again (same specs, same links, same values kept) and
writes the addresses and numbers of this run into the program's inputs. It reads Python objects
where they lie in memory: see native/words.py. Anything unexpected makes it say no, and the Python
code in runtime/flush.py decides. What is alive, and what may be overwritten, is said in
runtime/liveness.py for both.

    table: nodes │ leaves │ slot of the first int │ writes │ addresses of: code, a word per leaf,
           the writes: leaf, references it may have, slot │ donations │ their address: leaf,
           references it may have
    code:  per node: spec (or family), whether the program sees the value, 1 if the node reads what
           an update overwrites, 2 if it reads what may be donated, whether it is a claim (2: either
           way), number of inputs, links, number of args, whether each is a float

A link is the place of a pending node, or -1 - the number of a leaf.
"""

from __future__ import annotations

import functools
from array import array
from collections.abc import Sequence
from typing import Any

from livegrad.graph.handle import Cell, Handle
from livegrad.graph.node import Node
from livegrad.native.calls import (
    call_native,
    half_at,
    int_at,
    object_at,
    put_word,
    word_at,
)
from livegrad.native.hot import hot, hot_slots
from livegrad.native.layout import (
    FLOAT_VALUE,
    ITEMS,
    REFERENCES,
    SIZE,
    TUPLE_ITEMS,
    is_known,
)
from livegrad.native.subset import Untranslatable
from livegrad.ops.bookkeeping.pending import Pending
from livegrad.runtime.cpu.translations import words
from livegrad.runtime.liveness import is_claim, is_kept, keeps_inputs, may_overwrite
from livegrad.runtime.memory import Buffer


def _follow(nodes: int, handles: int, table: int, inputs: int, scalars: int) -> int:
    """1 if the nodes are the plan's once more; then the program's inputs are set. Else 0."""
    count = word_at(table)
    if word_at(nodes + SIZE) != count:
        return 0
    places, holders = word_at(nodes + ITEMS), word_at(handles + ITEMS)
    code, leaves = word_at(table + 32), word_at(table + 40)
    for i in range(word_at(table + 8)):
        put_word(leaves + 8 * i, 0)
    ints, floats = inputs + 8 * word_at(table + 16), scalars
    for i in range(count):
        node: Node = object_at(places + 8 * i)
        if id(node.spec) != word_at(code):
            return 0
        if not is_needed_as_planned(node, object_at(holders + 8 * i), code):
            return 0
        code += 32
        if not follow_inputs(id(node.inputs), code, places, leaves, inputs):
            return 0
        code += 8 + 8 * word_at(code)
        found = follow_args(id(node.args), code, ints, floats)
        if found < 0:
            return 0
        floats += 8 * found
        ints += 8 * (word_at(code) - found)
        code += 8 + 8 * word_at(code)
    if not follow_writes(word_at(table + 24), word_at(table + 48), leaves, inputs):
        return 0
    return may_donate(word_at(table + 56), word_at(table + 64), leaves)


def is_needed_as_planned(node: Node, handle: Any, code: int) -> bool:
    """Whether a node's value is kept as it was when the plan was made, and for nothing more.

    Which values are kept for a later backward follows from what the program sees and what is a
    claim, if the structure is the same.
    """
    if type(handle) is Pending:
        return True
    # Only the pending list is ours.
    if is_kept(references(handle) - 1, stands_for(handle), node) != word_at(code + 8):
        return False
    reads, claim = word_at(code + 16), word_at(code + 24)
    if claim != 2 and is_claim(node) != claim:
        return False
    if reads == 0:
        return True
    return not is_claim(node) and (reads == 1 or not keeps_inputs(node))


def references(x: Any) -> int:
    """How many there are to an object."""
    return half_at(id(x) + REFERENCES)


def stands_for(handle: Any) -> Any:
    """The node of a tensor, or of a cell."""
    if type(handle) is Cell:
        cell: Cell = handle
        return cell._node
    tensor: Handle = handle
    return tensor._node


def follow_inputs(found: int, links: int, places: int, leaves: int, inputs: int) -> bool:
    """Whether a node's inputs are those planned for; addresses of leaves are set."""
    count = word_at(found + SIZE)
    if count != word_at(links):
        return False
    for i in range(count):
        place = found + TUPLE_ITEMS + 8 * i
        link = word_at(links + 8 + 8 * i)
        if link >= 0:
            if word_at(places + 8 * link) != word_at(place):
                return False
            continue
        known = leaves + 8 * (-1 - link)
        if word_at(known) == word_at(place):
            continue
        node: Node = object_at(place)
        if word_at(known) != 0 or node.buffer is None:
            return False
        put_word(known, id(node))
        put_word(inputs - 8 * link, _address(node.buffer))
    return True


def _address(buffer: Buffer) -> int:
    return int_at(id(buffer.ptr))


def follow_args(args: int, kinds: int, ints: int, floats: int) -> int:
    """Sets a node's numbers, if they are of the kinds planned for; how many are floats, or -1."""
    count = word_at(args + SIZE)
    if count != word_at(kinds):
        return -1
    found = 0
    for i in range(count):
        x = object_at(args + TUPLE_ITEMS + 8 * i)
        if word_at(kinds + 8 + 8 * i) != 0:
            if type(x) is not float:
                return -1
            put_word(floats + 8 * found, word_at(id(x) + FLOAT_VALUE))
            found += 1
        elif type(x) is int or type(x) is bool:
            put_word(ints + 8 * (i - found), int_at(id(x)))
        else:
            return -1
    return found


def follow_writes(count: int, writes: int, leaves: int, inputs: int) -> bool:
    """Whether all that updates write to may be overwritten; its addresses are set."""
    for i in range(count):
        write = writes + 24 * i
        leaf = word_at(write)
        node: Node = object_at(leaves + 8 * leaf)
        others = references(node) - word_at(write + 8)
        # Only the node is ours. (A tensor that shares its value with views is Python's business.)
        if not may_overwrite(others, node.buffer, references(node.buffer) - 1):
            return False
        put_word(inputs + 8 * word_at(write + 16), word_at(inputs + 8 + 8 * leaf))
    return True


def may_donate(count: int, donations: int, leaves: int) -> bool:
    """Whether all buffers of leaves that are to become those of results may."""
    for i in range(count):
        donation = donations + 16 * i
        node: Node = object_at(leaves + 8 * word_at(donation))
        others = references(node) - word_at(donation + 8)
        if not may_overwrite(others, node.buffer, references(node.buffer) - 1):
            return False
    return True


FUNCTIONS: list[Any] = [
    _follow, is_needed_as_planned, references, stands_for, follow_inputs, _address,
    follow_args, follow_writes, may_donate, is_kept, is_claim, keeps_inputs, may_overwrite,
]  # fmt: skip


@functools.cache
def available() -> bool:
    """Whether steps can be followed natively."""
    return is_known()


@functools.cache
def _native() -> int:
    """The address of `_follow`, or 0."""
    return native_of(FUNCTIONS, "follow")


def native_of(functions: list[Any], kind: str) -> int:
    """The address of the first of some functions; 0 if it cannot be had: there may be no source
    files."""
    try:
        return words(functions, kind)[functions[0]]
    except (Untranslatable, OSError):
        return 0


def _claims(nodes: list[Node], seen: Sequence[int]) -> list[int]:
    """For each node whether it is a claim; 2 if that does not matter.

    Of graphs that backward may still walk it matters for all nodes: see `_keep_for_backward`.
    """
    claims = [is_claim(node) for node in nodes]
    if any([claim and sees for claim, sees in zip(claims, seen, strict=True)]):
        return [int(claim) for claim in claims]
    return [0 if sees else 2 for sees in seen]


@hot_slots
class Follower:
    """The native check for one plan.

    Args:
        nodes: what was recorded when the plan was made.
        links: per input of each node, the place of a pending node or -1 - the number of a leaf.
        seen: per node, whether the program sees its value.
        reads: per node, 1 if it reads what an update overwrites, 2 if it reads what may be donated.
        first_int, leaves: slots of the program's inputs.
        writes: (leaf, references it may have, slot) of what updates overwrite.
        donated: (leaf, references it may have) of what is to become a result's.
        inputs, scalars: addresses of the program's inputs and scalars.
        known: per node, by what it is known again: its spec, or its family.
        more: words of the table that others read (fitting.py).
    """

    __slots__ = ("_address", "_at", "_inputs", "_known", "_parts", "_scalars", "_table")

    def __init__(
        self,
        nodes: list[Node],
        links: list[int],
        seen: Sequence[int],
        reads: list[int],
        first_int: int,
        leaves: int,
        writes: list[tuple[int, int, int]],
        donated: list[tuple[int, int]],
        inputs: int,
        scalars: int,
        known: Sequence[Any] = (),
        more: Sequence[int] = (),
    ) -> None:
        known = known or [node.spec for node in nodes]
        told: list[int] = []
        at_link = 0
        each = zip(nodes, known, seen, reads, _claims(nodes, seen), strict=True)
        for node, name, sees, read, claim in each:
            kinds = [node.spec.floats or type(a) is float for a in node.args]
            count = len(node.inputs)
            told += [id(name), sees, read, claim, count, *links[at_link : at_link + count]]
            told += [len(kinds), *kinds]
            at_link += count
        code = array("q", told)
        self._known = list(known)  # their addresses must stay theirs
        found = array("q", [0] * max(leaves, 1))
        written = array("q", [number for write in writes for number in write] or [0])
        given = array("q", [number for each in donated for number in each] or [0])
        self._parts = (code, found, written, given)
        first, *others = [part.buffer_info()[0] for part in self._parts]
        at = [first, *others[:-1], len(donated), others[-1]]
        self._table = array("q", [len(nodes), leaves, first_int, len(writes), *at, *more])
        self._address = 0
        self._at = self._table.buffer_info()[0]
        self._inputs, self._scalars = inputs, scalars

    @hot
    def matches(self, nodes: list[Any], handles: list[Any]) -> bool:
        """Whether these are the plan's nodes once more; if so the program's inputs are set."""
        if not self._address:
            self._address = _native()
            if not self._address:
                return False
        # Called with the GIL held: the objects must not change meanwhile.
        found = call_native(
            self._address, id(nodes), id(handles), self._at, self._inputs, self._scalars
        )
        return found == 1
