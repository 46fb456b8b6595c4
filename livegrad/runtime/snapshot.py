"""What was recorded, as a plan is looked up by it, and which values must be kept."""

from __future__ import annotations

import sys
from typing import Any

from livegrad.graph.node import Node
from livegrad.graph.state import LOCAL
from livegrad.runtime.elsewhere import read_by_others
from livegrad.runtime.liveness import is_claim, is_kept

_refs = sys.getrefcount


def _count_own_references() -> int:
    """What `_refs` says, inside `Snapshot`, of a handle that only the pending list refers to."""
    handles, nodes = [object()], [None]
    # A list, because `Snapshot` makes one: the count must be taken in the same surroundings.
    return [_refs(handle) for handle, _ in zip(handles, nodes, strict=True)][0]  # noqa: RUF015


_ALONE = _count_own_references()


class Snapshot:
    """Pending nodes as what a plan is looked up by, and what a run of it needs.

    - `specs` of the nodes, and `links`: for each input of each node, the place of the pending node
      it is, or -1 for a computed one; these are listed in `reads`, in order
    - `seen`: which values the program can still see, or asks for; `keep`: or backward will need
    """

    __slots__ = ("base", "handles", "keep", "links", "nodes", "reads", "seen", "specs")

    def __init__(
        self, nodes: list[Node], handles: list[Any], base: int, roots: tuple[Node, ...]
    ) -> None:
        self.nodes = nodes
        self.handles = handles
        self.base = base
        self.specs = tuple([n.spec for n in nodes])
        end = base + len(nodes)
        inputs = [x for n in nodes for x in n.inputs]
        indices = [x.index for x in inputs]
        self.links = [i - base if base <= i < end else -1 for i in indices]
        self.reads = [x for x, link in zip(inputs, self.links, strict=True) if link < 0]
        self.keep = bytearray(
            [is_kept(_refs(h) - _ALONE, h._node, n) for h, n in zip(handles, nodes, strict=True)]
        )
        if LOCAL.state.shared:
            # By identity: another thread may have numbered nodes of this one as its own.
            places = {node: place for place, node in enumerate(nodes)}
            for x in read_by_others():
                if x in places:
                    self.keep[places[x]] = 1
        for root in roots:
            if root.buffer is None:
                self.keep[root.index - base] = 1
        self.seen = bytes(self.keep)
        for node in [n for n, k in zip(nodes, self.keep, strict=True) if k and n.grad_to]:
            if is_claim(node):
                _keep_for_backward(self)
                break


def numbers_of(nodes: list[Node]) -> tuple[list[int], list[float]]:
    """The run-time integers and floats of nodes that have some, in the order plans number them."""
    ints: list[int] = []
    floats: list[float] = []
    for node in nodes:
        if node.spec.floats:
            floats += node.args
        else:
            for number in node.args:
                if type(number) is float:
                    floats.append(number)
                else:
                    ints.append(number)
    return ints, floats


# --------------------------------------------------------- what a later backward will need


# Bytes of a value that is kept although it is cheap to compute again: every backward pass that
# reads it would find it missing, and be another structure.
_LITTLE = 4096


def _keep_for_backward(snapshot: Snapshot) -> None:
    """Keeps what gradient rules read of graphs that backward has not walked yet."""
    nodes, keep, base = snapshot.nodes, snapshot.keep, snapshot.base
    claimed = [k and is_claim(node) for k, node in zip(keep, nodes, strict=True)]
    for place in range(len(nodes) - 1, -1, -1):
        if not claimed[place]:
            continue
        node = nodes[place]
        saves = node.op.saves
        if "y" in saves:
            keep[place] = 1
        for x in node.inputs:
            at = x.index - base
            if 0 <= at < len(nodes):
                if "x" in saves and (not x.op.cheap or x.meta.nbytes <= _LITTLE):
                    keep[at] = 1
                if is_claim(x):
                    claimed[at] = True
