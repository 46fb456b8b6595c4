"""`with livegrad.profile() as prof:`: where the time went, by part, op, line and module.

    wall time = Python and recording + waiting + matching and handing out + planning + compiling
                + kernels + the profile itself

The parts are measured, not guessed: flushes tell when they began and ended, plans and kernels how
long making them took, and native code times its kernels. The ops of one kernel share its time by
their work, as in `livegrad.profiler`. What is run piece by piece is timed as a whole.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

from livegrad.autograd.profiler import work_of
from livegrad.debug.names import Names
from livegrad.graph.events import BEGUN, Compiled, Listening, Planned, Ran, listen
from livegrad.graph.node import Site, describe_site
from livegrad.graph.state import flush_all
from livegrad.runtime.counters import Clocks

_now = time.perf_counter_ns


class Row(NamedTuple):
    """A line of a table: the seconds of kernels that are its own, and how often they ran."""

    name: str
    seconds: float
    times: int


class _Plan:
    """All runs of one plan."""

    def __init__(self, ran: Ran) -> None:
        self.ran = ran
        self.runs = 0
        self.seconds = [0.0] * len(ran.executable.plan.steps)


class Profile:
    """A profile; `print` it when its block is over.

    - `seconds`: the wall time; `parts`: what it consists of, by name
    - `by_op()`, `by_line()`, `by_module()`: the kernels' time as rows, the longest first
    - `flushes`, `kernels`: how many there were
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.parts: dict[str, float] = {}
        self.flushes = self.kernels = 0
        self._plans: dict[int, _Plan] = {}
        self._planning = self._compiling = self._kernels = self._rest = self._own = 0.0
        self._since = 0.0, 0.0  # planning and compiling that no flush was told of yet
        self._rows: list[tuple[str, Site | None, float, int]] | None = None
        self._listening: list[Listening] = []

    # ---- measuring -------------------------------------------------------------------------

    def __enter__(self) -> Profile:
        flush_all("profile")
        Clocks.start()
        self._listening = [
            listen("ran", self._ran),
            listen("planned", self._planned),
            listen("compiled", self._compiled),
        ]
        BEGUN.append(self._begun)
        self._busy = 0  # nanoseconds of this thread's, outside of flushes
        self._began, self._cpu = _now(), time.thread_time_ns()
        self._inside, self._ended = False, self._began
        return self

    def __exit__(self, *exception: object) -> None:
        flush_all("profile")
        self._begun()
        ended = _now()
        BEGUN.remove(self._begun)
        for each in self._listening:
            each.remove()
        Clocks.stop()
        self.seconds = (ended - self._began) / 1e9
        in_flushes = self._planning + self._compiling + self._kernels + self._rest
        outside = max(0.0, self.seconds - in_flushes - self._own)
        waiting = max(0.0, outside - self._busy / 1e9)
        self.parts = {
            "Python and recording": outside - waiting,
            "waiting": waiting,
            "matching and handing out": self._rest,
            "planning": self._planning,
            "compiling": self._compiling,
            "kernels": self._kernels,
            "the profile itself": self._own,
        }

    def _begun(self) -> None:
        """A flush begins: until then, the thread was busy with the program, or waited."""
        if not self._inside:
            self._inside = True
            self._busy += time.thread_time_ns() - self._cpu

    def _planned(self, event: Planned) -> None:
        self._since = self._since[0] + event.seconds, self._since[1]

    def _compiled(self, event: Compiled) -> None:
        self._since = self._since[0], self._since[1] + event.seconds

    def _ran(self, ran: Ran) -> None:
        began = _now()
        (planning, compiling), self._since = self._since, (0.0, 0.0)
        # Of a step that is run piece by piece, updates are told of apart, from the same start.
        whole = max(0.0, (ran.ended - max(ran.started, self._ended)) / 1e9)
        compiling = min(compiling, whole)
        planning = min(planning, whole - compiling)
        left = whole - planning - compiling
        self._planning += planning
        self._compiling += compiling
        known = [t or 0.0 for t in ran.step_seconds] if ran.executable.is_timed else []
        kernels = sum(known)
        timed = 0.0 < kernels <= left * 1.02
        plan = self._of(ran)
        plan.runs += 1
        if timed:
            plan.seconds = [a + b for a, b in zip(plan.seconds, known, strict=True)]
        else:  # pieces, or a plan whose clocks were set up in this run
            kernels = left
            share = left / max(1, len(plan.seconds))
            plan.seconds = [a + share for a in plan.seconds]
        self._kernels += kernels
        self._rest += max(0.0, left - kernels)
        self.flushes += 1
        self.kernels += len(plan.seconds)
        self._inside, self._cpu = False, time.thread_time_ns()
        self._ended = _now()  # what follows in the same flush begins here
        self._own += (self._ended - began) / 1e9

    def _of(self, ran: Ran) -> _Plan:
        key = id(ran.executable)
        if key not in self._plans:
            self._plans[key] = _Plan(ran)  # which keeps it, and so the key
        return self._plans[key]

    # ---- telling ---------------------------------------------------------------------------

    def _found(self) -> list[tuple[str, Site | None, float, int]]:
        """(op, line, seconds, runs) of everything that ran."""
        if self._rows is None:
            self._rows = [row for plan in self._plans.values() for row in _rows(plan)]
        return self._rows

    def by_op(self) -> list[Row]:
        """By operation."""
        return _summed([(op, seconds, runs) for op, _, seconds, runs in self._found()])

    def by_line(self) -> list[Row]:
        """By line of the program; a backward pass counts where its forward was recorded."""
        found = self._found()
        return _summed([(describe_site(site), seconds, runs) for _, site, seconds, runs in found])

    def by_module(self) -> list[Row]:
        """By the modules in whose methods operations were recorded."""
        names = Names()
        known: dict[int, str] = {}
        rows = []
        for _, site, seconds, runs in self._found():
            code = None if site is None else site[0]
            if id(code) not in known:
                known[id(code)] = names.of_code(code) or "<no module>"
            rows.append((known[id(code)], seconds, runs))
        return _summed(rows)

    def table(self, top: int = 10) -> str:
        """All of it as text, the first `top` rows of each table."""
        lines = [f"{self.seconds * 1e3:.2f} ms, {self.flushes} flushes, {self.kernels} kernels"]
        for name, seconds in self.parts.items():
            lines.append(_line(name, seconds, self.seconds))
        for title, rows in (
            ("op", self.by_op()),
            ("line", self.by_line()),
            ("module", self.by_module()),
        ):
            lines.append(f"kernels by {title}")
            lines += [_line(r.name, r.seconds, self.seconds, r.times) for r in rows[:top]]
            if len(rows) > top:
                rest = sum([r.seconds for r in rows[top:]])
                lines.append(_line(f"{len(rows) - top} more", rest, self.seconds))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.__str__()

    def __str__(self) -> str:
        return self.table() if self.parts else "<unfinished profile>"


def _line(name: str, seconds: float, total: float, count: int | None = None) -> str:
    share = 100 * seconds / total if total else 0.0
    times = "" if count is None else f"  × {count}"
    return f"  {name:32.32} {seconds * 1e3:10.3f} ms  {share:5.1f} %{times}"


def _summed(rows: Iterable[tuple[str, float, int]]) -> list[Row]:
    totals: dict[str, tuple[float, int]] = {}
    for name, seconds, count in rows:
        before = totals.get(name, (0.0, 0))
        totals[name] = before[0] + seconds, before[1] + count
    found = [Row(name, *total) for name, total in totals.items()]
    return sorted(found, key=lambda row: -row.seconds)


def _rows(plan: _Plan) -> list[tuple[str, Site | None, float, int]]:
    ran = plan.ran
    places = ran.executable.places
    rows: list[tuple[str, Site | None, float, int]] = []
    for notes, seconds in zip(ran.executable.plan.notes.steps, plan.seconds, strict=True):
        work = [work_of(node) for node in notes.nodes]
        if not work:
            rows.append(("copy", None, seconds, plan.runs))
        for node, done in zip(notes.nodes, work, strict=True):
            place = places.get(id(node.site))
            site = node.site if place is None else ran.sites[place]
            rows.append((node.op.name, site, seconds * done / sum(work), plan.runs))
    return rows


def profile() -> Profile:
    """`with livegrad.profile() as prof: …`, then `print(prof)`: where the time went."""
    return Profile()


__all__ = ["Profile", "Row", "profile"]
