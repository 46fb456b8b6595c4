"""The live graph: nodes, the values people compute."""

from __future__ import annotations

import linecache
import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any

from livegrad.native.hot import hot, hot_slots

if TYPE_CHECKING:
    from livegrad.graph.meta import Meta
    from livegrad.graph.op import Op

# A place in the user's program: a code object and an instruction in it, turned into a line late.
Site = tuple[CodeType, int]


@hot_slots
class Spec:
    """What every node of one structure shares: operation, structural attributes, meta.

    `floats` says that all args are passed as floats, `grad` is True if gradients flow through such
    nodes, else None; `flows` are the inputs that have a gradient rule (filled in when a gradient
    first comes by), `spares` says which of their rules read no value (filled in when a graph is
    spent). `plain` is the spec of the same operation on contiguous values, which is what
    plans are made of; None if this is one.

    `family` is what nodes that are run piece by piece have in common with those of other sizes
    (runtime/cpu/pieces); `refused` says, of a recorded backward pass, that it is not run so. `text`
    says the same in every process, once somebody has asked (runtime/structure.py). `alone` is how
    such a node is run as soon as it is recorded, or how often that was wished for
    (runtime/alone.py).
    """

    __slots__ = (
        "alone",
        "attrs",
        "family",
        "floats",
        "flows",
        "grad",
        "meta",
        "op",
        "plain",
        "refused",
        "spares",
        "text",
    )

    @hot
    def __init__(self, op: Op, attrs: tuple[Any, ...], meta: Meta) -> None:
        self.op = op
        self.attrs = attrs
        self.meta = meta
        self.floats = False
        self.grad: bool | None = None
        self.flows: tuple[int, ...] | None = None
        self.spares: tuple[bool, ...] | None = None
        self.plain: Spec | None = None
        self.family: Any = None
        self.refused = False
        self.text: str | None = None
        self.alone: Any = None


@hot_slots
@dataclass(eq=False, repr=False, init=False, slots=True, weakref_slot=True)
class Node:
    """An immutable value in the live graph.

        inputs ──► node ──► consumers          node.buffer is None until a flush computes it

    Invariants:
    - `inputs` are nodes recorded earlier; they are dropped once the value exists and no gradient
      can be asked for, so a long loop keeps nothing alive.
    - `index` tells the place among the pending nodes of a thread, see `State`; -1 for a leaf.
    - `args` are run-time numbers (scalars, slice bounds, seeds): never part of a plan's key.
    - `grad_to` is None (no gradient flows here), True (it flows on to the inputs), a weak
      reference to the leaf tensor that receives it, or an `Interior`: like True, with hooks or a
      gradient rule of this node's own.
    - `spent` says that a backward has walked this node and gives up its claim on values; a node
      recorded in inference mode never has one.
    - `walked` stands for the backward pass that came by last: walks meet many nodes twice.
    - `cut` says why the inputs are gone although a gradient was wanted: (site of the backward that
      spent the graph, site of the update that overwrote a value it needs).
    """

    spec: Spec
    meta: Meta
    inputs: tuple[Node, ...]
    args: tuple[Any, ...]
    grad_to: bool | LeafRef | Interior | None
    buffer: Any
    site: Site | None
    index: int
    spent: bool
    walked: Any
    cut: tuple[Site | None, Site | None] | None

    @property
    def op(self) -> Op:
        """The operation that makes this value."""
        return self.spec.op

    @property
    def attrs(self) -> tuple[Any, ...]:
        """Structural attributes (dims, dtypes): part of the plan's key."""
        return self.spec.attrs

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient may flow through this value."""
        return self.grad_to is not None

    @property
    def interior(self) -> bool:
        """Whether a gradient that comes here flows on: neither a leaf nor constant."""
        return self.grad_to is not None and not isinstance(self.grad_to, weakref.ref)

    def __repr__(self) -> str:
        state = "computed" if self.buffer is not None else "pending"
        return f"<{self.spec.op.name} {self.meta} {state} at {describe_site(self.site)}>"


class LeafRef(weakref.ref[Any]):
    """`grad_to` of a leaf: a weak reference to the tensor that receives the gradient.

    `hooks` are those of the tensor, for which its gradient is still computed when it is gone. One
    that hooks are to see with its gradient is not gone while there is a graph of it: it is `held`.
    """

    __slots__ = ("held", "hooks")

    def __init__(self, tensor: Any) -> None:
        self.hooks: dict[int, Callable[[Any], Any]] | None = None
        self.held: Any = None


def leaf_ref(tensor: Any) -> LeafRef:
    """The one reference to a leaf by which all nodes that were its value know it."""
    for known in weakref.getweakrefs(tensor):
        if type(known) is LeafRef:
            return known
    made = LeafRef(tensor)
    made.hooks = tensor.__dict__.get("_hooks")
    made.held = tensor if tensor.__dict__.get("_post_hooks") else None
    return made


class Interior:
    """`grad_to` of an interior node about which more is to be said than that a gradient flows on.

    - `hooks` run, in order, when the gradient of the node is complete; `retained` are the tensors
      (weakly) whose `.grad` it becomes.
    - `edges` and `pull` replace inputs and gradient rule: `pull(g)` gives (node, gradient) pairs
      for some of the nodes in `edges`. `livegrad.autograd.Function` is made of these.
    - `after` are hooks on the gradients that the node gives to its inputs; `metadata` are notes of
      the user's. See autograd/grad_fn.py.
    - `stands_in` says that the node is a value that was written without history where that of its
      one edge is gone: see `place_of`.
    """

    __slots__ = ("after", "edges", "hooks", "metadata", "pull", "retained", "stands_in")

    def __init__(
        self, edges: tuple[Node, ...] | None = None, pull: Callable[..., Any] | None = None
    ) -> None:
        CYCLES.are_possible = CYCLES.are_possible or pull is not None
        self.edges = edges
        self.pull = pull
        self.hooks: dict[int, Callable[[Any], Any]] = {}
        self.retained: list[weakref.ref[Any]] = []
        self.after: dict[int, Callable[[Any, Any], Any]] = {}
        self.metadata: dict[tuple[int, ...], dict[str, Any]] | None = None
        self.stands_in = False


def to_place(place: Node) -> Interior:
    """Of a value without history that stands where `place` does in the graph."""
    to = Interior((place,), lambda g: [(place, g)])
    to.stands_in = True
    return to


def to_nowhere() -> Interior:
    """Of a node that requires a gradient, which goes no further."""
    return Interior((), lambda g: ())


@hot
def is_in_vain(to: Any) -> bool:
    """Whether a gradient is wanted, but nobody is there to receive it."""
    return isinstance(to, weakref.ref) and to() is None


@hot_slots
class Cycles:
    """Whether a graph may refer to itself: through what a program has hung on its nodes.

    As long as that is nothing, Python's garbage collector need not look at them. Those that were
    recorded before stay out of its sight.
    """

    __slots__ = ("are_possible",)

    def __init__(self) -> None:
        self.are_possible = False


CYCLES = Cycles()


@hot
def place_of(node: Node) -> Node:
    """The node that is a tensor's place in backward: writes without history change values only.

    Gradients of what was computed before such a write and after it meet there.
    """
    while True:
        to: Any = node.grad_to
        if type(to) is Interior and to.stands_in:
            edges: Any = to.edges
            node = edges[0]
        elif node.spec.op.name == "altered" and node.inputs:
            node = node.inputs[0]
        else:
            return node


def site_location(site: Site | None) -> tuple[str, int]:
    """File name and line number of a site."""
    if site is None:
        return "<unknown>", 0
    code, instruction = site
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            return code.co_filename, line
    return code.co_filename, code.co_firstlineno


def describe_site(site: Site | None) -> str:
    """`file.py:12` for people."""
    name, line = site_location(site)
    return f"{os.path.basename(name)}:{line}" if line else "<unknown>"


def quote_site(site: Site | None) -> str:
    """`path/file.py:12: source text` for error messages."""
    name, line = site_location(site)
    if not line:
        return "<unknown>"
    text = linecache.getline(name, line).strip()
    return f"{name}:{line}: {text}" if text else f"{name}:{line}"
