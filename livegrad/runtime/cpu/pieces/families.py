"""Families: specs that differ in sizes only, and so have their pieces in common."""

from __future__ import annotations

from array import array
from typing import Any

from livegrad.graph.meta import Meta
from livegrad.graph.node import Node
from livegrad.graph.written import text_or_none
from livegrad.native.hot import hot, hot_slots
from livegrad.runtime.cpu.pieces.layout import OFTEN, RARE, RARE_COUNT, UPDATE, WORD


@hot_slots
class Family:
    """What the list knows of nodes of one operation, whatever their sizes.

    `role` is what they are to the list; `saved` which values their gradient reads: 1 inputs,
    2 their own. `forward` and `backward` are addresses of the first cards of the `pieces`, `rare`
    is the address of a count: see RARE in layout.py. `key` is what they have in common.
    """

    __slots__ = (
        "_memory", "_text", "backward", "forward", "key", "pieces", "rare", "role", "saved",
    )  # fmt: skip

    def __init__(self, key: tuple[Any, ...] = ()) -> None:
        self.key = key
        self.role = self.saved = -1  # not known
        self.forward = self.backward = 0
        self.pieces: list[Any] = []
        self._memory = array("q", bytes(RARE))
        self.rare = self._memory.buffer_info()[0]
        self._text: str | None = ""  # not known

    def text(self) -> str | None:
        """The key in words that every process understands; None if there are none."""
        if self._text == "":
            self._text = text_or_none(self.key)
        return self._text

    def is_rarely_so(self) -> bool:
        """Whether few nodes of this list read through views without a piece; if not, counts anew:
        the next way of looking may be another."""
        rarely = self._memory[RARE_COUNT // WORD] < OFTEN
        if not rarely:
            self._memory[RARE_COUNT // WORD] = 0
        return rarely


_known: dict[tuple[Any, ...], Family] = {}
# Past this many, forget: pieces are made anew, for specs that are.
_MOST = 1 << 14


@hot
def know_families(nodes: list[Node]) -> None:
    """Fills in the families of nodes: programs of new sizes have new specs."""
    for node in nodes:
        if node.spec.family is None:
            node.spec.family = _family(node)


@hot
def family_of(node: Node) -> Family:
    """The family of a node; its spec remembers it."""
    spec = node.spec
    found: Family | None = spec.family
    if found is None:
        found = spec.family = _family(node)
    return found


@hot
def _family(node: Node) -> Family:
    spec = node.spec
    meta = node.meta
    key: tuple[Any, ...] = (spec.op,)
    if spec.op.kind != "gradient":  # whose attrs are the way of a whole walk
        inputs = tuple([(x.meta.dtype, x.meta.ndim) for x in node.inputs])
        key = (spec.op, spec.attrs, spec.floats, meta.dtype, meta.ndim, inputs)
    found = _known.get(key)
    return _new_family(key) if found is None else found


def _new_family(key: tuple[Any, ...]) -> Family:
    if len(_known) >= _MOST:
        _known.clear()
    found = _known[key] = Family(key)
    if key[0].written:  # not a question about gradients, which nobody reads
        found.role = UPDATE
    return found


def numbered(metas: list[Meta]) -> tuple[list[int], list[int]]:
    """For each dim 0, 1, or 2 + the number of its size; and the sizes: see PATTERN in layout.py."""
    numbers: dict[int, int] = {}
    pattern = [
        size if size < 2 else 2 + numbers.setdefault(size, len(numbers))
        for meta in metas
        for size in meta.shape
    ]
    return pattern, list(numbers)
