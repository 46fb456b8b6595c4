"""What a plan is of, apart from the nodes that were recorded: to find it on disk, and to speak of
it later."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from livegrad.compiler.expand import Recorded, make_node
from livegrad.graph.handle import LEAF
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.node import Node, Site, Spec
from livegrad.graph.op import flows_of
from livegrad.graph.written import Unwritable, plain, read, text_of
from livegrad.runtime.cpu.pieces.families import numbered


class Structure:
    """Recorded nodes by their specs, what they read (pending nodes by their places, leaves by
    -1 - their numbers), the types of their numbers, and which values are kept."""

    def __init__(self, recorded: Recorded) -> None:
        places = {x: -1 - number for number, x in enumerate(recorded.leaves)}
        places.update({x: place for place, x in enumerate(recorded.nodes)})
        self.specs = [node.spec.plain or node.spec for node in recorded.nodes]
        self.links = [tuple([places[x] for x in node.inputs]) for node in recorded.nodes]
        self.numbers = [tuple([type(a) for a in node.args]) for node in recorded.nodes]
        self.leaves = [x.meta.plain for x in recorded.leaves]
        self.outputs = recorded.outputs

    def text(self) -> str | None:
        """The same for equal structures in every process; None if there are no words for it."""
        leaves = [f"{meta.dtype.name} {meta.shape}" for meta in self.leaves]
        return self._text(_text_of_spec, leaves)

    def text_without_sizes(self) -> str | None:
        """The same for structures that differ in sizes only: of those it says which are equal."""
        metas = [*self.leaves, *[spec.meta for spec in self.specs]]
        leaves = [f"{meta.dtype.name} {meta.ndim}" for meta in self.leaves]
        return self._text(_text_but_sizes, [*leaves, f"sizes {numbered(metas)[0]}"])

    def _text(self, told: Callable[[Spec], str], leaves: list[str]) -> str | None:
        try:
            nodes = [
                f"{told(spec)} {links} {' '.join([kind.__name__ for kind in numbers])}"
                for spec, links, numbers in zip(self.specs, self.links, self.numbers, strict=True)
            ]
        except Unwritable:
            return None
        return "\n".join([*nodes, "leaves", *leaves, f"kept {list(self.outputs)}"])

    def plain(self) -> list[Any]:
        """What JSON can say, for `read_structure`; Unwritable if there are no words for it."""
        specs = [
            plain((spec.op, spec.attrs, spec.floats, spec.meta.dtype, spec.meta.shape))
            for spec in self.specs
        ]
        numbers = [[kind.__name__ for kind in kinds] for kinds in self.numbers]
        leaves = [plain((meta.dtype, meta.shape)) for meta in self.leaves]
        return [specs, self.links, numbers, leaves, self.outputs]

    def recorded(self) -> Recorded:
        """Nodes as if they had been recorded: each has a site of its own, and numbers are 0."""
        leaves = [make_node(Spec(LEAF, (), meta), (), (), None) for meta in self.leaves]
        nodes: list[Node] = []
        for place, (spec, links) in enumerate(zip(self.specs, self.links, strict=True)):
            inputs = tuple([nodes[x] if x >= 0 else leaves[-1 - x] for x in links])
            args = tuple([kind(0) for kind in self.numbers[place]])
            nodes.append(make_node(spec, inputs, args, _nowhere(place)))
        return Recorded(nodes, leaves, self.outputs)


def read_structure(told: list[Any]) -> Structure:
    """The structure that was `plain` in some process."""
    specs, links, numbers, leaves, outputs = told
    found: Structure = object.__new__(Structure)
    found.specs = [_read_spec(spec, len(inputs)) for spec, inputs in zip(specs, links, strict=True)]
    found.links = [tuple(inputs) for inputs in links]
    found.numbers = [tuple([_KINDS[name] for name in kinds]) for kinds in numbers]
    found.leaves = [meta_of(shape, dtype) for dtype, shape in [read(x) for x in leaves]]
    found.outputs = outputs
    return found


_KINDS: dict[str, type] = {"bool": bool, "int": int, "float": float}


def _read_spec(told: Any, inputs: int) -> Spec:
    op, attrs, floats, dtype, shape = read(told)
    spec: Spec = op.make_spec(attrs, meta_of(shape, dtype))
    spec.floats = floats
    if op.grads is not None:
        spec.flows = flows_of(spec, inputs)  # a walk may have come by
    return spec


def _text_of_spec(spec: Spec) -> str:
    """The text of a spec, which it keeps: most specs come again and again."""
    if spec.text is None:
        meta: Meta = spec.meta
        spec.text = text_of((spec.op, spec.attrs, spec.floats, meta.dtype, meta.shape))
    return spec.text


def _text_but_sizes(spec: Spec) -> str:
    meta: Meta = spec.meta
    return _remembered_text((spec.op, spec.attrs, spec.floats, meta.dtype, meta.ndim))


# Specs of new sizes are new, but say the same of all else.
_remembered_text = lru_cache(1024)(text_of)


def _nowhere(place: int) -> Site:
    """A site like no other, which stands for that of the node at a place."""
    return _nowhere.__code__, place
