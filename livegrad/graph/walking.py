"""Walks over the graph from what is wanted to what it is made of, without recursion: it is deep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from livegrad.graph.node import Node


def inputs_first(roots: Iterable[Node], needed: Callable[[Node], Sequence[Node]]) -> Iterator[Node]:
    """`roots` and all that is `needed` for them, each once and after what is needed for it."""
    done: set[Node] = set()
    todo = [*roots][::-1]
    while todo:
        node = todo[-1]
        if node in done:
            todo.pop()
            continue
        waiting = [x for x in needed(node) if x not in done]
        if waiting:
            todo += reversed(waiting)
            continue
        todo.pop()
        done.add(node)
        yield node


__all__ = ["inputs_first"]
