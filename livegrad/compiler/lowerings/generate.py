"""Values made of numbers and positions: whoever reads a cheap one makes it on the spot."""

from __future__ import annotations

from livegrad.compiler.describe import Describer
from livegrad.compiler.lowerings.base import Looped
from livegrad.compiler.signature import Stream
from livegrad.dtypes import int64
from livegrad.graph.index import Index
from livegrad.graph.node import Node


class Generate(Looped):
    """Numbers in args, and the position of the element unless the value is the same everywhere."""

    def __init__(self, positioned: bool = True) -> None:
        self.positioned = positioned

    def describe(self, kernel: Describer, node: Node, index: Index) -> int:
        """An instruction on numbers; a stream without memory counts positions."""
        numbers = [kernel.number(a) for a in node.args]
        dtype, name = node.meta.dtype, node.op.name
        if not self.positioned:
            return kernel.add("generate", name, (-1, *numbers), dtype, False)
        full = kernel.varies(index)
        step = kernel.step(index, node.meta.shape)
        stream = kernel.stream(node, index, Stream(dtype, step, "position"))
        position = kernel.add("position", stream, (), int64, full, fixed=False)
        return kernel.add("generate", name, (position, *numbers), dtype, full)
