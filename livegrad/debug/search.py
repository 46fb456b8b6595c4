"""Where values that are not finite come from: forward through the graph, or in a backward pass.

    root ─► an input that is not finite? ──yes──► there, and again
                    │ no
                    ▼
            the operation that made it of finite values

An infinity that somebody put there (a mask of -inf) is no fault: what made a NaN of it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import isinf, isnan
from typing import Any, NamedTuple

from livegrad.autograd.reverse import reverse
from livegrad.debug.values import BACKWARD_OPS, Range, ancestors, copied, range_of, ranges
from livegrad.graph.node import LeafRef, Node
from livegrad.graph.state import flush, scratch_state
from livegrad.ops.making.generate import filled_as
from livegrad.runtime.values import array_of


class Found(NamedTuple):
    """The node that made a value which is not finite.

    `chain` leads from it to where that was seen; `put` is where an infinity in its inputs, which is
    no fault by itself, was put. In a backward pass, `gradient` is what came to the node.
    """

    node: Node
    how: str  # forward, backward, data
    chain: tuple[Node, ...]
    seen: dict[Node, Range]
    order: Sequence[Node]
    put: Node | None = None
    gradient: Range | None = None
    given: Range | None = None


def forward(root: Node, order: Sequence[Node], seen: dict[Node, Range]) -> Found:
    """The first operation to blame for what is in `root`."""
    chain = [root]
    node, put = root, None
    while True:
        following, put = _before(node, seen)
        if following is None:
            break
        node = following
        chain.append(node)
    given = not node.inputs and (node.op.kind == "leaf" or is_leaf_of_parameter(node))
    how = "data" if given else "forward"
    return Found(node, how, tuple(reversed(chain)), seen, order, put)


def _before(node: Node, seen: dict[Node, Range]) -> tuple[Node | None, Node | None]:
    """The input that a fault came with, if it did; else what put an infinity there on purpose."""
    inputs = [x for x in dict.fromkeys(node.inputs) if x in seen]
    broken = [x for x in inputs if seen[x].nan]
    if broken:
        return broken[0], None
    infinite = [x for x in inputs if seen[x].inf]
    put = None
    for x in infinite:
        way = _way(x, seen)
        if not _is_on_purpose(way[-1], seen) or any([_is_all(node, seen) for node in way]):
            return x, None
        put = way[-1]
    return None, put


def _way(node: Node, seen: dict[Node, Range]) -> list[Node]:
    """The nodes from one that is not finite to where that was made."""
    way = [node]
    while True:
        before = [x for x in node.inputs if x in seen and not seen[x].is_finite]
        if not before:
            return way
        node = before[0]
        way.append(node)


def _is_all(node: Node, seen: dict[Node, Range]) -> bool:
    """Whether a reduction found nothing but infinities: a mask that leaves nothing."""
    return any([x in seen and not seen[x].is_finite and x.meta.numel > node.meta.numel
                for x in node.inputs])  # fmt: skip


def _is_on_purpose(origin: Node, seen: dict[Node, Range]) -> bool:
    """Whether an infinity was put there: a constant, or data that has -inf alone, as masks do."""
    if any([isinstance(a, float) and (isinf(a) or isnan(a)) for a in origin.args]):
        return True
    if origin.inputs:
        return False
    found = seen[origin]
    return not found.nan and not found.above


class _Stop(Exception):
    """The walk has found what it looked for."""


def backward(root: Node, order: Sequence[Node], seen: dict[Node, Range]) -> Found | None:
    """The first rule of a backward pass from `root` that made something of finite gradients."""
    with scratch_state() as state:
        state.held = True
        copies: dict[Node, Any] = {}
        for node in order:
            if node.op.kind in BACKWARD_OPS or (
                node.buffer is not None and node.grad_to is not True
            ):
                continue
            copies[node] = copied(node, copies, None if node.grad_to is None else True)
        originals = {copy._node: node for node, copy in copies.items()}
        top = copies[root]._node
        flush("blame", *[copy._node for copy in copies.values()])
        for copy in originals:  # what has its value is the graph that is walked
            assert copy.buffer is not None
        known: dict[Node, Range] = {}
        found: list[tuple[Node, Range | None, Range]] = []

        def look(node: Node, gradients: Sequence[Any]) -> None:
            for x, g in zip(node.inputs, gradients, strict=True):
                if g is None:
                    continue
                flush("blame", g._node)
                known[x] = given = range_of(array_of(g._node), g._node.meta)
                if not given.is_finite:
                    found.append((node, known.get(node), given))
                    raise _Stop

        seed = filled_as(root.meta, 1)
        known[top] = Range(root.meta.shape, root.meta.dtype.name, low=1.0, high=1.0)
        with suppress(_Stop):
            reverse([(top, seed)], False, check=look)
        if not found:
            return None
        node, gradient, given = found[0]
        culprit = originals.get(node, node)
        path = _path(root, culprit)
        return Found(culprit, "backward", path, seen, order, None, gradient, given)


def _path(root: Node, target: Node) -> tuple[Node, ...]:
    """Nodes from `target` to `root`, the shortest way."""
    after: dict[Node, Node | None] = {root: None}
    for node in (todo := [root]):
        if node is target:
            break
        for x in node.inputs:
            if x not in after:
                after[x] = node
                todo.append(x)
    path: list[Node] = []
    at: Node | None = target if target in after else None
    while at is not None:
        path.append(at)
        at = after[at]
    return tuple(path)


def of_gradients(gradients: Sequence[Node], losses: Sequence[Node]) -> Found | None:
    """What to blame for gradients that are not finite, of these losses as far as they live."""
    order = ancestors([*gradients, *losses])
    roots = [node.inputs[0] for node in order if node.op.kind == "gradient" and node.inputs]
    roots = list(dict.fromkeys([*roots, *losses]))
    seen = ranges(order)
    for root in roots:
        if root in seen and not seen[root].is_finite:
            return forward(root, ancestors([root]), seen)
    for node in order:
        if node.op.kind == "gradient" and node.inputs:
            found_there = backward(node.inputs[0], ancestors(node.inputs), seen)
            if found_there is not None:
                return _made_forward(found_there) or found_there
    if any([node.op.kind == "gradient" and node.inputs for node in order]):
        return _after_backward(gradients, order, seen)
    of_losses = set(ancestors(roots))
    for g in gradients:
        if g in seen and not seen[g].is_finite:
            found = forward(g, order, seen)
            in_backward = bool(roots) and found.node not in of_losses and found.how == "forward"
            return found._replace(how="backward") if in_backward else found
    return None


def _made_forward(found: Found) -> Found | None:
    """What to blame if the rule was given values that were not finite before.

    An infinity need not show in the loss (`tanh` of it is 1), and yet make NaN of a gradient.
    """
    node, seen = found.node, found.seen
    for x in (*node.inputs, node):
        if x in seen and not seen[x].is_finite and not _is_on_purpose(_way(x, seen)[-1], seen):
            before = forward(x, found.order, seen)
            way = found.chain if x is node else (node, *found.chain)
            return before._replace(chain=(*before.chain, *way[1 if x is node else 0 :]))
    return None


def _after_backward(
    gradients: Sequence[Node], order: Sequence[Node], seen: dict[Node, Range]
) -> Found | None:
    """What was made of finite gradients between backward and the step."""
    with scratch_state() as state:
        state.grad, state.held = False, True
        copies: dict[Node, Any] = {}
        for node in order:
            if node.buffer is None:
                copies[node] = copied(node, copies)
        flush("blame", *[c._node for n, c in copies.items() if n.op.kind != "gradient"])
        more = {
            node: range_of(array_of(copy._node), node.meta)
            for node, copy in copies.items()
            if node.op.kind != "gradient" and copy._node.buffer is not None
        }
    seen = {**seen, **more}
    for g in gradients:
        if g in seen and not seen[g].is_finite:
            return forward(g, order, seen)
    return None


def of_value(root: Node) -> Found | None:
    """What to blame for a value that is not finite."""
    order = ancestors([root])
    seen = ranges(order)
    return forward(root, order, seen) if root in seen and not seen[root].is_finite else None


def is_leaf_of_parameter(node: Node) -> bool:
    """Whether a node is the value of a tensor that collects gradients."""
    return isinstance(node.grad_to, LeafRef)


__all__ = ["Found", "backward", "forward", "is_leaf_of_parameter", "of_gradients", "of_value"]
