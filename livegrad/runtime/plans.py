"""The plans made so far, and how one is found again by what was recorded."""

from __future__ import annotations

from time import perf_counter
from typing import Any
from weakref import ref

from livegrad.compiler import debug
from livegrad.compiler.expand import Recorded, without_device
from livegrad.compiler.kept import KEPT, size_of_plan
from livegrad.device import CPU, backend_of
from livegrad.graph.events import PLANNED, PLANS, tell_planned
from livegrad.graph.node import Node
from livegrad.graph.numbers import Specialised
from livegrad.native.calls import AHEAD, fetch_item, remainder
from livegrad.native.hot import hot, hot_slots
from livegrad.runtime import recalling, resizing
from livegrad.runtime.counters import counters
from livegrad.runtime.executable import Executable
from livegrad.runtime.fitted import FITTED
from livegrad.runtime.misses import why_missed
from livegrad.runtime.snapshot import Snapshot, numbers_of

Key = tuple[Any, ...]

# Executables by the specs of the recorded nodes; those of one list differ in links or in what
# is kept.
_executables: dict[Key, list[Executable]] = {}
_MOST_ALIKE = 64


@hot_slots
class _Last:
    """The executable of the last flush, whose successor of last time is expected to come next."""

    __slots__ = ("executable",)

    def __init__(self) -> None:
        self.executable: Executable | None = None


LAST = _Last()
# The latest executables that a look at the list has found, by a digest of the specs: a program
# that runs a few structures in turn, in no fixed order, need not look there again.
FOUND: dict[int, tuple[ref[Executable], ...]] = {}
_MOST_FOUND = 4096
_MOST_TRIED = 4
_DIGESTS = 1 << 48


@hot
def digest_of_specs(nodes: list[Node]) -> int:
    """A number that structures with the same specs have in common."""
    digest = 0
    count = len(nodes)
    for place in range(count):
        if place + AHEAD < count:
            fetch_item(nodes, place + AHEAD)
        node = nodes[place]
        # So that it stays below 64 bits.
        digest = remainder(digest, _DIGESTS) * 31 + id(node.spec)
    return digest


def note_found(executable: Executable, nodes: list[Node]) -> None:
    """Notes an executable that has run, for the next time that such nodes are pending."""
    if executable.follower is None:
        return
    digest = digest_of_specs(nodes)
    others = [x for x in FOUND.get(digest, ()) if x() is not None and x() is not executable]
    if len(FOUND) >= _MOST_FOUND:
        FOUND.clear()
    FOUND[digest] = (ref(executable), *others[: _MOST_TRIED - 1])


def find(snapshot: Snapshot) -> Executable | None:
    """The executable for what was recorded, if there is one."""
    for executable in _executables.get(snapshot.specs, ()):
        if (
            executable.links == snapshot.links
            and executable.keep == snapshot.keep
            and _same_leaves(executable, snapshot.reads)
            and _same_numbers(executable, snapshot.nodes)
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
    return planned is None or planned == numbers_of([nodes[i] for i in executable.numbered])


def _kinds(nodes: list[Node]) -> list[bool]:
    """For numbers that may be integers or floats, which they are."""
    return [type(a) is float for n in nodes for a in n.args]


def make(snapshot: Snapshot) -> Executable:
    """Plans what was recorded, unless it is on disk, and remembers the executable."""
    recorded = recorded_of(snapshot)
    if debug.wants("graph"):
        debug.show("graph", debug.node_lines(recorded.leaves + recorded.nodes))
    why = why_missed(snapshot, _executables) if PLANNED or debug.wants("misses") else ""
    if debug.wants("misses"):
        debug.out(f"plan miss: {why}")
    counters.plan_misses += 1
    Specialised.seen = False
    started = perf_counter()
    plan = recalling.plan_of(recorded)
    if PLANNED:
        tell_planned(plan, snapshot.nodes, perf_counter() - started, str(why))
    counters.plans_filled += plan.filled
    counters.plans_loaded += plan.recalled
    executable = Executable(plan, recorded, _backend(snapshot.nodes))
    read = _bind(executable, snapshot)
    if Specialised.seen:
        if debug.wants("misses"):
            debug.out("this plan holds for its numbers only: a rule has computed with one of them")
        nodes = snapshot.nodes
        executable.specialised = numbers_of([nodes[i] for i in executable.numbered])
    executable.follower = executable.runnable.follower(executable, snapshot.nodes, read)
    _remember(snapshot.specs, executable)
    if plan.filled and executable.follower is not None:
        resizing.fit_to_sizes(plan, recorded, lambda fitted: _bind(fitted, snapshot))
    return executable


def _bind(executable: Executable, snapshot: Snapshot) -> list[int]:
    """Tells an executable how it meets what was recorded; the numbers of the leaves as read."""
    executable.links, executable.keep = snapshot.links, snapshot.keep
    executable.seen = snapshot.seen
    nodes, reads = snapshot.nodes, snapshot.reads
    executable.numbered = [i for i, n in enumerate(nodes) if n.args]
    executable.mixed = [i for i in executable.numbered if not nodes[i].spec.floats]
    executable.kinds = _kinds([nodes[i] for i in executable.mixed])
    numbers = {x: i for i, x in enumerate(dict.fromkeys(reads))}
    first = {x: i for i, x in reversed(list(enumerate(reads)))}
    executable.firsts = [first[x] for x in numbers]
    executable.repeats = [(i, first[x]) for i, x in enumerate(reads) if first[x] != i]
    return [numbers[x] for x in reads]


def recall_for_sizes(snapshot: Snapshot) -> bool:
    """Whether there is a plan on disk that serves what was recorded, whatever its sizes; then it
    is found from now on."""
    return bool(resizing.recall(recorded_of(snapshot), lambda fitted: _bind(fitted, snapshot)))


def is_on_disk(snapshot: Snapshot) -> bool:
    """Whether an earlier process has planned this."""
    return recalling.is_stored(recorded_of(snapshot))


def recorded_of(snapshot: Snapshot) -> Recorded:
    """Pending nodes as the planner takes them."""
    leaves = list(dict.fromkeys(snapshot.reads))
    kept = [i for i, k in enumerate(snapshot.keep) if k and _has_value(snapshot.nodes[i])]
    return without_device(Recorded(snapshot.nodes, leaves, kept))


def _backend(nodes: list[Node]) -> Any:
    """What computes these: they are all on one device."""
    return backend_of(nodes[0].meta.device if nodes else CPU)


def arena_users() -> list[tuple[int, int, int]]:
    """(bytes, plan, kernels) of the plans that there are, the one that needs most scratch first."""
    found = {id(x): x for alike in list(_executables.values()) for x in alike}
    rows = [(x.plan.arena, PLANS[x.plan], len(x.plan.steps)) for x in found.values()]
    return sorted(rows, reverse=True)


def forget_plans() -> None:
    """Has everything planned anew, for tests that change how."""
    _executables.clear()
    recalling.planning().forget()
    KEPT.clear()
    FOUND.clear()
    FITTED.clear()
    LAST.executable = None


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
    executable = LAST.executable
    while executable is not None and executable not in found and len(found) < _MOST_ALIKE:
        found.add(executable)
        executable = executable.next() if executable.next is not None else None
    return found


def _has_value(node: Node) -> bool:
    return node.op.kind not in ("update", "gradient")
