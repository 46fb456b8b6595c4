"""The record of a run: steps, their flushes, what was planned and compiled, curves.

    FLUSHING ─► what is pending, as nodes (if its structure is new)     capture.py
    RAN      ─► which kernels ran, and how long each took               kernels.py, when asked
    STEP     ─► a step of training is over; weights and gradients       training.py
    READ     ─► numbers that the program reads: its curves

Watching is to cost little. Steps that are short are watched in full now and then only, see
sampling.py; of the others, how long they took is known, and what they read. What is dear besides
(taking a graph, statistics) has budgets of its own.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from livegrad.graph.events import (
    FLUSHING,
    NODES,
    RAN,
    READ,
    STEP,
    TAKEN_UP,
    Compiled,
    Listening,
    OnNumber,
    Planned,
    Ran,
    listen,
)
from livegrad.graph.node import Node, Site
from livegrad.graph.site import user_site
from livegrad.graph.state import LOCAL, flush_all
from livegrad.runtime.counters import Clocks
from livegrad.view import calls
from livegrad.view.asking import Graph
from livegrad.view.budget import Budget
from livegrad.view.changing import Changes
from livegrad.view.failure import failure_of
from livegrad.view.loading import watch_loading
from livegrad.view.places import place_of
from livegrad.view.sampling import Sampler
from livegrad.view.statistics import statistics_of
from livegrad.view.structures import Known, Structures, is_list, key_of_pending
from livegrad.view.summary import captured
from livegrad.view.training import Training

MOST_STEPS = 500
MOST_POINTS = 20_000

_now = time.perf_counter_ns


@dataclass(slots=True)
class Flush:
    """One flush of a step. Times are nanoseconds; `known` is None where no graph was taken."""

    reason: str
    started: int
    ended: int
    known: Known | None
    how: str
    tier: str
    nodes: int
    compiles: int
    stamps: list[tuple[int, Any]] = field(default_factory=list)
    why: str = ""  # if something was planned for it: how that differs from what was planned before
    stats: dict[int, dict[str, Any]] = field(default_factory=dict)

    @property
    def rows(self) -> list[list[int] | None]:
        """Of each kernel, when it began and ended and each thread there; None if it is unknown."""
        found: list[list[int] | None] = []
        for count, rows in self.stamps:
            if rows is None or rows[0, 0] < self.started:  # not of this run
                found += [None] * count
            else:
                found += rows.tolist()
        return found


@dataclass(slots=True)
class Span:
    """Something that took time besides: planning, compiling, loading data."""

    what: str
    started: int
    ended: int
    detail: str = ""


@dataclass(slots=True)
class StepRecord:
    """What happened from the end of one step to the end of the next."""

    number: int
    started: int
    ended: int = 0
    flushes: list[Flush] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    error: dict[str, Any] | None = None
    failed: Graph | None = None
    is_full: bool = True

    @property
    def has_graph(self) -> bool:
        """Whether the nodes of all its flushes are known."""
        return self.failed is not None or any([f.known is not None for f in self.flushes])


@dataclass(slots=True)
class _Reading:
    """A place where the program reads numbers, and the curve that they make."""

    code: Any  # held, so that its address stays its own
    points: deque[tuple[int, float]]
    # Whether it reads them after the step that they belong to; seen in steps watched in full.
    is_after: bool | None = None


class Recorder:
    """Listens from `start` to `stop`. `values` has statistics of all values taken, now and then.

    There may be several at a time, also in one thread: each listens to the thread that started it.
    """

    running_now: ClassVar[list[Recorder]] = []

    def __init__(self, values: bool = False, steps: int = MOST_STEPS) -> None:
        self.values = values
        # Those that are over; of one that was not watched, its number, start and end alone.
        self._over: deque[StepRecord | tuple[int, int, int]] = deque(maxlen=steps)
        self.curves: dict[str, deque[tuple[int, float]]] = {}
        self._readings: dict[int, _Reading] = {}
        # Graphs are taken once for each structure; programs that change all the time have many.
        self.budgets = [Budget(0.01, 2.0), Budget(0.005, 0.1), Budget(0.005, 0.1)]
        self._for_graphs, self._for_values, for_training = self.budgets
        self.training = Training(for_training)
        self.code = Changes(self)
        # Called at the end of each step, in the thread that trains: where a page may pause it.
        self.at_step: list[Callable[[], None]] = []
        self.began = _now()
        self.wall_began = time.time()
        self.skipped = 0
        self.running = False
        self._listening: list[Listening] = []
        self._structures = Structures()
        self._current: Known | None = None
        self._why = ""
        self._asked_values: list[Node] = []
        self._seen = (-1, -1)
        # The step that is running; its record is made when there is something to note.
        self._number = 0
        self._first = 0  # the step from which on each flush is one, until an optimiser says more
        self._started = _now()
        self._open: StepRecord | None = None
        self._thread, self._marks = threading.get_ident(), calls.HERE.marks
        self.sampler = Sampler()
        self._is_full = False
        # Who listens all the time, and who in steps that are watched in full. They record nothing.
        self._always: list[tuple[list[Any], Any]] = [
            (STEP, self._stepping),
            (READ, OnNumber(self._read)),
        ]
        self._in_full: list[tuple[list[Any], Any]] = [
            (FLUSHING, self._flushing),
            (TAKEN_UP, self._taken_up),
            (RAN, self._ran),
        ]

    # ---- running -------------------------------------------------------------------------------

    def start(self) -> None:
        """Begins; what was pending before is no part of it."""
        if self.running:
            raise RuntimeError("watch: it is watching already")
        flush_all("watch")
        Recorder.running_now.append(self)
        self.began = self._started = _now()
        self._thread, self._marks = threading.get_ident(), calls.HERE.marks
        for budget in self.budgets:
            budget.start()
        self.running = True
        watch_loading(self._loaded, True)
        self.code.start()
        calls.watch_calls(True)
        for listeners, function in self._always:
            listeners.append(function)
        self._listening = [
            listen("planned", self._planned),
            listen("compiled", self._compiled),
        ]
        self._attach()

    def _attach(self) -> None:
        """From here on, steps are watched in full."""
        if not self._is_full:
            self._is_full = True
            Clocks.start()
            calls.take_notes(self._marks, True)
            for listeners, function in self._in_full:
                listeners.append(function)

    def _detach(self) -> None:
        """From here on, only how long steps take is noted, and what is read."""
        if self._is_full:
            self._is_full = False
            Clocks.stop()
            calls.take_notes(self._marks, False)
            for listeners, function in self._in_full:
                listeners.remove(function)
            self._current, self._asked_values = None, []

    def stop(self, error: BaseException | None = None) -> None:
        """Ends; what is pending is computed, or, after an error, drawn as far as it came."""
        if not self.running:
            return
        if error is not None:
            self.fail(error)
        try:
            if error is None:
                flush_all("watch")
        finally:
            self.running = False
            Recorder.running_now.remove(self)
            self._detach()
            calls.watch_calls(False)
            for each in self._listening:
                each.remove()
            for listeners, function in self._always:
                listeners.remove(function)
            watch_loading(self._loaded, False)
            self.code.stop()
            if self._open is not None and (self._open.flushes or self._open.error):
                self._end_step()

    def fail(self, error: BaseException) -> None:
        """Notes an error, with what was recorded before it."""
        step = self._step
        if step.error is not None:
            return
        module = calls.FAILURE.module if calls.FAILURE.error is error else ""
        calls.FAILURE.error = None
        step.error = failure_of(error, module)
        until = captured(LOCAL.state, calls.noted(LOCAL.state).modules)
        step.failed = Graph(until.nodes, title="until the error")
        self._seen = (-1, -1)

    @property
    def _step(self) -> StepRecord:
        """The record of the step that is running."""
        if self._open is None:
            self._open = StepRecord(self._number, self._started)
        return self._open

    # ---- listening -----------------------------------------------------------------------------

    def _is_mine(self) -> bool:
        return threading.get_ident() == self._thread

    def _flushing(self, reason: str) -> tuple[Node, ...]:
        state = LOCAL.state
        if not self._is_mine() or not state.nodes:
            return ()
        if self._seen == (state.base, len(state.nodes)):
            return tuple(self._asked_values)  # told of already
        self._seen = state.base, len(state.nodes)
        noted = calls.noted(state)
        key = key_of_pending(state, noted.key)
        known = self._structures.get(key)
        wanted = self.values and self._for_values.allows()
        if known is None or wanted:
            if wanted or self._for_graphs.allows():
                with (self._for_values if wanted else self._for_graphs).spending():
                    known = self._structures.add(key, captured(state, noted.modules))
            else:
                self.skipped += 1
        self._current = known
        self._asked_values = _with_values(state.nodes) if wanted and known is not None else []
        return tuple(self._asked_values)

    def _taken_up(self, before: list[Node]) -> None:
        """A flush goes on with other nodes than it began with: theirs is the graph."""
        if self._is_mine() and not LOCAL.state.outer:
            told, self._current = self._current, None
            if told is not None and told.executable is None:
                self._structures.forget(told)
            self._flushing("")

    def _ran(self, ran: Ran) -> None:
        if not self._is_mine() or LOCAL.state.outer:
            return
        known, self._current = self._current, None
        executable = ran.executable
        by_list = is_list(executable)
        if known is not None:
            known = known.run_by(executable)
            if by_list:
                self._current = known.behind(len(ran.sites))
            elif not known.has_account:
                self._take_account(known)
        # Parts of one flush are told with its start each.
        done = self._step.flushes[-1].ended if self._step.flushes else 0
        flush = Flush(
            ran.reason, max(ran.started, done), ran.ended, known, executable.how(ran.hit),
            "pieces" if by_list else "plan", len(ran.sites), ran.compiles,
            stamps=[] if by_list else executable.runnable.stamps(),
        )  # fmt: skip
        flush.why, self._why = self._why, ""
        if self._asked_values:
            self._take_values(flush)
        self._step.flushes.append(flush)
        if not self._trains():
            self._end_step()

    def _take_account(self, known: Known) -> None:
        """Looks at the kernels of a plan here: notes on one from disk are planned, which no thread
        of a server's is to do meanwhile."""
        with self._for_graphs.spending():
            known.account  # noqa: B018 - it is kept

    def _trains(self) -> bool:
        """Whether steps end with those of an optimiser; else each flush is one."""
        return self.training.is_on

    def _take_values(self, flush: Flush) -> None:
        with self._for_values.spending():
            for node in self._asked_values:
                if node.buffer is not None:
                    flush.stats[NODES[node]] = statistics_of(node)
        self._asked_values = []

    def _planned(self, event: Planned) -> None:
        how = "filled in" if event.filled else "planned"
        self._note("plan", event.seconds, f"{len(event.nodes)} nodes {how}: {event.why}")
        if self._is_full:
            self._why = event.why

    def _compiled(self, event: Compiled) -> None:
        how = "from disk" if event.from_disk else "compiled"
        self._note("compile", event.seconds, f"{event.kind} {event.kernel} {how}")

    def _note(self, what: str, seconds: float, detail: str) -> None:
        now = _now()
        self._step.spans.append(Span(what, now - int(seconds * 1e9), now, detail))

    def _loaded(self, seconds: float) -> None:
        if self._is_mine():
            self._note("data", seconds, "a batch")

    def _read(self, number: Any) -> None:
        kind = type(number)
        if (kind is float or kind is int) and self._is_mine() and not LOCAL.state.outer:
            site = user_site()
            reading = self._readings.get(id(site[0]) + site[1])
            if reading is None:
                reading = self._new_reading(site)
            is_after = reading.is_after
            if self._is_full or is_after is None:
                is_after = self._is_after()
                reading.is_after = is_after if self._is_full else None
            reading.points.append((self._number - is_after, float(number)))

    def _new_reading(self, site: Site) -> _Reading:
        place = place_of(site)
        points = self._points(f"{place.file.rpartition('/')[2]}:{place.line}")
        made = self._readings[id(site[0]) + site[1]] = _Reading(site[0], points)
        return made

    def _points(self, name: str) -> deque[tuple[int, float]]:
        points = self.curves.get(name)
        if points is None:
            points = self.curves[name] = deque(maxlen=MOST_POINTS)
        return points

    def _is_after(self) -> bool:
        """Whether what is read now belongs to the last step: nothing has run since."""
        has_run = self._open is not None and self._open.flushes
        return bool(self._over) and not has_run and self.training.is_on

    def log(self, name: str, value: float) -> None:
        """Adds a point to a curve, at the step that is running."""
        self._points(name).append((self._number - self._is_after(), float(value)))

    def _stepping(self, optimizer: Any, before: bool) -> None:
        if before and not self._is_full:
            return
        if not self._is_mine():
            return
        if before:
            if not self.training.is_on:
                self._join_setup()
            self.training.before_step(optimizer, self._number)
            return
        if self._is_full:
            self.training.after_step(optimizer)
        self._end_step()

    def _join_setup(self) -> None:
        """Makes one step of what came before the first of an optimiser, when each flush was one.

        So steps have the numbers that they have in a program that counts from 0.
        """
        joined = [step for step in self.steps if step.number >= self._first]
        joined += [self._step]
        for _ in joined[:-1]:
            self._over.pop()
        first = joined[0]
        for step in joined[1:]:
            first.flushes += step.flushes
            first.spans += step.spans
        for points in self.curves.values():
            moved = [(min(step, self._first), value) for step, value in points]
            points.clear()
            points.extend(moved)
        self._open, self._number, self._started = first, self._first, first.started
        first.number = self._first

    def step(self) -> None:
        """Says that a step is over, where no optimiser says so."""
        self._end_step()
        self._first = self._number

    def _end_step(self) -> None:
        ended = _now()
        step, self._open = self._open, None
        if step is None:
            self._over.append((self._number, self._started, ended))
        else:
            step.ended, step.is_full = ended, self._is_full
            self._over.append(step)
        self._number += 1
        if self.at_step:
            for function in tuple(self.at_step):
                function()
        if self.running and self._trains():
            if self.sampler.next_is_full(self._is_full, ended - self._started):
                self._attach()
            else:
                self._detach()
        self._started = _now()

    def look_closely(self) -> tuple[int, int]:
        """Has this step and the next watched in full; (the last with a graph, this) by number."""
        self.sampler.ask(2)
        self._attach()
        known = [step.number for step in self.steps if step.has_graph]
        return (known[-1] if known else -1), self._number

    @property
    def steps(self) -> list[StepRecord]:
        """The steps that are over, the latest last."""
        return [
            step if isinstance(step, StepRecord) else StepRecord(*step, is_full=False)
            for step in list(self._over)
        ]

    # ---- asking --------------------------------------------------------------------------------

    def record(self, number: int | None = None) -> StepRecord:
        """A step by its number; the latest with a graph if none is given."""
        steps = self.steps
        if number is None:
            found = [step for step in steps if step.has_graph] or steps
            if not found:
                raise LookupError("watch: nothing has been computed while it watched")
            return found[-1]
        for step in steps:
            if step.number == number:
                return step
        raise LookupError(f"watch: there is no step {number}; there are {_range(steps)}")


def _range(steps: list[StepRecord]) -> str:
    return f"{steps[0].number} to {steps[-1].number}" if steps else "none"


def _with_values(nodes: list[Node]) -> list[Node]:
    kinds = ("gradient", "update", "leaf")
    return [n for n in nodes if n.op.kind not in kinds and n.buffer is None]
