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
from functools import wraps
from typing import Any
from weakref import ref

from livegrad.compiler.kept import KEPT
from livegrad.graph import spent
from livegrad.graph.events import (
    BEGUN,
    FLUSHING,
    LATEST,
    RAN,
    RECORDED,
    numbers_of_nodes,
    tell,
    tell_flushing,
    tell_ran,
)
from livegrad.graph.node import Node, quote_site
from livegrad.graph.state import (
    LOCAL,
    ORPHANED,
    STATES,
    Runtime,
    State,
    flush as recorded_flush,
    start_over,
)
from livegrad.native.calls import AHEAD, fetch_item
from livegrad.native.hot import FUNCTIONS, hot
from livegrad.ops.bookkeeping.finite import NotFinite
from livegrad.runtime import gathering, plans
from livegrad.runtime.alone import FEW, note_flush
from livegrad.runtime.at_once import write_at_once
from livegrad.runtime.counters import counters
from livegrad.runtime.cpu.outside import finder
from livegrad.runtime.devices import concerns_others, node_by_node, run_nodes, take_apart
from livegrad.runtime.elsewhere import (
    adopt_missing,
    drop_computed,
    is_incomplete,
    look_at_others,
    renew_updates,
    take_up,
)
from livegrad.runtime.fault import Fault
from livegrad.runtime.finiteness import look_into
from livegrad.runtime.fitted import FITTED, fitted_for
from livegrad.runtime.folding import fold
from livegrad.runtime.memory import OutOfMemory
from livegrad.runtime.plans import FOUND, LAST, digest_of_specs, note_found
from livegrad.runtime.recovery import dependents, take_back
from livegrad.runtime.reference import evaluate
from livegrad.runtime.running import run, run_followed
from livegrad.runtime.sight import (
    before_updates,
    count_before_updates,
    has_updates,
    may_be_listed,
    note_price,
    read_by_updates,
    run_at_first_sight,
    take_off,
)
from livegrad.runtime.snapshot import Snapshot
from livegrad.runtime.speedup import DECIDED, go_on, is_time
from livegrad.runtime.values import buffer_of, number_at

_now = time.perf_counter_ns
_lock: Any = threading.RLock()


def flush(reason: str, roots: tuple[Node, ...], is_new: bool = False) -> None:
    """Computes everything pending that is alive, and `roots` in any case.

    `is_new` says that no plan follows it: somebody has tried.
    """
    state = LOCAL.state
    if not state.nodes and all([node.buffer is not None for node in roots]):
        return
    try:
        with _lock:
            _flush_locked(state, reason, roots, is_new)
    except Exception as error:
        fold(error)
        raise


def puts_off(state: State) -> bool:
    """Whether a flush of many nodes waits for more: see gathering.py."""
    with _lock:  # pieces are for one thread at a time
        return gathering.puts_off(state)


_is_held, _take, _give_back = _lock._is_owned, _lock.acquire, _lock.release
_FOLLOWED, _NEW, _REFUSED = 1, 0, -1


@hot
def compute(reason: str, node: Node) -> None:
    """`flush` for a node that is read: on the shortest way, if a plan is known for it."""
    state = LOCAL.state
    if state.flusher is not None or len(STATES) > 1 or ORPHANED:
        recorded_flush(reason, node)
    elif len(FUNCTIONS) > DECIDED.functions:
        flush(reason, (node,))  # hot functions are still to be exchanged, a bit at every flush
    else:
        found = _follow(state, reason, node)
        if found != _FOLLOWED:
            flush(reason, (node,), found == _NEW)


@hot
def _follow(state: State, reason: str, node: Node) -> int:
    held = _is_held()
    try:
        if not held:
            _take()
        return _follow_locked(state, reason, (node,))
    finally:
        if not held and _is_held():  # Ctrl-C may have come before it was taken
            _give_back()


@hot
def _follow_locked(state: State, reason: str, roots: tuple[Node, ...]) -> int:
    """Runs the plan that is known for what is pending; nothing has been changed if there is none,
    or if it refuses a value, which is for the other way to tell."""
    started = _now()
    if BEGUN:
        tell(BEGUN)
    if FLUSHING:
        roots = tell_flushing(reason, roots)
    try:
        if not _flush_as_before(state, roots):
            return _NEW
    except (Fault, OutOfMemory):
        return _REFUSED
    except BaseException:
        start_over(state)
        raise
    try:
        # A step of training tells nothing: what is in its graph stays lazy.
        trains = LAST.executable is not None and LAST.executable.writes
        note_flush(FEW + 1 if trains else len(state.nodes))
        _tell_ran(reason, LAST.executable, state.nodes, True, 0, started)
    finally:
        start_over(state)
    return _FOLLOWED


def _released(function: Any) -> Any:
    """A function after which this thread holds the lock only if it did before.

    Since Python 3.14 Ctrl-C may come when the lock is taken but `with` does not know it yet.
    """

    @wraps(function)
    def call(*args: Any) -> Any:
        held = _lock._is_owned()
        try:
            return function(*args)
        finally:
            while _lock._is_owned() and not held:
                _lock.release()

    return call


if sys.version_info >= (3, 14):
    flush = _released(flush)
    puts_off = _released(puts_off)


def _flush_locked(state: State, reason: str, roots: tuple[Node, ...], is_new: bool) -> None:
    if len(FUNCTIONS) > DECIDED.functions and is_time():
        go_on()
    if len(STATES) > 1 or ORPHANED:
        _look_around(state)
    if FLUSHING:
        roots = tell_flushing(reason, roots)
    try:
        try:
            _flush(state, reason, roots, is_new)
        except Fault as fault:
            if fault.kind is not NotFinite:
                raise
            _look_into(state, fault)
            _flush(state, reason, roots, is_new=False)
    except Fault as fault:
        raise _flush_the_rest(state, reason, roots, fault) from None
    except OutOfMemory as error:
        raise _with_largest(error, state.nodes) from None
    finally:
        try:
            start_over(state)
        except KeyboardInterrupt:  # what was computed must not stay pending
            start_over(state)
            raise


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


def _look_into(state: State, fault: Fault) -> None:
    """Gradients that an update is to use are not finite: has that looked into, and goes on."""
    fault.recorded = None
    fault.with_traceback(None)  # its frames refer to what is pending, which would all look alive
    look_into(state.nodes)


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
            _flush_part(state, reason, roots, _now())
        except Fault as another:
            fault = another
        else:
            return next(errors[node] for node in order if node in errors)
    return fault.error


@hot
def _flush(state: State, reason: str, roots: tuple[Node, ...], is_new: bool) -> None:
    started = _now()
    if BEGUN:
        tell(BEGUN)
    if not is_new and _flush_as_before(state, roots):
        _tell_ran(reason, LAST.executable, state.nodes, True, 0, started)
    else:
        _flush_as_recorded(state, reason, roots, started)


def _flush_as_recorded(state: State, reason: str, roots: tuple[Node, ...], started: int) -> None:
    """Computes what is pending, device by device if there are several."""
    if not concerns_others(state, roots):
        _flush_part(state, reason, roots, started)
        return
    errors = []
    parts = take_apart(state, roots)
    while parts:
        device, nodes, handles = parts.pop(0)
        take_up(state, nodes, handles)
        del nodes, handles  # the state's alone
        mine = tuple([root for root in roots if root.meta.device is device])
        try:
            _flush_part(state, reason, mine, started)
        except Fault as fault:
            errors.append(_flush_the_rest(state, reason, mine, fault))
    if errors:
        raise errors[0]


def _flush_part(state: State, reason: str, roots: tuple[Node, ...], started: int) -> None:
    """Computes what is pending on one device, by a plan or node by node."""
    if _is_any_computed(state.nodes):
        drop_computed(state)
    for root in roots:
        if root.buffer is None and not 0 <= root.index - state.base < len(state.nodes):
            adopt_missing(state, roots)
    backend = node_by_node(state.nodes)
    if backend is None:
        _flush_planned(state, reason, roots, started)
        return
    if is_incomplete(state):
        adopt_missing(state, roots)
    run_nodes(backend, _snapshot(state, roots))
    counters.flushes += 1


@hot
def _is_any_computed(nodes: list[Node]) -> bool:
    count = len(nodes)
    for place in range(count):
        if place + AHEAD < count:
            fetch_item(nodes, place + AHEAD)
        if nodes[place].buffer is not None:
            return True
    return False


def _flush_planned(state: State, reason: str, roots: tuple[Node, ...], started: int) -> None:
    """Computes what is pending piece by piece, if it is new, or by a plan."""
    compiles, loaded = counters.compiles, counters.plans_loaded
    may_be_in_parts = may_be_listed(state)
    if may_be_in_parts and _fits_up_to_updates(state, reason, roots, started):
        _flush_updates(state, reason, started)
        return
    listed = run_at_first_sight(state, roots) if may_be_in_parts else None
    if listed is None:
        if counters.plans_loaded == loaded:
            _flush_by_plan(state, reason, roots, started)
        elif _flush_as_before(state, roots):
            _tell_ran(reason, LAST.executable, state.nodes, True, 0, started)
        elif _fits_up_to_updates(state, reason, roots, started):
            _flush_updates(state, reason, started)
        else:
            _flush_by_plan(state, reason, roots, started)
        return
    _tell_listed(reason, listed, counters.compiles - compiles, started)
    if not has_updates(state):
        counters.flushes += 1
        return
    _flush_updates(state, reason, started)


def _fits_up_to_updates(state: State, reason: str, roots: tuple[Node, ...], started: int) -> bool:
    """Runs what comes before updates by a plan for any size, if there is one; these stay."""
    count = count_before_updates(state.nodes) if FITTED and not state.shared else 0
    if count == 0 or count == len(state.nodes):
        return False
    roots += tuple(read_by_updates(state, count))
    with before_updates(state, count):
        for fitted in fitted_for(state.nodes):
            if _is_followed(fitted, state, roots):
                break
        else:
            return False
        run_followed(fitted, state.nodes)
        _note_run(fitted, count)
        _tell_ran(reason, fitted, state.nodes, True, 0, started)
    take_off(state, count)
    return True


def _flush_updates(state: State, reason: str, started: int) -> None:
    """Runs the updates that are left when what they read has been computed."""
    part = LATEST.fields
    if _flush_as_before(state, ()):
        _tell_ran(reason, LAST.executable, state.nodes, True, 0, started)
    else:
        _flush_by_plan(state, reason, (), started)
    LATEST.before = part


def _tell_listed(reason: str, listed: Any, compiles: int, started: int) -> None:
    """`_tell_ran` of what was run piece by piece."""
    numbers = listed.numbers
    LATEST.fields = (reason, listed, listed.sites, numbers, False, compiles, started, _now())
    LATEST.before = None
    if RAN:
        tell_ran()


def _flush_by_plan(state: State, reason: str, roots: tuple[Node, ...], started: int) -> None:
    """Finds the plan of what is pending, or makes one, and runs it."""
    snapshot = _snapshot(state, roots)
    executable = plans.find(snapshot)
    compiles = 0
    if executable is None:
        if is_incomplete(state):
            del snapshot  # it refers to the handles too: they would all look alive
            roots += adopt_missing(state, roots)
            snapshot = _snapshot(state, roots)
            executable = plans.find(snapshot)
        before = counters.compiles
        executable = executable or _made(snapshot)
        compiles = counters.compiles - before
        hit = False
    else:
        hit = True
    run(executable, snapshot)
    if LAST.executable is not None:
        LAST.executable.next = ref(executable)
    LAST.executable = executable
    note_found(executable, snapshot.nodes)
    counters.flushes += 1
    counters.nodes_recorded += len(snapshot.nodes)
    _tell_ran(reason, executable, snapshot.nodes, hit, compiles, started)


def _made(snapshot: Snapshot) -> Any:
    """The executable of a plan for what was recorded, which is found on disk or made now."""
    began, loaded = time.thread_time_ns(), counters.plans_loaded
    executable = plans.make(snapshot)
    if counters.plans_loaded == loaded:
        note_price(time.thread_time_ns() - began, len(snapshot.nodes))
    return executable


@hot
def _tell_ran(
    reason: str, executable: Any, nodes: list[Node], hit: bool, compiles: int, started: int
) -> None:
    """Notes what a flush was, for `explain()`, and tells whoever listens."""
    sites = [node.site for node in nodes]
    numbers = numbers_of_nodes(nodes) if RECORDED else ()
    LATEST.fields = (reason, executable, sites, numbers, hit, compiles, started, _now())
    LATEST.before = None
    if RAN:
        tell_ran()


def _snapshot(state: State, roots: tuple[Node, ...]) -> Snapshot:
    snapshot = Snapshot(state.nodes, state.handles, state.base, roots)
    if len(STATES) > 1 and not state.shared and _look_around(state):
        # Another thread came in between: what it reads may look dead.
        snapshot = Snapshot(state.nodes, state.handles, state.base, roots)
    return snapshot


@hot
def _is_followed(executable: Any, state: State, roots: tuple[Node, ...]) -> bool:
    """Whether the pending nodes are those of a plan once more; then its inputs are set."""
    if executable.follower is None:
        return False
    nodes = state.nodes
    count = len(nodes)
    keep = executable.keep
    if count != len(keep):
        return False
    if executable.writes and not _may_update(nodes[executable.updates[0]], nodes):
        return False
    for root in roots:
        if root.buffer is None:
            place = root.index - state.base + 0
            if not 0 <= place < count or not keep[place]:
                return False
    return bool(executable.follower.matches(nodes, state.handles))


@hot
def _may_update(update: Node, nodes: list[Node]) -> bool:
    """Whether pending nodes end with updates that a plan may make.

    Graphs that were spent and computed before have no say in what these overwrite: they are cut,
    unless a backward pass that is pending is still to walk over them.
    """
    if update.buffer is not None or update.spec.op.kind != "update":
        return False
    if spent.has_computed():
        for node in nodes:
            if node.spec.op.kind == "gradient":
                return False
        spent.cut_computed(update.site)
    return True


@hot
def _known_by_specs(state: State, roots: tuple[Node, ...], other: Any) -> Any:
    """The plan of the pending nodes, with its inputs set, if it is one of the latest that were
    found for such specs, or serves any sizes, and not the `other`."""
    nodes = state.nodes
    if not nodes or nodes[0].buffer is not None:
        return None
    for known in FOUND.get(digest_of_specs(nodes), ()):
        executable = known()
        if (
            executable is not None
            and executable is not other
            and _is_followed(executable, state, roots)
        ):
            return executable
    if FITTED:
        for fitted in fitted_for(nodes):
            if fitted is not other and _is_followed(fitted, state, roots):
                return fitted
    return None


@hot
def _flush_as_before(state: State, roots: tuple[Node, ...]) -> bool:
    """If the pending nodes are those that came next last time, or before, runs their plan."""
    last = LAST.executable
    if state.shared:
        return False
    executable = None
    if last is not None and last.next is not None:
        executable = last.next()
    if executable is None or not _is_followed(executable, state, roots):
        executable = _known_by_specs(state, roots, executable)
        if executable is None:
            return False
        KEPT.use(executable)
        if last is not None:
            last.next = ref(executable)
    if len(STATES) > 1 and _look_around(state):
        return False
    nodes = state.nodes
    count = len(nodes)
    run_followed(executable, nodes)
    _note_run(executable, count)
    counters.flushes += 1
    counters.donations += len(executable.writes)
    return True


@hot
def _note_run(executable: Any, count: int) -> None:
    LAST.executable = executable
    counters.plan_hits += 1
    counters.nodes_recorded += count


def install() -> None:
    """Makes this module the runtime of the graph."""
    Runtime.flush = flush
    Runtime.puts_off = puts_off
    Runtime.evaluate = evaluate
    Runtime.finder = finder
    Runtime.number_at = number_at
    Runtime.buffer_of = buffer_of
    Runtime.write_at_once = write_at_once


def _forget_other_threads() -> None:
    """In a forked child: the lock may be that of a thread which is not there."""
    if not _lock._is_owned():
        _lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


install()
