"""Fetching memory ahead changes nothing: what is translated gives what Python gives."""

from __future__ import annotations

from livegrad.graph.node import Node
from livegrad.native.calls import call_native, fetch, fetch_item, fetch_items, fetch_slot, word_at
from livegrad.native.hot import hot_slots
from livegrad.native.install import translate
from livegrad.native.layout import ITEMS, SIZE, slot_offset
from livegrad.native.words import compile_words
from livegrad.runtime.cpu import jit


@hot_slots
class Linked:
    __slots__ = ("links", "number")

    def __init__(self, number: int, *links: object) -> None:
        self.number = number
        self.links = links


LINKS = slot_offset(Linked, "links")


def total(things: list[Linked]) -> int:
    found = 0
    for place in range(len(things)):
        if place + 2 < len(things):
            fetch_item(things, place + 2)
            fetch_slot(things[place + 1], LINKS)
            fetch_items(things[place + 1], LINKS)
        found += things[place].number
    return found


def words_of(things: int) -> int:
    found, items = 0, word_at(things + ITEMS)
    for i in range(word_at(things + SIZE)):
        fetch(word_at(items + 8 * i))
        found += 1
    return found


def _things() -> list[Linked]:
    things = [Linked(i) for i in range(10)]
    for i, x in enumerate(things):
        x.links = tuple(things[:i])
    return things


def test_objects_are_fetched_ahead_and_stay_as_they_are() -> None:
    made = translate(
        [total], [Linked, Node], lambda ir, name: jit.compile_kernel(ir, name, inline=True)
    )
    assert made[total](_things()) == total(_things()) == 45


def test_addresses_are_fetched_ahead() -> None:
    def compiled(ir: str, name: str) -> int:
        return jit.compile_kernel(ir, name, inline=True)

    things = _things()
    assert call_native(compile_words([words_of], compiled)[words_of], id(things)) == 10
