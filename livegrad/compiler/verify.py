"""The verifier: what must hold after each pass, checked when asked for.

On in the tests, and with LIVEGRAD_DEBUG=verify; off otherwise, because planning is on the way of a
program that waits. A failure is a fault of the compiler, never of the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from livegrad.compiler import debug
from livegrad.compiler.access import storage
from livegrad.compiler.expand import Primitives
from livegrad.compiler.store import touched
from livegrad.graph.node import Node
from livegrad.graph.symbol import Session

if TYPE_CHECKING:
    from livegrad.compiler.draft import Draft
    from livegrad.compiler.plan import Life


class Verifier:
    """Whether passes are checked."""

    enabled = debug.wants("verify")


def check_graph(name: str, graph: Primitives) -> None:
    """Nodes are numbered, in order, primitive, and lead only to nodes before them."""
    for place, node in enumerate(graph.nodes):
        what = f"{name}: %{place} {node!r}"
        assert node.index == place, f"{what} is numbered {node.index}"
        assert (node.op.kind == "leaf") == (place < graph.leaves), f"{what} among the wrong ones"
        assert node.op.kind not in _NOT_PRIMITIVE, f"{what} is not primitive"
        for x in node.inputs:
            known = x.index < place and graph.nodes[x.index] is x
            assert known, f"{what} reads {x!r}, which does not come before it"
    for output in graph.outputs:
        assert graph.nodes[output.index] is output, f"{name}: output {output!r} is not in the graph"


_NOT_PRIMITIVE = ("composite", "gradient", "gradient_of")


def check_expanded(draft: Draft) -> None:
    """The graph is one of primitives."""
    check_graph("expand", draft.graph)


def check_legal(draft: Draft) -> None:
    """Reductions keep their dims as size 1; nothing is left that legalisation removes."""
    graph = draft.graph
    check_graph("legalise", graph)
    for node in graph.nodes:
        if node.op.kind == "reduce":
            assert node.attrs[1], f"legalise: {node!r} drops the dims it folds"
        assert not node.op.lower.rewritten, f"legalise: {node!r} is left"


def check_overwritten(draft: Draft) -> None:
    """What changes a value in its memory comes after all that read it."""
    graph = draft.graph
    check_graph("overwrite", graph)
    for store, fences in graph.fences.items():
        for fence in fences:
            assert fence.index < store.index, f"overwrite: {store!r} before {fence!r}"


def check_groups(draft: Draft) -> None:
    """Each value that needs a group is in one; groups come after what they depend on."""
    groups, fuser = draft.groups, draft.fuser
    owned: set[Node] = set()
    done = 0
    present = sum([1 << g.number for g in groups])
    for group in groups:
        late = group.before & present & ~done
        assert not late, f"fuse: {group!r} runs before what it depends on"
        done |= 1 << group.number
        for member in group.members:
            assert member not in owned, f"fuse: {member!r} is in two groups"
            assert fuser.owner[member] is group, f"fuse: {member!r} belongs elsewhere"
            assert member in group.index, f"fuse: {member!r} has no place in {group!r}"
        owned.update(group.members)
    for node in fuser.graph.nodes:
        free = node.op.kind in ("leaf", "movement") or fuser.is_inlined(node)
        assert free or node in owned, f"fuse: {node!r} is in no group"


def check_stored(draft: Draft) -> None:
    """Every output is in memory."""
    for output in draft.graph.outputs:
        node = draft.graph.home(storage(output))
        assert node in draft.wheres, f"store: {node!r} has no buffer"
        assert node.op.kind == "leaf" or node in draft.stored, f"store: {node!r} is not stored"

    _check_fences(draft)


def _check_fences(draft: Draft) -> None:
    """A value is read from memory before it is overwritten there, never after."""
    graph = draft.graph
    places = {group: place for place, group in enumerate(draft.groups)}
    stored_at = {
        fences[0]: places[draft.fuser.owner[store]] for store, fences in graph.fences.items()
    }
    for moved, leaf in graph.moved.items():
        stored_at[leaf] = stored_at[moved]
    for group in draft.groups:
        if group.kind == "kernel" and group.members[0] in graph.overwrites:
            continue  # the one that overwrites
        for node in touched(draft, group):
            last, once = stored_at.get(node), prod(group.shape) == 1
            good = last is None or places[group] < last or (places[group] == last and once)
            assert good, f"store: {group!r} reads {node!r}, which is overwritten by then"


def check_beside(draft: Draft) -> None:
    """Groups still come after what they depend on, and those of a step do not need each other."""
    done, now, before = 0, 0, -1
    present = sum([group.bits for group in draft.groups])
    for number, group in zip(draft.step_numbers, draft.groups, strict=True):
        if number != before:
            done, now, before = done | now, 0, number
        assert not group.before & present & ~done, f"beside: {group!r} is too early"
        now |= group.bits


def check_nothing(draft: Draft) -> None:
    """Nothing that is worth it: what a description gets wrong, its kernel does."""


def check_arena(draft: Draft) -> None:
    """Values that are alive at the same time do not overlap."""
    if Session.current is None:
        check_lives(draft.lives, draft.arena)


def check_lives(lives: Sequence[Life], total: int) -> None:
    """The same for values in an arena of `total` bytes."""
    ordered = sorted(lives, key=lambda life: life.offset)
    for i, life in enumerate(ordered):
        end = life.offset + life.nbytes
        assert end <= total, f"place: {life} reaches past {total}"
        for other in ordered[i + 1 :]:
            if other.offset >= end:
                break
            together = other.first <= life.last and life.first <= other.last
            assert not together or not other.nbytes, f"place: {life} overlaps {other}"


def check_steps(draft: Draft) -> None:
    """The blocks of a step are alike; a patch writes to a slot that there is."""
    for number, step in enumerate(draft.steps):
        sizes = {len(block.slots) for block in step.blocks}
        assert len(sizes) <= 1, f"bind: the blocks of step {number} differ: {sizes}"
        for block in step.blocks:
            for _, slot, _, _ in block.patches:
                assert 0 <= slot < len(block.slots), f"bind: step {number} has no slot {slot}"
