"""A plan: plain data that can be saved, loaded elsewhere, printed and compared.

What is only needed to speak of a plan (nodes, lines of the program) is in its `notes`, which are
neither saved nor compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from livegrad.dtypes import DType
from livegrad.graph.meta import Shape
from livegrad.graph.node import Node, Site
from livegrad.graph.written import Written, value_of

# What makes the code of a kernel, and what that is told; of a stored plan, as its text.
Signature = tuple[Any, ...] | Written
Patch = tuple[int, int, int, int]  # kind, slot, source, value
# Kinds of patch, as the driver numbers them.
SET_INPUT, ADD_INPUT, SET_SCALAR, SET_CONSTANT, CLEAR_IF_SAME = 0, 1, 2, 3, 4


class Record:
    """Named values that are compared and printed.

    `dataclass` would compile text for each of the classes below, in every process that needs none
    of the planner otherwise.
    """

    _uncompared: ClassVar[tuple[str, ...]] = ()

    def _compared(self) -> dict[str, Any]:
        return {name: x for name, x in vars(self).items() if name not in self._uncompared}

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._compared() == other._compared()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        told = [f"{name}={x!r}" for name, x in vars(self).items() if name != "notes"]
        return f"{type(self).__name__}({', '.join(told)})"


class Where(Record):
    """Memory of a stored value: which input holds its address, and the bytes to add to it."""

    def __init__(self, slot: int, offset: int = 0) -> None:
        self.slot, self.offset = slot, offset


class Block(Record):
    """One argument block: its slots, and the patches to make."""

    def __init__(
        self,
        slots: list[int],
        patches: list[Patch] | None = None,
        grain: int = 1,
        scratch: int = 0,
    ) -> None:
        self.slots = slots
        self.patches: list[Patch] = [] if patches is None else patches
        self.grain, self.scratch = grain, scratch


class Slot(NamedTuple):
    """A number that a run brings along, among its floats or its integers."""

    is_float: bool
    number: int


class HostCall(Record):
    """A call of an op's NumPy reference; of memory, the result's comes first."""

    def __init__(
        self,
        op: str,
        attrs: tuple[Any, ...],
        args: list[Any],  # numbers, or their slots
        dtypes: list[DType],
        shapes: list[Shape],
        wheres: list[Where],
    ) -> None:
        self.op, self.attrs, self.args = op, attrs, args
        self.dtypes, self.shapes, self.wheres = dtypes, shapes, wheres


class Step(Record):
    """One kernel of a plan: native code by its signature, or a call of a reference.

    `calls` are other kernels that it calls, and the slots of its blocks that have their addresses.
    """

    def __init__(
        self,
        kind: str,  # loops, copy, move, panels, product, recurrent, scatter, scan, host: explain()
        shape: Shape,
        blocks: list[Block] | None = None,
        signature: Signature = (),
        calls: list[tuple[int, Signature]] | None = None,
        host: HostCall | None = None,
        may_fault: bool = False,
        tail: bool = False,
        all_or_nothing: bool = False,
    ) -> None:
        self.kind, self.shape = kind, shape
        self.blocks: list[Block] = [] if blocks is None else blocks
        self.signature = signature
        self.calls: list[tuple[int, Signature]] = [] if calls is None else calls
        self.host = host
        self.may_fault, self.tail = may_fault, tail
        # Whether a step that refuses a value in memory that it is to change has changed nothing.
        self.all_or_nothing = all_or_nothing


class Output(Record):
    """A value the program keeps: which storage holds it, or which leaf it is another name of."""

    def __init__(self, slot: int, nbytes: int, leaf: int = -1) -> None:
        self.slot, self.nbytes, self.leaf = slot, nbytes, leaf


class Write(Record):
    """A leaf that an update writes: the slot of what it writes to, and whose input it is."""

    def __init__(self, leaf: int, slot: int, update: int, number: int) -> None:
        self.leaf, self.slot, self.update, self.number = leaf, slot, update, number


class Donation(Record):
    """A leaf whose buffer may become a new one: what is written to it leaves the rest alone.

    From step `first` on, its old value is gone.
    """

    def __init__(self, leaf: int, slot: int, first: int) -> None:
        self.leaf, self.slot, self.first = leaf, slot, first


class Life(Record):
    """A value in the arena: its bytes, and the steps from the first write to the last read."""

    def __init__(self, nbytes: int, first: int, last: int, offset: int = 0) -> None:
        self.nbytes, self.first, self.last, self.offset = nbytes, first, last, offset


class StepNotes(NamedTuple):
    """What a step computes, and of that what may refuse a value, by the number it reports."""

    nodes: list[Node]
    suspects: dict[int, Node]


class Notes:
    """What messages say about a plan: per step, and where the recorded nodes were recorded.

    Planned nodes have the sites of the recorded ones that they come from; those that a gradient is
    made of have their `twins`: the same place as another object.
    """

    steps: list[StepNotes]
    sites: list[Site | None]
    twins: list[Site | None]

    def __init__(
        self, steps: list[StepNotes], sites: list[Site | None], twins: list[Site | None]
    ) -> None:
        self.steps, self.sites, self.twins = steps, sites, twins


class LateNotes(Notes):
    """Notes that are made when somebody reads them."""

    def __init__(self, make: Callable[[], Notes]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> Any:
        if name not in ("steps", "sites", "twins"):
            raise AttributeError(name)
        made = self._make()
        self.steps, self.sites, self.twins = made.steps, made.sites, made.twins
        return getattr(made, name)


class Plan(Record):
    """What a flush does, for one structure and its sizes.

        inputs   0 arena │ leaves │ results │ what updates write │ integers     floats
                     │       │         │             │               │            │
                     ▼       ▼         ▼             ▼               ▼            ▼
        steps    kernel 1 (its blocks, with patches) ─► kernel 2 ─► … ─► the update

    An address is a slot of the inputs and an offset: `Where`. `outputs` says where the value of
    each recorded node that is kept lies; values that only steps read are in the arena, where
    `lives` that do not overlap share memory.
    """

    _uncompared = ("filled", "recalled", "notes")

    def __init__(
        self,
        steps: list[Step],
        outputs: list[Output],  # one per recorded output
        buffers: list[Output],  # distinct ones, in slot order: results, then what updates write
        writes: list[Write],
        donations: list[Donation],
        arena: int,
        leaves: int,
        first_int: int,
        ints: int,
        floats: int,
        lives: list[Life],
        filled: bool = False,
        recalled: bool = False,
        notes: Notes | None = None,
    ) -> None:
        self.steps, self.outputs, self.buffers = steps, outputs, buffers
        self.writes, self.donations = writes, donations
        self.arena, self.leaves = arena, leaves
        self.first_int, self.ints, self.floats = first_int, ints, floats
        self.lives = lives
        # From an outline: the nodes in the notes have the sizes that it was learnt with.
        self.filled = filled
        # From the disk: those have no numbers.
        self.recalled = recalled
        self.notes = notes

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
