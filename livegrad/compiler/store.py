"""Pass 5, store: which values are in memory, and a buffer for each that the program keeps."""

from __future__ import annotations

from livegrad.compiler.access import storage
from livegrad.compiler.draft import Draft
from livegrad.compiler.groups import Group
from livegrad.compiler.plan import Output, Where, Write
from livegrad.graph.node import Node


def store(draft: Draft) -> None:
    """Fills in what is stored, and where leaves, outputs and what updates write are."""
    draft.stored, draft.wheres, draft.buffers = {}, {}, []
    _choose(draft)
    _place_leaves_and_outputs(draft)
    _place_writes(draft)


def in_no_group(draft: Draft, node: Node) -> bool:
    """Whether whoever reads `node` computes it: it is nowhere in memory."""
    return node not in draft.fuser.owner and draft.fuser.is_inlined(node)


def touched(draft: Draft, group: Group) -> list[Node]:
    """The values in memory that a group writes or reads."""
    found = []
    for member in group.members:
        if member in draft.stored:
            found.append(member)
        if group.kind == "kernel":
            found += [storage(x) for x in member.inputs]
            continue
        for read in draft.fuser.reads(member, group.index[member], group):
            if draft.fuser.owner.get(storage(read.node)) is not group or read.memory:
                found.append(storage(read.node))
    return found


def _choose(draft: Draft) -> None:
    """Values that another group reads, or the program keeps, must be in memory."""
    for node in draft.graph.outputs:
        _add(draft, storage(node))
    for group in draft.groups:
        for member in group.members:
            if group.kind == "kernel":
                _choose_of_kernel(draft, member)
            else:
                _choose_of_loops(draft, member, group)
    for part, (whole, index) in draft.fuser.regions.items():
        if whole in draft.stored:
            draft.stored[part] = (whole, index)


def _choose_of_kernel(draft: Draft, node: Node) -> None:
    for x in node.inputs:
        _add(draft, storage(x))
    if node.op.kind != "update":
        _add(draft, node)


def _choose_of_loops(draft: Draft, member: Node, group: Group) -> None:
    folds_rows = member in group.tail and member.op.kind == "reduce"
    for read in draft.fuser.reads(member, group.index[member], group):
        owner = draft.fuser.owner.get(storage(read.node))
        if owner is not group or read.memory or folds_rows:
            _add(draft, storage(read.node))


def _add(draft: Draft, node: Node) -> None:
    if node.op.kind != "leaf" and not in_no_group(draft, node):
        draft.stored.setdefault(node, None)


def _new_buffer(draft: Draft, nbytes: int) -> Where:
    where = Where(1 + draft.graph.leaves + len(draft.buffers))
    draft.buffers.append(Output(where.slot, nbytes))
    return where


def _place_leaves_and_outputs(draft: Draft) -> None:
    for node in draft.graph.nodes[: draft.graph.leaves]:
        draft.wheres[node] = Where(1 + node.index)
    for output in draft.graph.outputs:
        node = draft.graph.home(storage(output))
        if node not in draft.wheres:
            draft.wheres[node] = _new_buffer(draft, node.meta.nbytes)


def _place_writes(draft: Draft) -> None:
    """A slot for what each update writes: the old buffer, or a new one if somebody sees it."""
    draft.writes, draft.written = [], {}
    for update, node in enumerate(draft.graph.updates):
        count = node.attrs[0]
        for stream in node.op.written:
            for number in range(stream * count, (stream + 1) * count):
                leaf = node.inputs[number]
                assert leaf.op.kind == "leaf", "what an update writes has been computed before"
                where = draft.written[node, number] = _new_buffer(draft, leaf.meta.nbytes)
                draft.writes.append(Write(leaf.index, where.slot, update, number))
