"""backward() on a graph that is still pending: recorded as one node, walked when it is planned.

The usual training step calls backward before anything was computed. Then no rule needs to run now:
GRADIENT is recorded, with one GRADIENT_OF per leaf, and the planner applies the rules when it meets
the step's structure for the first time. Whatever is unusual (hooks, a value that was read already,
a composite without rules) is left to the ordinary walk in `reverse`.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from livegrad.autograd.reverse import reverse
from livegrad.graph import spent
from livegrad.graph.node import Node, Spec
from livegrad.graph.record import append, node_of, rebind, user_site
from livegrad.graph.state import LOCAL
from livegrad.native.hot import hot, hot_slots
from livegrad.ops import elementwise as ew
from livegrad.ops.generate import filled
from livegrad.ops.gradient import GRADIENT, GRADIENT_OF

Tensor = Any


@hot_slots
class Walk:
    """Nodes that a gradient reaches, in the order found, and the way as a hashable value."""

    __slots__ = ("interior", "leaves", "way")

    def __init__(self) -> None:
        self.interior: list[Node] = []
        self.leaves: list[Node] = []
        self.way: list[int] = []


@hot
def walk(root: Node) -> Walk | None:
    """The way of a gradient down from a pending `root`; None if it is not a plain one."""
    found = Walk()
    interior, leaves, way = found.interior, found.leaves, found.way
    seen = {root}
    interior.append(root)
    for node in interior:  # grows while it is walked
        spec = node.spec
        if node.grad_to is not True or node.buffer is not None or node.cut is not None:
            return None
        flows = spec.flows
        if flows is None:
            flows = spec.flows = _flows(spec, len(node.inputs))
        if not flows:
            return None
        inputs = node.inputs
        for i in flows:
            x = inputs[i]
            to = x.grad_to
            if to is None:
                way.append(0)
            elif x in seen:
                way.append(1)
            else:
                seen.add(x)
                way.append(2)
                if type(to) is ref:
                    leaves.append(x)
                else:
                    interior.append(x)
    return found


def _flows(spec: Spec, inputs: int) -> tuple[int, ...]:
    """The inputs that have a gradient rule; none if the ordinary walk must go this way: through
    a composite differentiated by parts, or to a rule that may raise."""
    rules: Any = spec.op.grads
    if rules is None:
        return ()
    if spec.op.kind == "elementwise":  # rules are per operand, some of which are numbers
        pattern = spec.attrs[1]
        rules = [r for r, letter in zip(rules, pattern, strict=True) if letter == "t"]
    if any([getattr(rules[i], "may_refuse", False) for i in range(inputs)]):
        return ()
    return tuple([i for i in range(inputs) if rules[i] is not None])


@hot
def backward(output: Tensor, retain_graph: bool) -> bool:
    """Records the backward pass of `output` in a few nodes; False: the ordinary walk must do it."""
    root = node_of(output)
    state = LOCAL.state
    meta = root.meta
    if meta.numel != 1 or meta.dtype.is_complex or root.grad_to is not True or state.reference:
        return False
    way = walk(root)
    if way is None:
        return False
    tensors = [node.grad_to() for node in way.leaves]  # type: ignore[misc, operator]
    for x in tensors:
        if x is not None and (x._hooks is not None or x._post_hooks is not None):
            return False
    outer = state.grad, state.site
    state.grad, state.site, state.held = False, user_site(), True
    try:
        _record(root, way, tensors)
        if not retain_graph:
            spent.mark(way.interior, state.site, False)
    finally:
        state.grad, state.site = outer
        state.held = False
    return True


@hot
def _record(root: Node, way: Walk, tensors: list[Any]) -> None:
    attrs = tuple(way.way)
    key = (root.meta, attrs)
    spec = GRADIENT.cache.get(key)
    if spec is None:
        spec = GRADIENT.remember(key, attrs, (root.meta,), root.meta)
    inputs = (append(spec, (root,), (), None)._node,)
    known = GRADIENT_OF.cache
    for number, tensor in enumerate(tensors):
        if tensor is None:
            continue
        meta = way.leaves[number].meta
        spec = known.get((meta, number))
        if spec is None:
            spec = GRADIENT_OF.remember((meta, number), (number,), (meta,), meta)
        g = append(spec, inputs, (), None)
        before = tensor.grad
        if before is None:
            tensor._grad = g
        else:
            rebind(before, ew.add(before, g))


def expand(n: Any, root: Tensor) -> list[Tensor]:
    """The gradients of the leaves below `root`, in the order of the walk: GRADIENT's rule."""
    node = node_of(root)
    way = walk(node)
    assert way is not None, "what was walked when it was recorded is walked again"
    _, arrived = reverse([(node, filled(node.meta.shape, 1, node.meta.dtype))], False)
    found = dict(arrived)
    return [
        found[leaf] if leaf in found else filled(leaf.meta.shape, 0, leaf.meta.dtype)
        for leaf in way.leaves
    ]


GRADIENT.expand = expand
