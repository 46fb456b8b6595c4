"""What a piece is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from livegrad.graph.meta import Meta
from livegrad.graph.node import Node
from livegrad.runtime.cpu.pieces.families import family_of, numbered
from livegrad.runtime.cpu.pieces.layout import UNREAD

Views = list[Node]  # through which an input is seen, the innermost first


class Question:
    """A node by itself, or its gradient if there is a `mask`, and what tells it from others."""

    def __init__(
        self,
        node: Node,
        views: Sequence[Views],
        mask: list[bool] | None = None,
    ) -> None:
        family = family_of(node)
        self.node = node
        self.mask = mask
        self.saved = 0 if mask is None else family.saved
        reads_inputs = mask is None or bool(self.saved & 1)
        self.looks: list[Views] = [each if reads_inputs else [] for each in views]
        seen = [view for each in self.looks for view in each]
        self.key = key_of_views(self.looks) if reads_inputs else [UNREAD] * len(self.looks)
        self.families = [family, *[family_of(view) for view in seen]]
        pairs = zip(node.inputs, self.looks, strict=True)
        metas = [m for x, each in pairs for m in _metas(x, each)]
        self.pattern, self.sizes = numbered([*metas, node.meta])
        self.kinds = [x.spec.floats or type(a) is float for x in (*seen, node) for a in x.args]

    @property
    def known_by(self) -> tuple[Any, ...]:
        """All that a piece must agree with, but for sizes."""
        return self.key, self.pattern, self.kinds, self.mask

    def text(self) -> str | None:
        """The same in words that every process understands; None if there are none."""
        looks = [len(each) for each in self.looks]
        texts = [family.text() for family in self.families]
        if None in texts:
            return None
        # Numbers in lists, which are written alike everywhere.
        return f"{texts} {looks} {self.saved} {self.pattern} {self.kinds} {self.mask}"


def key_of_views(looks: Sequence[Views]) -> list[int]:
    """How inputs are seen, as cards say it."""
    key = []
    for each in looks:
        key += [len(each), *[id(family_of(view)) for view in reversed(each)]]
    return key


def looked_through(node: Node, key: list[int]) -> list[Views]:
    """The views that a key tells of."""
    found: list[Views] = []
    at = 0
    for x in node.inputs:
        views: Views = []
        for _ in range(max(key[at], 0)):
            views.insert(0, x)
            x = x.inputs[0]
        at += 1 + len(views)
        found.append(views)
    return found


def _metas(x: Node, views: Views) -> list[Meta]:
    """Of an input, and what it is a view of: in the order in which native code comes by."""
    return [x.meta, *[view.inputs[0].meta for view in reversed(views)]]
