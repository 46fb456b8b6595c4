"""Pass 7, beside: small kernels of one kind that do not need each other become one step.

    g1 ─► sum ─► slope of a bias ─┐                       g1, g2, g3 ─► sum × 3 ─┐
    g2 ─► sum ─► slope of a bias ─┼─► update      ─►                             ├─► update
    g3 ─► sum ─► slope of a bias ─┘                                              ┘

Threads share the items of all of them, which would not be worth waking anybody one by one. All run
where the last of them does, so what they read lives longer: hence small ones only.
"""

from __future__ import annotations

from typing import Any

from livegrad.compiler.describe import Description
from livegrad.compiler.draft import Draft
from livegrad.compiler.groups import Group
from livegrad.compiler.store import touched

# Bytes that a small kernel reads and writes at most, and how many run together at most.
SMALL, MOST_TOGETHER = 1 << 19, 16


def beside(draft: Draft) -> None:
    """Puts groups that can run together next to each other, and numbers steps."""
    sets = _sets(draft) if not draft.graph.fences else []
    last = {group: members for members in sets for group in members[-1:]}
    moved = {group for members in sets for group in members[:-1]}
    described = dict(zip(draft.groups, draft.descriptions, strict=True))
    steps = [last.get(group, [group]) for group in draft.groups if group not in moved]
    draft.groups = [group for members in steps for group in members]
    draft.descriptions = [described[group] for group in draft.groups]
    draft.step_numbers = [number for number, members in enumerate(steps) for _ in members]


def _sets(draft: Draft) -> list[list[Group]]:
    """Groups of one kind, of which none is read before the last of them has its turn."""
    places = {group: place for place, group in enumerate(draft.groups)}
    alike: dict[Any, list[Group]] = {}
    for group, description in zip(draft.groups, draft.descriptions, strict=True):
        if description is not None and not group.tail and not description.suspects:
            alike.setdefault(_kind(description), []).append(group)
    sets = []
    for groups in alike.values():
        if len(groups) > 1:
            sets += _apart(draft, groups, places)
    return [members for members in sets if len(members) > 1]


def _kind(d: Description) -> Any:
    """Those that are equal have equal code and equal blocks, most often."""
    return (d.signature, d.kind, len(d.shape), bool(d.products))


def _apart(draft: Draft, groups: list[Group], places: dict[Group, int]) -> list[list[Group]]:
    """Groups of a kind, in sets that can wait for their last."""
    sets: list[list[Group]] = []
    read = 0  # where a member of the last set is read first
    for group in groups:
        if sum([x.meta.nbytes for x in dict.fromkeys(touched(draft, group))]) > SMALL:
            continue
        first = min([places[x.now()] for x in group.after], default=len(places))
        if not sets or places[group] >= read or len(sets[-1]) == MOST_TOGETHER:
            sets.append([])
            read = first
        sets[-1].append(group)
        read = min(read, first)
    return sets
