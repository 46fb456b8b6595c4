"""Movement: ops that rearrange elements are looked through by whoever reads them."""

from __future__ import annotations

from livegrad.compiler.access import is_alias, own_index, resolve
from livegrad.compiler.expand import copy_node, make_node
from livegrad.compiler.hosting import pairs_meta, pairs_spec
from livegrad.compiler.legalise import Legaliser
from livegrad.compiler.lowerings.base import Lowering, Nodes
from livegrad.graph.node import Node
from livegrad.ops.shaping.movement import reshape_to


class Movement(Lowering):
    """An index map, the op's `view`; None where it gives another name to memory in plain order."""

    def legalise_complex(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        """Complex values are moved as pairs of reals."""
        pairs = walk.pairs(inputs[0])
        moved = make_node(pairs_spec(node), (pairs,), node.args, node.site)
        return walk.whole(walk.add(moved, (pairs,)))

    def from_memory(self, node: Node) -> Nodes:
        """Itself, if it is another name for memory."""
        return (node,) if is_alias(resolve(node, own_index(node.meta.shape))[0]) else ()


class Reshape(Movement):
    """Regrouping dims may need the elements in plain order."""

    def legalise(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        """An index map where there is one, else another name."""
        (x,) = inputs
        if x.meta.shape == node.meta.shape:
            return x
        made = copy_node(node, inputs, node.args)
        assert node.op.view is not None
        if node.op.view(made, own_index(node.meta.shape)) is None:
            inputs = (walk.in_order(x),)
        return walk.add(node, inputs)

    def legalise_complex(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        """A reshape of pairs."""
        shape, pairs = pairs_meta(node.meta).shape, walk.pairs(inputs[0])
        return walk.whole(walk.rewrite(lambda t: reshape_to(t, shape), pairs, site=node.site))


class AsPairs(Movement):
    """Complex memory seen as pairs of reals."""

    def legalise_complex(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        """The pairs, if the values are seen as complex ones only."""
        return walk.pairs(inputs[0])


class AsComplex(Movement):
    """Pairs of reals seen as complex values."""

    def legalise_complex(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        """Another name for the pairs."""
        return walk.whole(inputs[0])

    def in_order(self, walk: Legaliser, x: Node) -> Node:
        """The pairs in order."""
        (pairs,) = x.inputs
        ordered = walk.in_order(pairs)
        return x if ordered is pairs else walk.whole(ordered)

    def pairs(self, walk: Legaliser, x: Node) -> Node:
        """What they were made of."""
        return x.inputs[0]


class OtherElements(Movement):
    """Memory seen as elements of another size: its input must lie in plain order."""

    def legalise(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        """Another name for it."""
        return walk.add(node, (walk.in_order(inputs[0]),))
