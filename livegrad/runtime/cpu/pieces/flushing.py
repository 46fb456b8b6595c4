"""Runs what is pending piece by piece: nothing is planned for the whole.

    look     what is kept, and which structure it is: has it cost enough to be planned as a whole?
    count    which values are needed, and how often they are read
    list     for each node the program of its op, on which memory; for gradients too
    run      the list, by one native call
    kept     buffers, and the nodes that they are for: handed out by runtime/sight.py

Nothing is changed before the list has run, and it writes new memory only: whatever goes wrong,
what is pending is still pending.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from livegrad.graph import spent
from livegrad.graph.meta import Meta
from livegrad.graph.node import Node
from livegrad.native.calls import put_word, word_at
from livegrad.native.hot import hot
from livegrad.runtime.counters import counters
from livegrad.runtime.cpu import threads
from livegrad.runtime.cpu.driver import FAULT_CODE, FAULT_VALUE, STATUS, native_run_list
from livegrad.runtime.cpu.looking import are_finite as are_finite
from livegrad.runtime.cpu.pieces.calling import (
    call_freely_with_5,
    call_with_1,
    call_with_3,
    call_with_4,
)
from livegrad.runtime.cpu.pieces.desk import DESK, Native, native
from livegrad.runtime.cpu.pieces.families import family_of
from livegrad.runtime.cpu.pieces.layout import (
    ALIAS,
    COMPUTED,
    ENTRIES,
    ENTRY,
    ENTRY_CARD,
    ENTRY_PLACE,
    ENTRY_PROGRAM,
    GRADIENT,
    GRADIENT_OF,
    KEPT,
    KEPT_MADE,
    PLACE,
    SCRATCH_NEEDED,
    STRUCTURE,
    TARGETS,
    THREAD_SCRATCH_NEEDED,
    TOP,
    UNFIT,
    UNITED,
    UPDATE,
    VALUES,
    VIEW,
    WORD,
    WRITES,
)
from livegrad.runtime.cpu.pieces.listing import DEEPEST
from livegrad.runtime.cpu.pieces.making import (
    BY_CARD,
    Learning,
    Unlearnt as Unlearnt,
    find_role,
    find_saved,
    make_backward,
    make_forward,
    provide_wanted_sums,
)
from livegrad.runtime.cpu.pieces.moulds import Unfit
from livegrad.runtime.cpu.pieces.questions import Views
from livegrad.runtime.cpu.pieces.rows import HAS_UPDATES, NO_ROOM
from livegrad.runtime.cpu.pieces.telling import Listed
from livegrad.runtime.cpu.pieces.walks import Walk
from livegrad.runtime.cpu.segments import ARENA as SCRATCH
from livegrad.runtime.fault import Fault
from livegrad.runtime.memory import Arena, Buffer, allocate
from livegrad.runtime.values import buffer_of

ARENA = Arena()
_BUSY = -1


class Missing(Exception):
    """A value that is needed is neither computed nor pending in this thread."""


class Mixed(Exception):
    """An update comes before other nodes."""


class Learnt(Exception):
    """A spec turned out to be something else to the list than it was taken for."""


class Sight:
    """What is pending, looked at: the first `count` of the nodes."""

    def __init__(
        self, nodes: list[Node], handles: list[Any], base: int, count: int, code: Native
    ) -> None:
        self.nodes = nodes
        self.base = base
        self.count = count
        self.code = code
        self.desk = DESK
        self.walks: dict[Node, Walk] = {}
        self.has_run = False
        self.desk.make_room(count)
        call_with_3(code.begin, self.desk.address, base, count)
        self._read_rows()
        self.claims = call_with_3(code.mark_kept, self.desk.address, id(nodes), id(handles))

    def _read_rows(self) -> None:
        """Reads what is pending; programs of new sizes have new specs, without families."""
        place = 0
        self.desk.rewind_tape()
        while place < self.count:
            place = self._native(self.code.read_rows, place)
            if place == HAS_UPDATES:
                raise Mixed
            if place == NO_ROOM:
                self.desk.lengthen_tape()
                place = 0
            elif place < self.count:
                family_of(self.nodes[place])

    def keep(self, roots: Sequence[Node]) -> None:
        """Keeps what is asked for besides, and what a later backward will need."""
        targets = self.desk.tables[TARGETS]
        for root in roots:
            if root.buffer is None and 0 <= root.index - self.base < self.count:
                targets[root.index - self.base] = 1
        place = self.count - 1 if self.claims else -1
        while place >= 0:
            place = self._native(self.code.keep_for_backward, place)
            if place >= 0:
                self._know(self.nodes[place])

    def structure(self) -> bytes:
        """What tells this structure from others, as long as its specs live."""
        length = call_with_1(self.code.write_structure, self.desk.address)
        return self.desk.tables[STRUCTURE][: length // WORD].tobytes()

    def gradients_over_values(self) -> list[tuple[Node, int]]:
        """Backward passes that go over values which were there before, and over how many nodes."""
        pending = range(self.base, self.base + self.count)
        return [
            (gradient, len(walk.interior))
            for gradient, walk in self.walks.items()
            if any([node.index not in pending for node in walk.interior])
        ]

    def spends_all(self) -> bool:
        """Whether all nodes of graphs that backward has spent since the last flush are pending, and
        those of one backward pass."""
        walks = list(self.walks.values())
        return len(walks) == 1 and walks[0].is_pending and spent.waits_alone(walks[0].interior)

    def _native(self, function: int, place: int) -> int:
        return call_with_3(function, self.desk.address, id(self.nodes), place)

    def _know(self, node: Node) -> int:
        """What a node is to the list; its spec is told, and which values its gradient reads."""
        family = family_of(node)
        if family.saved < 0:
            find_saved(node)
        role = family.role if family.role >= 0 else find_role(node)
        if role in (UNFIT, UPDATE):
            raise Unfit(f"{node.op.name} is not run by itself")
        return role

    # ---- running

    def run(self, why: str, learns: bool = True) -> Listed:
        """Computes all that is `kept`; what was run, of which `why` says why it was so.

        Unlearnt if a piece is missing and it `learns` none.
        """
        Learning.allowed = learns
        try:
            return self._run(why)
        finally:
            Learning.allowed = True

    def _run(self, why: str) -> Listed:
        self.told = Listed(self.nodes, self.count, why)
        self.desk.empty_list()
        self._count_uses()
        made: dict[int, Buffer] = {}
        self.kept = allocate_kept(
            self.desk.address, self.nodes, self.base, self.count, self.walks, made
        )
        self._make_blocks()
        self._list()
        self._run_list()
        self.told.united = self.desk[UNITED]
        counters.united += self.told.united
        ARENA.give_back()
        counters.listed += 1
        return self.told

    def _count_uses(self) -> None:
        place = self.count - 1
        while place >= 0:
            place = self._native(self.code.count_uses, place)
            if place < 0:
                return
            node = self.nodes[place]
            family = node.spec.family
            was_known = family is not None and family.role >= 0
            role = self._know(node)
            if role == GRADIENT:
                self._count_saved(node)
                place -= 1
            elif role == WRITES and was_known:
                raise Unfit(f"{node.op.name} changes a part of what is large")

    def _count_saved(self, gradient: Node) -> None:
        """Counts the reads by the gradient rules of a recorded backward pass."""
        walk = self.walks[gradient] = Walk(gradient, self.code, self.desk)
        number, count = 0, len(walk.interior)
        while number < count:
            number = call_with_3(self.code.count_saved, self.desk.address, walk.address, number)
            if number < count:
                node = walk.interior[number]
                was_known = node.spec.family is not None and node.spec.family.saved >= 0
                if was_known:
                    raise Missing
                self._know(node)

    def _make_blocks(self) -> None:
        """A block for every node, gradient and sum there may be."""
        most = self.count
        for walk in self.walks.values():
            most += walk.blocks
        self.desk.make_blocks(most)

    # ---- the list

    def _list(self) -> None:
        place, stuck = 0, -1
        while place < self.count:
            place = self._native(self.code.list_nodes, place)
            if place == self.count:
                return
            node = self.nodes[place]
            if self._know(node) == GRADIENT:
                self._list_gradients(place, node)
                place += 1
            else:
                stuck = place if self._provide_forward(node, stuck == place) else -1

    def _provide_forward(self, node: Node, again: bool) -> bool:
        """Makes a piece; or if that has been of no use, room on the list. False: computed views."""
        if again:
            self._make_room()
            return True
        views = [self._views(x) for x in node.inputs]
        if self._is_rare(node, views):
            self._compute_views(views)
            return False
        piece = make_forward(node, views)
        family = family_of(node)
        if family.role == ALIAS and not piece.is_alias and not any(views):
            family.role = COMPUTED  # for some sizes it is one, for others not
            raise Learnt
        return True

    def _is_rare(self, node: Node, views: list[Views]) -> bool:
        """Whether a node reads through views as hardly any other of this list does: see RARE.

        Views of a graph that was walked over are not recorded, and cannot be computed.
        """
        first, end = self.base, self.base + self.count
        looked = [view for each in views for view in each]
        if not looked or not all([first <= view.index < end for view in looked]):
            return False
        return family_of(node).is_rarely_so()

    def _compute_views(self, views: list[Views]) -> None:
        """Lists views by themselves, so that who reads them needs no piece of its own."""
        for view in [view for each in views for view in each]:
            place = view.index - self.base
            while not self.desk.tables[VALUES][place]:
                make_forward(view, [[] for _ in view.inputs])
                if not self._native(self.code.list_place, place):
                    self._make_room()

    def _make_room(self) -> None:
        """Runs the list, for it to be empty, and longer if it can be."""
        listed = self.desk.listed
        self._run_list()
        if not self.desk.lengthen_list() and not listed:
            raise Unfit  # a piece that is as large as the list

    def _views(self, x: Node) -> Views:
        """Through which views an input is seen."""
        views: Views = []
        values = self.desk.tables[VALUES]
        while True:
            place = x.index - self.base
            if 0 <= place < self.count:
                if values[place]:
                    return views
            elif x.buffer is not None:
                return views
            elif self._know(x) != VIEW or len(views) == DEEPEST:
                raise Missing
            views.insert(0, x)
            x = x.inputs[0]

    def _list_gradients(self, place: int, gradient: Node) -> None:
        desk, walk = self.desk, self.walks[gradient]
        desk[PLACE] = place
        call_with_1(self.code.find_order, walk.address)
        walk.set_seed(_ones(gradient.inputs[0].meta).ptr)
        at, count = 0, walk.ordered
        stuck: tuple[int, list[bool]] | None = None
        while at < count:
            at = call_with_4(
                self.code.list_gradients, desk.address, id(self.nodes), walk.address, at
            )
            if at < count:
                number = walk.number_at(at)
                # Once a use of a weight waits, another piece gives the other gradients of its node.
                wanted = at, walk.mask(number)
                provided = self._provide_backward(walk, number, stuck == wanted)
                stuck = wanted if provided else None

    def _provide_backward(self, walk: Walk, number: int, again: bool) -> bool:
        node = walk.interior[number]
        if provide_wanted_sums():
            for view in [view for x in node.inputs for view in self._views(x)]:
                make_forward(view, [[] for _ in view.inputs])
            return False
        if again:
            self._make_room()
            return True
        mask = walk.mask(number)
        views: list[Views] = [[] for _ in node.inputs]
        if family_of(node).saved & 1:
            views = [self._views(x) for x in node.inputs]
        if self._is_rare(node, views):
            self._compute_views(views)
            return False
        make_backward(node, views, mask)
        return True

    # ---- running it

    def _run_list(self) -> None:
        desk = self.desk
        listed = desk.listed
        if not listed:
            return
        self.told.take(desk, self.kept)
        arena = _grown(desk[TOP]) if self.has_run else ARENA.reserve(desk[TOP])
        scratch = SCRATCH.reserve(desk[SCRATCH_NEEDED])
        threads.pool.need_scratch(desk[THREAD_SCRATCH_NEEDED])
        if not threads.pool.running:
            threads.pool.start()
        status = _BUSY
        while status == _BUSY:
            # Other Python threads go on meanwhile.
            status = call_freely_with_5(
                native_run_list(), desk.first_entry, listed, arena, scratch, threads.pool.address,
            )  # fmt: skip
            if status == _BUSY:
                time.sleep(2e-5)
        counters.kernels_run += listed
        if status:
            raise self._fault(status - 1)
        self.has_run = True
        desk.empty_list()

    def _fault(self, entry: int) -> Fault:
        """The fault of an entry, for the node that it is of."""
        words = self.desk.tables[ENTRIES][entry * (ENTRY // WORD) :][: ENTRY // WORD]
        program, place = words[ENTRY_PROGRAM // WORD], words[ENTRY_PLACE // WORD]
        piece = BY_CARD[words[ENTRY_CARD // WORD]]
        refused = [word_at(program + WORD * i) for i in (STATUS, FAULT_CODE, FAULT_VALUE)]
        if place < 0:
            return Fault(refused[0] - 1).blamed_on(None)
        node = self.nodes[place]
        fault = piece.fault(node, *refused)
        fault.recorded = node
        return fault.blamed_on(node.site)


def _grown(nbytes: int) -> int:
    """The address of an arena of so many bytes, with what is in it already."""
    before = ARENA.buffer
    if nbytes > before.nbytes:
        ARENA.buffer = allocate(nbytes)
        view = before.view("u1", (before.nbytes,))
        ARENA.buffer.view("u1", (before.nbytes,))[...] = view
    return ARENA.buffer.ptr


@hot
def allocate_kept(
    desk: int,
    nodes: list[Node],
    base: int,
    count: int,
    walks: dict[Node, Walk],
    made: dict[int, Buffer],
) -> list[tuple[Node, Buffer]]:
    """Memory for what is kept; the nodes that are, with their buffers."""
    kept = []
    listed, targets, values = word_at(desk + KEPT), word_at(desk + TARGETS), word_at(desk + VALUES)
    left = word_at(desk + KEPT_MADE)
    while left > 0:
        left -= 1
        place = word_at(listed + WORD * left)
        node = nodes[place]
        role = node.spec.family.role
        if role == ALIAS:
            x = node.inputs[0]
            at = x.index - base + 0
            if 0 <= at < count:
                buffer = made[at]
            else:
                buffer = x.buffer
                if buffer is None:
                    raise Missing
        else:
            buffer = allocate(node.meta.numel * node.meta.dtype.itemsize)
        made[place] = buffer
        put_word(targets + WORD * place, buffer.ptr)
        if role == GRADIENT_OF:
            put_word(values + WORD * place, buffer.ptr)
            put_word(walks[node.inputs[0]].targets + WORD * node.spec.attrs[0], buffer.ptr)
        kept.append((node, buffer))
    return kept


def is_ready(waits: bool) -> bool:
    """Whether there is native code to make lists with, for which somebody may wait."""
    return native(waits) is not None


def can_list(node: Node) -> bool:
    """Whether nodes such as this are sure to be run by pieces; nothing is learnt to find out."""
    if native() is None:
        return False
    family = family_of(node)
    if family.role < 0:
        Learning.allowed = False
        try:
            find_role(node)
        except Unlearnt:
            return False
        finally:
            Learning.allowed = True
    return family.role < WRITES


def look(
    nodes: list[Node], handles: list[Any], base: int, count: int, roots: Sequence[Node]
) -> Sight:
    """What is pending, looked at, if it can be run piece by piece."""
    code = native()
    assert code is not None, "ask is_ready() first"
    sight = Sight(nodes, handles, base, count, code)
    sight.keep(roots)
    return sight


_one: dict[Meta, Buffer] = {}


def _ones(meta: Meta) -> Buffer:
    """A gradient of 1."""
    buffer = _one.get(meta)
    if buffer is None:
        buffer = _one[meta] = buffer_of(np.ones(meta.shape), meta.dtype)
    return buffer
