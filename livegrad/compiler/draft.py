"""What the passes hand on: a plan in the making."""

from __future__ import annotations

from typing import TYPE_CHECKING

from livegrad.compiler.access import storage
from livegrad.compiler.expand import Primitives, Recorded
from livegrad.compiler.plan import (
    Donation,
    HostCall,
    Life,
    Output,
    Slot,
    Step,
    StepNotes,
    Where,
    Write,
)
from livegrad.graph.index import Index
from livegrad.graph.node import Node
from livegrad.graph.numbers import FloatArg, IntArg

if TYPE_CHECKING:
    from livegrad.compiler.describe import Description
    from livegrad.compiler.fuse import Fuser
    from livegrad.compiler.groups import Group


class Draft:
    """One attribute after the other is filled in, by the pass that stands beside it."""

    graph: Primitives  # expand, legalise, overwrite
    groups: list[Group]  # fuse
    fuser: Fuser
    stored: dict[Node, tuple[Node, Index] | None]  # store; a part is stored into another's buffer
    buffers: list[Output]
    writes: list[Write]
    written: dict[tuple[Node, int], Where]
    donations: list[Donation]  # bind
    descriptions: list[Description | None]  # describe; None for a node with a kernel of its own
    step_numbers: list[int]  # beside; of each group, which is that of others that run with it
    lives: list[Life]  # place
    arena: int
    wheres: dict[Node, Where]  # store, place
    steps: list[Step]  # bind
    notes: list[StepNotes]

    def __init__(self, recorded: Recorded) -> None:
        self.recorded = recorded

    @property
    def first_int(self) -> int:
        """The first of the inputs that are run-time integers."""
        return 1 + self.graph.leaves + len(self.buffers)

    def is_buffer(self, slot: int) -> bool:
        """Whether an input is a buffer that the program is given, neither a leaf nor the arena."""
        return self.graph.leaves < slot < self.first_int

    def where(self, node: Node) -> Where:
        """Where the elements of `node` are."""
        return self.wheres[self.graph.home(storage(node))]

    def host_step(self, node: Node) -> Step:
        """The step that runs the reference of `node`."""
        values = (node, *node.inputs)
        call = HostCall(
            node.op.name,
            node.attrs,
            [_slot(a) for a in node.args],
            [x.meta.dtype for x in values],
            [x.meta.shape for x in values],
            [self.where(x) for x in values],
        )
        return Step("host", node.meta.shape, host=call)


def _slot(arg: object) -> object:
    return Slot(isinstance(arg, FloatArg), arg.slot) if isinstance(arg, FloatArg | IntArg) else arg
