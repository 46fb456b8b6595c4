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
from collections.abc import Iterator
from contextlib import contextmanager

from livegrad.compiler import debug
from livegrad.device import CPU
from livegrad.environment import words
from livegrad.graph.node import Node
from livegrad.graph.state import Runtime, State
from livegrad.native.calls import AHEAD, fetch_item
from livegrad.native.hot import hot
from livegrad.runtime.alone import note_flush, note_new
from livegrad.runtime.aside import Aside, is_to_be_had
from livegrad.runtime.counters import counters
from livegrad.runtime.cpu.pieces import flushing as pieces
from livegrad.runtime.cpu.pieces.families import numbered
from livegrad.runtime.cpu.pieces.flushing import Sight
from livegrad.runtime.cpu.pieces.moulds import Unfit
from livegrad.runtime.cpu.pieces.telling import Listed
from livegrad.runtime.elsewhere import adopt_missing
from livegrad.runtime.finiteness import look_at_listed
from livegrad.runtime.fitted import FITTED, digest_of_families
from livegrad.runtime.gathering import is_short
from livegrad.runtime.memory import Buffer
from livegrad.runtime.plans import is_on_disk, recall_for_sizes, recorded_of
from livegrad.runtime.running import hand_out, let_go
from livegrad.runtime.snapshot import Snapshot

# What others do on a busy machine is not what a structure costs.
_now = time.thread_time_ns


class Policy:
    """How flushes are run; `LIVEGRAD_MODE` chooses for a process."""

    _chosen = words("LIVEGRAD_MODE", "reference whole pieces")
    # Never piece by piece; or whenever it is possible.
    whole = "whole" in _chosen
    pieces = "pieces" in _chosen
    # Nanoseconds to plan one recorded node: a guess, until plans have been made. A process whose
    # structures are all listed makes none, so it must not be far too high.
    price = 200_000.0
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
    """What a structure has cost so far, and at least each time; whether it is to be planned, and
    whether a plan of an earlier process has been looked for.

    A plan is for leaves that are one where they were one. So what is planned is told apart by
    that: `alike` has what is known of each way, most often of one. `unfit`: no list has it.
    """

    __slots__ = ("alike", "cost", "least", "planned", "sought", "unfit")

    def __init__(self) -> None:
        self.alike: dict[tuple[int, ...], Seen] = {}
        self.cost, self.least = 0, 1 << 62
        self.planned = self.sought = self.unfit = False

    def with_leaves(self, which: tuple[int, ...]) -> Seen:
        """What is known of the structure with these leaves; they have the plan if they come twice
        in a row. Of a batch sampled from a memory others are one each time, and no plan would serve
        twice: each way has to cost as much as a plan by itself."""
        found = self.alike.get(which)
        if found is None:
            if len(self.alike) >= _MOST_ALIKE:
                self.alike.clear()
            found = self.alike[which] = Seen()
            found.cost, found.sought = 1, True  # its structure is not new
        elif len(self.alike) == 1:
            found.planned = True
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
    _sizes.clear()


def may_be_listed(state: State) -> bool:
    """Whether what is pending may be run piece by piece."""
    if Policy.whole or state.shared or not state.nodes:
        return False
    return state.nodes[0].meta.device is CPU


def has_updates(state: State) -> bool:
    """Whether updates are pending."""
    return bool(state.nodes) and _is_update(state.nodes[-1])


def run_at_first_sight(state: State, roots: tuple[Node, ...]) -> Listed | None:
    """Computes what is pending up to updates piece by piece, unless a plan is the better way.

    The updates, which repeat, are left pending.
    """
    seen = None
    waits = Policy.pieces or counters.plan_misses >= _PLANS_BEFORE
    if not pieces.is_ready(waits):
        _say_whole(len(state.nodes), "the native code for pieces is not made yet")
        return None
    try:
        for _ in range(_MOST_TRIES):
            count = count_before_updates(state.nodes)
            if not count:
                return None
            try:
                asking = _with_questions(state.nodes)
                sight, seen = _look(state, roots, count, asking)
            except pieces.Mixed:
                return None
            if seen.cost and Policy.seeks:
                _seek(seen, state, roots)
            if (seen.planned or _serves_sizes(state, roots, count)) and not Policy.pieces:
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
                continue
            if seen.cost:
                note_flush(count)
            elif count == len(state.nodes):
                note_new(state.nodes)
            if _pieces_made() == made:  # else the time was that of making them
                _account(seen, _now() - started, sight)
            kept, spends_all = sight.kept, sight.spends_all()
            del sight
            _show(state.nodes, count, listed)
            look_at_listed(asking, kept, pieces.are_finite)
            del asking
            _finish(state, count, kept, spends_all)
            return listed
    except Unfit as unfit:
        _say_whole(len(state.nodes), str(unfit) or "no piece does it")
    if seen is not None:
        seen.planned = seen.unfit = True
    for node in state.nodes:
        if node.spec.op.kind == "gradient":
            node.spec.refused = True
    return None


def _seek(seen: Seen, state: State, roots: tuple[Node, ...]) -> None:
    """Looks once whether there is a plan for what is pending on disk: then it is the better way.

    On the second sight of a structure; on the first if a piece would have to be learnt for it.
    """
    if seen.sought:
        return
    seen.sought = True
    if is_on_disk(Snapshot(state.nodes, state.handles, state.base, roots)):
        seen.planned = True
        seen.with_leaves(_leaves_of(state.nodes, state.base)).planned = True


def _pieces_made() -> int:
    return counters.pieces_made + counters.pieces_loaded


def note_price(cost: int, count: int) -> None:
    """Notes what planning so many nodes has cost: much more if kernels were compiled for it.

    Few nodes tell nothing: an update is one, and is planned as many. One plan that was far dearer
    than others, as the first, or one for which an outline was learnt, says little of the next.
    """
    if count >= _TELLING:
        Policy.price += (min(cost / count, _FAR_DEARER * Policy.price) - Policy.price) / 2


_TELLING, _FAR_DEARER = 8, 3


def _say_whole(count: int, why: str) -> None:
    if debug.wants("tiers"):
        debug.out(f"tiers: {count} nodes as a whole: {why}")


def _show(nodes: list[Node], count: int, listed: Listed) -> None:
    """Prints what was run, if LIVEGRAD_DEBUG asks for it."""
    if debug.wants("graph"):
        debug.show("graph", debug.node_lines(nodes[:count]))
    if debug.wants("tiers"):
        debug.out(f"tiers: {count} nodes {listed.how(False)}")


def _account(seen: Seen, cost: int, sight: Sight) -> None:
    """Notes what a run has cost; enough, and the structure is planned.

    A backward pass over values that were there before has no plan. It is recorded rule by rule,
    for ever, if what that takes is less than what a plan of it is expected to save, each time: one
    run that the machine was slow at says nothing.
    """
    digest = _digest(sight.nodes, sight.count)
    if digest:
        _note_sizes(digest, cost, not seen.cost)
    seen.cost += cost
    seen.least = min(cost, seen.least)
    if Policy.saving * seen.cost < Policy.patience * Policy.price * sight.count:
        return
    over_values = sight.gradients_over_values()
    seen.planned = not over_values and is_short(sight.count)
    for gradient, walked in over_values:
        if Policy.saving * seen.least > Policy.rule * walked:
            gradient.spec.refused = True


class Sizes:
    """What structures have cost that differ in sizes only, of how many, and how many of them were
    planned; after how many a plan for all of them is looked for on disk, and which sizes were equal
    when it was: such a plan holds for sizes that are equal in one way. And how far another process
    is that makes one."""

    __slots__ = ("aside", "cost", "number", "patterns", "planned", "sought")

    def __init__(self) -> None:
        self.aside = Aside()
        self.cost = self.number = self.planned = 0
        self.sought = _SEVERAL if Policy.seeks else 1 << 62
        self.patterns: set[tuple[int, ...]] = set()

    def is_to_be_sought(self, nodes: list[Node]) -> bool:
        """Whether a plan for all sizes is to be looked for now: once for each way of being equal.

        Sequences that grow begin with lengths that others have, too, and others follow.
        """
        if self.number < self.sought:
            return False
        self.sought = self.number + 1 if self.number < _FIRST else _TIMES * self.number
        pattern = tuple(numbered([node.meta for node in nodes])[0])
        is_new = pattern not in self.patterns
        self.patterns.add(pattern)
        return is_new


_sizes: dict[int, Sizes] = {}
# Sizes of a structure that are listed before a plan for all is looked for; up to so many, for each
# of them; then when they are as many times as many. To make one takes some plans of single sizes,
# unless another process makes them, and may not come of it.
_SEVERAL, _FIRST, _TIMES = 2, 12, 4
_PLANS_TO_FIT, _MOST_PLANS_TO_FIT = 4, 10


def _digest(nodes: list[Node], count: int) -> int:
    return digest_of_families(nodes if count == len(nodes) else nodes[:count])


def _note_sizes(digest: int, cost: int, is_new: bool) -> None:
    """Notes what a structure has cost, which may be one of several sizes."""
    found = _sizes.get(digest)
    if found is None:
        if len(_sizes) >= _MOST_SEEN:
            _sizes.clear()
        found = _sizes[digest] = Sizes()
    found.number += is_new
    found.cost += cost


def _serves_sizes(state: State, roots: tuple[Node, ...], count: int) -> bool:
    """Whether there is a plan for all sizes on disk, which is found from now on; or other sizes of
    this structure have cost so much that it is to be planned, for one to be made.

    If there is one that does not hold for these sizes, they have to cost enough by themselves. Of a
    step with updates it is a plan for what comes before them, which only another process makes.
    """
    if count == len(state.nodes):
        return _is_for_sizes(state, roots)
    asked = (*roots, *read_by_updates(state, count))
    with before_updates(state, count):
        return _is_for_sizes(state, asked, planned_here=False)


@contextmanager
def before_updates(state: State, count: int) -> Iterator[None]:
    """Within it, so many nodes are pending, and the updates that come after them are not."""
    nodes, handles = state.nodes, state.handles
    updates = nodes[count:], handles[count:]
    try:
        # In place: copies of the lists would refer to what is pending.
        del nodes[count:], handles[count:]
        yield
    finally:
        nodes[count:], handles[count:] = updates


def read_by_updates(state: State, count: int) -> list[Node]:
    """What updates read of the pending nodes before them."""
    return [
        x for node in state.nodes[count:] for x in node.inputs if 0 <= x.index - state.base < count
    ]


def _is_for_sizes(state: State, roots: tuple[Node, ...], planned_here: bool = True) -> bool:
    count = len(state.nodes)
    digest = _digest(state.nodes, count)
    sizes = _sizes.get(digest)
    if sizes is None or sizes.number < _SEVERAL or digest in FITTED:
        return False
    if sizes.is_to_be_sought(state.nodes) and recall_for_sizes(
        Snapshot(state.nodes, state.handles, state.base, roots)
    ):
        return True
    if sizes.planned >= _MOST_PLANS_TO_FIT or not is_short(count):
        return False
    lost = Policy.saving * sizes.cost / (Policy.price * count)
    if lost < Policy.patience:
        return False
    if not is_to_be_had():
        if not planned_here or lost < Policy.patience * _PLANS_TO_FIT:
            return False
        sizes.planned += 1
        return True
    snapshot = Snapshot(state.nodes, state.handles, state.base, roots)
    if not sizes.aside.is_there(recorded_of(snapshot)):
        return False
    sizes.planned = _MOST_PLANS_TO_FIT  # it is found now, or never
    return recall_for_sizes(snapshot)


def take_off(state: State, count: int) -> None:
    """Takes off the list what was computed, which must not look alive when updates overwrite
    values."""
    state.walks.clear()  # they refer to the graph
    state.nodes, state.handles = state.nodes[count:], state.handles[count:]
    state.base += count


def _finish(state: State, count: int, kept: list[tuple[Node, Buffer]], spends_all: bool) -> None:
    counters.nodes_recorded += count
    update = state.nodes[count] if count < len(state.nodes) else None
    in_graphs = hand_out(kept)
    recorded: list[Node] = []
    if update is not None:
        if spends_all:
            recorded = state.nodes
        take_off(state, count)
    state.walks.clear()  # they refer to the graph
    let_go(in_graphs, update, recorded)


@hot
def _is_update(node: Node) -> bool:
    """Whether a node is an update. Questions about gradients write nothing: they are answered when
    what they ask about has been computed, wherever they stand (`look_at_listed`)."""
    return node.spec.op.kind == "update" and node.spec.attrs[0] != 0


@hot
def count_before_updates(nodes: list[Node]) -> int:
    """How many nodes come before the updates at the end; others than those are met when all nodes
    are looked at."""
    end = len(nodes)
    while end > 0 and _is_update(nodes[end - 1]):
        end -= 1
    return end


@hot
def _with_questions(nodes: list[Node]) -> list[Node]:
    """Updates, and questions by themselves: no list has them, and they read what others made."""
    found = []
    count = len(nodes)
    for place in range(count):
        if place + AHEAD < count:
            fetch_item(nodes, place + AHEAD)
        node = nodes[place]
        if node.spec.op.kind == "update":
            found.append(node)
    return found


def _look(
    state: State, roots: tuple[Node, ...], count: int, asking: list[Node]
) -> tuple[Sight, Seen]:
    read = [x for node in asking for x in node.inputs]
    sight = pieces.look(state.nodes, state.handles, state.base, count, [*roots, *read])
    key = hash(sight.structure())
    seen = _seen.get(key)
    if seen is None:
        if len(_seen) >= _MOST_SEEN:
            _seen.clear()
        seen = _seen[key] = Seen()
    if seen.planned and not seen.unfit:
        seen = seen.with_leaves(_leaves_of(state.nodes, state.base))
    return sight, seen


def _leaves_of(nodes: list[Node], base: int) -> tuple[int, ...]:
    """Which of the values that are read are one."""
    return tuple(_numbered_leaves(nodes, base, {}))


@hot
def _numbered_leaves(nodes: list[Node], base: int, numbers: dict[Node, int]) -> list[int]:
    end = base + len(nodes)
    found = []
    for node in nodes:
        for x in node.inputs:
            index = x.index
            if not base <= index < end:
                number = numbers.get(x)
                if number is None:
                    number = len(numbers)
                    numbers[x] = number
                found.append(number)
    return found
