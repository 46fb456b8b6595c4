"""A plan as the runtime runs it, whatever the device: what goes in, and what comes out."""

from __future__ import annotations

import weakref
from functools import cached_property
from typing import TYPE_CHECKING, Any

from livegrad.graph.node import Node, Site
from livegrad.native.hot import hot_slots
from livegrad.runtime.fault import Fault
from livegrad.runtime.protocol import Planning

if TYPE_CHECKING:
    from livegrad.compiler.expand import Recorded
    from livegrad.compiler.plan import Plan


def _referrers(recorded: Recorded) -> list[int]:
    """For each leaf: references from recorded nodes, and that of the tensor an update writes."""
    counts = dict.fromkeys(recorded.leaves, 1)
    for node in recorded.nodes:
        for x in node.inputs:
            if x in counts:
                counts[x] += 1
    return list(counts.values())


def _readers(recorded: Recorded, leaves: list[int]) -> list[int]:
    """Places of nodes through which a gradient may need one of these leaves."""
    overwritten = {recorded.leaves[leaf] for leaf in leaves}
    return [
        place
        for place, node in enumerate(recorded.nodes)
        if node.op.kind != "update" and not overwritten.isdisjoint(node.inputs)
    ]


def _reader(recorded: Recorded, leaf: int) -> tuple[int, int]:
    """A node that reads a leaf, and as which of its inputs."""
    node = recorded.leaves[leaf]
    place = next(i for i, n in enumerate(recorded.nodes) if node in n.inputs)
    return place, recorded.nodes[place].inputs.index(node)


@hot_slots
class Executable:
    """A plan that a device has made `runnable`, and how it meets the nodes of a run.

        nodes ──► leaves, numbers ──► runnable.run ──► new buffers ──► nodes

    `fresh` are the bytes of new buffers that a run needs, `results` says which node gets which,
    `writes` what updates overwrite, and `donations` which leaves' buffers may be taken instead of
    new ones. `next` is the executable that ran after this one last time;
    its `follower` recognises natively that it comes again.
    """

    # Those that a run which follows the last one as before reads; the others are in __dict__.
    __slots__ = (
        "__dict__", "__weakref__", "donations", "follower", "fresh", "keep", "next", "results",
        "runnable", "shared", "updates", "writes",
    )  # fmt: skip

    # What the recorded nodes were like, for the runtime to find the plan by; see runtime/flush.py.
    links: list[int]
    keep: bytearray
    seen: bytes
    # Places of nodes with numbers, of those whose numbers may be of either kind, and the kinds.
    numbered: list[int]
    mixed: list[int]
    kinds: list[bool]
    firsts: list[int]
    repeats: list[tuple[int, int]]
    # Recognises the next run natively, where that is possible; and the plan that came after this
    # one last time.
    follower: Any
    next: weakref.ref[Executable] | None
    # Whether its kernels are timed once somebody has asked for it.
    is_timed = True

    def how(self, hit: bool) -> str:
        """How the plan was had, for `explain()`."""
        if hit:
            return "plan found"
        how = "filled in" if self.plan.filled else "found on disk" if self.plan.recalled else "made"
        return f"plan {how}"

    # The numbers for which alone the plan holds, if it does not hold for all.
    specialised: tuple[list[int], list[float]] | None = None

    def __init__(
        self, plan: Plan, recorded: Recorded, backend: Planning, runnable: Any = None
    ) -> None:
        self.plan = plan
        self.backend = backend
        self.runnable = backend.assemble(plan) if runnable is None else runnable
        self.may_fault = any([step.may_fault or step.host for step in plan.steps])
        self.follower = self.next = None
        first = 1 + plan.leaves
        # Results: (place of the recorded node, number of its buffer, or the leaf whose it shares).
        self.results = [
            (place, output.slot - first, output.leaf)
            for place, output in zip(recorded.outputs, plan.outputs, strict=True)
        ]
        # The leaves that these share: (leaf, a node that reads it, and as which input).
        self.shared = [(leaf, *_reader(recorded, leaf)) for _, _, leaf in self.results if leaf >= 0]
        written = len(plan.writes)
        self.fresh = [b.nbytes for b in plan.buffers[: len(plan.buffers) - written]]
        referrers = _referrers(recorded)
        self.updates = [i for i, n in enumerate(recorded.nodes) if n.op.kind == "update"]
        # Writes: (leaf, references to it that are expected, bytes, place of the update, input).
        self.writes = [
            (
                w.leaf,
                referrers[w.leaf],
                recorded.leaves[w.leaf].meta.nbytes,
                self.updates[w.update],
                w.number,
            )
            for w in plan.writes
        ]
        self.readers = _readers(recorded, [w[0] for w in self.writes])
        # Donations: (leaf, references from what is recorded, number of the buffer, a node that
        # reads the leaf, and as which input).
        self.donations = [
            (d.leaf, referrers[d.leaf] - 1, d.slot - first, *_reader(recorded, d.leaf))
            for d in plan.donations
            if self.runnable.completes(d.first)
        ]
        self.readers_of_donated = _readers(recorded, [d[0] for d in self.donations])

    @cached_property
    def places(self) -> dict[int, int]:
        """Planned nodes keep the sites of the nodes they come from, whose places these are; another
        run has its own."""
        notes = self.plan.notes
        if not notes:
            return {}
        places = {id(site): place for place, site in enumerate(notes.sites)}
        twins = {id(site): place for place, site in enumerate(notes.twins) if site is not None}
        return places | twins

    def update_site(self, nodes: list[Node]) -> Site | None:
        """Where the program's update is, for errors that name it."""
        return nodes[self.updates[0]].site

    def locate(self, fault: Fault, nodes: list[Node]) -> Fault:
        """Tells which of this run's `nodes` a fault is of, and the error, which names its line."""
        suspect = fault.suspect(self.plan)
        site = suspect.site
        place = self.places.get(id(site))
        if fault.code:
            fault.complain(self._of_this_run(fault, suspect, nodes))
        if place is not None:
            fault.recorded = nodes[place]
            site = fault.recorded.site
        return fault.blamed_on(site)

    def _of_this_run(self, fault: Fault, suspect: Node, nodes: list[Node]) -> Node:
        """A suspect with the sizes and numbers of this run: the notes may have others."""
        if not self.plan.filled and not self.plan.recalled:
            return suspect
        from livegrad.runtime.planning import suspect_among  # with the compiler

        return suspect_among(nodes, [place for place, _, _ in self.results], fault)
