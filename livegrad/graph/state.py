"""What is particular to a thread: pending nodes, gradient mode, the site to blame nodes on."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from livegrad.dtypes import DType
from livegrad.graph.node import Node, Site
from livegrad.native.hot import hot_slots

# A loop that never reads a value is flushed when this many nodes, or this many bytes of data held
# by pending nodes, have gathered.
MOST_PENDING_NODES = 8192
MOST_PENDING_BYTES = 1 << 28

# Numbers states, so that nodes of two threads never have the same index.
_states = itertools.count(1)

REFERENCE = os.environ.get("LIVEGRAD_MODE", "") == "reference"


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

    `written` has, for nodes that in-place writes made, the node whose place each took: a write that
    fails is taken back.

    More pending nodes than `limit` are a reason to flush, but not while `held`: then they are the
    planner's, or belong together. It is -1 once something was recorded that reads memory which
    somebody else may write: that has to be computed at once.
    """

    __slots__ = (
        "base",
        "bytes",
        "caster",
        "grad",
        "handles",
        "held",
        "inference",
        "limit",
        "nodes",
        "reference",
        "site",
        "written",
    )

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Sets everything as it is at the start."""
        self.nodes: list[Node] = []
        self.handles: list[Any] = []
        self.base = next(_states) << 40
        self.bytes = 0
        self.caster: Callable[[str, Any], Any] | None = None
        self.grad = True
        self.held = False
        self.inference = False
        self.limit = MOST_PENDING_NODES
        self.reference = REFERENCE
        self.site: Site | None = None
        self.written: dict[Node, Node] = {}


class _Local(threading.local):
    """`state` is one object per thread for good: translated functions remember it.

    `trace`, if there is one, answers for flushes: a function transform records nodes that cannot
    be computed yet; see func/trace.py.
    """

    state: State
    trace: Any = None

    def __init__(self) -> None:
        self.state = State()


LOCAL = _Local()


@contextmanager
def scratch_state() -> Iterator[State]:
    """Within it, the thread records from the start; what was pending waits until it is over."""
    state = LOCAL.state
    outer = [(name, getattr(state, name)) for name in State.__slots__]
    state.begin()
    try:
        yield state
    finally:
        for name, value in outer:
            setattr(state, name, value)


class Runtime:
    """Hooks the runtime fills in, so that the graph does not import it."""

    # flush(reason, roots): computes everything pending that is alive, and `roots` in any case.
    flush: Callable[[str, tuple[Node, ...]], None]
    # evaluate(node): runs one node with its NumPy reference.
    evaluate: Callable[[Node], None]
    # finder(dtype): the address of native code that looks at integers; see ops/checking.py.
    finder: Callable[[DType], int]
    # number_at(node, place): an integer of a computed node.
    number_at: Callable[[Node, int], int]


def flush(reason: str, *roots: Node) -> None:
    """Computes everything pending that is still alive, and `roots` in any case."""
    if LOCAL.trace is None:
        Runtime.flush(reason, roots)
    else:
        LOCAL.trace.flush(reason, roots)


@contextmanager
def reference_mode(enabled: bool = True) -> Iterator[None]:
    """Within it, every operation runs at once with its NumPy reference (or, if False, does not)."""
    state = LOCAL.state
    before = state.reference
    if enabled and state.nodes:
        flush("reference mode")
    state.reference = enabled
    try:
        yield
    finally:
        state.reference = before
