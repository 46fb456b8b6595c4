"""Plans that an earlier process has made are found on disk, by what was recorded.

recorded ──► structure as text ──► on disk? ──yes──► plan; what messages need is planned late
                                          └──no────► planned, and stored
"""

from __future__ import annotations

import json
from typing import Any

from livegrad.compiler.expand import Recorded
from livegrad.compiler.plan import LateNotes, Plan
from livegrad.compiler.plan_text import plan_text, read_plan
from livegrad.graph.numbers import Specialised
from livegrad.graph.written import Unwritable
from livegrad.runtime.cpu.known import is_on, keep, look_up
from livegrad.runtime.cpu.pieces.moulds import Mould, read_mould
from livegrad.runtime.structure import Structure


class Stored:
    """Bytes of plans that this process has stored.

    A program whose structures are all new must not push all else from the disk.
    """

    nbytes = 0
    most = 16 << 20


def planning() -> Any:
    """What plans, with the compiler, which is imported for what is on no disk."""
    from livegrad.runtime import planning

    return planning


def is_stored(recorded: Recorded) -> bool:
    """Whether there is a plan for what was recorded on disk."""
    text = Structure(recorded).text() if is_on() else None
    return text is not None and look_up("plan", text) is not None


def plan_of(recorded: Recorded) -> Plan:
    """The plan for what was recorded, from the disk or made now."""
    structure = Structure(recorded) if is_on() else None
    text = None if structure is None else structure.text()
    if structure is None or text is None:
        return _planned(recorded)
    stored = look_up("plan", text)
    plan = None if stored is None else _read(stored)
    if plan is None:
        plan = _planned(recorded)
        store(text, plan)
        return plan
    plan.notes = LateNotes(lambda: planning().notes_on(structure))
    return plan


def _read(stored: bytes) -> Plan | None:
    """A stored plan; None if NumPy runs an op in it that this process has not imported yet."""
    try:
        return read_plan(stored)
    except KeyError:
        return None


def _planned(recorded: Recorded) -> Plan:
    plan: Plan = planning().planned(recorded)
    return plan


def store(text: str, plan: Plan) -> None:
    """Stores a plan, if it holds for all numbers and can be written."""
    if Specialised.seen or Stored.nbytes > Stored.most:
        return
    try:
        written = plan_text(plan).encode()
    except Unwritable:
        return
    Stored.nbytes += len(written)
    keep("plan", text, written)


# ---------------------------------------------------------------------------- plans for any size


def store_for_sizes(recorded: Recorded, plan: Plan, mould: Mould) -> None:
    """Stores a plan with the mould that makes it one for all sizes."""
    text = Structure(recorded).text_without_sizes() if is_on() else None
    if text is None or Stored.nbytes > Stored.most:
        return
    try:
        written = json.dumps([plan_text(plan), mould.plain()], separators=(",", ":")).encode()
    except Unwritable:
        return
    Stored.nbytes += len(written)
    keep("sizes", text, written)


def recalled_for_sizes(recorded: Recorded) -> tuple[Plan, Mould, Structure] | None:
    """A stored plan for all sizes of what was recorded, and the structure it is of."""
    structure = Structure(recorded) if is_on() else None
    text = None if structure is None else structure.text_without_sizes()
    stored = None if text is None else look_up("sizes", text)
    if structure is None or stored is None:
        return None
    told, mould = json.loads(stored)
    plan = read_plan(told)
    plan.notes = LateNotes(lambda: planning().notes_on(structure))
    return plan, read_mould(mould), structure
