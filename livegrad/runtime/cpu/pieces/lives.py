"""How long values are in memory while a list is run: read off the words of its entries.

entry 3   reads 0, 64     writes 128   ─┐ what was in 128 before is gone
entry 4   reads 128       writes 0     ─┼ the value of entry 3 lives until its last reader
entry 9   reads 128, 0    writes 64    ─┘
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from livegrad.native.calls import word_at
from livegrad.runtime.cpu.pieces.layout import (
    ARENA,
    BLOCK,
    BLOCK_CLASS,
    BLOCK_OFFSET,
    ENTRY,
    ENTRY_CARD,
    ENTRY_MOVED,
    ENTRY_WORDS,
    LEAST_STEP,
    READS,
    WORD,
)


class Lived(NamedTuple):
    """A value: the place of its node (-1: a sum of gradients), and from which step to which."""

    place: int
    nbytes: int
    first: int
    last: int
    is_kept: bool = False  # for the program, outside of the arena


Used = tuple[list[int], list[int]]


def used_by(entries: array[int], words: array[int]) -> list[Used]:
    """The addresses that each entry reads, and those that it writes."""
    start = words.buffer_info()[0]
    found = []
    for at in range(0, len(entries), ENTRY // WORD):
        card, moved = entries[at + ENTRY_CARD // WORD], entries[at + ENTRY_MOVED // WORD]
        first = (entries[at + ENTRY_WORDS // WORD] - start) // WORD + 1  # behind scratch
        reads = word_at(card + READS) if card else 1  # a copy has no card
        given = words[first : first + moved]
        found.append((list(given[:reads]), list(given[reads:])))
    return found


def blocks_of(table: array[int], count: int) -> dict[int, int]:
    """The bytes of each block of the arena, by its address."""
    width = BLOCK // WORD
    return {
        ARENA + table[at + BLOCK_OFFSET // WORD]: bytes_of(table[at + BLOCK_CLASS // WORD])
        for at in range(0, count * width, width)
    }


def bytes_of(size_class: int) -> int:
    """The bytes of the blocks of a class: four classes per octave, eight in the first."""
    doubled = max(0, size_class // 4 - 1)
    return (size_class - 4 * doubled + 1) * (LEAST_STEP << doubled)


def lives_of(
    used: Sequence[Used],
    places: Sequence[int],
    steps: Sequence[int],
    blocks: dict[int, int],
    kept: dict[int, tuple[int, int]],
) -> list[Lived]:
    """The lives of the values that entries write, each entry being some steps.

    `blocks` are the bytes of each address in the arena, `kept` place and bytes of what is outside.
    """
    there: dict[int, Lived] = {}  # by address
    over: list[Lived] = []
    step = 0
    for (reads, writes), place, count in zip(used, places, steps, strict=False):
        last = step + max(0, count - 1)
        for address in reads:
            if address in there:
                there[address] = there[address]._replace(last=last)
        for address in writes:
            if address in blocks:
                if address in there:
                    over.append(there[address])
                there[address] = Lived(place, blocks[address], step, last)
            elif address in kept and address not in there:
                there[address] = Lived(*kept[address], step, last, is_kept=True)
        step += count
    return [*over, *there.values()]


__all__ = ["Lived", "Used", "blocks_of", "bytes_of", "lives_of", "used_by"]
