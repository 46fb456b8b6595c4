"""Pass 9, bind: sizes, strides and addresses fill the argument blocks of kernels.

Addresses are not known until a plan runs; a block says where each is to be patched in. The inputs
a program is run with are: the arena, then leaves, then outputs, then run-time integers.
"""

from __future__ import annotations

from livegrad.compiler.bind_products import ProductBinder
from livegrad.compiler.binder import Binder
from livegrad.compiler.describe import Description
from livegrad.compiler.draft import Draft
from livegrad.compiler.plan import Donation, Step, StepNotes
from livegrad.compiler.rows import spill_count
from livegrad.graph.node import Node


def bind(draft: Draft) -> None:
    """Fills in the steps."""
    draft.steps, draft.notes, draft.donations = [], [], []
    writing = []
    before, first = -1, 0
    for number, group, description in zip(
        draft.step_numbers, draft.groups, draft.descriptions, strict=True
    ):
        if number != before:
            before, first = number, len(draft.steps)
        for member in group.members:
            if member in draft.graph.fences:
                _note_donation(draft, member)
        if description is None:
            (node,) = group.members
            for step in node.op.lower.bind(draft, node):
                suspects = {0: node} if step.may_fault else {}
                made = (step, StepNotes([node], suspects))
                if node.op.kind == "update" and not step.may_fault:
                    writing.append(made)
                else:
                    _append(draft, *made)
        else:
            step = _step(draft, description, bool(group.tail))
            _add(draft, step, StepNotes(description.nodes, description.suspects), first)
    # A step that one update is refused in front of must not have been taken by another.
    for step, notes in writing:
        _append(draft, step, notes)


def _add(draft: Draft, step: Step, notes: StepNotes, first: int) -> None:
    """Appends a step; its blocks to one of those from `first` on, which it may run with."""
    for place in range(first, len(draft.steps)):
        if _is_like(step, draft.steps[place]):
            draft.steps[place].blocks += step.blocks
            draft.notes[place].nodes.extend(notes.nodes)
            return
    _append(draft, step, notes)


def _is_like(step: Step, other: Step) -> bool:
    """Whether two steps run the same code on blocks of one size."""
    sizes = [len(x.blocks[0].slots) for x in (step, other)]
    return sizes[0] == sizes[1] and (step.kind, step.calls) == (other.kind, other.calls)


def _note_donation(draft: Draft, store: Node) -> None:
    """Notes that a leaf's buffer may become that in which `store` is the first to write."""
    base = draft.graph.fences[store][0]
    leaf = draft.graph.moved.get(base)
    if leaf is not None and draft.is_buffer(draft.wheres[base].slot):
        draft.donations.append(Donation(leaf.index, draft.wheres[base].slot, len(draft.steps)))


def _append(draft: Draft, step: Step, notes: StepNotes) -> None:
    draft.steps.append(step)
    draft.notes.append(notes)


def _step(draft: Draft, d: Description, tail: bool) -> Step:
    """The step of a fused kernel."""
    signature = d.signature
    binder = (ProductBinder if d.products else Binder)(d, draft.where, draft.first_int)
    block = binder.run(spill_count(signature))
    labels = {node.op.lower.label for node in d.nodes}
    kind = "product" if d.products else labels.pop() if len(labels) == 1 else "loops"
    shape, may_fault = d.nodes[-1].meta.shape, bool(d.suspects)
    return Step(kind, shape, [block], signature, binder.calls, may_fault=may_fault, tail=tail)
