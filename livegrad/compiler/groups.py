"""Groups: kernels in the making, what their nodes read, and the order in which they can run."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from livegrad.graph.index import Index
from livegrad.graph.meta import Shape
from livegrad.graph.node import Node


class Read(NamedTuple):
    """One value a node reads: where, and whether it must be in memory (not in a register)."""

    node: Node
    index: Index  # type: ignore[assignment]  # hides tuple.index, which nobody calls
    memory: bool = False


@dataclass(eq=False, repr=False, slots=True)
class Group:
    """A kernel in the making.

        x ─► exp ─► sum ─► div ─► y        one group: its loops are `shape`, of which `dims` are
             └──────────────┘              folded; only x and y are in memory
        before: groups that give x         after: groups that read y

    `index` gives, for each member, its place in the loops. `before` is a bit set of the groups
    that must run earlier, directly or not; `bits` are the group's own, its number and those of the
    groups merged into it. `after` are those that read what it gives. A rows group may end in a
    `tail`, which folds what its rows gave: the mean of a loss. `beside` counts members that joined
    it because they read the same, and use nothing that it computes; `products` the matrix products
    from whose sums its loops go on.
    """

    number: int
    kind: str
    shape: Shape
    dims: tuple[int, ...] = ()
    members: list[Node] = field(default_factory=list)
    index: dict[Node, Index] = field(default_factory=dict)
    before: int = 0
    bits: int = field(init=False)
    after: set[Group] = field(default_factory=set)
    merged: Group | None = None
    beside: int = 0
    products: int = 0
    # Axes of loops whose elements are walked as one though nothing is folded: rows and columns of
    # products.
    rows: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()
    # Members computed once, when all rows are done: folds over the rows, and what follows.
    tail: set[Node] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.bits = 1 << self.number

    def now(self) -> Group:
        """The group itself, or the one it was merged into."""
        group = self
        while group.merged is not None:
            group = group.merged
        return group

    def runs_after(self, other: Group) -> bool:
        """Whether `other` must run earlier, directly or not."""
        return bool(self.before & other.bits)

    def __repr__(self) -> str:
        ops = " ".join(m.op.name for m in self.members)
        return f"<{self.kind} {self.number} {list(self.shape)} over {self.dims}: {ops}>"


def in_order(groups: list[Group]) -> list[Group]:
    """Groups that have members, each after those it depends on; else as the program had them."""
    live = [g for g in groups if g.members]
    later = {g: {x.now() for x in g.after} for g in live}
    waiting = dict.fromkeys(live, 0)
    for group in live:
        for other in later[group]:
            waiting[other] += 1
    ready = [(_when(g), g.number, g) for g in live if not waiting[g]]
    heapify(ready)
    ordered: list[Group] = []
    while ready:
        group = heappop(ready)[-1]
        ordered.append(group)
        for other in later[group]:
            waiting[other] -= 1
            if not waiting[other]:
                heappush(ready, (_when(other), other.number, other))
    if len(ordered) != len(live):
        raise AssertionError(f"fusion made a cycle among {set(live) - set(ordered)}")
    return ordered


def _when(group: Group) -> tuple[bool, int]:
    # Nothing reads what updates write, and everybody may read what they overwrite: they go last.
    return group.members[0].op.kind == "update", group.members[-1].index
