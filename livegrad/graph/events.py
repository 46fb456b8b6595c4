"""What the package tells whoever listens; `livegrad.events` is the public name of this.

    recorded ──► planned ──► compiled ──► ran ──► read          each kind is one list of functions

Where something happens, the code tests the list, which costs nothing worth mentioning while it is
empty, and tells what is in it:

    if READ:
        tell_read(node, number, reason)

The lists are never replaced: translated functions remember them.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from livegrad.graph.node import Node, Site, describe_site, site_location
from livegrad.graph.state import LOCAL, scratch_state
from livegrad.graph.written import text_or_none, value_of
from livegrad.native.hot import hot_slots

if TYPE_CHECKING:
    from livegrad.dtypes import DType

Listener = Callable[..., None]

RECORDED: list[Listener] = []
PLANNED: list[Listener] = []
COMPILED: list[Listener] = []
RAN: list[Listener] = []
READ: list[Listener] = []
# What the training lint listens to besides: see `livegrad.lint`.
MADE: list[Listener] = []  # made(optimizer)
BACKWARD: list[Listener] = []  # backward(tensors): it is about to start there
STEP: list[Listener] = []  # step(optimizer, before): about to take a step, or has taken one
MODE: list[Listener] = []  # mode(layer): it trains without gradients, or the other way round
DROPPED: list[Listener] = []  # dropped(): functional dropout without gradients
# What the view listens to besides: see `livegrad.view`.
WALKED: list[Listener] = []  # walked(): a backward pass was recorded, rule by rule
# flushing(reason): a flush is about to begin, perhaps told twice; gives nodes to compute as well.
FLUSHING: list[Callable[[str], tuple[Node, ...]]] = []
# taken_up(before): the flush goes on with other pending nodes: some were missing, or were there.
TAKEN_UP: list[Listener] = []

BEGUN: list[Listener] = []  # begun(): a flush, for profiles
NOTED: list[Callable[[Node], None]] = []  # noted(node): as it is recorded, and there are listeners

KINDS: dict[str, list[Listener]] = {
    "recorded": RECORDED,
    "planned": PLANNED,
    "compiled": COMPILED,
    "ran": RAN,
    "read": READ,
}


def tell(listeners: list[Listener], *event: Any) -> None:
    """Calls the listeners; one may be removed meanwhile, by itself or by another thread."""
    for listener in tuple(listeners):
        listener(*event)


# ------------------------------------------------------------------------------------ numbers


class Numbers:
    """Numbers of objects, given when somebody first asks; never given again."""

    def __init__(self) -> None:
        self._next = count(1)
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}

    def __getitem__(self, thing: Any) -> int:
        """The number of `thing`, the same as long as it lives."""
        key = id(thing)
        known = self._known.get(key)
        if known is None:
            # Forgotten before the address is used again, by what Ctrl-C cannot stop on the way.
            new = weakref.ref(thing, partial(self._known.pop, key)), next(self._next)
            known = self._known.setdefault(key, new)  # another thread may have been quicker
        return known[1]


NODES = Numbers()
PLANS = Numbers()


def kernel_name(signature: Any) -> str:
    """The name of a kernel: what its code depends on as a digest, so the same in any process."""
    from hashlib import sha256  # with its crypto library it is slow to load

    text = text_or_none(signature) or repr((signature[0].__qualname__, *signature[1:]))
    return sha256(text.encode()).hexdigest()[:12]


# ------------------------------------------------------------------------------------- events


class Recorded(NamedTuple):
    """An operation was recorded; nothing has been computed.

    `node` and `inputs` are numbers of values: that of a value stays the same, and no other gets it.
    """

    node: int
    op: str
    inputs: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: DType
    file: str
    line: int
    input_shapes: tuple[tuple[int, ...], ...] = ()


class Step(NamedTuple):
    """One kernel of a plan: `step` is its number there, `kernel` the name of its code.

    Steps that run NumPy have no code of ours: their `kernel` is "".
    """

    plan: int
    step: int
    kind: str  # loops, copy, product, scatter, scan, host
    ops: tuple[str, ...]
    shape: tuple[int, ...]
    kernel: str


class Planned(NamedTuple):
    """A plan was made for what was recorded, or filled in for other sizes.

    `why` says how that differs from the plan that is most like it.
    """

    plan: int
    nodes: tuple[int, ...]
    steps: tuple[Step, ...]
    filled: bool
    seconds: float
    why: str = ""


class Compiled(NamedTuple):
    """A kernel has its native code: from the disk cache, or from LLVM."""

    kernel: str
    kind: str
    from_disk: bool
    seconds: float


class Ran(NamedTuple):
    """A flush is over: what was pending has its values.

    `nodes` are the numbers of what was pending, if somebody listens to `recorded`; `compiles` is
    how many kernels LLVM had to compile for it. Times are nanoseconds of `time.perf_counter_ns`.
    """

    reason: str
    executable: Any
    sites: list[Site | None]
    nodes: tuple[int, ...]
    hit: bool
    compiles: int
    started: int
    ended: int

    @property
    def plan(self) -> int:
        """The number of the plan that ran."""
        return PLANS[self.executable.plan]

    @property
    def steps(self) -> tuple[Step, ...]:
        """The kernels that ran, in order."""
        return steps_of(self.executable.plan)

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.ended - self.started) / 1e9

    @property
    def step_seconds(self) -> tuple[float | None, ...]:
        """How long each kernel took; None before `explain()` was called, and for NumPy's."""
        return tuple(
            [None if t is None else t / 1e6 for t in self.executable.runnable.step_times()]
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of the program that were run, as `file.py:12`, in order."""
        return tuple(dict.fromkeys([describe_site(site) for site in self.sites]))


@hot_slots
class _Latest:
    """The fields of the latest `Ran`, for `explain()`: no object is made that nobody reads.

    `before` has those of the part of the same flush that was run before, piece by piece.
    """

    __slots__ = ("before", "fields")

    def __init__(self) -> None:
        self.fields: tuple[Any, ...] | None = None
        self.before: tuple[Any, ...] | None = None


LATEST = _Latest()


def latest() -> Ran | None:
    """The flush that ended last."""
    return None if LATEST.fields is None else Ran._make(LATEST.fields)


def latest_part() -> Ran | None:
    """What the flush that ended last ran before, piece by piece."""
    return None if LATEST.before is None else Ran._make(LATEST.before)


class Read(NamedTuple):
    """The program has read a value: a number, or None where it was given an array."""

    node: int
    reason: str
    number: Any
    shape: tuple[int, ...]


def steps_of(plan: Any) -> tuple[Step, ...]:
    """The kernels of a plan, in order."""
    return tuple(
        [
            Step(
                PLANS[plan],
                number,
                step.kind,
                tuple([n.op.name for n in told.nodes]),
                tuple(step.shape),
                kernel_name(step.signature) if step.signature else "",
            )
            for number, (step, told) in enumerate(zip(plan.steps, plan.notes.steps, strict=True), 1)
        ]
    )


# ------------------------------------------------------------------------------------ telling


def tell_recorded(node: Node) -> None:
    """Tells of a node that is about to be pending; not of those of planner and transforms."""
    for note in NOTED:
        note(node)
    if LOCAL.state.outer:
        return
    meta = node.meta
    inputs = numbers_of_nodes(node.inputs)
    file, line = site_location(node.site)
    shapes = tuple([x.meta.shape for x in node.inputs])
    number, op = NODES[node], node.op.name
    tell(RECORDED, Recorded(number, op, inputs, meta.shape, meta.dtype, file, line, shapes))


def numbers_of_nodes(nodes: Sequence[Node]) -> tuple[int, ...]:
    """The numbers of some nodes."""
    return tuple([NODES[node] for node in nodes])


def tell_planned(plan: Any, nodes: Sequence[Node], seconds: float, why: str) -> None:
    """Tells of a plan."""
    numbers = numbers_of_nodes(nodes)
    tell(PLANNED, Planned(PLANS[plan], numbers, steps_of(plan), plan.filled, seconds, why))


def tell_compiled(signature: Any, from_disk: bool, seconds: float) -> None:
    """Tells of a kernel that was compiled or loaded."""
    template, *rest = value_of(signature)
    kind = template.__name__.removeprefix("generate").lstrip("_") or rest[0]
    tell(COMPILED, Compiled(kernel_name(signature), kind, from_disk, seconds))


def tell_flushing(reason: str, roots: tuple[Node, ...]) -> tuple[Node, ...]:
    """Tells of a flush that is about to begin; `roots` with what the listeners want besides."""
    if LOCAL.state.outer:
        return roots
    for listener in tuple(FLUSHING):
        roots += listener(reason)
    return roots


def tell_ran() -> None:
    """Tells of the flush that ended last."""
    tell(RAN, latest())


class OnNumber:
    """A listener among those of `READ` that wants the numbers alone: no event is made for it."""

    def __init__(self, function: Callable[[Any], None]) -> None:
        self.function = function

    def __call__(self, event: Read) -> None:
        """As any other listener."""
        self.function(event.number)


def tell_read(node: Node, number: Any, reason: str) -> None:
    """Tells of a value that the program was given."""
    event = None
    for listener in tuple(READ):
        if type(listener) is OnNumber:
            listener.function(number)
        else:
            event = event or Read(NODES[node], reason, number, node.meta.shape)
            listener(event)


# ---------------------------------------------------------------------------------- listening


class _Busy(threading.local):
    """Whether a listener is running in this thread: what it does is not told."""

    listening = False


_BUSY = _Busy()


class Listening:
    """A function that listens, until it is removed; or until the end of a `with` block."""

    def __init__(self, kind: str, function: Callable[[Any], None]) -> None:
        if kind not in KINDS:
            raise ValueError(f"events: unknown kind {kind!r}; there are {', '.join(KINDS)}")
        self._listeners = KINDS[kind]
        self._function = function
        self._listeners.append(self._hear)

    def _hear(self, event: Any) -> None:
        if _BUSY.listening:
            return
        _BUSY.listening = True
        try:
            with scratch_state():  # what it records does not mix with what is pending
                self._function(event)
        finally:
            _BUSY.listening = False

    def remove(self) -> None:
        """Ends it. Doing so twice does no harm."""
        if self._hear in self._listeners:
            self._listeners.remove(self._hear)

    def __enter__(self) -> Listening:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def listen(kind: str, function: Callable[[Any], None]) -> Listening:
    """Has `function(event)` called whenever something of this kind happens, in any thread.

    The result's `remove()` ends it; it is a context manager, too. What the function does itself is
    not told to anybody. An error it raises is raised at the line of the program that was running.
    """
    return Listening(kind, function)
