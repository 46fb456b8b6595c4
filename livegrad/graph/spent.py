"""Spent graphs: what `backward` has walked, and may be given up when a value it needs is gone.

A spent graph still works: values that were dropped are computed again. When an update overwrites a
parameter in place that is no longer so, and `cut` takes the nodes of all spent graphs apart, except
those from which a gradient reaches its leaves by rules that read no values (`x + 1`, `x * 2`). A
thread has its own list, and holds the nodes weakly: a graph nobody refers to is gone at once.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Collection, Sequence
from typing import Any

from livegrad.graph.handle import LEAF
from livegrad.graph.node import Interior, Node, Site, Spec, place_of
from livegrad.graph.reading import spared
from livegrad.graph.state import LOCAL
from livegrad.native.calls import AHEAD, fetch_item, fetch_slot, half_at, untrack
from livegrad.native.hot import hot, hot_slots
from livegrad.native.layout import REFERENCES, is_known, slot_offset

# More living spent nodes than this, and the oldest graphs are cut although nothing was overwritten.
MOST_SPENT_NODES = 200_000
# Dead entries are swept out when the list has doubled since the last sweep.
_FIRST_SWEEP = 4096

# Whether references to an object are counted where REFERENCES says: on interpreters we know.
COUNTS_ARE_KNOWN = is_known()


def _nobody() -> Node:
    node: Node = object.__new__(Node)
    node.spec = Spec(LEAF, (), None)  # type: ignore[arg-type]
    node.inputs, node.args = (), ()
    node.grad_to = node.buffer = node.cut = node.walked = node.site = None
    node.meta = None  # type: ignore[assignment]
    return node


# What nodes refer to that are let go is fetched, too.
_INPUTS = slot_offset(Node, "inputs") if is_known() else 0
_INDEX = slot_offset(Node, "index") if is_known() else 0

# Stands on the list of a graph where a node was that is gone.
GONE = _nobody()

Graph = tuple[Site | None, list[weakref.ref[Node]]]


@hot_slots
class _Spent:
    """The spent graphs of one thread."""

    __slots__ = ("computed", "count", "graphs", "sweep_at", "waiting")

    def __init__(self) -> None:
        self.graphs: list[Graph] = []
        # Graphs that wait for the next flush, which most often cuts them at once.
        self.waiting: list[tuple[Site | None, list[Node]]] = []
        self.count = 0
        # Whether nodes on the list may have been computed by an earlier flush.
        self.computed = False
        self.sweep_at = _FIRST_SWEEP


class _Local(threading.local):
    def __init__(self) -> None:
        self.spent = _Spent()


_local = _Local()


@hot
def mark(nodes: list[Node], site: Site | None, computed: bool = True) -> None:
    """Notes that the backward at `site` walked the interior `nodes` and gave them up.

    `computed` is False if none of them has been computed yet.
    """
    spent = _local.spent
    if computed:
        spent.computed = True
    for node in nodes:
        node.spent = True
    if not computed:
        spent.waiting.append((site, nodes))
        return
    refs = []
    for node in nodes:
        ref = weakref.ref(node)
        untrack(ref)
        refs.append(ref)
    spent.graphs.append((site, refs))
    spent.count += len(nodes)
    if spent.count > spent.sweep_at:
        _sweep()


@hot
def cut(
    update_site: Site | None, waiting: Collection[Node] = (), recorded: Sequence[Node] = ()
) -> None:
    """Takes all spent graphs of this thread apart: the update at `update_site` overwrites values.

    Nodes `waiting` to be computed keep their inputs, and stay on the list for the next cut. While
    other threads record, nothing is overwritten or cut: they may need any of it. `recorded` are the
    nodes that the flush has computed, if the only graph that waits is of those: see `waits_alone`.
    """
    if LOCAL.state.shared:
        return
    spent = _local.spent
    spent.computed = False
    if not waiting:
        if recorded and spent.waiting:  # else a search for NaN has flushed meanwhile
            site = spent.waiting[0][0]
            spent.waiting = []
            _give_up(recorded, (site, update_site))
        for site, nodes in spent.waiting:
            _cut_nodes(_survivors(nodes, (site, update_site)), (site, update_site))
        spent.waiting = []
    if not spent.graphs:
        return
    graphs, spent.graphs, spent.count = spent.graphs, [], 0
    for site, refs in graphs:
        kept = []
        done = []
        for ref in refs:
            node = ref()
            if node is None:
                continue
            if waiting and node.buffer is None and node in waiting:
                kept.append(ref)
            else:
                done.append(node)
        _cut_nodes(done, (site, update_site))
        if kept:
            spent.graphs.append((site, kept))
            spent.count += len(kept)
    spent.sweep_at = _FIRST_SWEEP


@hot
def waits_alone(nodes: list[Node]) -> bool:
    """Whether the graph with these nodes is the only one that waits for the next flush."""
    waiting = _local.spent.waiting
    return len(waiting) == 1 and waiting[0][1] is nodes


@hot
def has_computed() -> bool:
    """Whether spent nodes on the list may have been computed by an earlier flush."""
    return _local.spent.computed


def cut_computed(update_site: Site | None) -> None:
    """Cuts spent nodes that earlier flushes computed: they have no say in what is overwritten."""
    if _local.spent.computed:
        cut(update_site, set(LOCAL.state.nodes))


@hot
def flushed() -> None:
    """Notes that a flush is over: what is still on the list may have been computed by it."""
    spent = _local.spent
    for site, nodes in spent.waiting:
        mark(nodes, site)
    spent.waiting = []
    if spent.graphs:
        spent.computed = True


@hot
def propagate(node: Node) -> None:
    """Cuts a computed node if all its inputs through which gradients flow are cut.

    So `total += loss` keeps one step alive, not all. Inputs that became cuttable since they were
    computed (an update came later) are cut on the way.
    """
    reason = None
    for x in node.inputs:
        if x.grad_to is not None:
            reason = x.cut or _cut_by_inputs(x)
            if reason is None:
                return
    if reason is not None and node.grad_to is not None:
        _cut_node(node, reason)


@hot
def _cut_by_inputs(node: Node) -> tuple[Site | None, Site | None] | None:
    """Cuts a computed interior node whose inputs are all cut; the reason, or None if it stays."""
    reason = None
    if node.buffer is None or isinstance(node.grad_to, weakref.ref):
        return None
    for x in node.inputs:
        if x.grad_to is not None:
            reason = x.cut
            if reason is None:
                return None
    if reason is not None:
        _cut_node(node, reason)
    return reason


@hot
def _give_up(recorded: Any, reason: tuple[Site | None, Site | None]) -> None:
    """Lets go of the nodes of a flush, and cuts those of the one graph that was spent meanwhile.

    From the last to the first: consumers come before what they consume, and nodes lie in memory
    about as they were recorded, which is how they are asked for, and how memory is used again.
    """
    left = []
    place = len(recorded)
    while place:
        place -= 1
        if place > 2 * AHEAD:
            fetch_item(recorded, place - 2 * AHEAD)
            ahead = recorded[place - AHEAD]
            fetch_slot(ahead, _INPUTS)
            fetch_slot(ahead, _INDEX)
            ahead = GONE
        node = recorded[place]
        recorded[place] = GONE
        # One reference is ours.
        if COUNTS_ARE_KNOWN and half_at(id(node) + REFERENCES) == 1:
            continue
        if node.spent and node.grad_to is not None:
            if _reads_values(node):
                _cut_node(node, reason)
            else:
                left.append(node)
    _cut_nodes(left, reason)


@hot
def _survivors(nodes: list[Node], reason: tuple[Site | None, Site | None]) -> list[Node]:
    """Of the nodes of a graph, consumers first, those that are left when it has been given up.

    Most are referred to by this list and their consumers only: they are let go, one by one, which
    takes less than cutting them. So are inputs of what is to be cut in any case.
    """
    left = []
    count = len(nodes)
    for place in range(count):
        if place + 2 * AHEAD < count:
            fetch_item(nodes, place + 2 * AHEAD)
            ahead = nodes[place + AHEAD]
            fetch_slot(ahead, _INPUTS)
            fetch_slot(ahead, _INDEX)
            ahead = GONE
        node = nodes[place]
        # One reference is the list's, one ours.
        if COUNTS_ARE_KNOWN and half_at(id(node) + REFERENCES) == 2:
            nodes[place] = GONE
        elif _reads_values(node):
            _cut_node(node, reason)
        else:
            left.append(node)
    return left


@hot
def _cut_nodes(nodes: list[Node], reason: tuple[Site | None, Site | None]) -> None:
    """Cuts those of `nodes` whose gradient rules read values, and those that lead to cut ones."""
    left = nodes
    found = True
    while found and left:  # most often once: consumers come first in `nodes`, as a rule
        others = []
        place = len(left)
        while place:
            place -= 1
            node = left[place]
            if _reads_values(node) or _leads_to_cut(node):
                _cut_node(node, reason)
            else:
                others.append(node)
        found = len(others) < len(left)
        left = others


@hot
def _reads_values(node: Node) -> bool:
    """Whether the gradient of `node` is made from values, as far as anybody knows."""
    op = node.spec.op
    if op.grads is None or (op.saves and not _is_spared(node)):
        return True
    to = node.grad_to
    return type(to) is Interior and to.pull is not None


@hot
def _is_spared(node: Node) -> bool:
    """Whether gradients flow only to inputs whose rules read no value."""
    spec = node.spec
    spares = spec.spares
    inputs = node.inputs
    if spares is None:
        spares = spec.spares = spared(spec)
    place = len(spares)
    if place > len(inputs):  # some may be left out; of a node that is cut already all are gone
        place = len(inputs)
    while place:
        place -= 1
        if not spares[place] and inputs[place].grad_to is not None:
            return False
    return True


@hot
def _leads_to_cut(node: Node) -> bool:
    """Whether a gradient flows on from `node` to one that is cut."""
    for x in node.inputs:  # noqa: SIM110
        if x.cut is not None and x.grad_to is not None:
            return True
    return False


@hot
def _cut_node(node: Node, reason: tuple[Site | None, Site | None]) -> None:
    if isinstance(node.grad_to, weakref.ref):
        return  # a leaf is not part of any graph that made it
    to = place_of(node).grad_to
    node.inputs = ()
    node.cut = reason
    if type(to) is Interior:  # lets go of what a Function saved
        node.grad_to = _heard(to) if to.hooks or to.retained else True


def _heard(to: Interior) -> Interior:
    """What is left of a node in front of a graph that is gone: who wants to know its gradient."""
    left = Interior()
    left.hooks, left.retained = to.hooks, to.retained
    return left


def _sweep() -> None:
    """Forgets the dead; of the living, cuts the oldest graphs beyond the limit, never the last."""
    spent = _local.spent
    living = []
    for site, refs in spent.graphs:
        alive = [ref for ref in refs if ref() is not None]
        if alive:
            living.append((site, alive))
    count = sum([len(refs) for _, refs in living])
    waiting = set(LOCAL.state.nodes) if count > MOST_SPENT_NODES else set()
    for _, nodes in spent.waiting:  # a pending backward walks over them, perhaps once more
        waiting.update(nodes)
    while count > MOST_SPENT_NODES and len(living) > 1:
        site, refs = living.pop(0)
        count -= len(refs)
        for ref in refs:
            node = ref()
            if node is not None and node not in waiting:
                _cut_node(node, (site, None))
    spent.graphs, spent.count = living, count
    spent.sweep_at = max(_FIRST_SWEEP, 2 * count)
