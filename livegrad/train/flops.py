"""Floating-point operations of recorded nodes: those of matrix products and convolutions.

Attention, bilinear layers and the like are counted as what they expand to, so few formulas are
needed. What is not written with products (activations, norms) counts as nothing, as is usual. A
multiplication and an addition are two operations.
"""

from __future__ import annotations

from math import prod

from livegrad.compiler.expand import in_scratch, make_node
from livegrad.graph.meta import Meta
from livegrad.graph.node import Node
from livegrad.graph.record import leaf_node, wrap
from livegrad.ops.recurrent import Layout


def flops_of(node: Node) -> int:
    """The operations of one node."""
    rule = _RULES.get(node.op.name)
    if rule is not None:
        return 2 * rule(node)
    expand = node.op.expand
    if node.op.kind != "composite" or expand is None:
        return 0
    # Leaves in place of the inputs: what is counted is this node, not what it was made from.
    inputs = tuple([leaf_node(x.meta, None) for x in node.inputs])
    copy = make_node(node.spec, inputs, node.args, node.site)
    _, made = in_scratch(node.site, lambda: expand(copy, *[wrap(x) for x in inputs]))
    return sum(flops_of(m) for m in made)


# ------------------------------------------------------------------ multiplications, by operation


def _matmul(node: Node) -> int:
    return node.meta.numel * node.inputs[0].meta.shape[-1]


def _places(outputs: Meta) -> int:
    """How many windows a convolution has: those of (N, O, *L)."""
    return outputs.shape[0] * prod(outputs.shape[2:])


def _conv(node: Node) -> int:
    return _places(node.meta) * node.inputs[1].meta.numel


def _conv_input(node: Node) -> int:
    return _places(node.inputs[0].meta) * node.inputs[1].meta.numel


def _conv_weight(node: Node) -> int:
    return _places(node.inputs[0].meta) * node.meta.numel


def _recurrent(node: Node) -> int:
    """One product per row with the weight, and one with the projection if there is one."""
    metas = dict(zip(Layout(*node.attrs).names, [x.meta for x in node.inputs], strict=True))
    rows = metas["gates"].shape[0]
    return rows * sum(metas[name].numel for name in ("weight", "projection") if name in metas)


_RULES = {
    "matmul": _matmul,
    "conv": _conv,
    "conv_input": _conv_input,
    "conv_weight": _conv_weight,
    "recurrent": _recurrent,
}
