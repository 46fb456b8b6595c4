"""What nodes of the graph are worth: computed again apart from the program, and looked at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from livegrad.dtypes import FLOAT
from livegrad.graph.meta import Meta
from livegrad.graph.node import Node
from livegrad.graph.record import append
from livegrad.graph.state import LOCAL, flush, scratch_state
from livegrad.graph.walking import inputs_first
from livegrad.runtime.values import array_of, to_compute

# Nodes that are computed at a time: what none of the later ones reads is let go in between.
_TOGETHER = 64
# What stands for a whole backward pass, and has no value of its own.
BACKWARD_OPS = ("gradient", "gradient_of")


class Range(NamedTuple):
    """What is in a value: how many are not finite, and between which numbers the others lie."""

    shape: tuple[int, ...]
    dtype: str
    nan: int = 0
    above: int = 0
    below: int = 0
    zeros: int = 0
    low: float | None = None
    high: float | None = None

    @property
    def inf(self) -> int:
        """How many are infinite."""
        return self.above + self.below

    @property
    def is_finite(self) -> bool:
        """Whether all are finite."""
        return not (self.nan or self.above or self.below)

    @property
    def numel(self) -> int:
        """How many there are."""
        return int(np.prod(self.shape, dtype=np.int64))

    def __str__(self) -> str:
        within = "no finite value" if self.low is None else f"{self.low:.6g} … {self.high:.6g}"
        counts = {"NaN": self.nan, "inf": self.above, "-inf": self.below}
        told = [f"{count} of {self.numel} {name}" for name, count in counts.items() if count]
        if self.zeros:
            told.append(f"{self.zeros} of {self.numel} zero")
        of = f"{self.dtype.removeprefix('livegrad.')} {list(self.shape)}"
        return f"{of}: {', '.join([within, *told])}"


def range_of(values: Any, meta: Meta) -> Range:
    """What is in an array of the values of `meta`."""
    of = meta.shape, meta.dtype.name
    x = to_compute(values, meta.dtype)
    if meta.dtype.is_complex:
        x = np.stack([x.real, x.imag])
    if not x.size:
        return Range(*of)
    zeros = int(x.size - np.count_nonzero(x))
    if meta.dtype.category < FLOAT:
        return Range(*of, zeros=zeros, low=float(x.min()), high=float(x.max()))
    finite = np.isfinite(x)
    if finite.all():
        return Range(*of, zeros=zeros, low=float(x.min()), high=float(x.max()))
    nan = int(np.isnan(x).sum())
    above, below = int((x == np.inf).sum()), int((x == -np.inf).sum())
    some = x[finite]
    low, high = (float(some.min()), float(some.max())) if some.size else (None, None)
    return Range(*of, nan, above, below, zeros, low, high)


def ancestors(roots: Iterable[Node]) -> list[Node]:
    """The nodes that `roots` were computed from, and these: each after its inputs."""
    return list(inputs_first(roots, lambda node: node.inputs))


class Gone(Exception):
    """A value that nobody holds any more, and nothing that it could be computed from."""


def ranges(order: Sequence[Node]) -> dict[Node, Range]:
    """What is in each of some nodes, which are given inputs first.

    Nothing of the program's is changed: nodes without a value are computed as copies. What stands
    for backward passes is left out.
    """
    found: dict[Node, Range] = {}
    left = _uses(order)
    copies: dict[Node, Any] = {}  # tensors: they keep values alive
    waiting: list[Node] = []
    with scratch_state() as state:
        state.grad, state.held = False, True
        for node in order:
            if node.op.kind in BACKWARD_OPS or node.op.kind == "update":
                continue
            if any([x not in copies and x.buffer is None for x in node.inputs]):
                continue  # it is computed from a backward pass
            if node.buffer is not None:
                found[node] = range_of(array_of(node), node.meta)
                continue
            copies[node] = copied(node, copies)
            waiting.append(node)
            if len(waiting) >= _TOGETHER:
                _look(waiting, copies, found, left)
        _look(waiting, copies, found, left)
    return found


def copied(node: Node, copies: dict[Node, Any], grad_to: bool | None = None) -> Any:
    """The operation of a node recorded again, reading copies where there are some."""
    if not node.inputs and (node.cut is not None or node.op.kind == "leaf"):
        raise Gone(node)
    state = LOCAL.state
    before, state.site = state.site, node.site
    try:
        inputs = tuple([copies[x]._node if x in copies else x for x in node.inputs])
        return append(node.spec, inputs, node.args, grad_to)
    finally:
        state.site = before


def _uses(order: Sequence[Node]) -> dict[Node, int]:
    uses: dict[Node, int] = {}
    for node in order:
        for x in node.inputs:
            uses[x] = uses.get(x, 0) + 1
    return uses


def _look(
    waiting: list[Node], copies: dict[Node, Any], found: dict[Node, Range], left: dict[Node, int]
) -> None:
    """Computes what waits, notes what is in it, and lets go of what nobody will read."""
    flush("blame", *[copies[node]._node for node in waiting])
    for node in waiting:
        found[node] = range_of(array_of(copies[node]._node), node.meta)
    for node in waiting:
        for x in node.inputs:
            left[x] -= 1
            if not left[x]:
                copies.pop(x, None)
        if node not in left:
            copies.pop(node, None)
    waiting.clear()


__all__ = ["BACKWARD_OPS", "Gone", "Range", "ancestors", "copied", "range_of", "ranges"]
