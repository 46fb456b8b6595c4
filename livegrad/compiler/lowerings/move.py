"""Moving the value of a leaf to where it is to be changed, unless that is where it is.

Argument block: 0 work items   1 target   2 source   3 elements   4 elements per item
"""

from __future__ import annotations

from livegrad.compiler.binder import THREAD_WORK, patched
from livegrad.compiler.builder import Builder
from livegrad.compiler.draft import Draft
from livegrad.compiler.emitter import memory_element
from livegrad.compiler.lowerings.base import Kernel
from livegrad.compiler.plan import CLEAR_IF_SAME, SET_CONSTANT, Block, Step
from livegrad.dtypes import DType
from livegrad.graph.node import Node

ELEMENTS = 16384


class Moved(Kernel):
    """A copy of a leaf, in memory that may be the leaf's own: then there is nothing to do."""

    def bind(self, draft: Draft, node: Node) -> list[Step]:
        """One step, without work if both addresses are the same."""
        (leaf,) = node.inputs
        target, source = draft.where(node).slot, draft.where(leaf).slot
        dtype = node.meta.dtype.to_real()
        count = node.meta.nbytes // dtype.itemsize
        items = -(-count // ELEMENTS)
        patches = patched(draft.where, node, leaf)
        if draft.is_buffer(target):
            patches += [(SET_CONSTANT, 0, 0, items), (CLEAR_IF_SAME, 0, target, source)]
        block = Block([items, 0, 0, count, ELEMENTS], patches, THREAD_WORK // ELEMENTS)
        return [Step("move", node.meta.shape, [block], (generate_move, dtype))]


def generate_move(b: Builder, dtype: DType) -> None:
    """Writes the copy of a run of elements."""
    args, begin, end, _ = b.params
    element = memory_element(dtype)
    target, source = [b.load("ptr", b.gep(args, "i64", slot)) for slot in (1, 2)]
    total, each = [b.load("i64", b.gep(args, "i64", slot)) for slot in (3, 4)]
    with b.loop(begin, end) as item:
        low = b.mul(item.index, each)
        high = b.smin(b.add(low, each), total)
        whole = b.sub(high, b.urem(b.sub(high, low), b.lanes))
        for first, last, type, step in (
            (low, whole, b.vector(element), b.lanes),
            (whole, high, element, 1),
        ):
            with b.loop(first, last, step) as run:
                value = b.load(type, b.gep(source, element, run.index))
                b.store(value, b.gep(target, element, run.index))
