"""Parts stored into one buffer: concatenation, padding, writes to a part.

cat(a, b)  ──►  part(a) ─┐
                         ├─► assembly     the kernels that compute a and b store them there
                part(b) ─┘
"""

from __future__ import annotations

from collections.abc import Iterable

from livegrad.compiler.access import own_index
from livegrad.compiler.draft import Draft
from livegrad.compiler.expand import make_node
from livegrad.compiler.inserted import ASSEMBLY, PART, WRITTEN
from livegrad.compiler.legalise import Legaliser
from livegrad.compiler.lowerings.base import Kernel, Nodes
from livegrad.compiler.plan import Step
from livegrad.graph.index import Along, Index, stepped
from livegrad.graph.node import Node, Spec
from livegrad.graph.record import record
from livegrad.ops.elementwise.arithmetic import cast
from livegrad.ops.making.generate import FULL
from livegrad.ops.shaping.movement import INDEX

Part = tuple[Node, Index]


class Assembly(Kernel):
    """The buffer: nothing is left to do once its parts are stored."""

    def regions(self, node: Node) -> Iterable[Part]:
        """Inputs and the indices in attrs."""
        return zip(node.inputs, node.attrs[0], strict=True)

    def overwritten(self, node: Node) -> Node | None:
        """What is stored first, if that is everywhere, and one part over it."""
        if len(node.inputs) != 2:
            return None
        first, second = node.inputs
        everywhere = node.attrs[0][0] == own_index(node.meta.shape)
        return first.inputs[0] if first in second.inputs and everywhere else None

    def storing(self, node: Node) -> Node:
        """The part."""
        return node.inputs[1]

    def store_in(self, node: Node, base: Node) -> Nodes:
        """The base stays, the part is stored into it."""
        copy, part = node.inputs
        part.inputs = part.inputs[:1]
        node.spec = Spec(WRITTEN, node.attrs[0][1:], node.meta)
        node.inputs = (base, part)
        return (copy,)

    def bind(self, draft: Draft, node: Node) -> list[Step]:
        """No step."""
        return []


class Written(Kernel):
    """The memory of a base, once the part is stored into it: attrs (region of the part,)."""

    def regions(self, node: Node) -> Iterable[Part]:
        """The part."""
        return ((node.inputs[1], node.attrs[0]),)

    def bind(self, draft: Draft, node: Node) -> list[Step]:
        """No step."""
        return []


class Parts(Kernel):
    """An op that becomes an assembly."""

    rewritten = True
    # Whether parts may overlap: they are then stored in order.
    ordered = False

    def legalise(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        """The assembly; parts are never shared, so it is made once."""
        return walk.once(node, inputs, lambda: self._assembled(walk, node, inputs))

    def parts(self, walk: Legaliser, node: Node, inputs: Nodes) -> list[Part]:
        """Values, and where they go: an index of the buffer in terms of the part's own dims."""
        raise NotImplementedError

    def _assembled(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        parts = self.parts(walk, node, inputs)
        made: list[Node] = []
        for x, _ in parts:
            attrs = (x.meta.dtype, "t", len(walk.nodes))  # unique: parts are never shared
            # An overlapping part comes after the one it overwrites, which it names as an input.
            after = (x, *made[-1:]) if self.ordered else (x,)
            part = make_node(Spec(PART, attrs, x.meta), after, (), node.site)
            made.append(walk.add(part, after))
        spec = Spec(ASSEMBLY, (tuple([index for _, index in parts]),), node.meta)
        return walk.add(make_node(spec, tuple(made), (), node.site), tuple(made))


class Cat(Parts):
    """Inputs one after the other: attrs (dim,)."""

    def parts(self, walk: Legaliser, node: Node, inputs: Nodes) -> list[Part]:
        """Each input where the one before it ends."""
        dim = node.attrs[0]
        offset = 0
        parts = []
        for x in inputs:
            index = list(own_index(x.meta.shape))
            if x.meta.shape[dim] == 1:
                index[dim] = Along(-1, 0, offset)
            else:
                index[dim] = Along(dim, 1, offset)
            parts.append((_same_dtype(walk, x, node), tuple(index)))
            offset += x.meta.shape[dim]
        return parts


class Interleave(Parts):
    """Inputs take turns in the last dims: attrs (steps, starts of each input)."""

    def parts(self, walk: Legaliser, node: Node, inputs: Nodes) -> list[Part]:
        """Each input at every so many elements."""
        steps, starts = node.attrs
        lead = node.meta.ndim - len(steps)
        found = []
        for x, start in zip(inputs, starts, strict=True):
            index = own_index(x.meta.shape)
            moved = map(stepped, index[lead:], steps, start)
            found.append((_same_dtype(walk, x, node), (*index[:lead], *moved)))
        return found


class IndexWrite(Parts):
    """Inputs (base, value); attrs and args are those of the index that is written to."""

    ordered = True

    def parts(self, walk: Legaliser, node: Node, inputs: Nodes) -> list[Part]:
        """The base, then the value over it."""
        base, value = inputs
        assert INDEX.view is not None
        reader = make_node(Spec(INDEX, node.attrs, value.meta), (base,), node.args, None)
        index = INDEX.view(reader, own_index(value.meta.shape))
        return [(base, own_index(base.meta.shape)), (_same_dtype(walk, value, node), index)]


class Pad(Parts):
    """A number around the input: attrs (which dims,), args (number, size before each)."""

    ordered = True

    def parts(self, walk: Legaliser, node: Node, inputs: Nodes) -> list[Part]:
        """The number everywhere, then the input over it."""
        (x,) = inputs
        value, *before = node.args
        whole = node.meta
        fill = walk.rewrite(
            lambda t: record(FULL, (), (whole.dtype,), (value,), whole.shape), x, site=node.site
        )
        starts = iter(before)
        index = tuple(
            [
                stepped(at, 1, next(starts)) if padded else at
                for at, padded in zip(own_index(x.meta.shape), node.attrs[0], strict=True)
            ]
        )
        return [(fill, own_index(whole.shape)), (x, index)]


def _same_dtype(walk: Legaliser, x: Node, node: Node) -> Node:
    if x.meta.dtype is node.meta.dtype:
        return x
    return walk.rewrite(lambda t: cast(t, node.meta.dtype), x, site=node.site)
