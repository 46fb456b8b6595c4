"""Replay: what a function recorded on one example, recorded again for all of them.

    traced       placeholder ─► node ─► node ─► y                 shapes of one example
                      │          │       │      │
    replayed          x ───────► node ─► node ─► (size, *y)        one more dim, in front

Nodes that depend on no placeholder are the same for all examples and taken over as they are. The
others are recorded by their batching rule. A node whose gradient is written by hand (a custom
Function, a composite with rules of its own that had to be expanded) keeps it: the gradient for
all examples is that rule, traced and replayed in its turn.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from weakref import ref

from livegrad.autograd.reverse import through_rules
from livegrad.func.batching import find_rule, one_by_one
from livegrad.func.trace import Trace
from livegrad.graph.handle import node_of, wrap
from livegrad.graph.meta import meta_of
from livegrad.graph.node import Interior, Node, Spec
from livegrad.graph.record import record
from livegrad.graph.state import LOCAL, Runtime, setting
from livegrad.ops.elementwise.arithmetic import clone
from livegrad.ops.reductions.reduce import SUM
from livegrad.ops.shaping.movement import aligned, expanded
from livegrad.random import default_generator

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

# Ops that draw random numbers: the last two args are a seed and an offset. Composites that draw
# do it through these, or say how many (`Op.draws`).
PER_ELEMENT = frozenset(
    "rand randn randint randint_wide random_bits poisson binomial standard_gamma von_mises".split()
)
RANDOM = PER_ELEMENT | {"multinomial"}


def _drawn(node: Node) -> int:
    """How many numbers one example draws, at most."""
    if node.op.draws is not None:
        return node.op.draws(node)
    return max(node.meta.numel, *[x.meta.numel for x in node.inputs], 1)


class Replay:
    """Traced nodes as they are for `size` examples.

    `values` are tensors, through which the program sees what is recorded here; `nodes` the same as
    nodes, for gradients that come later. `known` are nodes of an earlier replay.
    """

    def __init__(self, size: int, randomness: str) -> None:
        self.size = size
        self.randomness = randomness
        self.values: dict[Node, Tensor] = {}
        self.nodes: dict[Node, Node] = {}
        self.known: dict[Node, Node] = {}
        self.junctions: dict[Node, Node] = {}
        # What is drawn for all examples instead of (seed, offset), again and again the same.
        self.drawn: dict[tuple[int, int], tuple[int, int]] = {}
        # Nodes that are the same for all examples, and are pending for the program now.
        self.taken: set[Node] = set()
        # Through what the program can see the nodes of the trace that is being replayed.
        self.handles: dict[Node, Any] = {}

    def bind(self, node: Node, value: Tensor) -> None:
        """Says what a traced node is for all examples."""
        self.values[node] = value
        self.nodes[node] = node_of(value)

    def batched(self, node: Node) -> Tensor | None:
        """A traced node for all examples; None if it is the same for all."""
        found = self.values.get(node)
        if found is None:
            earlier = self.known.get(node)
            return None if earlier is None else wrap(earlier)
        return found

    def all_of(self, node: Node) -> Tensor:
        """A traced node for all examples, repeated if it is the same for all."""
        found = self.batched(node)
        if found is not None:
            return found
        return expanded(wrap(node), (self.size, *node.meta.shape))

    # ---- running through a trace -----------------------------------------------------------

    def run(self, trace: Trace, roots: list[Node]) -> None:
        """Records what `roots` need, in the order of the trace."""
        handles, self.handles = self.handles, dict(zip(trace.nodes, trace.handles, strict=True))
        needed = self._needed(trace, roots)
        state = LOCAL.state
        outer = state.site, state.held, state.grad, state.caster
        state.held, state.caster = True, None  # casts have been recorded
        try:
            for node in trace.nodes:
                if node in needed and node not in self.values and node not in self.taken:
                    state.site = node.site
                    state.grad = outer[2] and node.grad_to is not None
                    self._replay(node)
        finally:
            state.site, state.held, state.grad, state.caster = outer
            self.handles = handles

    def _needed(self, trace: Trace, roots: list[Node]) -> set[Node]:
        own = set(trace.nodes)
        needed: set[Node] = set()
        todo = list(roots)
        while todo:
            node = todo.pop()
            if node in own and node not in needed:
                needed.add(node)
                todo += node.inputs
        return needed

    def _replay(self, node: Node) -> None:
        found = [self.batched(x) for x in node.inputs]
        batched = tuple([x is not None for x in found])
        random = node.op.name in RANDOM or (node.op.draws is not None and node.op.draws(node) > 0)
        if random:
            self._check_random(node)
        if not any(batched) and not (random and self.randomness == "different"):
            self._take(node)
            return
        xs = [wrap(x) if y is None else y for x, y in zip(node.inputs, found, strict=True)]
        if random:
            y = self._draw(node, xs, batched)
        else:
            y = self._batched(node, xs, batched)
        meta = node_of(y).meta
        if meta.shape != (self.size, *node.meta.shape) or meta.dtype is not node.meta.dtype:
            raise AssertionError(
                f"batching {node.op.name} gave {meta}, not {self.size} {node.meta}"
            )
        self.bind(node, y)

    def _take(self, node: Node) -> None:
        """Makes a node that is the same for all examples pending for the program."""
        self.taken.add(node)
        if node.buffer is not None:
            return
        state = LOCAL.state
        if state.reference:
            Runtime.evaluate(node)
            return
        handle = self.handles.pop(node, None)
        node.index = state.base + len(state.nodes)
        state.nodes.append(node)
        state.handles.append(wrap(node) if handle is None else handle)

    # ---- one node ------------------------------------------------------------------------

    def _batched(self, node: Node, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
        to = node.grad_to
        if isinstance(to, Interior) and to.pull is not None:
            return self._with_pull(self._value(node, xs, batched), to, None)
        rule = find_rule(node)
        y = NotImplemented if rule is None else rule(node, self.size, xs, batched)
        if y is not NotImplemented:
            done: Tensor = y
            return done
        flows = to is not None
        if not flows or node.op.kind != "composite" or node.op.grads is None:
            return self._without_rule(node, xs, batched, flows)
        y = self._without_rule(node, xs, batched, False)
        return self._with_pull(y, Interior(node.inputs, _rules_of(node)), node)

    def _value(self, node: Node, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
        """The value of a node, by its rule or without, and no gradient of it."""
        with setting(grad=False):
            rule = find_rule(node)
            y = NotImplemented if rule is None else rule(node, self.size, xs, batched)
            return y if y is not NotImplemented else self._without_rule(node, xs, batched, False)

    def _without_rule(
        self, node: Node, xs: list[Tensor], batched: tuple[bool, ...], flows: bool
    ) -> Tensor:
        """A composite is expanded, and that is replayed; others are done one by one."""
        if node.op.kind in ("update", "gradient", "gradient_of"):
            raise RuntimeError(f"vmap: {node.op.name} is not possible for many examples at once")
        if node.op.kind != "composite":
            return one_by_one(node, self.size, xs, batched)
        with Trace() as trace:
            LOCAL.state.site, LOCAL.state.grad = node.site, flows
            assert node.op.expand is not None
            y = node_of(node.op.expand(node, *[wrap(x) for x in node.inputs]))
        with setting(grad=flows and LOCAL.state.grad):
            self.run(trace, [y])
        return self.all_of(y)

    # ---- random numbers --------------------------------------------------------------------

    def _check_random(self, node: Node) -> None:
        if self.randomness == "error":
            raise RuntimeError(
                f"vmap: called random operation {node.op.name} while in randomness error mode. "
                "Please either use the 'same' or 'different' randomness flags on vmap or perform "
                "the randomness operation out of vmap"
            )

    def _draw(self, node: Node, xs: list[Tensor], batched: tuple[bool, ...]) -> Tensor:
        """Numbers of their own for each example, or the same ones for all."""
        if self.randomness == "same":
            return one_by_one(node, self.size, xs, batched)
        *numbers, seed, offset = node.args
        found = self.drawn.get((seed, offset))
        if found is None:
            found = self.drawn[seed, offset] = default_generator.draw(_drawn(node) * self.size)
        if node.op.draws is not None:
            if not any(batched):
                xs[0], batched = expanded(xs[0], (self.size, *xs[0].shape)), (True, *batched[1:])
            told = SimpleNamespace(
                op=node.op, attrs=node.attrs, args=(*numbers, *found), inputs=node.inputs
            )
            rule = find_rule(node)
            assert rule is not None
            y: Tensor = rule(told, self.size, xs, batched)
            return y
        if node.op.name in PER_ELEMENT:
            operands = [
                aligned(x, node.meta.ndim) if b else x for x, b in zip(xs, batched, strict=True)
            ]
            if operands:
                operands[0] = expanded(operands[0], (self.size, *node.meta.shape))
            shape = None if operands else (self.size, *node.meta.shape)
            return record(node.op, operands, node.attrs, (*numbers, *found), shape)
        args = [(*numbers, found[0], found[1] + i * _drawn(node)) for i in range(self.size)]
        return one_by_one(node, self.size, xs, batched, args)

    # ---- gradients written by hand ---------------------------------------------------------

    def _with_pull(self, y: Tensor, to: Interior, ruled: Node | None) -> Tensor:
        """`y` with a gradient that is `to.pull`, done for all examples.

        `ruled` is the node whose rules that are; they read it and its inputs, and nothing else.
        """
        edges = {x: self._edge(x) for x in to.edges or ()}
        flows = LOCAL.state.grad and any(x.grad_to is not None for x in edges.values())
        with setting(grad=False):
            y = clone(y)
        if flows:
            pull = self._pull(to, edges, y._node, ruled)
            y._node.grad_to = Interior(tuple(edges.values()), pull)
        return y

    def _edge(self, node: Node) -> Node:
        """The node to which a gradient for all examples goes instead of to a traced one."""
        found = self.batched(node)
        if found is not None:
            return node_of(found)
        to = node.grad_to
        if node.index != -1 or not isinstance(to, Interior) or to.pull is None or not to.edges:
            return node
        made = self.junctions.get(node)
        if made is None:
            made = self.junctions[node] = _junction(node)
            edges = {x: self._edge(x) for x in to.edges}
            made.inputs = tuple(edges.values())
            if any(x.grad_to is not None for x in made.inputs):
                made.grad_to = Interior(made.inputs, self._pull(to, edges, made, None))
        return made

    def _pull(self, to: Interior, edges: dict[Node, Node], made: Node, ruled: Node | None) -> Any:
        """A pull that runs `to.pull` on one example and replays it."""
        size, randomness, drawn = self.size, self.randomness, self.drawn
        if ruled is None:
            known = self.nodes if not self.known else {**self.known, **self.nodes}
        else:
            known = {x: edges[x] for x in ruled.inputs if self.batched(x) is not None}
        # Not the node itself, whose gradient this is: that would be a circle.
        itself = ref(made)

        def pull(g: Any) -> list[tuple[Node, Any]]:
            assert to.pull is not None
            replay = Replay(size, randomness)
            replay.drawn = drawn
            y = itself()
            replay.known = known if ruled is None or y is None else {**known, ruled: y}
            with Trace() as trace:
                pairs = list(to.pull(replay.enter(trace, g)))
            tensors = [t for _, gx in pairs for t in (gx.values() if type(gx) is dict else [gx])]
            replay.run(trace, [node_of(t) for t in tensors])
            return [(edges[x], replay.leave(edges[x], gx)) for x, gx in pairs]

        return pull

    def enter(self, trace: Trace, g: Any) -> Any:
        """Placeholders of one example for gradients of all."""
        if type(g) is dict:
            return {place: self.enter(trace, each) for place, each in g.items()}
        meta = node_of(g).meta
        shape, flows = meta.shape[1:], node_of(g).grad_to is not None
        inner = trace.placeholder(meta_of(shape, meta.dtype), flows)
        self.bind(node_of(inner), g)
        return inner

    def leave(self, to: Node, g: Any) -> Any:
        """The gradient of all examples; their sum for what is the same for all."""
        if type(g) is dict:
            return {place: self.all_of(node_of(each)) for place, each in g.items()}
        found = self.all_of(node_of(g))
        if node_of(found).meta.ndim == to.meta.ndim:
            return found
        return record(SUM, (found,), ((0,), False))


def _rules_of(node: Node) -> Any:
    """The gradient rules of an op as a pull."""

    def pull(g: Tensor) -> list[tuple[Node, Tensor]]:
        grads: dict[Node, Tensor] = {}
        through_rules(node, g, None, grads)
        return list(grads.items())

    return pull


def _junction(like: Node) -> Node:
    """A node outside of all computation; see autograd/function.py."""
    node = object.__new__(Node)
    node.meta = like.meta
    node.spec = Spec(like.op, like.attrs, like.meta)
    node.inputs, node.args = (), ()
    node.grad_to = node.buffer = node.cut = node.walked = None
    node.spent = False
    node.index = -1
    node.site = like.site
    return node
