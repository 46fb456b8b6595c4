"""The walk of a recorded backward pass once more, as tables that native code goes by."""

from __future__ import annotations

from array import array
from typing import Any

from livegrad.graph.node import Node
from livegrad.native.calls import put_word
from livegrad.native.hot import hot
from livegrad.runtime.cpu.pieces.layout import WORD
from livegrad.runtime.cpu.pieces.pulling import (
    GRADS,
    LINKS,
    NOTHING,
    ORDER,
    ORDERED,
    STARTS,
    WALK,
)


@hot
def retrace(root: Node, way: tuple[int, ...], codes: dict[Node, int], leaves: list[Node]) -> Any:
    """The interior nodes of a walk; `codes` gets a number for each, from -1 down for `leaves`."""
    interior = [root]
    codes[root] = 0
    at = 0
    for node in interior:  # grows while it is walked
        inputs = node.inputs
        for i in node.spec.flows:  # type: ignore[union-attr]
            step = way[at]
            at += 1
            if step == 2:
                x = inputs[i]
                codes[x] = len(interior)
                interior.append(x)
            elif step == 3:
                x = inputs[i]
                leaves.append(x)
                codes[x] = 0 - len(leaves)
    return interior


@hot
def write_links(interior: list[Node], codes: dict[Node, int], links: int, starts: int) -> None:
    """Writes for each input of each node the number that its gradient goes to."""
    count = len(interior)
    at = 0
    number = 0
    for node in interior:
        put_word(starts + WORD * number, at)
        number += 1
        flows = node.spec.flows
        i = 0
        for x in node.inputs:
            code = codes.get(x)
            if code is None:
                put_word(links + WORD * at, NOTHING)
            else:
                link = code + 0
                if link < 0:
                    link = count - 1 - link
                if i not in flows:  # type: ignore[operator]
                    link = -2 - link
                put_word(links + WORD * at, link)
            at += 1
            i += 1
    put_word(starts + WORD * number, at)


class Walk:
    """A walk, and the memory of its tables: see pulling.py. `targets` is the address of one."""

    def __init__(self, gradient: Node) -> None:
        leaves: list[Node] = []
        codes: dict[Node, int] = {}
        self.interior: list[Node] = retrace(gradient.inputs[0], gradient.spec.attrs, codes, leaves)
        count, total = len(self.interior), len(codes)
        edges = sum([len(node.inputs) for node in self.interior])
        # links, starts, order, grads, coming, waiting, targets of leaves
        sizes = (edges, count + 1, count, total, total, total, len(leaves))
        self.memory = array("q", bytes(WALK + WORD * sum(sizes)))
        self.address = at = self.memory.buffer_info()[0]
        at += WALK
        tables = []
        for size in sizes:
            tables.append(at)
            at += WORD * size
        links, starts, order, grads, coming, waiting, self.targets = tables
        words = (
            id(self.interior), count, links, starts, order, 0, grads, coming, waiting, self.targets
        )  # fmt: skip
        self.memory[: len(words)] = array("q", words)
        write_links(self.interior, codes, links, starts)

    def _table(self, place: int) -> int:
        """Where a table begins in the memory."""
        return (self.memory[place // WORD] - self.address) // WORD

    def set_seed(self, address: int) -> None:
        """Sets the gradient that enters at the end."""
        self.memory[self._table(GRADS)] = address

    @property
    def ordered(self) -> int:
        """How many nodes the order has."""
        return self.memory[ORDERED // WORD]

    def number_at(self, place: int) -> int:
        """The interior node at a place of the order."""
        return self.memory[self._table(ORDER) + place]

    def mask(self, number: int) -> list[bool]:
        """Of an interior node, for which inputs a gradient is wanted."""
        first = self._table(LINKS) + self.memory[self._table(STARTS) + number]
        links = self.memory[first : first + len(self.interior[number].inputs)]
        return [link >= 0 for link in links]
