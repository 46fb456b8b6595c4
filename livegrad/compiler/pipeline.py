"""The compiler: recorded nodes in, a plan out. `PASSES` are run in their order.

Code generation (`templates`) is separate: it turns a signature into LLVM IR, and the runtime does
so once per signature, whatever the plan. LIVEGRAD_DEBUG=plan prints the result of each pass, and in
tests each is checked.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import NamedTuple

from livegrad.compiler import debug, texts, verify
from livegrad.compiler.access import storage
from livegrad.compiler.beside import beside
from livegrad.compiler.bind import bind
from livegrad.compiler.describe import describe_groups
from livegrad.compiler.draft import Draft
from livegrad.compiler.expand import Recorded, expand
from livegrad.compiler.fuse import fuse
from livegrad.compiler.legalise import legalise
from livegrad.compiler.overwrite import overwrite
from livegrad.compiler.place import place
from livegrad.compiler.plan import Notes, Output, Plan
from livegrad.compiler.store import store
from livegrad.graph.node import Node
from livegrad.graph.symbol import Planning


def _expand(draft: Draft) -> None:
    draft.graph = expand(draft.recorded)


def _legalise(draft: Draft) -> None:
    draft.graph = legalise(draft.graph)


def _overwrite(draft: Draft) -> None:
    draft.graph = overwrite(draft.graph)


def _fuse(draft: Draft) -> None:
    draft.groups, draft.fuser = fuse(draft.graph)


class Pass(NamedTuple):
    """A pass: what it does to a draft, what must hold then, and what of it is printed."""

    name: str
    run: Callable[[Draft], None]
    check: Callable[[Draft], None]
    text: Callable[[Draft], list[str]]


PASSES = (
    # Composites and gradients become primitive ops; numbers become slots.
    Pass("expand", _expand, verify.check_expanded, texts.graph_text),
    # Forms that kernels exist for; equal expressions once; parts of one buffer.
    Pass("legalise", _legalise, verify.check_legal, texts.graph_text),
    # Writes to a part of what nobody reads later happen in its memory.
    Pass("overwrite", _overwrite, verify.check_overwritten, texts.overwrites_text),
    # Which nodes share a kernel.
    Pass("fuse", _fuse, verify.check_groups, texts.groups_text),
    # Which values are in memory, and buffers for what the program keeps.
    Pass("store", store, verify.check_stored, texts.stored_text),
    # Each group as a kernel's signature and what is bound to it.
    Pass("describe", describe_groups, verify.check_nothing, texts.kernels_text),
    # Small kernels of one kind that run together.
    Pass("beside", beside, verify.check_beside, texts.steps_text),
    # Which values live where in the arena.
    Pass("place", place, verify.check_arena, texts.arena_text),
    # Argument blocks: sizes, strides, patches for addresses and numbers.
    Pass("bind", bind, verify.check_steps, lambda draft: str(finished(draft)).splitlines()),
)


def compile_plan(recorded: Recorded) -> Plan:
    """Plans the recorded nodes."""
    Planning.thread = get_ident()
    try:
        draft = Draft(recorded)
        for each in PASSES:
            each.run(draft)
            if verify.Verifier.enabled:
                each.check(draft)
            if debug.wants("plan"):
                debug.show(each.name, each.text(draft))
        return finished(draft)
    finally:
        Planning.thread = None


def finished(draft: Draft) -> Plan:
    """The plan that a draft has become."""
    graph = draft.graph
    return Plan(
        draft.steps,
        [_output(draft, x) for x in graph.outputs],
        draft.buffers,
        draft.writes,
        draft.donations,
        draft.arena,
        graph.leaves,
        draft.first_int,
        graph.ints,
        graph.floats,
        draft.lives,
        notes=Notes(
            draft.notes, [node.site for node in draft.recorded.nodes], draft.recorded.twins
        ),
    )


def _output(draft: Draft, node: Node) -> Output:
    home = draft.graph.home(storage(node))
    if home.op.kind == "leaf":
        return Output(0, home.meta.nbytes, leaf=home.index)
    return draft.buffers[draft.wheres[home].slot - 1 - draft.graph.leaves]
