"""Gathers: values read where an index says; they are part of the loops that read them."""

from __future__ import annotations

from collections.abc import Iterable

from livegrad.compiler.access import resolve
from livegrad.compiler.describe import Describer
from livegrad.compiler.groups import Read
from livegrad.compiler.legalise import Legaliser
from livegrad.compiler.lowerings.base import Looped, Nodes
from livegrad.compiler.signature import Stream
from livegrad.graph.index import FIRST, Index
from livegrad.graph.meta import Shape
from livegrad.graph.node import Node


class Gather(Looped):
    """Inputs (source, positions), attrs (dim,).

    `per_value`: positions have the dims of the result; else they take the place of dim.
    """

    def __init__(self, per_value: bool) -> None:
        self.per_value = per_value

    def legalise(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        """The source is read from memory."""
        source, positions = inputs
        return walk.add(node, (walk.in_order(source), positions))

    def from_memory(self, node: Node) -> Nodes:
        """The source."""
        return node.inputs[:1]

    def reads(self, node: Node, index: Index) -> Iterable[Read]:
        """The source at position 0 of its dim, and the positions."""
        source, positions = self._indices(node, index)
        yield Read(*resolve(node.inputs[0], source), memory=True)
        yield Read(*resolve(node.inputs[1], positions))

    def _indices(self, node: Node, index: Index) -> tuple[Index, Index]:
        dim = node.attrs[0]
        source, positions = [x.meta.shape for x in node.inputs]
        if self.per_value:
            at = tuple([FIRST if d == dim else a for d, a in enumerate(index)])
            return _unit(at, source), _unit(index, positions)
        after = dim + len(positions)
        at = (*index[:dim], FIRST, *index[after:])
        return _unit(at, source), _unit(index[dim:after], positions)

    def describe(self, kernel: Describer, node: Node, index: Index) -> int:
        """An instruction that loads at a position; the stream begins at position 0."""
        source, position = kernel.fuser.direct_reads(node, index)
        where = kernel.value(position.node, position.index)
        dtype = node.meta.dtype
        step = kernel.step(source.index, source.node.meta.shape)
        stream = kernel.stream(source.node, source.index, Stream(dtype, step))
        slot = kernel.gathered(node.inputs[0], node.attrs[0])
        full = kernel.any_full([where]) or kernel.varies(source.index)
        return kernel.add("gather", (stream, slot), (where,), dtype, full, fixed=False)


def _unit(index: Index, shape: Shape) -> Index:
    return tuple([FIRST if size == 1 else at for at, size in zip(index, shape, strict=True)])
