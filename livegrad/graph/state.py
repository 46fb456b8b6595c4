"""What is particular to a thread: pending nodes, gradient mode, the site to blame nodes on."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, ClassVar

from livegrad.dtypes import DType
from livegrad.environment import words
from livegrad.graph.node import Node, Site
from livegrad.native.calls import untrack
from livegrad.native.hot import hot, hot_slots

# A loop that never reads a value is flushed when this many nodes, or this many bytes of data held
# by pending nodes, have gathered.
MOST_PENDING_NODES = 8192
MOST_PENDING_BYTES = 1 << 28


class Ranges:
    """Hands out ranges of node indices: what a state left of its own when it ended, else new ones.

    A state numbers its nodes in a range of its own, so that nodes of two states never have the same
    index. Indices are int64 in native code.
    """

    size = 1 << 40
    most = 1 << 22
    # A range with less than this left is not used any more: no flush has as many nodes.
    least = 1 << 32
    made = 0
    left: ClassVar[list[tuple[int, int]]] = []
    lock = threading.Lock()

    @classmethod
    def take(cls) -> tuple[int, int]:
        """The first index of a range that nobody uses, and where it ends."""
        try:
            return cls.left.pop()
        except IndexError:
            pass
        with cls.lock:
            if cls.made == cls.most:
                raise RuntimeError(f"recording: more than {cls.most} threads record at once")
            cls.made += 1
            return cls.made * cls.size, (cls.made + 1) * cls.size

    @classmethod
    def give_back(cls, first: int, end: int) -> None:
        """Lets the next state go on at `first`: indices below it have been used."""
        if end - first >= cls.least:
            cls.left.append((first, end))


# The states of all threads that live.
STATES: list[weakref.ref[State]] = []
# What pending nodes of threads that have ended read of others.
ORPHANED: list[weakref.ref[Node]] = []

REFERENCE = "reference" in words("LIVEGRAD_MODE", "reference whole pieces")


@hot_slots
class State:
    """Recording state of one thread.

    `nodes` and `handles` run in parallel: the pending nodes in the order they were recorded, and
    the object (Tensor or Cell) through which the program can still see each. A handle that nobody
    else refers to, or that has moved on to another node, marks its node as dead.

    `node.index - base` is the place of a pending node; nodes computed or dropped earlier, and those
    of other threads, have an index below `base` or far above.

    `caster`, inside `livegrad.autocast`, is asked to cast the inputs of ops that have an `autocast`
    rule: caster(rule, inputs) -> inputs.

    `flusher`, if there is one, answers for flushes: a function transform records nodes that cannot
    be computed yet (func/trace.py), a checkpoint looks at them first (utils/checkpoint.py). It
    stays while a scratch state is entered and left.

    `elsewhere` says that nodes of other devices than the CPU are among those pending.

    `walks` has what was found when backward passes that are pending were recorded.

    `written` has, for nodes that in-place writes made, the node whose place each took, or how far
    away that is (see `place_taken`): a write that fails is taken back.

    More pending nodes than `most` are a reason to flush, unless more may gather; but not while
    `held`: then they are the planner's, or belong together. It is -1 once something was recorded
    that reads memory which somebody else may write: that has to be computed at once.

    `outer` are the pending lists that wait until a scratch state is over, for other threads to
    look at. During a flush, `shared` says that other threads have recorded since the last one;
    `seen` is how far they were. See runtime/elsewhere.py.
    """

    __slots__ = (
        "__weakref__",
        "base",
        "bytes",
        "caster",
        "elsewhere",
        "flusher",
        "grad",
        "handles",
        "held",
        "inference",
        "limit",
        "most",
        "nodes",
        "outer",
        "reference",
        "seen",
        "shared",
        "site",
        "walks",
        "written",
    )

    def __init__(self) -> None:
        self.base = self.limit = 0  # if there is no range, there is nothing to give back
        self.flusher: Any = None
        self.outer: tuple[list[Node], ...] = ()
        self.seen = 0
        self.shared = False
        self._clear()
        self.base, self.limit = Ranges.take()

    def start_anew(self) -> None:
        """Sets everything as it is at the start."""
        self._take_another_range()
        self.outer = ()
        self._clear()

    def _clear(self) -> None:
        self.nodes: list[Node] = []
        self.handles: list[Any] = []
        self.bytes = 0
        self.caster: Callable[[str, Any], Any] | None = None
        self.elsewhere = False
        self.grad = True
        self.held = False
        self.inference = False
        self.most = MOST_PENDING_NODES
        self.reference = REFERENCE
        self.site: Site | None = None
        self.walks: dict[Node, Any] = {}
        self.written: dict[Node, Any] = {}

    @property
    def position(self) -> int:
        """The index after those that have been used."""
        # One more, because nodes evaluated at once have the index that comes next.
        return self.base + len(self.nodes) + 1

    def _take_another_range(self) -> None:
        Ranges.give_back(self.position, self.limit)
        self.base, self.limit = Ranges.take()

    def move_on(self) -> None:
        """Moves `base` past the pending nodes, which are going to be numbered anew or are done."""
        self.base = self.position
        if self.limit - self.base < Ranges.least:
            self.base, self.limit = Ranges.take()

    def fields(self) -> tuple[Any, ...]:
        """Everything that `put_back` needs."""
        return _fields_of(self)

    def put_back(self, fields: tuple[Any, ...]) -> None:
        """Makes everything what it was when `fields` were taken."""
        # One statement without a call or a loop: Ctrl-C comes before it or after it.
        (
            self.base,
            self.bytes,
            self.caster,
            self.elsewhere,
            self.grad,
            self.handles,
            self.held,
            self.inference,
            self.limit,
            self.most,
            self.nodes,
            self.outer,
            self.reference,
            self.seen,
            self.shared,
            self.site,
            self.walks,
            self.written,
        ) = fields

    def enter_scratch(self) -> tuple[Any, ...]:
        """Starts anew, in a range of its own; the fields to be put back by `leave_scratch`."""
        fields = self.fields()
        try:
            self.outer = (*self.outer, self.nodes)
            self.base, self.limit = Ranges.take()
            self._clear()
        except BaseException:
            self.put_back(fields)
            raise
        return fields

    def leave_scratch(self, fields: tuple[Any, ...]) -> None:
        """Goes on with what waited, also if Ctrl-C comes meanwhile: then the range is lost."""
        try:
            Ranges.give_back(self.position, self.limit)
        finally:
            self.put_back(fields)

    def __del__(
        self,
        # Bound here, because a module's names are gone when the interpreter ends.
        give_back: Callable[[int, int], None] = Ranges.give_back,
        orphaned: list[weakref.ref[Node]] = ORPHANED,
        weak: Callable[[Node], weakref.ref[Node]] = weakref.ref,
    ) -> None:
        give_back(self.position, self.limit)
        # Whoever still refers to these nodes will want them computed.
        for node in self.nodes:
            if node.buffer is None:
                orphaned += [weak(x) for x in node.inputs if x.buffer is None]


@hot
def was_dropped(state: State, node: Node) -> bool:
    """Whether nobody wanted a value when it was computed: it is neither there nor pending."""
    place = node.index - state.base
    return node.buffer is None and not 0 <= place < len(state.nodes)


@hot
def start_over(state: State) -> None:
    """After a flush: nothing is pending."""
    state.base = state.base + len(state.nodes) + 1
    if state.limit - state.base < Ranges.least:
        state.move_on()
    state.nodes = []
    state.handles = []
    # What waits is alive: Python's garbage collector need not go through all of it again and again.
    untrack(state.nodes)
    untrack(state.handles)
    state.bytes = 0
    state.most = MOST_PENDING_NODES
    if state.walks:
        state.walks.clear()
    if state.written:
        state.written.clear()
    state.shared = False


_fields_of = attrgetter(*[name for name in State.__slots__[1:] if name != "flusher"])


class _Local(threading.local):
    """`state` is one object per thread for good: translated functions remember it."""

    state: State

    def __init__(self) -> None:
        self.state = State()
        STATES.append(weakref.ref(self.state, STATES.remove))


LOCAL = _Local()


def living_states() -> list[State]:
    """The states of all threads that live."""
    return [state for state in [r() for r in list(STATES)] if state is not None]


@contextmanager
def scratch_state() -> Iterator[State]:
    """Within it, the thread records from the start; what was pending waits until it is over."""
    state = LOCAL.state
    outer = state.enter_scratch()
    try:
        yield state
    finally:
        try:
            state.leave_scratch(outer)
        except BaseException:  # Ctrl-C, before anything was done
            state.put_back(outer)
            raise


# Held while a gradient is added to `.grad`, if there is more than one thread.
ACCUMULATING: Any = threading.RLock()


@hot
def lock_gradients() -> None:
    """Keeps other threads from adding to a `.grad` until `unlock_gradients`."""
    if len(STATES) > 1:
        ACCUMULATING.acquire()


@hot
def unlock_gradients() -> None:
    """Lets other threads go on. Does no harm if an interrupt kept this one from locking."""
    if len(STATES) > 1 and ACCUMULATING._is_owned():
        ACCUMULATING.release()


def _forget_other_threads() -> None:
    """In a forked child: the lock may be that of a thread which is not there."""
    if not ACCUMULATING._is_owned():
        ACCUMULATING._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


@hot_slots
class AtOnce:
    """Whether operations on little data are run when they are recorded, and by which module.

    That is runtime/alone.py; its functions are asked for by name, native or not as they are now.

    run_alone(spec, inputs, args)                       the result's buffer; None: to be recorded
    put_element(holder, referrers, items, args, value)  whether it was written where it lies
    """

    __slots__ = ("by", "is_on")

    def __init__(self) -> None:
        self.is_on = False
        self.by: Any = None


AT_ONCE = AtOnce()


class Runtime:
    """Hooks the runtime fills in, so that the graph does not import it."""

    # flush(reason, roots): computes everything pending that is alive, and `roots` in any case.
    flush: Callable[[str, tuple[Node, ...]], None]
    # evaluate(node): runs one node with its NumPy reference.
    evaluate: Callable[[Node], None]
    # finder(dtype): the address of native code that looks at integers; see ops/picking/checking.py.
    finder: Callable[[DType], int]
    # number_at(node, place): an integer of a computed node.
    number_at: Callable[[Node, int], int]
    # buffer_of(values, dtype): a buffer with a copy of an array, converted to `dtype`.
    buffer_of: Callable[[Any, DType], Any]
    # write_at_once(x, key, value): x[key] = value, if that needs no recording; see
    # runtime/at_once.py.
    write_at_once: Callable[[Any, Any, Any], bool]
    # Whether flushes may be run piece by piece, so that gradients need no plan: runtime/sight.py.
    by_pieces = False
    # puts_off(state): whether more nodes may gather before they are flushed: runtime/gathering.py.
    puts_off: Callable[[State], bool]


def flush(reason: str, *roots: Node) -> None:
    """Computes everything pending that is still alive, and `roots` in any case."""
    flusher = LOCAL.state.flusher
    if flusher is None:
        Runtime.flush(reason, roots)
    else:
        flusher.flush(reason, roots)


def flush_many(node: Node) -> None:
    """Computes what is pending because it has become much, unless more may gather."""
    state = LOCAL.state
    if state.flusher is not None or state.most < 0 or not Runtime.puts_off(state):
        flush("many nodes were pending", node)


def flush_all(reason: str) -> None:
    """Computes everything pending, also results that the program has dropped: for who measures."""
    nodes = LOCAL.state.nodes
    used = {id(x) for node in nodes for x in node.inputs}
    flush(reason, *[node for node in nodes if id(node) not in used])


class setting:
    """`with setting(grad=False):` - fields of the thread's state for a while; then as they were."""

    __slots__ = ("_before", "_fields")

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def __enter__(self) -> State:
        state = LOCAL.state
        self._before = {name: getattr(state, name) for name in self._fields}
        try:
            _assign(state, self._fields)
        except BaseException:  # Ctrl-C: who is not entered is not left either
            _assign(state, self._before)
            raise
        return state

    def __exit__(self, *exception: object) -> None:
        state = LOCAL.state
        try:
            _assign(state, self._before)
        except BaseException:  # Ctrl-C
            _assign(state, self._before)
            raise


def _assign(state: State, fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        setattr(state, name, value)


def reference_mode(enabled: bool = True) -> setting:
    """Within it, every operation runs at once with its NumPy reference (or, if False, does not)."""
    if enabled and LOCAL.state.nodes:
        flush("reference mode")
    return setting(reference=enabled)
