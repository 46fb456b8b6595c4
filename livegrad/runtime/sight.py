"""First sight: what nobody has seen before is run piece by piece; what repeats is planned.

    structure   cost so far                      how it is run
    new         nothing                          piece by piece: op after op, in one native call
    again       less than a quarter of planning  piece by piece, unless its plan is on disk
    again       more                             as a whole plan, from now on

So a structure that comes once costs no planning, and one that stays is planned when it has cost a
quarter as much. Bits do not depend on it: see docs/design.md.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from livegrad.compiler import debug
from livegrad.device import CPU
from livegrad.environment import words
from livegrad.graph.asked import only_asks
from livegrad.graph.node import Node
from livegrad.graph.state import Runtime, State
from livegrad.native.collector import lasting
from livegrad.native.hot import hot
from livegrad.runtime.alone import note_flush, note_new
from livegrad.runtime.counters import counters
from livegrad.runtime.elsewhere import adopt_missing
from livegrad.runtime.finiteness import look_at_listed
from livegrad.runtime.gathering import is_short
from livegrad.runtime.memory import Buffer
from livegrad.runtime.plans import is_on_disk
from livegrad.runtime.running import hand_out, let_go
from livegrad.runtime.snapshot import Snapshot

if TYPE_CHECKING:
    from livegrad.runtime.cpu.pieces.flushing import Sight
    from livegrad.runtime.cpu.pieces.telling import Listed

# What others do on a busy machine is not what a structure costs.
_now = time.thread_time_ns


class Policy:
    """How flushes are run; `LIVEGRAD_MODE` chooses for a process."""

    _chosen = words("LIVEGRAD_MODE", "reference whole pieces")
    # Never piece by piece; or whenever it is possible.
    whole = "whole" in _chosen
    pieces = "pieces" in _chosen
    # Nanoseconds to plan one recorded node: a guess, until plans have been made.
    price = 800_000.0
    # Nanoseconds to record the gradient rule of one node.
    rule = 30_000
    # What a whole plan is expected to save of the time that pieces take.
    saving = 0.5
    # How much of what planning takes has to be lost first. What has come so often most likely
    # comes many times more, and the next process has its plan, too.
    patience = 0.125
    # Whether the second sight of a structure looks for a plan on disk, which costs next to nothing.
    seeks = not pieces


Runtime.by_pieces = not Policy.whole


class Seen:
    """What a structure has cost so far, whether it is to be planned, and whether a plan of an
    earlier process has been looked for.

    A plan is for leaves that are one where they were one. So what is planned is told apart by
    that: `alike` has what is known of each way, most often of one.
    """

    __slots__ = ("alike", "cost", "planned", "sought")

    def __init__(self, planned: bool = False) -> None:
        self.alike: dict[tuple[int, ...], Seen] = {}
        self.cost = 0
        self.planned = planned
        self.sought = False

    def with_leaves(self, which: tuple[int, ...]) -> Seen:
        """What is known of the structure with these leaves; those that come first have the plan."""
        found = self.alike.get(which)
        if found is None:
            if len(self.alike) >= _MOST_ALIKE:
                self.alike.clear()
            found = self.alike[which] = Seen(planned=not self.alike)
        return found

    def why(self, count: int) -> str:
        """Why so many nodes of this structure are run piece by piece, for `explain()`."""
        if not self.cost:
            return "its structure is new"
        price = Policy.patience * Policy.price * count / Policy.saving
        return f"its structure has cost {self.cost / 1e6:.1f} of {price / 1e6:.0f} ms so far"


# By the hash of a structure: two with the same hash would share their costs, and no more.
_seen: dict[int, Seen] = {}
_MOST_SEEN = 1 << 14
_MOST_ALIKE = 256
# How often something may turn out to be otherwise than it was taken for, until a plan is made.
_MOST_TRIES = 8


# On a new machine native code for pieces is made meanwhile. So many plans, and the structures of
# the program are new ones again and again: waiting for it, a second at most, costs less than they.
_PLANS_BEFORE = 5


def forget() -> None:
    """Forgets which structures have been seen."""
    _seen.clear()


def may_be_listed(state: State) -> bool:
    """Whether what is pending may be run piece by piece."""
    if Policy.whole or state.shared or not state.nodes:
        return False
    return state.nodes[0].meta.device is CPU


def is_left(state: State) -> bool:
    """Whether updates, and what comes behind a question about gradients, were left pending."""
    return bool(state.nodes) and state.nodes[0].spec.op.kind == "update"


def run_at_first_sight(state: State, roots: tuple[Node, ...]) -> Listed | None:
    """Computes what is pending up to updates piece by piece, unless a plan is the better way.

    The updates are left pending, and so is what comes behind a question about gradients, such as
    clipping them: both repeat.
    """
    pieces, seen = _pieces(), None
    waits = Policy.pieces or counters.plan_misses >= _PLANS_BEFORE
    if not pieces.is_ready(waits):
        _say_whole(len(state.nodes), "the native code for pieces is not made yet")
        return None
    end = len(state.nodes)
    try:
        for _ in range(_MOST_TRIES):
            count = _before_updates(state.nodes, end)
            if not count:
                return None
            try:
                sight, seen = _look(state, roots, count)
            except pieces.Mixed as mixed:
                if not only_asks(state.nodes[mixed.place]):
                    return None  # one that writes, and others come behind it
                end = mixed.place
                continue
            if seen.cost and Policy.seeks:
                _seek(seen, state, roots)
            if seen.planned and not Policy.pieces:
                _say_whole(count, "it has cost enough for a plan, or has one on disk")
                return None
            started, made = _now(), _pieces_made()
            try:
                listed = sight.run(seen.why(count), seen.sought or not Policy.seeks)
            except pieces.Learnt:
                continue
            except pieces.Unlearnt:
                del sight
                _seek(seen, state, roots)
                continue
            except pieces.Missing:
                del sight  # it refers to nodes
                adopt_missing(state, roots, for_plan=False)
                end = len(state.nodes)
                continue
            if seen.cost:
                note_flush(count)
            elif count == len(state.nodes):
                note_new(state.nodes)
            if _pieces_made() == made:  # else the time was that of making them
                _account(seen, _now() - started, sight)
            kept = sight.kept
            del sight
            _show(state.nodes, count, listed)
            look_at_listed(state.nodes, count, kept, pieces.are_finite)
            _finish(state, count, kept)
            return listed
    except pieces.Unfit as unfit:
        _say_whole(len(state.nodes), str(unfit) or "no piece does it")
    if seen is not None:
        seen.planned = True
    for node in state.nodes:
        if node.spec.op.kind == "gradient":
            node.spec.refused = True
    return None


def _seek(seen: Seen, state: State, roots: tuple[Node, ...]) -> None:
    """Looks once whether there is a plan for what is pending on disk: then it is the better way.

    On the second sight of a structure; on the first if a piece would have to be learnt for it.
    """
    if not seen.sought:
        seen.sought = True
        seen.planned = is_on_disk(Snapshot(state.nodes, state.handles, state.base, roots))


def _pieces_made() -> int:
    return counters.pieces_made + counters.pieces_loaded


def note_price(cost: int, count: int) -> None:
    """Notes what planning so many nodes has cost: much more if kernels were compiled for it.

    Few nodes tell nothing: an update is one, and is planned as many.
    """
    if count >= _TELLING:
        Policy.price += (cost / count - Policy.price) / 2


_TELLING = 8


def _say_whole(count: int, why: str) -> None:
    if debug.wants("tiers"):
        debug.out(f"tiers: {count} nodes as a whole: {why}")


class _Loaded:
    """What the first flush imports: `import livegrad` is quicker without it."""

    pieces: Any = None


def _pieces() -> Any:
    if _Loaded.pieces is None:
        with lasting():
            from livegrad.runtime.cpu.pieces import flushing

        _Loaded.pieces = flushing
    return _Loaded.pieces


def _show(nodes: list[Node], count: int, listed: Listed) -> None:
    """Prints what was run, if LIVEGRAD_DEBUG asks for it."""
    if debug.wants("graph"):
        debug.show("graph", debug.node_lines(nodes[:count]))
    if debug.wants("tiers"):
        debug.out(f"tiers: {count} nodes {listed.how(False)}")


def _account(seen: Seen, cost: int, sight: Sight) -> None:
    """Notes what a run has cost; enough, and the structure is planned.

    A backward pass over values that were there before has no plan. It is recorded rule by rule if
    what that takes is less than what a plan of it is expected to save.
    """
    seen.cost += cost
    if Policy.saving * seen.cost < Policy.patience * Policy.price * sight.count:
        return
    over_values = sight.gradients_over_values()
    seen.planned = not over_values and is_short(sight.count)
    for gradient, walked in over_values:
        if Policy.saving * cost > Policy.rule * walked:
            gradient.spec.refused = True


def _finish(state: State, count: int, kept: list[tuple[Node, Buffer]]) -> None:
    counters.nodes_recorded += count
    update = state.nodes[count] if count < len(state.nodes) else None
    state.walks.clear()  # they refer to the graph
    in_graphs = hand_out(kept)
    if update is not None:
        # What was computed must not look alive when updates overwrite values.
        state.nodes, state.handles = state.nodes[count:], state.handles[count:]
        state.base += count
        if only_asks(update):
            update = None
    let_go(in_graphs, update)


@hot
def _before_updates(nodes: list[Node], end: int) -> int:
    """How many nodes, up to an end, come before the updates there.

    Others, before that, are met when all nodes are looked at.
    """
    while end > 0 and nodes[end - 1].spec.op.kind == "update":
        end -= 1
    return end


def _look(state: State, roots: tuple[Node, ...], count: int) -> tuple[Sight, Seen]:
    read = [x for node in state.nodes[count:] for x in node.inputs]
    end = state.base + count
    wanted = [x for x in (*roots, *read) if x.index < end]
    sight = _pieces().look(state.nodes, state.handles, state.base, count, wanted)
    key = hash(sight.structure())
    seen = _seen.get(key)
    if seen is None:
        if len(_seen) >= _MOST_SEEN:
            _seen.clear()
        seen = _seen[key] = Seen()
    if seen.planned:
        seen = seen.with_leaves(_leaves_of(state))
    return sight, seen


def _leaves_of(state: State) -> tuple[int, ...]:
    """Which of the values that are read are one."""
    base, end = state.base, state.base + len(state.nodes)
    numbers: dict[Node, int] = {}
    return tuple(
        [
            numbers.setdefault(x, len(numbers))
            for node in state.nodes
            for x in node.inputs
            if not base <= x.index < end
        ]
    )
