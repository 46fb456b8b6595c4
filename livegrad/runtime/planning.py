"""Planning, with which all of the compiler is imported: for what no earlier process has planned."""

from __future__ import annotations

from livegrad.compiler import sizes
from livegrad.compiler.expand import Recorded, without_device
from livegrad.compiler.pipeline import compile_plan
from livegrad.compiler.plan import Notes, Plan
from livegrad.compiler.plan_text import plan_text, read_plan
from livegrad.compiler.verify import Verifier
from livegrad.graph.node import Node
from livegrad.graph.numbers import Specialised
from livegrad.graph.written import Unwritable, value_of
from livegrad.runtime.fault import Fault
from livegrad.runtime.speedup import original_functions
from livegrad.runtime.structure import Structure


def planned(recorded: Recorded) -> Plan:
    """A plan for what was recorded; `Specialised.seen` says whether it is for its numbers only."""
    Specialised.seen = False
    plan = sizes.plan_for(recorded, original_functions)
    if Verifier.enabled:
        _check_text(plan)
    return plan


def _check_text(plan: Plan) -> None:
    """AssertionError if a plan is not what its text says."""
    try:
        again = read_plan(plan_text(plan))
    except Unwritable:
        return
    for step in again.steps:
        step.signature = value_of(step.signature)
        step.calls = [(slot, value_of(x)) for slot, x in step.calls]
    assert again == plan, "a plan is another one when it is read from its text"


def plan_at(structure: Structure, wanted: list[int]) -> Plan | None:
    """The plan of a structure with other sizes, for who wants to see it."""
    outline = sizes.outline_of(structure.recorded(), original_functions)
    return None if outline is None else outline.fill(wanted)


def notes_on(structure: Structure) -> Notes:
    """What messages say about the plan of a structure."""
    before = Specialised.seen
    try:
        plan = compile_plan(structure.recorded())
    finally:
        Specialised.seen = before
    assert plan.notes is not None
    return plan.notes


def suspect_among(nodes: list[Node], outputs: list[int], fault: Fault) -> Node:
    """The planned node whose fault it is, with the sizes and numbers of these nodes."""
    pending = set(nodes)
    leaves = dict.fromkeys([x for n in nodes for x in n.inputs if x not in pending])
    recorded = without_device(Recorded(nodes, list(leaves), outputs))
    return fault.suspect(compile_plan(recorded))


def trusted_outline(recorded: Recorded) -> tuple[sizes.Outline, list[int]] | None:
    """The outline of plans for what was recorded, whatever its sizes, and its sizes."""
    return sizes.trusted_outline(recorded)


def forget() -> None:
    """Forgets all outlines."""
    sizes.forget()
