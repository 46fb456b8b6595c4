"""Where values are read: looking through movement ops to what is really in memory."""

from __future__ import annotations

from livegrad.graph.index import FIRST, Along, Index
from livegrad.graph.meta import Shape
from livegrad.graph.node import Node


def own_index(shape: Shape) -> Index:
    """A value read at the loop counters themselves; a dim of size 1 is always read at 0."""
    return tuple([FIRST if size == 1 else Along(d) for d, size in enumerate(shape)])


def broadcast_index(index: Index, shape: Shape) -> Index:
    """The index of an operand of `shape` where the result is wanted at `index`."""
    lead = len(index) - len(shape)
    return tuple([FIRST if size == 1 else index[lead + d] for d, size in enumerate(shape)])


def resolve(node: Node, index: Index) -> tuple[Node, Index]:
    """The node that holds or computes the elements, and where it is read.

    Stops at a reshape that regroups dims: that is another name for the memory of its input.
    """
    while node.op.kind == "movement":
        assert node.op.view is not None
        inner = node.op.view(node, index)
        if inner is None:
            break
        node = node.inputs[0]
        index = tuple(
            [FIRST if size == 1 else at for at, size in zip(inner, node.meta.shape, strict=True)]
        )
    return node, index


def is_alias(node: Node) -> bool:
    """Whether a node left by `resolve` is a reshape sharing its input's memory."""
    return node.op.kind == "movement"


def storage(node: Node) -> Node:
    """The node whose memory holds the elements of `node`, in the same order."""
    while node.op.kind == "movement":
        node = node.inputs[0]
    return node


def plain(node: Node) -> Node | None:
    """The resolved node if all its elements are read in order, else None."""
    base, index = resolve(node, own_index(node.meta.shape))
    wanted = own_index(node.meta.shape)
    kept = [at for at in index if at is not FIRST and at != FIRST]
    if kept == [at for at in wanted if at != FIRST] and base.meta.numel == node.meta.numel:
        return base
    return None


def walks_as_one(node: Node, index: Index, dims: tuple[int, ...]) -> bool:
    """Whether loops over `dims`, read at `index`, step evenly through the memory of `node`."""
    places = [d for d, at in enumerate(index) if at.axis in dims]
    if not places:
        return True
    if [index[d] for d in places] != [Along(d) for d in dims]:
        return False
    between = range(places[0], places[-1])
    return all(node.meta.shape[d] == 1 for d in between if d not in places)
