"""Updates: an optimiser's rule as one elementwise kernel, bound to each parameter in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from livegrad.compiler.binder import Binder
from livegrad.compiler.describe import Describer, Description
from livegrad.compiler.draft import Draft
from livegrad.compiler.expand import Expander, Primitives, in_scratch, make_node
from livegrad.compiler.finite import question
from livegrad.compiler.fuse import fuse
from livegrad.compiler.inserted import COPY
from livegrad.compiler.legalise import Legaliser, legalise
from livegrad.compiler.lowerings.base import Kernel, Nodes
from livegrad.compiler.plan import Step, Where
from livegrad.compiler.rows import spill_count
from livegrad.dtypes import DType
from livegrad.graph.asked import asked_of
from livegrad.graph.handle import LEAF, wrap
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.node import Node, Spec
from livegrad.ops.bookkeeping.update import updated

# Any size but 1 will do: a kernel does not depend on it.
_SIZE = 7


class Update(Kernel):
    """One rule over a table of parameters: attrs as `ops/bookkeeping/update.py` says."""

    def legalise_complex(self, walk: Legaliser, node: Node, inputs: Nodes) -> Node:
        """An update treats the parts of complex parameters alike."""
        return self.legalise(walk, node, inputs)

    def bind(self, draft: Draft, node: Node) -> list[Step]:
        """One kernel per set of dtypes, run over the table of parameters; in front of it, if asked,
        one that looks whether their gradients are finite."""
        steps = question(draft, node, asked_of(node))
        for kinds, members in _by_dtype(node):
            described = describe_update(node, kinds)
            d, spills = described[0], spill_count(described[0].signature)
            blocks = [
                Binder(
                    resize(d, _reals(node.inputs[i])),
                    _wheres(draft, node, i, described),
                    draft.first_int,
                ).run(spills)
                for i in members
            ]
            steps.append(Step("loops", node.meta.shape, blocks, d.signature))
        return steps


def _by_dtype(node: Node) -> list[tuple[tuple[DType, ...], list[int]]]:
    """Parameters grouped by the dtypes of their streams."""
    count, streams, _ = node.attrs
    groups: dict[tuple[DType, ...], list[int]] = {}
    for i in range(count):
        kinds = tuple([node.inputs[s * count + i].meta.dtype.to_real() for s in range(streams)])
        groups.setdefault(kinds, []).append(i)
    return list(groups.items())


def _reals(node: Node) -> int:
    """Numbers that an update walks over: complex parameters count as pairs of reals."""
    return node.meta.numel * (2 if node.meta.dtype.is_complex else 1)


def _wheres(draft: Draft, node: Node, i: int, described: Described) -> Callable[[Any], Where]:
    """Where parameter `i` finds its streams, and where its results go."""
    _, placeholders, results = described
    count = node.attrs[0]
    found = {p: draft.where(node.inputs[s * count + i]) for s, p in enumerate(placeholders)}
    for stream, result in results:
        found[result] = draft.written[node, stream * count + i]
    return lambda sized: found[sized.node]


# A description, the nodes that stand for the streams, and for each written stream its number and
# the node that stands for the result.
Described = tuple[Description, list[Node], list[tuple[int, Node]]]

# An update is the same whatever the sizes of what came before it.
_described: dict[tuple[Any, ...], Described] = {}
_MOST_DESCRIBED = 1000


def describe_update(node: Node, kinds: tuple[DType, ...]) -> Described:
    """The kernel of an update over streams of these dtypes."""
    key = (node.op, kinds, tuple([(type(a), a.slot) for a in node.args]))
    known = _described.get(key)
    if known is None:
        if len(_described) >= _MOST_DESCRIBED:
            _described.clear()
        known = _described[key] = _describe(node, kinds)
    return known


def _describe(node: Node, kinds: tuple[DType, ...]) -> Described:
    walk = Expander()
    for dtype in kinds:
        meta = meta_of((_SIZE,), dtype)
        spec = LEAF.cache.get(meta) or LEAF.remember(meta, (), (), meta)
        walk.leaf(make_node(spec, (), (), node.site))
    placeholders = list(walk.nodes)
    results = [_own(walk.final[x], i) for i, x in enumerate(_record_rule(walk, node, placeholders))]
    for result in results:
        walk.nodes.append(result)
    graph = legalise(Primitives(walk.nodes, len(kinds), results))
    groups, fuser = fuse(graph)
    if len(groups) != 1 or groups[0].kind != "rows" or groups[0].dims:
        raise AssertionError(f"the rule of {node.op.name} is not one elementwise kernel: {groups}")
    (group,) = groups
    d = Describer(group, fuser, dict.fromkeys(graph.outputs)).run()
    written = zip(node.op.written, graph.outputs, strict=True)
    return d, graph.nodes[: len(kinds)], list(written)


def _own(result: Node, number: int) -> Node:
    """A node that one written stream alone stores, even if the rule returns one value twice."""
    spec = Spec(COPY, (result.meta.dtype, "t", number), result.meta)
    return make_node(spec, (result,), (), result.site)


def _record_rule(walk: Expander, node: Node, placeholders: list[Node]) -> list[Node]:
    tensors = [wrap(x) for x in placeholders]
    results, recorded = in_scratch(node.site, lambda: updated(node.op, node.args, tensors))
    for made in recorded:
        walk.lower(made, made.args)
    return [x._node for x in results]


def resize(d: Description, numel: int) -> Description:
    """The same kernel over `numel` elements."""
    places: list[Any] = [
        (_Sized(node, meta_of((numel,), node.meta.dtype)), index) for node, index in d.places
    ]
    return replace(d, shape=(numel,), places=places)


class _Sized(NamedTuple):
    """A stand-in for a stream's node with the size of one parameter."""

    node: Node
    meta: Meta
