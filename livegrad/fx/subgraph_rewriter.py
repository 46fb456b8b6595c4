"""Rewriting: wherever a graph does one thing, it does another."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from livegrad.fx._symbolic_trace import symbolic_trace
from livegrad.fx.graph import Graph
from livegrad.fx.graph_module import GraphModule
from livegrad.fx.node import Node, nodes_in
from livegrad.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher
from livegrad.nn.module import Module

Pattern = Callable[..., Any] | GraphModule | Graph
Filter = Callable[[InternalMatch, Graph, Graph], bool]


class Match(NamedTuple):
    """A place where the pattern was: `nodes_map` leads from its nodes to those that were there.

    `anchor` is the pattern's result.
    """

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """As `Match`, with the nodes that are there now."""

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(
    gm: GraphModule,
    pattern: Callable[..., Any] | GraphModule,
    replacement: Callable[..., Any] | GraphModule,
) -> list[Match]:
    """Does what `replacement` does wherever the graph does what `pattern` does.

    Both are functions, or modules, of the same number of arguments. Places that overlap one before
    are left as they are.
    """
    found = replace_pattern_with_filters(gm, pattern, replacement)
    return [Match(x.anchor, x.nodes_map) for x in found]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Pattern,
    replacement: Pattern | None = None,
    match_filters: list[Filter] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """`replace_pattern` where all filters say so, with a replacement that may depend on the place.

    A filter, and `replacement_callback`, get the match, the graph and the pattern's graph.
    """
    wanted = _graph_of(pattern)
    found = SubgraphMatcher(wanted, ignore_literals).match(gm.graph)
    filters = match_filters or []
    found = [m for m in found if all([f(m, gm.graph, wanted) for f in filters])]
    common = _graph_of(replacement) if replacement is not None else None
    changed: dict[Node, Node] = {}  # results that were replaced: matches may have them as inputs
    replaced = []
    for match in found:
        graph = common
        if replacement_callback is not None:
            graph = replacement_callback(match, gm.graph, wanted)
        if graph is None:
            raise AssertionError("Must provide either replacement or replacement_callback")
        nodes = _replace(gm, match, graph, changed)
        if nodes is not None:
            replaced.append(ReplacedPatterns(match.anchors[0], match.nodes_map, nodes))
    gm.recompile()
    if isinstance(replacement, Module):
        _take_members(gm, replacement)
    return replaced


def _graph_of(program: Pattern) -> Graph:
    if isinstance(program, Graph):
        return program
    return program.graph if isinstance(program, GraphModule) else symbolic_trace(program).graph


def _replace(
    gm: GraphModule, match: InternalMatch, replacement: Graph, changed: dict[Node, Node]
) -> list[Node] | None:
    """Puts a copy of the replacement into the place of a match; None where no place is right."""
    placeholders = [n for n in replacement.nodes if n.op == "placeholder"]
    given = [changed.get(x, x) if isinstance(x, Node) else x for x in match.placeholder_nodes]
    if len(placeholders) != len(given):
        raise AssertionError(
            f"the replacement has {len(placeholders)} arguments, the pattern {len(given)}"
        )
    place = _place_for(gm.graph, match, [x for x in given if isinstance(x, Node)])
    if place is None:
        return None
    values: dict[Node, Any] = dict(zip(placeholders, given, strict=True))
    with gm.graph.inserting_before(place):
        result = gm.graph.graph_copy(replacement, values)
    outputs = nodes_in((result,))
    if len(outputs) != len(match.returning_nodes):
        raise AssertionError(
            f"the replacement returns {len(outputs)} values, the pattern "
            f"{len(match.returning_nodes)}"
        )
    for old, new in zip(match.returning_nodes, outputs, strict=True):
        old.replace_all_uses_with(new)
        changed[old] = new
    gone = match.computed()
    for node in reversed(gm.graph.nodes):
        if node in gone and not node.users:
            gm.graph.erase_node(node)
    return [n for p, n in values.items() if p.op != "placeholder"]


def _place_for(graph: Graph, match: InternalMatch, inputs: list[Node]) -> Node | None:
    """The node before which the replacement goes: after its inputs, before its users."""
    inside, returned = match.computed(), set(match.returning_nodes)
    waiting = set(inputs)
    for node in graph.nodes:
        if node not in inside and not returned.isdisjoint(node.all_input_nodes):
            return node if not waiting else None
        waiting.discard(node)
    return graph._root  # nothing uses it


def _take_members(gm: GraphModule, replacement: Module) -> None:
    """Gives the module what the replacement's nodes call and read."""
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        *path, name = str(node.target).split(".")
        holder = _submodule(gm, path)
        if holder is not None and hasattr(holder, name):
            continue
        source = _submodule(replacement, path)
        if source is None or not hasattr(source, name):
            raise RuntimeError(
                f'Attempted to create a "{node.op}" node during subgraph rewriting with target '
                f"{node.target}, but the referenced attribute does not exist in the replacement"
            )
        value = getattr(source, name)
        if isinstance(value, Module):
            gm.add_submodule(str(node.target), copy.deepcopy(value))
        else:
            holder = gm if not path else gm.get_submodule(".".join(path))
            setattr(holder, name, copy.deepcopy(value))
    gm.delete_all_unused_submodules()
    gm.graph.lint()


def _submodule(module: Module, path: list[str]) -> Module | None:
    found: Any = module
    for name in path:
        found = getattr(found, name, None)
    return found  # type: ignore[no-any-return]


__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]
