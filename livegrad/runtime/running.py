"""Running a plan: where results go, what is overwritten in place, values to their nodes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from livegrad.device import CPU, Device, backend_of
from livegrad.graph import spent
from livegrad.graph.handle import leaf_node
from livegrad.graph.node import LeafRef, Node
from livegrad.graph.state import LOCAL
from livegrad.native.hot import hot
from livegrad.ops.bookkeeping.update import replace_node
from livegrad.runtime.counters import counters
from livegrad.runtime.executable import Executable
from livegrad.runtime.fault import Fault
from livegrad.runtime.liveness import is_claim, keeps_inputs, may_overwrite
from livegrad.runtime.memory import Buffer, allocate
from livegrad.runtime.snapshot import Snapshot, numbers_of

if TYPE_CHECKING:
    from livegrad.compiler.plan import Plan

_refs = sys.getrefcount


def _count_argument() -> int:
    """The reference that the argument of `_refs` is: since Python 3.14 it borrows a local's."""
    local = object()
    return _refs(local) - 1


ARGUMENT = _count_argument()


def run(executable: Executable, snapshot: Snapshot) -> None:
    """Runs the plan of what was recorded, and hands out what it computed."""
    reads = snapshot.reads
    leaves = [reads[i] for i in executable.firsts]
    allocate = executable.backend.allocate
    donated = _donated(executable, snapshot, leaves) if executable.donations else {}
    buffers = [
        donated[number] if number in donated else allocate(nbytes)
        for number, nbytes in enumerate(executable.fresh)
    ]
    moved: list[Moved] = []
    if executable.writes:
        spent.cut_computed(executable.update_site(snapshot.nodes))
        buffers += _targets(executable, snapshot, leaves, moved)
    nodes = snapshot.nodes
    ints, floats = numbers_of([nodes[i] for i in executable.numbered])
    _execute(executable, nodes, leaves, buffers, moved, ints, floats)


# A written tensor whose old value somebody else sees, and the buffer it moves to.
Moved = tuple[Any, Buffer]


def _execute(
    executable: Executable,
    nodes: list[Node],
    leaves: Sequence[Node],
    buffers: list[Buffer],
    moved: Sequence[Moved],
    ints: list[int],
    floats: list[float],
) -> None:
    """Runs a plan and hands out what it computed, all of it or nothing."""
    runnable = executable.runnable
    runnable.announce()
    try:
        runnable.run([*[x.buffer for x in leaves], *buffers], ints, floats)
        fault = runnable.fault() if executable.may_fault else None
        if fault is not None:
            raise fault
    except Fault as fault:
        raise executable.locate(fault, nodes) from None
    except BaseException:
        _deliver_if_completed(executable, nodes, leaves, buffers, moved)
        raise
    try:
        _deliver(executable, nodes, leaves, buffers, moved)
    except KeyboardInterrupt:
        _deliver(executable, nodes, leaves, buffers, moved)
        raise


def _deliver_if_completed(
    executable: Executable,
    nodes: list[Node],
    leaves: Sequence[Node],
    buffers: list[Buffer],
    moved: Sequence[Moved],
) -> None:
    """After Ctrl-C: once the native code is done, parameters have been written, and the other
    results must not be lost."""
    if executable.runnable.completed:
        _deliver(executable, nodes, leaves, buffers, moved)


class _Done:
    """What an update has for a buffer when it is done: it must not be done twice."""


@hot
def _deliver(
    executable: Executable,
    nodes: list[Node],
    leaves: Sequence[Node],
    buffers: list[Buffer],
    moved: Sequence[Moved],
) -> None:
    """Gives nodes their buffers, and lets go of what was needed to compute them.

    Doing it again, after an interrupt, does no harm.
    """
    for tensor, buffer in moved:
        replace_node(tensor, leaf_node(tensor._node.meta, buffer))
    for place in executable.updates:
        nodes[place].buffer = _Done
    in_graphs: list[Node] = []
    for place, number, leaf in executable.results:
        buffer = leaves[leaf].buffer if leaf >= 0 else buffers[number]
        _hand(nodes[place], buffer, in_graphs)
    if executable.writes:
        spent.cut(executable.update_site(nodes))
    for node in in_graphs:
        spent.propagate(node)
    spent.flushed()


@hot
def _hand(node: Node, buffer: Buffer, in_graphs: list[Node]) -> None:
    """Gives a node its buffer; it keeps its inputs if it is one of those `in_graphs`."""
    node.buffer = buffer
    to = node.grad_to
    if to is None or type(to) is LeafRef:
        node.inputs = ()
    else:
        in_graphs.append(node)


@hot
def hand_out(pairs: list[tuple[Node, Buffer]]) -> list[Node]:
    """Gives nodes their buffers; those of them that are parts of graphs."""
    in_graphs: list[Node] = []
    for node, buffer in pairs:
        _hand(node, buffer, in_graphs)
    return in_graphs


@hot
def let_go(in_graphs: list[Node], update: Node | None, recorded: Sequence[Node]) -> None:
    """Lets go of what was needed to compute nodes that have been handed their buffers.

    If an `update` follows, which is going to overwrite values, also of what backward has spent; all
    of that is among the nodes `recorded`, if it is said what these are.
    """
    if update is not None:
        spent.cut(update.site, (), recorded)
    for node in in_graphs:
        spent.propagate(node)
    spent.flushed()


def _targets(
    executable: Executable, snapshot: Snapshot, leaves: list[Node], moved: list[Moved]
) -> list[Buffer]:
    """What updates write to: the old buffer if only the written tensor sees it, else a new one.

    Tensors that go on with a new one are added to `moved`.
    """
    targets = []
    # A graph recorded just now that backward may still walk needs the old values.
    in_place = not LOCAL.state.shared and not any(
        [is_claim(snapshot.nodes[i]) for i in executable.readers]
    )
    for leaf, referrers, nbytes, update, place in executable.writes:
        node = leaves[leaf]
        buffer = node.buffer
        tensor = snapshot.handles[update].tensors[place]
        # The cell that the tensor shares with views refers to the node, too. Ours are an entry of
        # `reads` for each recorded input, one of `leaves`, `node` and the argument.
        ours = referrers - 1 + 2 + ARGUMENT
        others = _refs(node) - referrers - (tensor._share is not None) - ours
        # To the buffer: those of the node, `buffer` and the argument.
        others_of_buffer = _refs(buffer) - 2 - ARGUMENT
        if in_place and may_overwrite(others, buffer, others_of_buffer):
            targets.append(buffer)
        else:
            targets.append(executable.backend.allocate(nbytes))
            moved.append((tensor, targets[-1]))
    counters.donations += len(targets) - len(moved)
    return targets


def _donated(executable: Executable, snapshot: Snapshot, leaves: list[Node]) -> dict[int, Buffer]:
    """Buffers of leaves that become those of results, by their number: nobody else sees them."""
    found: dict[int, Buffer] = {}
    nodes = snapshot.nodes
    if LOCAL.state.shared or any([keeps_inputs(nodes[i]) for i in executable.readers_of_donated]):
        return found
    for leaf, referrers, number, _, _ in executable.donations:
        node = leaves[leaf]
        buffer = node.buffer
        # Ours are an entry of `reads` for each recorded input, one of `leaves`, `node` and the
        # argument; to the buffer, `buffer` and the argument.
        others = _refs(node) - 2 * referrers - 2 - ARGUMENT
        others_of_buffer = _refs(buffer) - 2 - ARGUMENT
        if may_overwrite(others, buffer, others_of_buffer):
            found[number] = buffer
    counters.donations += len(found)
    return found


@hot
def run_followed(executable: Executable, nodes: list[Node]) -> None:
    """Runs a plan whose leaves and numbers are set, and hands out what it computed."""
    if executable.donations:
        buffers = _fresh_or_donated(executable, nodes)
    else:
        buffers = [allocate(nbytes) for nbytes in executable.fresh]
    leaves = _shared_leaves(executable, nodes) if executable.shared else []
    native: Any = executable.runnable  # of the CPU: nobody else follows
    native.announce()
    try:
        status = native.run_followed(buffers)
    except BaseException:
        _deliver_if_completed(executable, nodes, leaves, buffers, ())
        raise
    if status:
        raise executable.locate(native.fault_of(status), nodes)
    try:
        _deliver(executable, nodes, leaves, buffers, ())
    except BaseException:
        # Ctrl-C: what was computed is not lost.
        _deliver(executable, nodes, leaves, buffers, ())
        raise


@hot
def _fresh_or_donated(executable: Executable, nodes: list[Node]) -> list[Buffer]:
    """Buffers for results, some of them leaves', of which the follower says that they may be."""
    buffers: list[Any] = [None for nbytes in executable.fresh]
    for _, _, number, place, which in executable.donations:
        buffers[number] = nodes[place].inputs[which].buffer
    for number in range(len(buffers)):
        if buffers[number] is None:
            buffers[number] = allocate(executable.fresh[number])
    counters.donations += len(executable.donations)
    return buffers


@hot
def _shared_leaves(executable: Executable, nodes: list[Node]) -> list[Node]:
    """The leaves by their numbers, as far as results are other names of them."""
    leaves: list[Any] = []
    for leaf, place, which in executable.shared:
        while len(leaves) <= leaf:
            leaves.append(None)
        leaves[leaf] = nodes[place].inputs[which]
    return leaves


def run_plan(
    plan: Plan,
    leaves: Sequence[Any],
    ints: Sequence[int] = (),
    floats: Sequence[float] = (),
    device: Device = CPU,
) -> list[Any]:
    """Runs a plan by itself: its buffers, which are results and then what updates have written.

    For a plan that was saved: nothing has been recorded, so nobody is told of it.
    """
    backend: Any = backend_of(device)
    made = [backend.allocate(buffer.nbytes) for buffer in plan.buffers]
    runnable = backend.assemble(plan)
    runnable.run([*leaves, *made], list(ints), list(floats))
    fault = runnable.fault()
    if fault is not None:
        raise fault
    return made
