"""Flush: everything pending that is alive gets its value, in one go.

    key ─► plan found? ──no──► compile a plan ─┐
                     └──yes────────────────────┴─► addresses ─► run ─► buffers to their nodes

The key is what was recorded: the spec of every pending node, what it reads (a pending node by its
place, a computed one by the order in which it is first met), and which values must be kept.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any
from weakref import ref

from livegrad.compiler import debug
from livegrad.compiler.expand import Recorded
from livegrad.compiler.kept import KEPT, size_of_plan
from livegrad.graph import spent
from livegrad.graph.node import Node, quote_site
from livegrad.graph.record import Specialised, leaf_node
from livegrad.graph.state import (
    LOCAL,
    ORPHANED,
    STATES,
    Runtime,
    State,
    start_over,
)
from livegrad.native.hot import FUNCTIONS, hot, hot_slots
from livegrad.ops.update import replace_node
from livegrad.runtime import report
from livegrad.runtime.counters import counters
from livegrad.runtime.cpu.memory import Buffer, OutOfMemory, allocate
from livegrad.runtime.cpu.outside import finder
from livegrad.runtime.elsewhere import (
    adopt_missing,
    drop_computed,
    is_incomplete,
    look_at_others,
    read_by_others,
    renew_updates,
)
from livegrad.runtime.executable import Executable, Fault
from livegrad.runtime.folding import fold
from livegrad.runtime.recovery import dependents, take_back
from livegrad.runtime.reference import evaluate, number_at
from livegrad.runtime.speedup import FLUSHES_BEFORE, Speedup, go_on, original_functions

Key = tuple[Any, ...]

_refs = sys.getrefcount
_now = time.perf_counter_ns
_lock: Any = threading.RLock()


def _count_own_references() -> int:
    """What `_refs` says, inside `_Trace`, of a handle that only the pending list refers to."""
    handles, nodes = [object()], [None]
    # A list, because `_Trace` makes one: the count must be taken in the same surroundings.
    return [_refs(handle) for handle, _ in zip(handles, nodes, strict=True)][0]  # noqa: RUF015


_ALONE = _count_own_references()


def _count_argument() -> int:
    """The reference that the argument of `_refs` is: since Python 3.14 it borrows a local's."""
    local = object()
    return _refs(local) - 1


_ARGUMENT = _count_argument()


def flush(reason: str, roots: tuple[Node, ...]) -> None:
    """Computes everything pending that is alive, and `roots` in any case."""
    state = LOCAL.state
    if not state.nodes and all([node.buffer is not None for node in roots]):
        return
    try:
        with _lock:
            _flush_locked(state, reason, roots)
    except Exception as error:
        fold(error)
        raise


def _released(function: Any) -> Any:
    """A function after which this thread holds the lock only if it did before.

    Since Python 3.14 Ctrl-C may come when the lock is taken but `with` does not know it yet.
    """

    @wraps(function)
    def call(*args: Any) -> None:
        held = _lock._is_owned()
        try:
            function(*args)
        finally:
            while _lock._is_owned() and not held:
                _lock.release()

    return call


if sys.version_info >= (3, 14):
    flush = _released(flush)


def _flush_locked(state: State, reason: str, roots: tuple[Node, ...]) -> None:
    if len(FUNCTIONS) > Speedup.known and counters.flushes >= FLUSHES_BEFORE:
        go_on()
    if len(STATES) > 1 or ORPHANED:
        _look_around(state)
    try:
        _flush(state, reason, roots)
    except Fault as fault:
        raise _flush_the_rest(state, reason, roots, fault) from None
    except OutOfMemory as error:
        raise _with_largest(error, state.nodes) from None
    finally:
        start_over(state)


def _with_largest(error: OutOfMemory, nodes: list[Node]) -> RuntimeError:
    """The error for memory that is not there, with the line of the largest pending value."""
    if not nodes:
        return error
    largest = max(nodes, key=lambda node: node.meta.nbytes)
    return RuntimeError(
        f"{error}. The largest value, {largest.meta}, was recorded at {quote_site(largest.site)}"
    )


def _look_around(state: State) -> bool:
    """Notes, and tells, whether other threads have recorded since this one looked last."""
    if not look_at_others(state):
        return False
    state.shared = True
    renew_updates(state)
    return True


# ---------------------------------------------------------------------- after a refused value


def _flush_the_rest(state: State, reason: str, roots: tuple[Node, ...], fault: Fault) -> Exception:
    """Computes all that does not depend on what failed; the error to raise.

    What failed stays without a value: who reads it again computes it again, and meets the error
    again. A tensor that it was written to has the value of before.
    """
    errors: dict[Node, Exception] = {}
    order = list(state.nodes)
    while fault.recorded is not None:
        errors[fault.recorded] = fault.error
        lost = dependents(state.nodes, fault.recorded)
        # Frames of the failed run refer to what is pending, which would all look alive.
        fault.with_traceback(None)
        take_back(state, lost)
        roots = tuple([root for root in roots if root not in lost])
        try:
            _flush(state, reason, roots)
        except Fault as another:
            fault = another
        else:
            return next(errors[node] for node in order if node in errors)
    return fault.error


@hot_slots
class _Last:
    """The executable of the last flush, whose successor of last time is expected to come next."""

    __slots__ = ("executable",)

    def __init__(self) -> None:
        self.executable: Executable | None = None


_LAST = _Last()


@hot
def _flush(state: State, reason: str, roots: tuple[Node, ...]) -> None:
    started = _now()
    if _flush_as_before(state, roots):
        sites = [node.site for node in state.nodes]
        report.note(reason, _LAST.executable, sites, True, 0, started, _now())
    else:
        _flush_as_recorded(state, reason, roots, started)


def _flush_as_recorded(state: State, reason: str, roots: tuple[Node, ...], started: int) -> None:
    """Finds the plan of what is pending, or makes one, and runs it."""
    if any([node.buffer is not None for node in state.nodes]):
        drop_computed(state)
    for root in roots:
        if root.buffer is None and not 0 <= root.index - state.base < len(state.nodes):
            adopt_missing(state, roots)
    trace = _traced(state, roots)
    executable = _find(trace)
    compiles = 0
    if executable is None:
        if is_incomplete(state):
            del trace  # it refers to the handles too: they would all look alive
            adopt_missing(state, roots)
            trace = _traced(state, roots)
            executable = _find(trace)
        before = counters.compiles
        executable = executable or _compile(trace)
        compiles = counters.compiles - before
        hit = False
    else:
        hit = True
    _run(executable, trace)
    if _LAST.executable is not None:
        _LAST.executable.next = ref(executable)
    _LAST.executable = executable
    counters.flushes += 1
    counters.nodes_recorded += len(trace.nodes)
    sites = [node.site for node in trace.nodes]
    report.note(reason, executable, sites, hit, compiles, started, _now())


def _traced(state: State, roots: tuple[Node, ...]) -> _Trace:
    trace = _Trace(state.nodes, state.handles, state.base, roots)
    if len(STATES) > 1 and not state.shared and _look_around(state):
        # Another thread came in between: what it reads may look dead.
        trace = _Trace(state.nodes, state.handles, state.base, roots)
    return trace


@hot
def _flush_as_before(state: State, roots: tuple[Node, ...]) -> bool:
    """If the pending nodes are those that came next last time, runs their plan."""
    last = _LAST.executable
    if last is None or last.next is None or state.shared:
        return False
    executable = last.next()
    if executable is None or executable.follower is None:
        return False
    nodes = state.nodes
    count = len(nodes)
    keep = executable.keep
    if count != len(keep):
        return False
    if executable.writes and (
        nodes[executable.updates[0]].buffer is not None or spent.has_computed()
    ):
        return False
    for root in roots:
        if root.buffer is None:
            place = root.index - state.base + 0
            if not 0 <= place < count or not keep[place]:
                return False
    if not executable.follower.matches(nodes, state.handles):
        return False
    if len(STATES) > 1 and _look_around(state):
        return False
    _run_followed(executable, nodes)
    _LAST.executable = executable
    counters.plan_hits += 1
    counters.flushes += 1
    counters.nodes_recorded += count
    counters.donations += len(executable.writes)
    return True


@hot
def _run_followed(executable: Executable, nodes: list[Node]) -> None:
    """Runs a plan whose leaves and numbers are set, and hands out what it computed."""
    buffers = [allocate(nbytes) for nbytes in executable.fresh]
    executable.begin()
    try:
        status = executable.run_followed(buffers)
    except BaseException:
        _deliver_if_completed(executable, nodes, (), buffers, ())
        raise
    if status:
        raise executable.locate(executable.fault(status), nodes)
    try:
        _deliver(executable, nodes, (), buffers, ())
    except BaseException:
        # Ctrl-C: what was computed is not lost.
        _deliver(executable, nodes, (), buffers, ())
        raise


class _Trace:
    """Pending nodes as what a plan is looked up by, and what a run of it needs.

    - `specs` of the nodes, and `links`: for each input of each node, the place of the pending node
      it is, or -1 for a computed one; these are listed in `reads`, in order
    - `keep`: which values the program can still see, or backward will need
    """

    __slots__ = ("base", "handles", "keep", "links", "nodes", "reads", "specs")

    def __init__(
        self, nodes: list[Node], handles: list[Any], base: int, roots: tuple[Node, ...]
    ) -> None:
        self.nodes = nodes
        self.handles = handles
        self.base = base
        self.specs = tuple([n.spec for n in nodes])
        end = base + len(nodes)
        indices = [x.index for n in nodes for x in n.inputs]
        self.links = [i - base if base <= i < end else -1 for i in indices]
        self.reads = [x for n in nodes for x in n.inputs if not base <= x.index < end]
        self.keep = bytearray(
            [_refs(h) > _ALONE and h._node is n for h, n in zip(handles, nodes, strict=True)]
        )
        if LOCAL.state.shared:
            # By identity: another thread may have numbered nodes of this one as its own.
            places = {node: place for place, node in enumerate(nodes)}
            for x in read_by_others():
                if x in places:
                    self.keep[places[x]] = 1
        for root in roots:
            if root.buffer is None:
                self.keep[root.index - base] = 1
        for node in [n for n, k in zip(nodes, self.keep, strict=True) if k and n.grad_to]:
            if _is_claim(node):
                _keep_for_backward(self)
                break


def _numbers(nodes: list[Node]) -> tuple[list[int], list[float]]:
    """The run-time integers and floats of nodes that have some, in the order plans number them."""
    ints: list[int] = []
    floats: list[float] = []
    for node in nodes:
        if node.spec.floats:
            floats += node.args
        else:
            for number in node.args:
                if type(number) is float:
                    floats.append(number)
                else:
                    ints.append(number)
    return ints, floats


# --------------------------------------------------------- what a later backward will need


def _is_claim(node: Node) -> bool:
    """Whether a kept node belongs to a graph that backward may still walk."""
    to = node.grad_to
    return to is not None and not node.spent and type(to) is not ref


def _keep_for_backward(trace: _Trace) -> None:
    """Keeps what gradient rules read of graphs that backward has not walked yet."""
    nodes, keep, base = trace.nodes, trace.keep, trace.base
    claimed = [k and _is_claim(node) for k, node in zip(keep, nodes, strict=True)]
    for place in range(len(nodes) - 1, -1, -1):
        if not claimed[place]:
            continue
        node = nodes[place]
        saves = node.op.saves
        if "y" in saves:
            keep[place] = 1
        for x in node.inputs:
            at = x.index - base
            if 0 <= at < len(nodes):
                if "x" in saves and not x.op.cheap:
                    keep[at] = 1
                if _is_claim(x):
                    claimed[at] = True


# ----------------------------------------------------------------------------- finding a plan


# Executables by the specs of the recorded nodes; those of one list differ in links or in what
# is kept.
_executables: dict[Key, list[Executable]] = {}
_MOST_ALIKE = 64


def _find(trace: _Trace) -> Executable | None:
    """The executable for what was recorded, if there is one."""
    for executable in _executables.get(trace.specs, ()):
        if (
            executable.links == trace.links
            and executable.keep == trace.keep
            and _same_leaves(executable, trace.reads)
            and _same_numbers(executable, trace.nodes)
        ):
            counters.plan_hits += 1
            KEPT.use(executable)
            return executable
    return None


def _same_leaves(executable: Executable, reads: list[Node]) -> bool:
    """Whether what the plan takes for one value is one again.

    Two leaves that have become one are no harm: they are read twice from the same address.
    """
    for later, first in executable.repeats:
        if reads[later] is not reads[first]:
            return False
    # A value that is missing has to be adopted first, which makes for another plan.
    return all([reads[first].buffer for first in executable.firsts])


def _same_numbers(executable: Executable, nodes: list[Node]) -> bool:
    """Whether the numbers are of the kinds, or (if a rule computed with them) those planned for."""
    kinds = executable.kinds
    if kinds and kinds != _kinds([nodes[i] for i in executable.mixed]):
        return False
    planned = executable.specialised
    return planned is None or planned == _numbers([nodes[i] for i in executable.numbered])


def _kinds(nodes: list[Node]) -> list[bool]:
    """For numbers that may be integers or floats, which they are."""
    return [type(a) is float for n in nodes for a in n.args]


def _compile(trace: _Trace) -> Executable:
    # The compiler is imported by the first plan: `import livegrad` is quicker without it.
    from livegrad.compiler.sizes import plan_for
    from livegrad.runtime.assemble import assemble

    leaves = list(dict.fromkeys(trace.reads))
    kept = [i for i, k in enumerate(trace.keep) if k and _has_value(trace.nodes[i])]
    recorded = Recorded(trace.nodes, leaves, kept)
    if debug.wants("graph"):
        debug.show_nodes("graph", recorded.leaves + recorded.nodes)
    if debug.wants("misses"):
        debug.out(report.explain_miss(trace.specs, _executables))
    counters.plan_misses += 1
    Specialised.seen = False
    plan = plan_for(recorded, original_functions)
    counters.plans_filled += plan.filled
    executable = assemble(plan, recorded)
    executable.links, executable.keep = trace.links, trace.keep
    nodes = trace.nodes
    executable.numbered = [i for i, n in enumerate(nodes) if n.args]
    executable.mixed = [i for i in executable.numbered if not nodes[i].spec.floats]
    executable.kinds = _kinds([nodes[i] for i in executable.mixed])
    if Specialised.seen:
        if debug.wants("misses"):
            debug.out("this plan holds for its numbers only: a rule has computed with one of them")
        executable.specialised = _numbers([nodes[i] for i in executable.numbered])
    first = {x: i for i, x in reversed(list(enumerate(trace.reads)))}
    executable.firsts = [first[x] for x in leaves]
    executable.repeats = [(i, first[x]) for i, x in enumerate(trace.reads) if first[x] != i]
    numbers = {x: i for i, x in enumerate(leaves)}
    executable.make_follower(nodes, [numbers[x] for x in trace.reads])
    _remember(trace.specs, executable)
    return executable


def forget_plans() -> None:
    """Has everything planned anew, for tests that change how."""
    from livegrad.compiler import sizes

    _executables.clear()
    sizes.forget()
    KEPT.clear()
    _LAST.executable = None


def _remember(specs: Key, executable: Executable) -> None:
    alike = _executables.setdefault(specs, [])
    alike.insert(0, executable)
    for surplus in alike[_MOST_ALIKE:]:
        KEPT.forget(surplus)
    del alike[_MOST_ALIKE:]
    steps = executable.plan.steps
    slots = sum([len(block.slots) for step in steps for block in step.blocks])
    nbytes = size_of_plan(len(specs), len(steps), slots)
    KEPT.put(executable, nbytes, lambda: _drop(specs, executable))
    if KEPT.nbytes > KEPT.limit:
        KEPT.shrink({executable, *_in_use()})


def _drop(specs: Key, executable: Executable) -> None:
    """Lets go of a plan."""
    left = [other for other in _executables.get(specs, ()) if other is not executable]
    if left:
        _executables[specs] = left
    else:
        _executables.pop(specs, None)


def _in_use() -> set[Executable]:
    """The plans that follow each other now: those are found without a look at the list."""
    found: set[Executable] = set()
    executable = _LAST.executable
    while executable is not None and executable not in found and len(found) < _MOST_ALIKE:
        found.add(executable)
        executable = executable.next() if executable.next is not None else None
    return found


def _has_value(node: Node) -> bool:
    return node.op.kind not in ("update", "gradient")


# ------------------------------------------------------------------------------------ running


def _run(executable: Executable, trace: _Trace) -> None:
    reads = trace.reads
    leaves = [reads[i] for i in executable.firsts]
    buffers = [allocate(nbytes) for nbytes in executable.fresh]
    moved: list[Moved] = []
    if executable.writes:
        spent.cut_computed(executable.update_site(trace.nodes))
        buffers += _targets(executable, trace, leaves, moved)
    addresses = [x.buffer.ptr for x in leaves]
    addresses += [b.ptr for b in buffers]
    numbers = _numbers([trace.nodes[i] for i in executable.numbered])
    _execute(executable, trace.nodes, leaves, buffers, moved, executable.run, addresses, *numbers)


# A written tensor whose old value somebody else sees, and the buffer it moves to.
Moved = tuple[Any, Buffer]


def _execute(
    executable: Executable,
    nodes: list[Node],
    leaves: Sequence[Node],
    buffers: list[Buffer],
    moved: Sequence[Moved],
    run: Callable[..., None],
    *arguments: Any,
) -> None:
    """Runs a plan and hands out what it computed, all of it or nothing."""
    executable.begin()
    try:
        run(*arguments)
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
    if executable.completed:
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
    in_graphs = []
    for place, number, leaf in executable.results:
        node = nodes[place]
        if leaf >= 0:
            node.buffer = leaves[leaf].buffer
        else:
            node.buffer = buffers[number]
        to = node.grad_to
        if to is None or type(to) is ref:
            node.inputs = ()
        else:
            in_graphs.append(node)
    if executable.writes:
        spent.cut(executable.update_site(nodes))
    for node in in_graphs:
        spent.propagate(node)
    spent.flushed()


def _targets(
    executable: Executable, trace: _Trace, leaves: list[Node], moved: list[Moved]
) -> list[Buffer]:
    """What updates write to: the old buffer if only the written tensor sees it, else a new one.

    Tensors that go on with a new one are added to `moved`.
    """
    targets = []
    # A graph recorded just now that backward may still walk needs the old values.
    in_place = not LOCAL.state.shared and not any(
        [_is_claim(trace.nodes[i]) for i in executable.readers]
    )
    for leaf, uses, nbytes, update, place in executable.writes:
        node = leaves[leaf]
        tensor = trace.handles[update].tensors[place]
        # `uses` counts inputs of the recorded nodes, and as many entries of `reads`; then:
        # `leaves`, the tensor, `node`, the argument; and the cell the tensor shares with views.
        others = _refs(node) - 2 * uses - 3 - _ARGUMENT - (tensor._cell is not None)
        # Memory without a home is somebody else's: a loaded file, mapped to be read only.
        ours = node.buffer.home is not None
        if in_place and others <= 0 and ours and _refs(node.buffer) <= 2:
            targets.append(node.buffer)
        else:
            targets.append(allocate(nbytes))
            moved.append((tensor, targets[-1]))
    counters.donations += len(targets) - len(moved)
    return targets


def install() -> None:
    """Makes this module the runtime of the graph."""
    Runtime.flush = flush
    Runtime.evaluate = evaluate
    Runtime.finder = finder
    Runtime.number_at = number_at


def _forget_other_threads() -> None:
    """In a forked child: the lock may be that of a thread which is not there."""
    if not _lock._is_owned():
        _lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


install()
