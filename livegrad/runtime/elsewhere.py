"""Values from elsewhere: recorded or computed by other threads, or dropped by earlier flushes.

Pending nodes belong to the thread that recorded them. A flush that needs a node which is neither
computed nor its own takes it over. While other threads record, a flush keeps what they read,
overwrites nothing and cuts no graph: what it does not keep can be computed again by whoever turns
out to need it.
"""

from __future__ import annotations

from typing import Any

from livegrad.graph.events import TAKEN_UP, tell
from livegrad.graph.handle import NOBODY
from livegrad.graph.node import Node, quote_site
from livegrad.graph.state import LOCAL, ORPHANED, State, living_states
from livegrad.graph.walking import inputs_first
from livegrad.ops.bookkeeping.pending import Pending
from livegrad.runtime.liveness import is_claim


def is_incomplete(state: State) -> bool:
    """Whether something is needed that is neither computed nor pending in this thread."""
    base, end = state.base, state.base + len(state.nodes)
    return any(
        x.buffer is None and not base <= x.index < end for node in state.nodes for x in node.inputs
    ) or any(_has_lost_graph(node) for node in state.nodes)


def drop_computed(state: State) -> None:
    """Forgets pending nodes that another thread, which read them, has computed."""
    pairs = zip(state.nodes, state.handles, strict=True)
    left = [(node, handle) for node, handle in pairs if node.buffer is None]
    take_up(state, [n for n, _ in left], [h for _, h in left])


def take_up(state: State, nodes: list[Node], handles: list[Any]) -> None:
    """Makes these the pending nodes, and numbers them anew."""
    before = state.nodes
    state.move_on()
    state.nodes, state.handles = nodes, handles
    for place, node in enumerate(nodes):
        node.index = state.base + place
    if TAKEN_UP:
        tell(TAKEN_UP, before)


def adopt_missing(state: State, roots: tuple[Node, ...], for_plan: bool = True) -> tuple[Node, ...]:
    """Puts what is missing in front of what reads it, and numbers all pending nodes anew.

    To a plan, a backward pass over values that are there is missing its graph. Little values of a
    graph that may be walked again are returned: to be kept, or they would be missing again.
    """
    handles = dict(zip(state.nodes, state.handles, strict=True))
    order = _with_missing(state.nodes, roots, for_plan)
    take_up(state, order, [handles.get(node, NOBODY) for node in order])
    missing = [node for node in order if node not in handles and is_claim(node)]
    return tuple([node for node in missing if node.meta.nbytes <= _LITTLE])


# Bytes that take no longer to compute than to find missing.
_LITTLE = 1 << 16


def _with_missing(nodes: list[Node], roots: tuple[Node, ...], for_plan: bool) -> list[Node]:
    """Pending `nodes` with every value that they or `roots` need and that is nowhere, in order."""

    def missing(node: Node) -> list[Node]:
        if not node.inputs and (node.cut is not None or node.op.kind == "leaf"):
            raise _gone(node)
        reads = node.inputs
        if _has_lost_graph(node):
            if for_plan:
                reads = node.inputs = (_graph_again(node),)
            else:
                reads = _read_by_rules(node)
        return [x for x in reads if x.buffer is None]

    absent = [root for root in roots if root.buffer is None]
    return list(inputs_first([*nodes, *absent], missing))


def _gone(node: Node) -> RuntimeError:
    backward, update = node.cut or (None, None)
    return RuntimeError(
        f"the value of {node.op.name} recorded at {quote_site(node.site)} is gone: its graph was "
        f"spent by backward at {quote_site(backward)} and a value it needs was overwritten by "
        f"{quote_site(update)}"
    )


# -------------------------------------------------------------- graphs of recorded backward passes


def _has_lost_graph(node: Node) -> bool:
    """Whether a recorded backward pass is to walk over values that have been computed since.

    To a plan these are leaves, below which it sees nothing.
    """
    return node.op.kind == "gradient" and any([x.buffer is not None for x in _walked(node)])


def _walked(gradient: Node) -> list[Node]:
    """The nodes between the output and the leaves of a recorded backward pass."""
    # Whoever recorded one has imported it: `import livegrad` is quicker without.
    from livegrad.autograd.pending import recorded_walk

    return recorded_walk(gradient).interior


def _read_by_rules(gradient: Node) -> tuple[Node, ...]:
    """The values that gradient rules read on the way of a backward pass."""
    found: list[Node] = []
    for node in _walked(gradient):
        saves = node.op.saves
        found += [node] if "y" in saves else []
        found += node.inputs if "x" in saves else ()
    return tuple(found)


def _graph_again(gradient: Node) -> Node:
    """The output of a copy of the graph that a backward pass walks over, with nothing computed."""
    from livegrad.compiler.expand import copy_node

    walked = _walked(gradient)
    copies = {node: copy_node(node, node.inputs, node.args) for node in walked}
    for copy in copies.values():
        copy.inputs = tuple([copies.get(x, x) for x in copy.inputs])
        # A graph that was walked: it keeps its inputs when computed, and has no claim on values.
        copy.grad_to, copy.spent = True, True
    return copies[walked[0]]


# ------------------------------------------------------------------------- while others record


def look_at_others(state: State) -> bool:
    """Whether another thread has recorded something, or ended, since this one flushed last."""
    positions = 0
    for other in living_states():
        if other is not state:
            positions += other.position
    before, state.seen = state.seen, positions
    # One that came and went in between has left no position behind, but what it read.
    return positions != before or bool(_orphaned())


def _orphaned() -> list[Node]:
    """What pending nodes of threads that have ended read, as far as somebody may still want it."""
    ORPHANED[:] = [r for r in ORPHANED if getattr(r(), "buffer", r) is None]
    return [node for node in [r() for r in ORPHANED] if node is not None]


def read_by_others() -> list[Node]:
    """The values that the pending nodes of other threads read, and those that have ended left."""
    state = LOCAL.state
    lists = [nodes for s in living_states() if s is not state for nodes in (s.nodes, *s.outer)]
    return _orphaned() + [x for nodes in lists for node in list(nodes) for x in node.inputs]


def renew_updates(state: State) -> None:
    """Lets recorded updates start from what other threads have made of the tensors since."""
    for node, handle in zip(state.nodes, state.handles, strict=True):
        if type(handle) is Pending and node.buffer is None:
            count = node.attrs[0]
            written = [s * count + i for s in node.op.written for i in range(count)]
            inputs = list(node.inputs)
            for i in written:
                now = handle.tensors[i]._node
                if now.buffer is not None and now.meta is inputs[i].meta:
                    inputs[i] = now
            node.inputs = tuple(inputs)
