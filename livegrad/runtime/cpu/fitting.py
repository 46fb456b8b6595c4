"""Plans that fit themselves to other sizes: a sequence that grows is not another plan every time.

    pending nodes ──► the plan's, but for sizes? ──► sizes ──► code ──► words of the program

The check is that of `follow.py`, but for families instead of specs (pieces/families.py); then sizes
are measured, and what depends on them is computed and written into the program, as that of a piece
is (pieces/filling.py). So what a new size costs is filling in some hundred words, natively: nothing
is planned, and nothing is listed. If the sizes are the latest ones, nothing has to be written.
"""

from __future__ import annotations

import functools
from array import array
from typing import Any
from weakref import ref

from livegrad.graph.node import Node, Spec
from livegrad.native.calls import call_native, object_at, put_word, word_at
from livegrad.native.hot import hot, hot_slots
from livegrad.native.layout import ITEMS, SIZE
from livegrad.runtime.cpu import follow, threads
from livegrad.runtime.cpu.follow import (
    Follower,
    follow_args,
    follow_inputs,
    follow_writes,
    is_needed_as_planned,
    may_donate,
)
from livegrad.runtime.cpu.pieces import filling
from livegrad.runtime.cpu.pieces.families import know_families
from livegrad.runtime.cpu.pieces.filling import begin_measuring, computes, measure, same
from livegrad.runtime.cpu.pieces.layout import (
    CARD,
    CODE,
    CODE_END,
    DESK_BYTES,
    DIMS,
    FILLS,
    FILLS_COUNT,
    INSTRUCTION,
    MEASURED,
    PATTERN,
    REGISTERS,
    SIZES,
    WORD,
)
from livegrad.runtime.executable import Executable

# Behind the table of a follower: the desk on which sizes are measured, and the card with the code.
_DESK, _CARD = 72, 80
# What `_fit` says: another structure, the plan's with the latest sizes, or with new ones.
_OTHER, _AS_BEFORE, _RESIZED = 0, 1, 2
# Bytes of an arena. Values lie side by side there: large ones need less if planned for their sizes.
_MOST_SCRATCH = 1 << 25


def _fit(nodes: int, handles: int, table: int, inputs: int, scalars: int) -> int:
    """Whether the nodes are the plan's but for sizes; if so the program and its inputs are set."""
    count = word_at(table)
    if word_at(nodes + SIZE) != count:
        return _OTHER
    places, holders = word_at(nodes + ITEMS), word_at(handles + ITEMS)
    code, leaves = word_at(table + 32), word_at(table + 40)
    for i in range(word_at(table + 8)):
        put_word(leaves + WORD * i, 0)
    ints, floats = inputs + WORD * word_at(table + 16), scalars
    for i in range(count):
        node: Node = object_at(places + WORD * i)
        spec: Spec = node.spec
        # A backward pass is known by its spec: see `digest_of_families`.
        if id(spec.family) != word_at(code) and id(spec) != word_at(code):
            return _OTHER
        if not is_needed_as_planned(node, object_at(holders + WORD * i), code):
            return _OTHER
        code += 32
        if not follow_inputs(id(node.inputs), code, places, leaves, inputs):
            return _OTHER
        code += 8 + 8 * word_at(code)
        found = follow_args(id(node.args), code, ints, floats)
        if found < 0:
            return _OTHER
        floats += 8 * found
        ints += 8 * (word_at(code) - found)
        code += 8 + 8 * word_at(code)
    if not follow_writes(word_at(table + 24), word_at(table + 48), leaves, inputs):
        return _OTHER
    if not may_donate(word_at(table + 56), word_at(table + 64), leaves):
        return _OTHER
    return _resize(table, places, count, leaves)


def _resize(table: int, places: int, count: int, leaves: int) -> int:
    """Measures leaves and nodes, and writes what depends on sizes into the program."""
    desk, card = word_at(table + _DESK), word_at(table + _CARD)
    at = begin_measuring(desk)
    for i in range(word_at(table + 8)):
        leaf: Node = object_at(leaves + WORD * i)
        at = measure(desk, card, leaf.meta, at)
        if at < 0:
            return _OTHER
    for i in range(count):
        node: Node = object_at(places + WORD * i)
        at = measure(desk, card, node.meta, at)
        if at < 0:
            return _OTHER
    sizes, registers, number = (
        word_at(desk + MEASURED) + WORD,
        word_at(card + REGISTERS),
        word_at(card + SIZES),
    )
    if number > 0 and same(sizes, registers, number):
        return _AS_BEFORE
    for i in range(number):
        put_word(registers + WORD * i, word_at(sizes + WORD * i))
    if not computes(word_at(card + CODE), word_at(card + CODE_END), registers, number):
        put_word(registers, 0)  # sizes that are refused are none that the program is for
        return _OTHER
    fills = word_at(card + FILLS)
    for _ in range(word_at(card + FILLS_COUNT)):
        put_word(word_at(fills), word_at(registers + WORD * word_at(fills + WORD)))
        fills += 2 * WORD
    return _RESIZED


_FUNCTIONS: list[Any] = [_fit, _resize, *follow.FUNCTIONS[1:], *filling.FUNCTIONS]


@functools.cache
def native_fit() -> int:
    """The address of `_fit`, or 0."""
    return follow.native_of(_FUNCTIONS, "fit")


@hot_slots
class Fitter:
    """What a fitted plan has for a follower: one that recognises nodes of other sizes, too.

    `sizes` says how the dims of leaves and nodes are measured and what is computed of them.
    """

    __slots__ = (
        "_arena", "_executable", "_follower", "_is_large", "_outs", "_parts", "_registers",
        "_thread_scratch",
    )  # fmt: skip

    def __init__(self, executable: Executable, follower: Follower, sizes: Sizes) -> None:
        mould = sizes.mould
        self._executable = ref(executable)
        self._follower = follower
        self._parts = sizes
        self._is_large = False
        self._registers = sizes.registers.buffer_info()[0]
        self._outs = [WORD * number for number in mould.outs]
        self._arena, self._thread_scratch = WORD * mould.scratch, WORD * mould.thread_scratch

    @property
    def sizes(self) -> list[int]:
        """Those of the latest run."""
        return self._parts.registers[: self._parts.count].tolist()

    @hot
    def matches(self, nodes: list[Any], handles: list[Any]) -> bool:
        """Whether these are the plan's nodes but for sizes; if so the program's inputs are set."""
        know_families(nodes)
        follower = self._follower
        if not follower._address:
            follower._address = native_fit()
            if not follower._address:
                return False
        # Called with the GIL held: the objects must not change meanwhile.
        found = call_native(
            follower._address,
            id(nodes),
            id(handles),
            follower._at,
            follower._inputs,
            follower._scalars,
        )
        if found == _RESIZED:
            self._set_sizes()
        return found != _OTHER and not self._is_large

    @hot
    def _set_sizes(self) -> None:
        """How much memory a run needs now."""
        executable: Any = self._executable()
        registers = self._registers
        executable.fresh = [word_at(registers + out) for out in self._outs]
        arena = word_at(registers + self._arena)
        self._is_large = arena > _MOST_SCRATCH
        executable.runnable.arena = arena
        threads.pool.need_scratch(word_at(registers + self._thread_scratch))


class Sizes:
    """The code of a mould (pieces/moulds.py) and the tables it works on, as native code reads them.

    Args:
        mould: the program without sizes.
        pattern, count: which dims of leaves and nodes have which of so many sizes.
        addresses: where the words of the mould's image are in the program.
    """

    def __init__(self, mould: Any, pattern: list[int], count: int, addresses: list[int]) -> None:
        self.mould, self.count = mould, count
        self.registers = array("q", bytes(WORD * (count + len(mould.code) + 1)))
        fills = [(addresses[place], number) for place, number in mould.fills]
        tables = [
            array("q", [*told, 0])
            for told in (
                pattern,
                [word for each in mould.code for word in each],
                [word for each in fills for word in each],
                [0] * count,
            )
        ]
        patterns, code, filled, measured = [table.buffer_info()[0] for table in tables]
        self.desk, self.card = array("q", bytes(DESK_BYTES)), array("q", bytes(CARD))
        _write(self.desk, {MEASURED: measured})
        _write(
            self.card,
            {
                PATTERN: patterns,
                DIMS: len(pattern),
                SIZES: count,
                REGISTERS: self.registers.buffer_info()[0],
                CODE: code,
                CODE_END: code + INSTRUCTION * len(mould.code),
                FILLS: filled,
                FILLS_COUNT: len(fills),
            },
        )
        self._tables = tables

    @property
    def words(self) -> tuple[int, int]:
        """What follows the table of a follower."""
        return self.desk.buffer_info()[0], self.card.buffer_info()[0]


def _write(table: array[int], told: dict[int, int]) -> None:
    for place, word in told.items():
        table[place // WORD] = word
