"""Where values are read: looking through movement ops to what is really in memory."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

from livegrad.graph.index import FIRST, Along, Index
from livegrad.graph.meta import Shape
from livegrad.graph.node import Node


@lru_cache(maxsize=4096)
def own_index(shape: Shape) -> Index:
    """A value read at the loop counters themselves; a dim of size 1 is always read at 0."""
    return tuple([FIRST if size == 1 else Along(d) for d, size in enumerate(shape)])


def broadcast_index(index: Index, shape: Shape) -> Index:
    """The index of an operand of `shape` where the result is wanted at `index`."""
    lead = len(index) - len(shape)
    return tuple([FIRST if size == 1 else index[lead + d] for d, size in enumerate(shape)])


def placed(region: Index, index: Index) -> Index:
    """`region`, an index in terms of a value's own dims, where that value stands at `index`."""
    found = []
    for at in region:
        if at.axis < 0:
            found.append(at)
            continue
        inner = index[at.axis]
        args = (*at.args, *[(slot, mult * at.coef) for slot, mult in inner.args])
        offset = at.offset + at.coef * inner.offset
        found.append(Along(inner.axis, at.coef * inner.coef, offset, args))
    return tuple(found)


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
    shape = node.meta.shape
    base, index = resolve(node, own_index(shape))
    if base.meta.numel != node.meta.numel:
        return None
    kept = [at for at in index if at is not FIRST and at != FIRST]
    if kept == [at for at in own_index(shape) if at != FIRST]:
        return base
    return base if _splits_only(index, base.meta.shape, shape) else None


def _splits_only(index: Index, base: Shape, shape: Shape) -> bool:
    """Whether dims of a base that were split are read in order."""
    if not any([at.more for at in index]) or any([at.offset or at.args for at in index]):
        return False
    strides, wanted = axis_strides(index, base, len(shape)), contiguous_strides(shape)
    return all([s == w for s, w, size in zip(strides, wanted, shape, strict=True) if size != 1])


def contiguous_strides(shape: Shape) -> list[int]:
    """Elements to skip per step along each dim of a row-major buffer."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return strides[::-1]


def axis_strides(index: Index, shape: Shape, axes: int) -> list[int]:
    """Elements to skip per step of each loop counter; a buffer of `shape` is read at `index`."""
    strides = [0] * axes
    for at, stride in zip(index, contiguous_strides(shape), strict=True):
        for axis, coef in at.terms:
            strides[axis] += coef * stride
    return strides


def walks_as_one(node: Node, index: Index, loops: Shape, dims: tuple[int, ...]) -> bool:
    """Whether loops over `dims`, as one, step evenly through the memory of `node` at `index`."""
    strides = axis_strides(index, node.meta.shape, len(loops))
    return all(strides[a] == strides[b] * loops[b] for a, b in pairwise(dims))
