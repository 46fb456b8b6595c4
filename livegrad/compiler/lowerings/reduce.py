"""Reductions: a kernel folds one run of dims, and keeps them as size 1."""

from __future__ import annotations

from collections.abc import Iterable

from livegrad.compiler.access import own_index, resolve
from livegrad.compiler.describe import Describer
from livegrad.compiler.fuse import Fuser, Read
from livegrad.compiler.legalise import Legaliser, legalise_reduce
from livegrad.compiler.lowerings.base import Lowering, Nodes
from livegrad.compiler.signature import Stream
from livegrad.graph.index import Index
from livegrad.graph.node import Node


class Reduce(Lowering):
    """attrs (dims, keepdim, …); the op's `combine` names the reducer."""

    def legalise(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        """Folds of one run of dims."""
        return legalise_reduce(walk, node, inputs)

    def group(self, fuser: Fuser, node: Node) -> None:
        """In the loops that compute or read what is folded, or as their tail."""
        fuser.place_reduce(node)

    def reads(self, node: Node, index: Index) -> Iterable[Read]:
        """All of what is folded."""
        (x,) = node.inputs
        return (Read(*resolve(x, own_index(x.meta.shape))),)

    def describe(self, kernel: Describer, node: Node, index: Index) -> int:
        """A fold along the row; in a tail, one over what the rows gave."""
        (read,) = kernel.direct_reads(node, index)
        combine, dtype = node.op.combine, node.meta.dtype
        if kernel.in_tail:
            stream = kernel.stream(read.node, read.index, Stream(read.node.meta.dtype, 1))
            return kernel.add("fold", (combine, stream), (), dtype, False)
        value = kernel.value(read.node, read.index)
        return kernel.add("reduce", combine, (value,), dtype, False, fixed=False)
