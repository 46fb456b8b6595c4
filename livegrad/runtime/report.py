"""What the runtime did: `livegrad.stats()` for programs, `livegrad.explain()` for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from livegrad.graph.above import Above
from livegrad.graph.events import Ran, Step, latest, latest_part
from livegrad.graph.node import describe_site
from livegrad.runtime.counters import TIMING, counters


@dataclass(frozen=True)
class Stats:
    """Counts since the start of the process."""

    flushes: int
    # Of these, how many were run piece by piece; and the pieces that were made for that, or found
    # on disk.
    flushes_by_pieces: int
    pieces_made: int
    pieces_loaded: int
    nodes: int
    kernels_run: int
    kernels_compiled: int
    kernels_loaded: int
    plan_hits: int
    plan_misses: int
    plans_filled: int
    plans_loaded: int
    host_steps: int
    donations: int


def stats() -> Stats:
    """What the runtime has done so far, as a plain object.

    Example:
        >>> lg.stats().flushes >= 0
        True
    """
    c = counters
    return Stats(
        flushes=c.flushes,
        flushes_by_pieces=c.listed,
        pieces_made=c.pieces_made,
        pieces_loaded=c.pieces_loaded,
        nodes=c.nodes_recorded,
        kernels_run=c.kernels_run,
        kernels_compiled=c.compiles,
        kernels_loaded=c.disk_hits,
        plan_hits=c.plan_hits,
        plan_misses=c.plan_misses,
        plans_filled=c.plans_filled,
        plans_loaded=c.plans_loaded,
        host_steps=c.host_steps,
        donations=c.donations,
    )


def last_steps() -> tuple[Step, ...]:
    """The kernels that the last flush ran, in order."""
    ran = latest()
    return () if ran is None else ran.steps


def explain(file: Any = None) -> None:
    """Prints what the last flush did: why, which kernels with which ops and lines, what it cost.

    Args:
        file: where it is printed; None: standard output.
    """
    print(explanation(), file=file)
    ran = latest()
    if ran is not None and TIMING.enabled and any([t for t in ran.step_seconds if t]):
        print(Above.advice().advice(), file=file)
    TIMING.enabled = True


def explanation() -> str:
    """The text of `explain()`."""
    ran = latest()
    if ran is None:
        return "nothing has been computed yet"
    before = latest_part()
    parts = [ran] if before is None else [before, ran]
    return "\n".join([line for part in parts for line in _explain(part)])


def _explain(ran: Ran) -> list[str]:
    sites = ran.sites
    plan = ran.executable.plan
    lines = [
        f"flushed because of {ran.reason}: {len(sites)} nodes in {len(plan.steps)} kernels, "
        f"{ran.seconds * 1e6:.1f} µs",
        f"{ran.executable.how(ran.hit)}, {ran.compiles} kernels compiled; "
        f"{sum(b.nbytes for b in plan.buffers):,} bytes of results, "
        f"{plan.arena:,} bytes of arena",
    ]
    times = ran.executable.runnable.step_times()
    told: dict[str, int] = {}  # pieces of one kind are told once
    for step, notes, micros in zip(plan.steps, plan.notes.steps, times, strict=True):
        took = "" if micros is None else f"   {micros:.1f} µs"
        line = _describe_step(step, notes.nodes, ran.executable.places, sites) + took
        told[line] = told.get(line, 0) + 1
    for number, (line, times_seen) in enumerate(told.items(), 1):
        lines.append(f"  {number}. {line}{f'   {times_seen} times' if times_seen > 1 else ''}")
    if None in times and ran.executable.is_timed:
        lines.append("  (kernels are timed from now on: explain() after the next flush tells)")
    return lines


def _describe_step(step: Any, nodes: list[Any], places: dict[int, int], recorded: list[Any]) -> str:
    sites: list[str] = []
    for node in nodes:
        # A plan found again has the sites of its first time; this flush has its own.
        place = places.get(id(node.site))
        site = describe_site(node.site if place is None else recorded[place])
        if site not in sites:
            sites.append(site)
    ops = " ".join(n.op.name for n in nodes)
    repeat = f" × {len(step.blocks)}" if len(step.blocks) > 1 else ""
    return f"{step.kind:8} {list(step.shape)}{repeat}: {ops}   {', '.join(sites)}"
