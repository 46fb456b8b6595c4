"""Flush: everything pending that is alive gets its value, in one go.

    key ─► plan found? ──no──► compile a plan ─┐
                     └──yes────────────────────┴─► addresses ─► run ─► buffers to their nodes

The key is what was recorded: the spec of every pending node, what it reads (a pending node by its
place, a computed one by the order in which it is first met), and which values must be kept.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any
from weakref import ref

from livegrad.compiler import debug
from livegrad.compiler.expand import Recorded
from livegrad.compiler.pipeline import compile_plan
from livegrad.graph import spent
from livegrad.graph.node import Node, quote_site
from livegrad.graph.record import Specialised, leaf_node
from livegrad.graph.state import LOCAL, Runtime, State
from livegrad.ops.update import replace_node
from livegrad.runtime import report
from livegrad.runtime.counters import counters
from livegrad.runtime.cpu.memory import Buffer, allocate
from livegrad.runtime.executable import Executable, Fault
from livegrad.runtime.reference import evaluate

Key = tuple[Any, ...]

_refs = sys.getrefcount
_now = time.perf_counter_ns
_lock = threading.RLock()
_executables: dict[Key, Executable] = {}
_MOST_EXECUTABLES = 4096
# Leaves are numbered from here on, so that they cannot be taken for places of pending nodes.
_FIRST_LEAF = 1 << 40


def _count_own_references() -> int:
    """What `_refs` says, inside `_Trace`, of a handle that only the pending list refers to."""
    handles = [object()]
    for _, handle in enumerate(handles):
        return _refs(handle)
    raise AssertionError


_ALONE = _count_own_references()


def flush(reason: str, roots: tuple[Node, ...]) -> None:
    """Computes everything pending that is alive, and `roots` in any case."""
    state = LOCAL.state
    if not state.nodes and all([node.buffer is not None for node in roots]):
        return
    with _lock:
        try:
            _flush(state, reason, roots)
        finally:
            state.nodes, state.handles, state.bytes = [], [], 0


def _flush(state: State, reason: str, roots: tuple[Node, ...]) -> None:
    started = _now()
    trace = _Trace(state.nodes, state.handles)
    try:
        missing = not trace.follow() or any([r.buffer is None and r.index < 0 for r in roots])
        if missing:
            trace.unnumber()
            adopted = _adopt(state.nodes, roots)
            trace = _Trace(adopted + state.nodes, [None] * len(adopted) + state.handles)
            trace.follow()
        for root in roots:
            if root.buffer is None:
                trace.keep[root.index] = 1
                trace.claims = trace.claims or _is_claim(root)
        if trace.claims:
            _keep_for_backward(trace.nodes, trace.keep)
    finally:
        trace.unnumber()
    executable, hit, compiles = _executable_for(trace)
    _run(executable, trace)
    counters.flushes += 1
    counters.nodes_recorded += len(trace.nodes)
    sites = [node.site for node in trace.nodes]
    report.note(reason, executable, sites, hit, compiles, started, _now())


class _Trace:
    """Pending nodes in order, as a key and as what a run of the plan needs."""

    __slots__ = ("claims", "handles", "ints", "keep", "key", "leaves", "nodes", "scalars")

    def __init__(self, nodes: list[Node], handles: list[Any]) -> None:
        self.nodes = nodes
        self.handles = handles
        self.key: list[Any] = []
        self.leaves: list[Node] = []
        self.ints: list[int] = []
        self.scalars: list[float] = []
        self.keep = bytearray(len(nodes))
        # Whether some kept value belongs to a graph that backward may still walk.
        self.claims = False

    def follow(self) -> bool:
        """Numbers nodes and leaves and builds the key; False if a value is missing.

        A value is missing if it is neither computed nor pending in this thread.
        """
        nodes, leaves, keep = self.nodes, self.leaves, self.keep
        ints, scalars = self.ints, self.scalars
        put = self.key.append
        for place, handle in enumerate(self.handles):
            node = nodes[place]
            node.index = place
            spec = node.spec
            put(spec)
            for x in node.inputs:
                number = x.index
                if number < 0:
                    if x.buffer is None:
                        return False
                    number = x.index = _FIRST_LEAF + len(leaves)
                    leaves.append(x)
                put(number)
            args = node.args
            if args:
                if spec.floats:
                    scalars += args
                else:
                    for number in args:
                        if type(number) is float:
                            scalars.append(number)
                        else:
                            ints.append(number)
                    put(tuple([type(a) is float for a in args]))
            if _refs(handle) > _ALONE and handle is not None and handle._node is node:
                keep[place] = 1
                if node.grad_to is not None and not node.spent and type(node.grad_to) is not ref:
                    self.claims = True
        return True

    def unnumber(self) -> None:
        """Takes the numbers off again; a node has one only while a flush looks at it."""
        for node in self.nodes:
            node.index = -1
        for node in self.leaves:
            node.index = -1


def _adopt(nodes: list[Node], roots: tuple[Node, ...]) -> list[Node]:
    """Every value that `nodes` or `roots` need and that is neither computed nor pending, in order.

    Such values were dropped by an earlier flush, or another thread recorded them.
    """
    pending = set(nodes)
    order: list[Node] = []
    done: set[Node] = set()
    todo = [x for n in reversed(nodes) for x in n.inputs] + list(roots)
    while todo:
        node = todo[-1]
        if node in done or node in pending or node.buffer is not None:
            todo.pop()
            continue
        if not node.inputs and (node.cut is not None or node.op.kind == "leaf"):
            raise _gone(node)
        needed = [x for x in node.inputs if x.buffer is None and x not in done and x not in pending]
        if needed:
            todo += needed
            continue
        todo.pop()
        done.add(node)
        order.append(node)
    return order


def _gone(node: Node) -> RuntimeError:
    backward, update = node.cut or (None, None)
    return RuntimeError(
        f"the value of {node.op.name} recorded at {quote_site(node.site)} is gone: its graph was "
        f"spent by backward at {quote_site(backward)} and a value it needs was overwritten by "
        f"{quote_site(update)}"
    )


# --------------------------------------------------------- what a later backward will need


def _is_claim(node: Node) -> bool:
    return node.grad_to is not None and not node.spent and node.interior


def _keep_for_backward(nodes: list[Node], keep: bytearray) -> None:
    """Keeps what gradient rules read of graphs that backward has not walked yet."""
    claimed = bytearray([k and _is_claim(node) for k, node in zip(keep, nodes, strict=True)])
    for i in range(len(nodes) - 1, -1, -1):
        if claimed[i]:
            _claim(nodes[i], keep, claimed)


def _claim(node: Node, keep: bytearray, claimed: bytearray) -> None:
    saves = node.op.saves
    if "y" in saves:
        keep[node.index] = 1
    for x in node.inputs:
        if 0 <= x.index < _FIRST_LEAF:
            if "x" in saves and not x.op.cheap:
                keep[x.index] = 1
            if x.interior:
                claimed[x.index] = 1


# ----------------------------------------------------------------------------- finding a plan


def _executable_for(trace: _Trace) -> tuple[Executable, bool, int]:
    """The executable for a trace, whether it was known, and how many kernels were compiled."""
    key = (*trace.key, bytes(trace.keep), *[x.meta for x in trace.leaves])
    executable = _executables.get(key)
    if executable is not None and executable.specialised:
        # Some rule computed with the numbers: the plan holds for these numbers only.
        key = (*key, tuple(trace.ints), tuple(trace.scalars))
        executable = _executables.get(key)
    if executable is not None:
        counters.plan_hits += 1
        return executable, True, 0
    before = counters.compiles
    counters.plan_misses += 1
    executable = _compile(key, trace)
    return executable, False, counters.compiles - before


def _compile(key: Key, trace: _Trace) -> Executable:
    kept = [i for i, k in enumerate(trace.keep) if k and _has_value(trace.nodes[i])]
    recorded = Recorded(trace.nodes, trace.leaves, kept)
    if debug.wants("graph"):
        debug.show_nodes("graph", recorded.leaves + recorded.nodes)
    if debug.wants("misses"):
        debug.out(report.explain_miss(key, _executables))
    if len(_executables) >= _MOST_EXECUTABLES:
        for old in list(_executables)[: _MOST_EXECUTABLES // 4]:
            del _executables[old]
    Specialised.seen = False
    plan = compile_plan(recorded)
    executable = _executables[key] = Executable(plan, recorded, Specialised.seen)
    if executable.specialised:
        _executables[(*key, tuple(trace.ints), tuple(trace.scalars))] = executable
    return executable


def _has_value(node: Node) -> bool:
    return node.op.kind not in ("update", "gradient")


# ------------------------------------------------------------------------------------ running


def _run(executable: Executable, trace: _Trace) -> None:
    buffers = [allocate(nbytes) for nbytes in executable.fresh]
    if executable.writes:
        spent.cut_computed(executable.update_site(trace.nodes))
        buffers += _targets(executable, trace)
    addresses = [x.buffer.ptr for x in trace.leaves]
    addresses += [b.ptr for b in buffers]
    try:
        executable.run(addresses, trace.ints, trace.scalars)
    except Fault as fault:
        raise executable.as_error(fault, trace.nodes) from None
    except BaseException:
        # Ctrl-C: if it came after the native code was done, parameters have been written, and
        # the other results must not be lost.
        if executable.completed:
            _deliver(executable, trace, buffers)
        raise
    _deliver(executable, trace, buffers)


def _deliver(executable: Executable, trace: _Trace, buffers: list[Buffer]) -> None:
    """Gives nodes their buffers, and lets go of what was needed to compute them."""
    nodes, leaves = trace.nodes, trace.leaves
    for place, number, leaf in executable.results:
        node = nodes[place]
        node.buffer = leaves[leaf].buffer if leaf >= 0 else buffers[number]
    if executable.writes:
        _finish_writes(executable, trace, buffers[len(executable.fresh) :])
        LOCAL.state.nodes = []
        spent.cut(executable.update_site(nodes))
    for place, _, _ in executable.results:
        node = nodes[place]
        if node.grad_to is None or type(node.grad_to) is ref:
            node.inputs = ()
        else:
            spent.propagate(node)
    spent.flushed()


def _targets(executable: Executable, trace: _Trace) -> list[Buffer]:
    """What updates write to: the old buffer if only the written tensor sees it, else a new one."""
    leaves = trace.leaves
    targets = []
    counters.donations += len(executable.writes)
    for leaf, uses, nbytes, update, place in executable.writes:
        node = leaves[leaf]
        # `uses` counts the recorded nodes; then: leaves, the tensor, `node`, the argument.
        others = _refs(node) - uses - 4
        if others and trace.handles[update].tensors[place]._cell is not None:
            others -= 1  # the cell that the tensor shares with its views
        if others <= 0 and _refs(node.buffer) <= 2:
            targets.append(node.buffer)
        else:
            counters.donations -= 1
            targets.append(allocate(nbytes))
    return targets


def _finish_writes(executable: Executable, trace: _Trace, targets: list[Buffer]) -> None:
    """Where an update could not write in place, the written tensor moves to the new buffer."""
    leaves = trace.leaves
    for (leaf, _, _, update, place), buffer in zip(executable.writes, targets, strict=True):
        node = leaves[leaf]
        if buffer is not node.buffer:
            tensor = trace.handles[update].tensors[place]
            replace_node(tensor, leaf_node(node.meta, buffer))


def install() -> None:
    """Makes this module the runtime of the graph."""
    Runtime.flush = flush
    Runtime.evaluate = evaluate


install()
