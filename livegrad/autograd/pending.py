"""backward() on a graph that is still pending: recorded as one node, walked when it is planned.

The usual training step calls backward before anything was computed. Then no rule needs to run now:
GRADIENT is recorded, with one GRADIENT_OF per leaf, and the planner applies the rules when it meets
the step's structure for the first time. Whatever is unusual (hooks, a composite without rules, a
value that was read already and whose structure repeats) is left to the ordinary walk in `reverse`.

GRADIENT's attrs are the way the walk went, as bytes. The planner goes that way again and asks no
node whether it needs a gradient: hooks and flags that were set after `backward` are for later
passes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from livegrad.autograd.holding import add_in_place, in_shape_of
from livegrad.autograd.reverse import added, reverse, spent_error, through_rules
from livegrad.device import CPU
from livegrad.graph import spent
from livegrad.graph.handle import node_of
from livegrad.graph.layout import is_dense
from livegrad.graph.meta import Meta
from livegrad.graph.node import LeafRef, Node, Spec
from livegrad.graph.op import Op, flows_of
from livegrad.graph.record import append
from livegrad.graph.site import user_site
from livegrad.graph.state import LOCAL, STATES, Runtime, lock_gradients, unlock_gradients
from livegrad.native.calls import fetch_items, fetch_slot
from livegrad.native.hot import hot, hot_slots
from livegrad.native.layout import is_known, slot_offset
from livegrad.ops.making.generate import filled

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


_new = object.__new__

# What the walk met at an input: no gradient flows there, it was met before, it is a node from which
# the gradient flows on, it is a leaf.
NOTHING, AGAIN, INTERIOR, LEAF = range(4)


@hot_slots
class Walk:
    """Nodes that a gradient reaches, in the order found, and the way as a hashable value.

    `computed` says that some of them have their values already.
    """

    __slots__ = ("computed", "interior", "leaves", "way")

    computed: bool
    interior: list[Node]
    leaves: list[Node]
    way: list[int]


class Passing:
    """Stands for one walk, on the nodes that it has met."""

    __slots__ = ()


@hot
def _new_walk() -> Walk:
    walk = _new(Walk)
    walk.computed = False
    walk.interior = []
    walk.leaves = []
    walk.way = []
    return walk


# Graphs are larger than the processor's caches, and are walked in breadth: what a node refers to is
# fetched some nodes before it comes.
_AHEAD = 6
_INPUTS = slot_offset(Node, "inputs") if is_known() else 0


@hot
def walk(root: Node, over_values: bool) -> Walk | None:
    """The way of a gradient down from `root`; None if it is not a plain one.

    It goes over nodes that are pending, or also `over_values` that are there already.
    """
    found = _new_walk()
    interior, leaves, way = found.interior, found.leaves, found.way
    # Nodes of a graph say themselves whether they were met, unless another thread may walk there.
    alone = len(STATES) == 1
    passing = _new(Passing)
    met = {root}
    root.walked = passing
    interior.append(root)
    place = _AHEAD
    for node in interior:  # grows while it is walked
        place += 1
        if place < len(interior):
            fetch_items(interior[place], _INPUTS)
        spec = node.spec
        if node.grad_to is not True or node.cut is not None:
            return None
        if node.buffer is not None:
            if not over_values:
                return None
            found.computed = True
        flows = spec.flows
        if flows is None:
            flows = spec.flows = flows_of(spec, len(node.inputs))
            if spec.plain is not None:  # plans are made of plain specs
                spec.plain.flows = flows
        if not flows:
            return None
        inputs = node.inputs
        for k in range(len(flows)):
            x = inputs[flows[k] + 0]
            to = x.grad_to
            if to is None:
                way.append(NOTHING)
            elif type(to) is LeafRef:
                if x in met:
                    way.append(AGAIN)
                else:
                    met.add(x)
                    way.append(LEAF)
                    leaves.append(x)
            elif (alone and x.walked is passing) or (not alone and x in met):
                way.append(AGAIN)
            else:
                if alone:
                    x.walked = passing
                else:
                    met.add(x)
                way.append(INTERIOR)
                interior.append(x)
                fetch_slot(x, _INPUTS)
    return found


@hot
def backward(output: Tensor, retain_graph: bool) -> bool:
    """Records the backward pass of `output` in a few nodes; False: the ordinary walk must do it."""
    root = node_of(output)
    state = LOCAL.state
    meta = root.meta
    if meta.numel != 1 or meta.dtype.is_complex or root.grad_to is not True or state.reference:
        return False
    if meta.device is not CPU:
        return False
    way = walk(root, Runtime.by_pieces)
    if way is None or (way.computed and _is_refused(root, way)):
        return False
    tensors: list[Any] = []
    held = _new(Held)
    held.interior = way.interior
    held.leaves = []
    held.ids = []
    for node in way.leaves:
        to: Any = node.grad_to
        x = to()
        if to.hooks is not None or (x is not None and x._post_hooks is not None):
            return False
        tensors.append(x)
        held.leaves.append(to)
        held.ids.append(id(node))
    outer = state.grad, state.site, state.held
    site = user_site()
    try:
        state.grad, state.site, state.held = False, site, True
        lock_gradients()
        _record(root, way, tensors, held)
        if not retain_graph:
            spent.mark(way.interior, site, False)
    finally:
        state.grad, state.site, state.held = outer
        unlock_gradients()
    return True


@hot
def _is_refused(root: Node, way: Walk) -> bool:
    """Whether a walk over values is none that can be run piece by piece, or not well: a plan of it
    would compute the values once more."""
    spec = GRADIENT.cache.get((root.meta, bytes(way.way)))
    return spec is not None and spec.refused is True


class Ways:
    """The ways that GRADIENT has a spec for, the oldest first. They are long: few are kept."""

    keys: ClassVar[deque[Any]] = deque()
    nbytes = 0
    most = 1 << 25

    @classmethod
    def remember(cls, meta: Meta, way: bytes) -> Spec:
        """A spec for a way that has none."""
        spec = GRADIENT.remember((meta, way), (way,), (meta,), meta)
        cls.keys.append((meta, way))
        cls.nbytes += len(way)
        while cls.nbytes > cls.most and len(cls.keys) > 1:
            key = cls.keys.popleft()
            cls.nbytes -= len(key[1])
            GRADIENT.cache.pop(key, None)
        return spec


@hot_slots
class Held:
    """What is held of a walk until the flush, which need not walk again: its interior.

    Leaves are not: an update that comes next is to overwrite what nobody else sees. Their tensors
    are asked for them, whose nodes may be others by then; as long as the interior lives, so do
    those with these `ids`.
    """

    __slots__ = ("ids", "interior", "leaves")

    ids: list[int]
    interior: list[Node]
    leaves: list[LeafRef]


@hot
def _record(root: Node, way: Walk, tensors: list[Any], held: Held) -> None:
    steps = bytes(way.way)
    spec = GRADIENT.cache.get((root.meta, steps))
    if spec is None:
        spec = Ways.remember(root.meta, steps)
    gradient = append(spec, (root,), (), None)._node
    LOCAL.state.walks[gradient] = held
    inputs = (gradient,)
    known = GRADIENT_OF.cache
    reshaped: list[Any] = []  # come last: they may be refused, and others have theirs then
    for number, tensor in enumerate(tensors):
        if tensor is None or tensor._node.grad_to is None:
            continue  # it is gone, or collects no gradient any more
        meta = way.leaves[number].meta
        spec = known.get((meta, number))
        if spec is None:
            laid_out = meta
            if meta.strides is not None and not is_dense(meta.shape, meta.strides):
                laid_out = meta.plain
            spec = GRADIENT_OF.remember((meta, number), (number,), (meta,), laid_out)
        g = append(spec, inputs, (), None)
        before = tensor._grad
        if before is not None:
            _add_to(tensor, before, g)
        elif tensor._node.meta is not meta:
            reshaped.append((tensor, g))
        else:
            tensor._grad = g
    for tensor, g in reshaped:
        tensor._grad = in_shape_of(tensor, g)


def _add_to(tensor: Tensor, before: Tensor, g: Tensor) -> None:
    """Adds a gradient to the one that a leaf has, in place unless that is sparse."""
    if before.is_sparse:
        tensor._grad = added(before, g)
    else:
        add_in_place(before, g)


def recorded_walk(gradient: Node) -> Walk:
    """The walk of a recorded backward pass, whose graph may have been copied since."""
    root = gradient.inputs[0]
    held: Held | None = LOCAL.state.walks.get(gradient)
    if held is None or held.interior[0] is not root:
        return walk_again(root, gradient.attrs)
    found = _new_walk()
    found.interior = held.interior
    found.leaves = [x._node for x in [leaf() for leaf in held.leaves] if x is not None]
    if [id(node) for node in found.leaves] != held.ids:
        return walk_again(root, gradient.attrs)
    return found


def walk_again(root: Node, attrs: Sequence[Any]) -> Walk:
    """The nodes that a recorded walk went over, whatever they say about gradients by now."""
    found = _new_walk()
    steps = iter(attrs[0])
    found.interior.append(root)
    for node in found.interior:  # grows while it is walked
        if node.cut is not None:
            raise spent_error(*node.cut)
        flows = node.spec.flows
        assert flows is not None, "a spec that was walked over knows where gradients flow"
        for i in flows:
            step = next(steps)
            if step == INTERIOR:
                found.interior.append(node.inputs[i])
            elif step == LEAF:
                found.leaves.append(node.inputs[i])
    return found


def expand(n: Any, root: Tensor) -> list[Tensor]:
    """The gradients of the leaves below `root`, in the order of the walk.

    The nodes are the planner's own copies. They say for the time of this walk what the recorded
    nodes said when they were walked.
    """
    node = node_of(root)
    found = walk_again(node, n.attrs)
    for x in found.interior:
        x.grad_to = True
    for x in found.leaves:
        x.grad_to = LeafRef(x)
    try:
        _, arrived = reverse([(node, filled(node.meta.shape, 1, node.meta.dtype))], False)
    finally:
        for x in found.interior + found.leaves:
            x.grad_to = None
    grads = dict(arrived)
    return [
        grads[leaf] if leaf in grads else filled(leaf.meta.shape, 0, leaf.meta.dtype)
        for leaf in found.leaves
    ]


def pull(n: Any, g: Tensor, *rest: Tensor) -> list[Tensor]:
    """The gradients of the inputs of one node, as far as they are wanted.

    The value that stands for the node, which is the planner's own, says for the time of this what
    the node says: rules ask it.
    """
    op, attrs, wanted = n.attrs
    *inputs, node = [node_of(x) for x in rest]
    for x, is_wanted in zip(inputs, wanted, strict=True):
        x.grad_to = True if is_wanted else None
    grads: dict[Node, Tensor] = {}
    before = node.spec
    node.spec, node.inputs, node.args = op.make_spec(attrs, node.meta), tuple(inputs), n.args
    try:
        through_rules(node, g, None, grads)
    finally:
        node.spec, node.inputs, node.args = before, (), ()
        for x in inputs:
            x.grad_to = None
    return [grads[x] for x, is_wanted in zip(inputs, wanted, strict=True) if is_wanted]


GRADIENT = Op(
    "gradient",
    "gradient",
    # Inputs (output,). attrs: how the walk went, a byte per input with a gradient rule, so that
    # equal attrs on equal graphs mean equal walks.
    infer=lambda metas, attrs, shape: metas[0],
    expand=expand,
)
PULL = Op(
    "pull",
    "gradient",
    # The gradient rule of one node by itself, for runtime/cpu/pieces: inputs (gradient, operands,
    # value), args the node's; attrs (its op, its attrs, whose gradients are wanted).
    infer=lambda metas, attrs, shape: metas[0],
    expand=pull,
)
GRADIENT_OF = Op(
    "gradient_of",
    "gradient_of",
    # One result of a GRADIENT: attrs (number of the leaf in the order of the walk,).
    infer=lambda metas, attrs, shape: metas[0],
)
