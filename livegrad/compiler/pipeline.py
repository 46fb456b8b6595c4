"""The compiler: recorded nodes in, a plan out. The passes, in the order they run:

    expand     composites and gradients become primitive ops; numbers become slots
    legalise   forms that templates exist for; equal expressions once; parts of one buffer
    fuse       which nodes share a kernel
    describe   each group as a kernel's signature and what is bound to it
    place      which values live where in the arena
    bind       argument blocks: sizes, strides, patches for addresses and numbers

Code generation (`templates`) is separate: it turns a signature into LLVM IR, and the runtime does
so once per signature, whatever the plan. LIVEGRAD_DEBUG=plan prints the result of each pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import get_ident
from typing import Any

from livegrad.compiler import debug, verify
from livegrad.compiler.access import storage
from livegrad.compiler.bind import BlasCall, Block, Where, bind_loops
from livegrad.compiler.describe import Description, describe
from livegrad.compiler.expand import Primitives, Recorded, expand
from livegrad.compiler.fuse import Fuser, Group, fuse
from livegrad.compiler.legalise import legalise
from livegrad.compiler.place import Life, place
from livegrad.compiler.templates import spill_count
from livegrad.graph.index import Index
from livegrad.graph.node import Node, Site
from livegrad.graph.symbol import Planning, Session

# While sizes are symbols, nothing has an offset in the arena: value k there has this slot + k.
ARENA_SLOTS = 1 << 40


@dataclass
class Step:
    """One kernel of a plan."""

    kind: str  # loops, copy, product, scatter, scan, host
    nodes: list[Node]  # what it computes, for explain() and error messages
    shape: tuple[int, ...]  # of the last of them
    blocks: list[Block] = field(default_factory=list)
    signature: tuple[Any, ...] = ()
    product: BlasCall | None = None
    # Host steps: where the inputs lie, and where the result goes.
    sources: list[Where] = field(default_factory=list)
    target: Where | None = None
    # Nodes that may refuse a value, by the number with which the kernel reports them.
    suspects: dict[int, Node] = field(default_factory=dict)
    tail: bool = False

    @property
    def may_fault(self) -> bool:
        """Whether a value may be refused when the step runs."""
        return bool(self.suspects)


@dataclass
class Output:
    """A value the program keeps: which storage holds it, or which leaf it is another name of."""

    slot: int
    nbytes: int
    leaf: int = -1


@dataclass
class Write:
    """A leaf that an update writes: the slot of what it writes to, and whose input it is."""

    leaf: int
    slot: int
    update: int
    number: int


@dataclass
class Plan:
    """Kernels for one structure and its sizes."""

    steps: list[Step]
    outputs: list[Output]  # one per recorded output
    buffers: list[Output]  # distinct buffers, in slot order: results, then what updates write
    writes: list[Write]
    arena: int
    leaves: int
    first_int: int
    ints: int
    floats: int
    # Where the recorded nodes were recorded: the planned ones have the same sites.
    sites: list[Site | None]
    lives: list[Life]
    filled: bool = False  # from an outline: nodes have the sizes that it was learnt with


def compile_plan(recorded: Recorded) -> Plan:
    """Plans the recorded nodes."""
    Planning.thread = get_ident()
    try:
        return _planned(recorded)
    finally:
        Planning.thread = None


def _planned(recorded: Recorded) -> Plan:
    graph = expand(recorded)
    debug.show("expand", graph)
    verify.check_graph("expand", graph)
    graph = legalise(graph)
    debug.show("legalise", graph)
    verify.check_legal(graph)
    groups, fuser = fuse(graph)
    debug.show_groups(groups)
    verify.check_groups(groups, fuser)
    return Planner(graph, groups, fuser, [node.site for node in recorded.nodes]).run()


class Planner:
    """Places values and binds kernels once the groups are known."""

    def __init__(
        self, graph: Primitives, groups: list[Group], fuser: Fuser, sites: list[Site | None]
    ) -> None:
        self.graph = graph
        self.sites = sites
        self.groups = groups
        self.fuser = fuser
        self.stored: dict[Node, tuple[Node, Index] | None] = {}
        self.wheres: dict[Node, Where] = {}
        self.buffers: list[Output] = []
        self.written: dict[tuple[Node, int], Where] = {}

    def run(self) -> Plan:
        """The plan."""
        self._choose_stored()
        self._place_leaves_and_outputs()
        writes = self._place_writes()
        descriptions = [self._describe(g) for g in self.groups]
        lives = self._lives()
        arena = self._place_in_arena(lives)
        steps = [
            s for g, d in zip(self.groups, descriptions, strict=True) for s in self._bind(g, d)
        ]
        outputs = [self._output(x) for x in self.graph.outputs]
        graph = self.graph
        return Plan(
            steps,
            outputs,
            self.buffers,
            writes,
            arena,
            graph.leaves,
            self.first_int,
            graph.ints,
            graph.floats,
            self.sites,
            list(lives.values()),
        )

    @property
    def first_int(self) -> int:
        """The first of the inputs that are run-time integers."""
        return 1 + self.graph.leaves + len(self.buffers)

    # ----------------------------------------------------------------------- what is stored

    def _choose_stored(self) -> None:
        """Values that another group reads, or the program keeps, must be in memory."""
        for node in self.graph.outputs:
            self._store(storage(node))
        for group in self.groups:
            for member in group.members:
                if group.kind == "kernel":
                    for x in member.inputs:
                        self._store(storage(x))
                    if member.op.kind != "update":
                        self._store(member)
                    continue
                folds_rows = member in group.tail and member.op.kind == "reduce"
                for read in self.fuser.reads(member, group.index[member], group):
                    owner = self.fuser.owner.get(storage(read.node))
                    if owner is not group or read.memory or folds_rows:
                        self._store(storage(read.node))
        for part, (whole, index) in self.fuser.regions.items():
            if whole in self.stored:
                self.stored[part] = (whole, index)

    def _store(self, node: Node) -> None:
        if node.op.kind != "leaf" and not self._in_no_group(node):
            self.stored.setdefault(node, None)

    def _in_no_group(self, node: Node) -> bool:
        """Whether whoever reads `node` computes it: it is nowhere in memory."""
        return node not in self.fuser.owner and self.fuser.is_inlined(node)

    # --------------------------------------------------------------------------- placement

    def _place_leaves_and_outputs(self) -> None:
        for node in self.graph.nodes[: self.graph.leaves]:
            self.wheres[node] = Where(1 + node.index)
        for output in self.graph.outputs:
            node = storage(output)
            if node.op.kind == "leaf" or node in self.wheres:
                continue
            slot = 1 + self.graph.leaves + len(self.buffers)
            self.buffers.append(Output(slot, node.meta.nbytes))
            self.wheres[node] = Where(slot)

    def _place_writes(self) -> list[Write]:
        """A slot for what each update writes: the old buffer, or a new one if somebody sees it."""
        writes = []
        for update, node in enumerate(self.graph.updates):
            count = node.attrs[0]
            for stream in node.op.written:
                for number in range(stream * count, (stream + 1) * count):
                    leaf = node.inputs[number]
                    assert leaf.op.kind == "leaf", "what an update writes has been computed before"
                    slot = 1 + self.graph.leaves + len(self.buffers)
                    self.buffers.append(Output(slot, leaf.meta.nbytes))
                    self.written[node, number] = Where(slot)
                    writes.append(Write(leaf.index, slot, update, number))
        return writes

    def _lives(self) -> dict[Node, Life]:
        """The values in the arena."""
        lives: dict[Node, Life] = {}
        for number, group in enumerate(self.groups):
            for node in self._touched(group):
                home = self.stored.get(node)
                node = home[0] if home else node
                if node in self.wheres or node.op.kind in ("leaf", "update"):
                    continue
                if self._in_no_group(node):
                    continue
                life = lives.get(node)
                if life is None:
                    lives[node] = Life(node, node.meta.nbytes, number, number)
                else:
                    life.last = number
        return lives

    def _place_in_arena(self, lives: dict[Node, Life]) -> int:
        if Session.current is not None:
            for number, node in enumerate(lives):
                self.wheres[node] = Where(ARENA_SLOTS + number)
            return 0
        total = place(list(lives.values()))
        verify.check_arena(list(lives.values()), total)
        for node, life in lives.items():
            self.wheres[node] = Where(0, life.offset)
        return total

    def _touched(self, group: Group) -> list[Node]:
        """The storage that a group writes or reads."""
        touched = []
        for member in group.members:
            if member in self.stored:
                touched.append(member)
            if group.kind == "kernel":
                touched += [storage(x) for x in member.inputs]
                continue
            for read in self.fuser.reads(member, group.index[member], group):
                if self.fuser.owner.get(storage(read.node)) is not group or read.memory:
                    touched.append(storage(read.node))
        return touched

    # ----------------------------------------------------------------------------- binding

    def where(self, node: Node) -> Where:
        """Where the elements of `node` are."""
        return self.wheres[storage(node)]

    def _describe(self, group: Group) -> Description | None:
        if group.kind == "kernel":
            return None
        return describe(group, self.fuser, self.stored)

    def _bind(self, group: Group, d: Description | None) -> list[Step]:
        if d is None:
            (node,) = group.members
            return node.op.lower.bind(self, node)
        signature = d.signature
        block = bind_loops(d, self.where, self.first_int, spill_count(signature))
        labels = {node.op.lower.label for node in d.nodes}
        kind = labels.pop() if len(labels) == 1 else "loops"
        shape, tail = d.nodes[-1].meta.shape, bool(group.tail)
        return [Step(kind, d.nodes, shape, [block], signature, suspects=d.suspects, tail=tail)]

    def host_step(self, node: Node) -> list[Step]:
        """The step that runs the reference of `node`."""
        sources = [self.where(x) for x in node.inputs]
        return [Step("host", [node], node.meta.shape, sources=sources, target=self.where(node))]

    def _output(self, node: Node) -> Output:
        home = storage(node)
        if home.op.kind == "leaf":
            return Output(0, home.meta.nbytes, leaf=home.index)
        return self.buffers[self.wheres[home].slot - 1 - self.graph.leaves]
