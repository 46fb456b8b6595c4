"""Floating-point operations of recorded nodes: those of matrix products and convolutions.

Attention, bilinear layers and the like are counted as what they expand to, so few ops have a
`flops` of their own. What is not written with products (activations, norms) counts as nothing, as
is usual. A multiplication and an addition are two operations.
"""

from __future__ import annotations

from livegrad.compiler.expand import in_scratch, make_node
from livegrad.graph.handle import leaf_node, wrap
from livegrad.graph.node import Node


def flops_of(node: Node) -> int:
    """The operations of one node."""
    if node.op.flops is not None:
        return 2 * node.op.flops(node)
    expand = node.op.expand
    if node.op.kind != "composite" or expand is None:
        return 0
    # Leaves in place of the inputs: what is counted is this node, not what it was made from.
    inputs = tuple([leaf_node(x.meta, None) for x in node.inputs])
    copy = make_node(node.spec, inputs, node.args, node.site)
    _, made = in_scratch(node.site, lambda: expand(copy, *[wrap(x) for x in inputs]))
    return sum(flops_of(m) for m in made)
