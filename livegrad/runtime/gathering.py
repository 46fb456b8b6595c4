"""When many nodes are pending: whether the flush waits until more have gathered.

A flush in the middle of a graph that backward is going to walk has to keep every value of it, each
in memory of its own, for nodes that are still there afterwards: nothing is won by it.

    pending       what it is                                                       flushed at
    anything      of which some is for a plan, or is still to be learnt; no graph   8,192 nodes
    a graph       run piece by piece, by families that are all known              65,536 nodes

Families that this process has not met are known if what another has learnt is on disk.

Plans are made of short structures alone. So if a long one repeats, and has cost enough to be
planned, the program is cut as others are from then on.
"""

from __future__ import annotations

from livegrad.graph.node import Node
from livegrad.graph.state import MOST_PENDING_NODES, Runtime, State
from livegrad.native.calls import AHEAD, fetch_item
from livegrad.native.hot import hot
from livegrad.runtime.cpu.pieces.flushing import can_list

MOST_GATHERED = 8 * MOST_PENDING_NODES
# The families that pieces are sure to run come first: see COMPUTED in cpu/pieces/layout.py.
_FIT = 5


# Nodes that stand so far apart tell what the others are; programs repeat after other numbers.
_APART = 17


class Gathering:
    """Whether flushes wait; not in a process where long structures repeat."""

    allowed = True


def puts_off(state: State) -> bool:
    """Whether a flush is put off because of what the latest nodes are; then till there are more."""
    count = len(state.nodes)
    if not Gathering.allowed or not Runtime.by_pieces or count + MOST_PENDING_NODES > MOST_GATHERED:
        return False
    first = max(count - MOST_PENDING_NODES, 0)
    if not _is_graph(state.nodes, first) or not _are_for_pieces(state.nodes, first):
        return False
    state.most = count + MOST_PENDING_NODES
    return True


def _are_for_pieces(nodes: list[Node], first: int) -> bool:
    """Whether pieces are sure to run the nodes from a place on."""
    place = _not_known_to_fit(nodes, first, len(nodes))
    while place >= 0:
        if not can_list(nodes[place]):
            return False
        place = _not_known_to_fit(nodes, first, place)
    return True


@hot
def _not_known_to_fit(nodes: list[Node], first: int, end: int) -> int:
    """The last place between two that pieces are not known to run; -1: there is none."""
    place = end
    while place > first:
        place -= 1
        if place > AHEAD:
            fetch_item(nodes, place - AHEAD)
        family = nodes[place].spec.family
        if family is None or family.role < 0 or family.role >= _FIT:
            return place
    return -1


@hot
def _is_graph(nodes: list[Node], first: int) -> bool:
    """Whether the nodes from a place on belong to a graph, for the most part: some are asked."""
    in_graph = 0
    asked = 0
    place = len(nodes)
    while place > first:
        asked += 1
        if nodes[place - 1].grad_to is not None:
            in_graph += 1
        place -= _APART
    return 2 * in_graph > asked


def is_short(count: int) -> bool:
    """Whether a structure of so many nodes, which has cost enough for it, is to be planned.

    Else it is cut when it comes again.
    """
    if count <= MOST_PENDING_NODES + 1:
        return True
    Gathering.allowed = False
    return False
