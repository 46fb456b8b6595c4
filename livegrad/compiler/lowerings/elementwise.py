"""Elementwise ops: they join the loops of what they read."""

from __future__ import annotations

from collections.abc import Iterable

from livegrad.compiler.access import broadcast_index, own_index, resolve
from livegrad.compiler.describe import Describer
from livegrad.compiler.groups import Read
from livegrad.compiler.legalise import Legaliser
from livegrad.compiler.lowerings.base import Looped, Nodes
from livegrad.graph.index import Index
from livegrad.graph.node import Node


class Elementwise(Looped):
    """One value per element: attrs (compute dtype, pattern of tensors and numbers, …)."""

    def reads(self, node: Node, index: Index) -> Iterable[Read]:
        """The operands; further inputs are there for the order in which parts are stored."""
        operands = node.attrs[1].count("t")
        for number, x in enumerate(node.inputs):
            if number < operands:
                yield Read(*resolve(x, broadcast_index(index, x.meta.shape)))
            else:
                yield Read(*resolve(x, own_index(x.meta.shape)), memory=True)

    def describe(self, kernel: Describer, node: Node, index: Index) -> int:
        """An instruction on values and numbers."""
        compute, pattern = node.attrs[:2]
        reads = iter(kernel.fuser.direct_reads(node, index))
        numbers = iter(node.args)
        operands = []
        for letter in pattern:
            if letter == "t":
                read = next(reads)
                operands.append(kernel.value(read.node, read.index))
            else:
                operands.append(kernel.number(next(numbers)))
        full = kernel.any_full(operands)
        # What may refuse a value is computed where there are elements, and not for an empty row.
        full = full or (node.op.may_refuse(node) and kernel.varies(index))
        fixed = False if full else None
        return kernel.add(
            "op", (node.op.name, compute), tuple(operands), node.meta.dtype, full, fixed
        )


class Conversion(Elementwise):
    """Clones and casts, of which nothing is left if the dtype is the input's."""

    def legalise(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        """The input, or its conversion."""
        if inputs[0].meta.dtype is node.meta.dtype:
            return inputs[0]
        return super().legalise(walk, node, inputs)

    def legalise_complex(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        """The same for complex values."""
        if inputs[0].meta.dtype is node.meta.dtype:
            return inputs[0]
        return super().legalise_complex(walk, node, inputs)


class Stored(Elementwise):
    """A value that the compiler wants in memory."""

    stores = True

    def __init__(self, label: str = "loops") -> None:
        self.label = label
