"""What the passes have made of a draft, as text: for LIVEGRAD_DEBUG=plan, and for tests."""

from __future__ import annotations

from typing import Any

from livegrad.compiler.debug import node_lines
from livegrad.compiler.draft import Draft
from livegrad.compiler.plan import signature_text
from livegrad.graph.node import Node


def graph_text(draft: Draft) -> list[str]:
    """The nodes of the graph."""
    return node_lines(draft.graph.nodes)


def overwrites_text(draft: Draft) -> list[str]:
    """The graph again, if something in it is done in place, and what must come before that."""
    graph = draft.graph
    if not graph.overwrites:
        return []
    fences = [
        f"  %{store.index} after {', '.join([f'%{x.index}' for x in before])}"
        for store, before in graph.fences.items()
    ]
    return [*node_lines(graph.nodes), *fences]


def groups_text(draft: Draft) -> list[str]:
    """The groups, in the order they run."""
    return [f"  {group!r}" for group in draft.groups]


def stored_text(draft: Draft) -> list[str]:
    """What is in memory, and which of it is a buffer of the program's."""

    def line(node: Node, home: Any) -> str:
        place, memory = draft.wheres.get(node), draft.graph.home(node)
        if memory is not node:
            return f"  %{node.index} {node.op.name} {node.meta}: where %{memory.index} is"
        where = f"part of %{home[0].index}" if home else f"input {place.slot}" if place else "arena"
        return f"  %{node.index} {node.op.name} {node.meta}: {where}"

    return [line(node, home) for node, home in draft.stored.items()]


def kernels_text(draft: Draft) -> list[str]:
    """The signatures of fused kernels; other nodes by name."""
    lines = []
    for group, description in zip(draft.groups, draft.descriptions, strict=True):
        lines.append(f"  {group!r}")
        lines += signature_text(description.signature) if description else []
    return lines


def arena_text(draft: Draft) -> list[str]:
    """The values in the arena."""
    return [f"  {life}" for life in draft.lives]


def steps_text(draft: Draft) -> list[str]:
    """The groups, with the numbers of their steps."""
    numbered = zip(draft.step_numbers, draft.groups, strict=True)
    return [f"  {number}. {group!r}" for number, group in numbered]
