"""Lowerings: the rules by which the passes treat the nodes of an op.

A pass asks a node's `op.lower`, and never which op it is:

    legalise   legalise, legalise_complex, in_order, pairs   forms that kernels exist for
    overwrite  overwritten, storing, store_in                what is stored in another's memory
    fuse       group, reads, from_memory, stores, regions    which loops it joins, what it reads
    describe   describe                                      its instruction in a fused kernel
    bind       bind                                          its steps, if it is a kernel by itself

The first item of a step's signature is the function that makes its code (runtime/cpu/assemble.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from livegrad.compiler.access import plain
from livegrad.compiler.expand import make_node
from livegrad.compiler.hosting import host_spec, pairs_meta
from livegrad.graph.index import Index
from livegrad.graph.node import Node, Spec
from livegrad.ops.elementwise.conjugate import VIEW_AS_REAL

if TYPE_CHECKING:
    from livegrad.compiler.describe import Describer
    from livegrad.compiler.draft import Draft
    from livegrad.compiler.fuse import Fuser
    from livegrad.compiler.groups import Read
    from livegrad.compiler.legalise import Legaliser
    from livegrad.compiler.plan import Step

Nodes = tuple[Node, ...]


class Lowering:
    """The rules of one kind of op, as they are if nothing else is said."""

    # Whether the value must be in memory, whoever reads it.
    stores = False
    # Whether a value made of numbers depends on the position of the element, too.
    positioned = False
    # Whether legalise replaces such nodes by others.
    rewritten = False
    # Whether the value has memory of its own, which no loop that reads it can do without.
    owns_memory = False
    # What explain() calls a kernel that has only such nodes.
    label = "loops"

    def legalise(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        """The legal form of `node`, whose inputs are legal."""
        return walk.add(node, inputs)

    def legalise_complex(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        """The legal form of a node that reads or gives complex values: NumPy computes with them."""
        inputs = tuple([walk.in_order(x) for x in inputs])
        return walk.add(make_node(host_spec(node), inputs, node.args, node.site), inputs)

    def in_order(self, walk: Legaliser, x: Node) -> Node:
        """A node with the elements of `x` in plain order in memory."""
        base = plain(x)
        if base is None or base.op.kind == "generate":
            return walk.copy(x)
        return x

    def pairs(self, walk: Legaliser, x: Node) -> Node:
        """Complex `x` as pairs of reals."""
        spec = Spec(VIEW_AS_REAL, (), pairs_meta(x.meta))
        return walk.add(make_node(spec, (x,), (), x.site), (x,))

    def overwritten(self, node: Node) -> Node | None:
        """The input that `node` is a copy of, but for what it stores there."""
        return None

    def storing(self, node: Node) -> Node:
        """The node that stores what is changed."""
        return node

    def store_in(self, node: Node, base: Node) -> Nodes:
        """Makes `node` change `base` where it is; the nodes that are not needed then."""
        raise AssertionError(f"{node!r} changes no part of another value")

    def group(self, fuser: Fuser, node: Node) -> None:
        """Puts `node` into a group; what is only looked through is in none."""

    def reads(self, node: Node, index: Index) -> Iterable[Read]:
        """The values that `node` reads when it is computed at `index` of a loop."""
        return ()

    def from_memory(self, node: Node) -> Nodes:
        """What must be in memory because of `node`."""
        return ()

    def regions(self, node: Node) -> Iterable[tuple[Node, Index]]:
        """The parts that the buffer of `node` is made of, and where each is stored in it."""
        return ()

    def describe(self, kernel: Describer, node: Node, index: Index) -> int:
        """The number of the instruction of `kernel` that gives `node` at `index`."""
        raise AssertionError(f"{node!r} is in no loop")

    def bind(self, draft: Draft, node: Node) -> list[Step]:
        """The steps of a node that is a kernel by itself."""
        raise AssertionError(f"{node!r} is no kernel")


class Looped(Lowering):
    """A value that loops compute, one element at a time."""

    def group(self, fuser: Fuser, node: Node) -> None:
        """In the loops of a neighbour, if they agree."""
        fuser.place(node)


class Kernel(Lowering):
    """A node that is a kernel by itself; without a template, its NumPy reference."""

    label = "host"
    owns_memory = True

    def legalise(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        """Kernels read memory in plain order."""
        return walk.add(node, tuple([walk.in_order(x) for x in inputs]))

    def group(self, fuser: Fuser, node: Node) -> None:
        """A group of its own."""
        fuser.new_kernel(node)

    def from_memory(self, node: Node) -> Nodes:
        """All inputs."""
        return node.inputs

    def bind(self, draft: Draft, node: Node) -> list[Step]:
        """One step that runs the reference."""
        return [draft.host_step(node)]
