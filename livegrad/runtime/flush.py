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
import weakref
from typing import Any

from livegrad.compiler import debug
from livegrad.compiler.expand import Recorded
from livegrad.compiler.pipeline import compile_plan
from livegrad.graph import spent
from livegrad.graph.node import Node, quote_site
from livegrad.graph.state import LOCAL, Runtime, State
from livegrad.runtime import report
from livegrad.runtime.counters import counters
from livegrad.runtime.cpu.memory import allocate
from livegrad.runtime.executable import Executable
from livegrad.runtime.reference import evaluate

Key = tuple[Any, ...]

_refs = sys.getrefcount
_lock = threading.RLock()
_executables: dict[Key, Executable] = {}
_MOST_EXECUTABLES = 4096
# Leaves are numbered from here on, so that they cannot be taken for places of pending nodes.
_FIRST_LEAF = 1 << 40


def _handle_refs() -> int:
    """What getrefcount says in `_live` of a handle that only the pending list refers to."""
    handles, nodes = [object()], [None]
    for handle, _ in zip(handles, nodes, strict=True):
        return _refs(handle)
    raise AssertionError


_ALONE = _handle_refs()


def flush(reason: str, roots: tuple[Node, ...]) -> None:
    """Computes everything pending that is alive, and `roots` in any case."""
    state = LOCAL.state
    if not state.nodes and all(node.buffer is not None for node in roots):
        return
    with _lock:
        try:
            _flush(state, reason, roots)
        finally:
            state.nodes, state.handles, state.bytes = [], [], 0


def _flush(state: State, reason: str, roots: tuple[Node, ...]) -> None:
    started = time.perf_counter_ns()
    nodes = state.nodes
    keep = _live(nodes, state.handles)
    try:
        key, leaves, ints, scalars = _key(nodes)
        missing = [r for r in roots if r.buffer is None and r.index < 0]
    except _Foreign as found:
        missing = [found.node]
    if missing:
        _unnumber(nodes)
        nodes = _adopt(nodes, roots)
        keep = bytearray(len(nodes) - len(keep)) + keep
        key, leaves, ints, scalars = _key(nodes)
    for root in roots:
        if root.buffer is None:
            keep[root.index] = 1
    _keep_for_backward(nodes, keep)
    _unnumber(nodes)
    _unnumber(leaves)
    full_key = (*key, bytes(keep), *[x.meta for x in leaves])
    executable = _executables.get(full_key)
    outputs = [i for i, k in enumerate(keep) if k]
    hit = executable is not None
    before = counters.compiles
    if executable is None:
        executable = _compile(full_key, Recorded(nodes, leaves, outputs))
    else:
        counters.plan_hits += 1
    counters.flushes += 1
    counters.nodes_recorded += len(nodes)
    _run(executable, nodes, leaves, outputs, ints, scalars)
    report.note(
        reason, executable, len(nodes), hit, counters.compiles - before, started, time.perf_counter_ns()
    )


def _live(nodes: list[Node], handles: list[Any]) -> bytearray:
    """Which pending nodes the program can still see."""
    return bytearray(
        [
            handle._node is node and _refs(handle) > _ALONE
            for handle, node in zip(handles, nodes, strict=True)
        ]
    )


class _Foreign(Exception):
    """A pending node reads one that is neither computed nor pending in this thread."""

    def __init__(self, node: Node) -> None:
        self.node = node


def _key(nodes: list[Node]) -> tuple[list[Any], list[Node], list[int], list[float]]:
    """The structural key, the leaves in order of first use, and the run-time numbers."""
    key: list[Any] = []
    leaves: list[Node] = []
    ints: list[int] = []
    scalars: list[float] = []
    put = key.append
    for place, node in enumerate(nodes):
        node.index = place
        spec = node.spec
        put(spec)
        for x in node.inputs:
            number = x.index
            if number < 0:
                if x.buffer is None:
                    _unnumber(leaves)
                    raise _Foreign(x)
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
    return key, leaves, ints, scalars


def _unnumber(nodes: list[Node]) -> None:
    for node in nodes:
        node.index = -1


def _adopt(nodes: list[Node], roots: tuple[Node, ...]) -> list[Node]:
    """`nodes` preceded by every value they or `roots` need that is neither computed nor pending.

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
    return order + nodes


def _gone(node: Node) -> RuntimeError:
    backward, update = node.cut or (None, None)
    return RuntimeError(
        f"the value of {node.op.name} recorded at {quote_site(node.site)} is gone: its graph was "
        f"spent by backward at {quote_site(backward)} and a value it needs was overwritten by "
        f"{quote_site(update)}"
    )


# --------------------------------------------------------- what a later backward will need


def _keep_for_backward(nodes: list[Node], keep: bytearray) -> None:
    """Keeps what gradient rules read of graphs that backward has not walked yet."""
    claimed = bytearray(len(nodes))
    some = False
    for i, k in enumerate(keep):
        if k:
            node = nodes[i]
            if node.grad_to is not None and not node.spent and node.interior:
                claimed[i] = some = True
    if not some:
        return
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


# ------------------------------------------------------------------------------------ running


def _compile(key: Key, recorded: Recorded) -> Executable:
    counters.plan_misses += 1
    if debug.wants("graph"):
        debug.show_nodes("graph", recorded.leaves + recorded.nodes)
    if debug.wants("misses"):
        debug.out(report.explain_miss(key, _executables))
    if len(_executables) >= _MOST_EXECUTABLES:
        for old in list(_executables)[: _MOST_EXECUTABLES // 4]:
            del _executables[old]
    executable = _executables[key] = Executable(compile_plan(recorded), _uses(recorded))
    return executable


def _uses(recorded: Recorded) -> list[int]:
    counts = dict.fromkeys(recorded.leaves, 0)
    for node in recorded.nodes:
        for x in node.inputs:
            if x in counts:
                counts[x] += 1
    return list(counts.values())


def _run(
    executable: Executable,
    nodes: list[Node],
    leaves: list[Node],
    outputs: list[int],
    ints: list[int],
    scalars: list[float],
) -> None:
    plan = executable.plan
    updates = any(b.donor >= 0 for b in plan.buffers)
    site = None
    if updates:
        site = next(n.site for n in nodes if n.op.kind == "update")
        spent.cut(site)
    buffers = []
    donated = []
    for output in plan.buffers:
        donor = output.donor
        if donor >= 0 and _may_overwrite(leaves, donor, executable.uses[donor]):
            buffers.append(leaves[donor].buffer)
            donated.append(leaves[donor])
        else:
            buffers.append(allocate(output.nbytes))
    addresses = [x.buffer.ptr for x in leaves] + [b.ptr for b in buffers]
    executable.run(addresses, ints, scalars)
    first = plan.first_int - len(buffers)
    for place, output in zip(outputs, plan.outputs, strict=True):
        node = nodes[place]
        node.buffer = leaves[output.leaf].buffer if output.leaf >= 0 else buffers[output.slot - first]
    for leaf in donated:
        leaf.buffer = None
    counters.donations += len(donated)
    LOCAL.state.nodes = []
    if donated:
        spent.cut(site)
    for place in outputs:
        node = nodes[place]
        if node.grad_to is None or isinstance(node.grad_to, weakref.ref):
            node.inputs = ()
        else:
            spent.propagate(node)


def _may_overwrite(leaves: list[Node], number: int, uses: int) -> bool:
    """Whether only this plan can still see a leaf: its node and its buffer have no other user."""
    node = leaves[number]
    return _refs(node) <= uses + 3 and _refs(node.buffer) <= 2


def install() -> None:
    """Makes this module the runtime of the graph."""
    Runtime.flush = flush
    Runtime.evaluate = evaluate


install()
