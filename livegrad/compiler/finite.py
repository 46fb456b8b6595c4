"""Looking for values that are not finite: a kernel that only reads, and refuses.

The magnitudes of numbers are in the order of their bits without the sign, infinity and NaN above
all others. So the largest of these bits tells, whatever the values are.

Argument block: 0 work items   1 values   2 how many   3 elements per item
"""

from __future__ import annotations

from collections.abc import Sequence

from livegrad.compiler.binder import ITEM_ELEMENTS, THREAD_WORK, patched
from livegrad.compiler.builder import Builder
from livegrad.compiler.draft import Draft
from livegrad.compiler.plan import Block, Step
from livegrad.compiler.values import Value
from livegrad.dtypes import DType, bfloat16, float16, float32, float64
from livegrad.graph.node import Node
from livegrad.graph.symbol import most

# Bits of an element, and those of infinity.
_INFINITY = {
    float16: (16, 0x7C00),
    bfloat16: (16, 0x7F80),
    float32: (32, 0x7F800000),
    float64: (64, 0x7FF0000000000000),
}
_VECTORS = 4


def question(draft: Draft, node: Node, values: Sequence[Node]) -> list[Step]:
    """Steps that look at `values` for `node`: one kernel per dtype, run over their table.

    Complex values are pairs of reals, in the same memory.
    """
    kinds: dict[DType, list[Node]] = {}
    for x in values:
        kinds.setdefault(x.meta.dtype.to_real(), []).append(x)
    return [
        Step(
            "finite",
            node.meta.shape,
            [_block(draft, x) for x in members],
            (generate_finite, dtype),
            may_fault=True,
        )
        for dtype, members in kinds.items()
    ]


def _block(draft: Draft, x: Node) -> Block:
    numel = x.meta.numel * (2 if x.meta.dtype.is_complex else 1)
    slots = [-(-numel // ITEM_ELEMENTS), 0, numel, ITEM_ELEMENTS]
    return Block(slots, patched(draft.where, x), most(1, THREAD_WORK // ITEM_ELEMENTS))


# ------------------------------------------------------------------------------ code generation


def generate_finite(b: Builder, dtype: DType) -> None:
    """Writes the kernel for values of `dtype`."""
    args, begin, end, ctx = b.params
    bits, infinity = _INFINITY[dtype]
    element = f"i{bits}"
    vector = b.vector(element)
    size = b.const(element, infinity)
    magnitude = b.splat(b.const(element, (1 << (bits - 1)) - 1))

    def arg(slot: int, type: str = "i64") -> Value:
        return b.load(type, b.gep(args, "i64", slot))

    values, count, block = arg(1, "ptr"), arg(2), arg(3)
    low = b.mul(begin, block)
    high = b.smin(b.mul(end, block), count)
    step = _VECTORS * b.lanes
    whole = b.add(low, b.mul(b.udiv(b.sub(high, low), b.const("i64", step)), step))

    def larger(before: Value, at: Value, mask: Value | None = None) -> Value:
        found = b.load(vector, b.gep(values, element, at), mask)
        return b.umax(before, b.and_(found, magnitude))

    none = b.splat(b.const(element, 0))
    with b.loop(low, whole, step, [none] * _VECTORS) as strip:
        strip.update(
            *[
                larger(before, b.add(strip.index, k * b.lanes))
                for k, before in enumerate(strip.carried)
            ]
        )
    first, *others = strip.results
    for other in others:
        first = b.umax(first, other)
    with b.loop(whole, high, b.lanes, [first]) as rest:
        mask = b.lane_mask(b.sub(high, rest.index))
        rest.update(larger(rest.carried[0], rest.index, mask))
    with b.if_(b.icmp("uge", b.reduce_lanes(rest.results[0], b.umax), size)):
        b.store(b.const("i64", 1), ctx)
        b.store(b.const("i64", 0), b.gep(ctx, "i64", 1))


__all__ = ["generate_finite", "question"]
