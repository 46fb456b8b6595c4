"""A plan: plain data that can be saved, loaded elsewhere, printed and compared.

What is only needed to speak of a plan (nodes, lines of the program) is in its `notes`, which are
neither saved nor compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from livegrad.dtypes import DType
from livegrad.graph.meta import Shape
from livegrad.graph.node import Node, Site
from livegrad.graph.written import Written, value_of

# What makes the code of a kernel, and what that is told; of a stored plan, as its text.
Signature = tuple[Any, ...] | Written
Patch = tuple[int, int, int, int]  # kind, slot, source, value
# Kinds of patch, as the driver numbers them.
SET_INPUT, ADD_INPUT, SET_SCALAR, SET_CONSTANT, CLEAR_IF_SAME = 0, 1, 2, 3, 4


@dataclass
class Where:
    """Memory of a stored value: which input holds its address, and the bytes to add to it."""

    slot: int
    offset: int = 0


@dataclass
class Block:
    """One argument block: its slots, and the patches to make."""

    slots: list[int]
    patches: list[Patch] = field(default_factory=list)
    grain: int = 1
    scratch: int = 0


class Slot(NamedTuple):
    """A number that a run brings along, among its floats or its integers."""

    is_float: bool
    number: int


@dataclass
class HostCall:
    """A call of an op's NumPy reference; of memory, the result's comes first."""

    op: str
    attrs: tuple[Any, ...]
    args: list[Any]  # numbers, or their slots
    dtypes: list[DType]
    shapes: list[Shape]
    wheres: list[Where]


@dataclass
class Step:
    """One kernel of a plan: native code by its signature, or a call of a reference.

    `calls` are other kernels that it calls, and the slots of its blocks that have their addresses.
    """

    kind: str  # loops, copy, move, panels, product, recurrent, scatter, scan, host: for explain()
    shape: Shape
    blocks: list[Block] = field(default_factory=list)
    signature: Signature = ()
    calls: list[tuple[int, Signature]] = field(default_factory=list)
    host: HostCall | None = None
    may_fault: bool = False
    tail: bool = False
    # Whether a step that refuses a value in memory that it is to change has changed nothing.
    all_or_nothing: bool = False


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
class Donation:
    """A leaf whose buffer may become a new one: what is written to it leaves the rest alone.

    From step `first` on, its old value is gone.
    """

    leaf: int
    slot: int
    first: int


@dataclass
class Life:
    """A value in the arena: its bytes, and the steps from the first write to the last read."""

    nbytes: int
    first: int
    last: int
    offset: int = 0


class StepNotes(NamedTuple):
    """What a step computes, and of that what may refuse a value, by the number it reports."""

    nodes: list[Node]
    suspects: dict[int, Node]


class Notes:
    """What messages say about a plan: per step, and where the recorded nodes were recorded.

    Planned nodes have the sites of the recorded ones that they come from.
    """

    steps: list[StepNotes]
    sites: list[Site | None]

    def __init__(self, steps: list[StepNotes], sites: list[Site | None]) -> None:
        self.steps, self.sites = steps, sites


class LateNotes(Notes):
    """Notes that are made when somebody reads them."""

    def __init__(self, make: Callable[[], Notes]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> Any:
        if name not in ("steps", "sites"):
            raise AttributeError(name)
        made = self._make()
        self.steps, self.sites = made.steps, made.sites
        return getattr(made, name)


@dataclass
class Plan:
    """What a flush does, for one structure and its sizes.

        inputs   0 arena │ leaves │ results │ what updates write │ integers     floats
                     │       │         │             │               │            │
                     ▼       ▼         ▼             ▼               ▼            ▼
        steps    kernel 1 (its blocks, with patches) ─► kernel 2 ─► … ─► the update

    An address is a slot of the inputs and an offset: `Where`. `outputs` says where the value of
    each recorded node that is kept lies; values that only steps read are in the arena, where
    `lives` that do not overlap share memory.
    """

    steps: list[Step]
    outputs: list[Output]  # one per recorded output
    buffers: list[Output]  # distinct buffers, in slot order: results, then what updates write
    writes: list[Write]
    donations: list[Donation]
    arena: int
    leaves: int
    first_int: int
    ints: int
    floats: int
    lives: list[Life]
    # From an outline: the nodes in the notes have the sizes that it was learnt with.
    filled: bool = field(default=False, compare=False)
    # From the disk: those have no numbers.
    recalled: bool = field(default=False, compare=False)
    notes: Notes | None = field(default=None, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "notes": None}

    def __str__(self) -> str:
        head = (
            f"plan: {self.leaves} leaves, {self.ints} integers, {self.floats} floats, arena of "
            f"{self.arena} bytes"
        )
        lines = [head, *[f"  {each}" for each in (*self.buffers, *self.writes, *self.donations)]]
        for number, step in enumerate(self.steps):
            lines += [f"{number}. {step.kind} {list(step.shape)}", *_text(step)]
        return "\n".join(lines)


def _text(step: Step) -> list[str]:
    """What a step runs, and with which arguments."""
    lines = [f"  {step.host}"] if step.host else []
    for signature in (step.signature, *[x for _, x in step.calls]):
        lines += signature_text(value_of(signature))
    for block in step.blocks:
        lines += [f"  slots {block.slots}", f"  patches {block.patches}"]
    return lines


def signature_text(signature: tuple[Any, ...]) -> list[str]:
    """A signature in lines: what makes the code, then what it is told, one item a line."""
    if not signature:
        return []
    generate, *told = signature
    lines = [f"  {generate.__name__}"]
    for each in told:
        if isinstance(each, tuple) and each and isinstance(each[0], tuple):
            lines += [f"    {number} {x}" for number, x in enumerate(each)]
        else:
            lines.append(f"    {each}")
    return lines
