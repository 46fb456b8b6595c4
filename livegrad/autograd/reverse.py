"""All of reverse mode: walk the graph from the outputs, consumers first, applying gradient rules.

    ordered     nodes a gradient can reach, each after all of its consumers (counted, not recursed)
    reaching    those of them that lead to what is asked for
    reverse     the walk: takes a node's complete gradient, applies the rules, adds to its inputs

Rules are written with tensors and recorded like any other program, blamed on the forward line; so
gradients are graph, are fused and compiled, and have gradients themselves.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from livegrad.dtypes import FLOAT
from livegrad.graph.above import Above
from livegrad.graph.handle import node_of, wrap
from livegrad.graph.infer import TYPE_NAMES
from livegrad.graph.meta import Meta, Shape
from livegrad.graph.node import Interior, LeafRef, Node, Site, Spec, quote_site
from livegrad.graph.op import GradRule
from livegrad.graph.record import record
from livegrad.graph.state import LOCAL, setting
from livegrad.ops.bookkeeping.in_place import LINKED
from livegrad.ops.elementwise import arithmetic as ew
from livegrad.ops.reductions.reduce import SUM
from livegrad.ops.shaping.movement import EXPAND, reshape_to
from livegrad.ops.support.parts import Part, part_of

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Pair = tuple[Node, "Tensor"]


# How many walks are remembered.
_SPANS = 16


class Walks(threading.local):
    """What the walk that this thread began last reaches: noted for those who ask, if any do.

    `reached` has ids of nodes, and of leaves' `grad_to`; `number` tells walks apart, but not one
    from those `within` it, which compute something again. `spans` are the indices of the nodes that
    the latest walks recorded, and whether these have gradients themselves.
    """

    are_watched = False
    number = 0
    within = 0
    reached: frozenset[int] = frozenset()

    def __init__(self) -> None:
        self.spans: deque[tuple[int, int, bool]] = deque(maxlen=_SPANS)

    def begin(self, order: Sequence[Node]) -> None:
        """Notes a walk over these nodes."""
        if not self.within:
            self.number += 1
            self.reached = frozenset([id(x if x.interior else x.grad_to) for x in order])

    def recorded(self, node: Node) -> bool:
        """Whether a rule of one of the latest walks recorded a node."""
        return any(
            [
                first <= node.index < end and (with_graph or node.grad_to is None)
                for first, end, with_graph in self.spans
            ]
        )


WALKS = Walks()
# check(node, gradients of its inputs so far)
Check = Callable[[Node, list[Any]], None]
Stop = frozenset[Node] | set[Node]
_NOWHERE: frozenset[Node] = frozenset()


def reverse(
    seeds: Sequence[Pair],
    create_graph: bool,
    wanted: set[int] | None = None,
    stop: Stop = _NOWHERE,
    spend: bool = False,
    check: Check | None = None,
    arrived: list[Pair] | None = None,
    collecting: bool = False,
    unhooked: dict[int, Any] | None = None,
) -> tuple[list[Node], list[Pair]]:
    """Carries the gradients in `seeds` back; the nodes walked, and (node, gradient) that arrived.

    Gradients arrive at leaves, at nodes in `stop`, where the walk ends, and at nodes in `wanted`.
    `wanted` holds ids of nodes, or of leaves' `grad_to`; only what leads there is computed. With
    `spend`, nodes give up their claim on values as soon as they are done with: a pull may flush.
    `check(node, gradients)` is shown what each node gave to its inputs. `arrived` is a list to add
    to: whoever gives it has what arrived before an error. What is wanted for `collecting` takes
    its step, as in PyTorch, also where nothing goes on from there. In `unhooked` are, by the ids of
    nodes, gradients that go on from what is wanted, as they were before hooks on them ran.
    """
    order = ordered([node for node, _ in seeds], stop, wanted)
    need = None
    if wanted is not None:
        _check_found(order, wanted)
        need = reaching(order, wanted, stop)
        if len(seeds) == 1:  # as in PyTorch, its hooks run also where nothing goes on
            alone = seeds[0][0]
            order = [node for node in order if node in need or node is alone]
        else:
            order = [node for node in order if node in need]
    if Walks.are_watched:
        WALKS.begin(order)
    grads: dict[Node, Tensor] = {}
    arrived = [] if arrived is None else arrived
    state = LOCAL.state
    outer = state.grad, state.site, state.caster
    # Rules run in the dtypes that the forward pass had.
    state.grad, state.caster = create_graph, None
    WALKS.within += 1
    first = state.base + len(state.nodes)
    try:
        collect(grads, seeds)
        for node in order:
            g = grads.pop(node, None)
            if g is None:
                continue
            to: Any = node.grad_to
            if type(to) is LeafRef or (stop and node in stop):
                arrived.append((node, g))
                continue
            before = g
            if to is not True:
                g = run_hooks(to.hooks, g)
            if (wanted and id(node) in wanted) or (to is not True and to.retained):
                arrived.append((node, g))
                if node.cut is not None:
                    continue
            if need is not None and (node not in need or need.isdisjoint(edges(node))):
                if collecting and to is not True and node in need:
                    _take_last_step(node, to, g)
                continue  # it was asked for itself, if at all, and nothing behind it
            if unhooked is not None and g is not before:
                unhooked[id(node)] = before
            if to is not True and OfStep.are_there:
                g = run_hooks(to.hooks, g, of_step=True)
            state.site = node.site
            if to is not True and (to.pull is not None or to.after):
                collect(grads, _as_told(node, to, g, need, create_graph))
            elif node.spec.op.grads is None:
                collect(grads, through_expansion(node, g, need, create_graph))
            else:
                through_rules(node, g, need, grads)
            if check is not None:
                check(node, [grads.get(x) for x in edges(node)])
            if spend:
                node.spent = True
    except Exception:
        arrived += _complete_leaves(order, node, grads)
        raise
    finally:
        WALKS.within -= 1
        if not WALKS.within:
            WALKS.spans.append((first, state.base + len(state.nodes), create_graph))
        state.grad, state.site, state.caster = outer
    return order, arrived


def _complete_leaves(order: list[Node], failed: Node, grads: dict[Node, Tensor]) -> list[Pair]:
    """The leaves whose gradients were complete when a rule failed: in PyTorch they have theirs."""
    left = order[order.index(failed) :]
    waiting = {x for node in left for x in edges(node)}
    return [
        (x, grads[x]) for x in left if type(x.grad_to) is LeafRef and x in grads.keys() - waiting
    ]


def _take_last_step(node: Node, to: Any, g: Tensor) -> None:
    """Takes the step of a node whose gradient ends there: for hooks, Functions and refusals."""
    if OfStep.are_there:
        g = run_hooks(to.hooks, g, of_step=True)
    if to.pull is not None:
        if not getattr(to.pull, "ends_well", False):
            to.pull(g)
    elif any(getattr(rule, "may_refuse", False) for rule in node.spec.op.grads or ()):
        through_rules(node, g, None, {})
    if to.after:
        run_after(to.after, (None,) * len(part_of(node).edges), (g,))


def _as_told(
    node: Node, to: Any, g: Tensor, need: set[Node] | None, create_graph: bool
) -> Iterable[Pair]:
    """The gradients of a node's inputs, where the node has a rule of its own, or hooks on them."""
    if to.stands_in:
        g = fit(g, to.edges[0].meta)  # the place may be one of a value of another dtype
    if not to.after:
        return _pulled(to, g)
    found: dict[Any, Tensor] = {}
    if to.pull is not None:
        collect(found, _pulled(to, g))
    elif node.spec.op.grads is None:
        collect(found, through_expansion(node, g, need, create_graph))
    else:
        through_rules(node, g, need, found)
    shown = part_of(node).edges
    order = shown if not any(isinstance(x, Part) for x in shown) else edges(node)
    inputs = run_after(to.after, tuple([found.get(x) for x in order]), (g,))
    changed = dict(zip(order, inputs, strict=True))
    return [(x, changed.get(x, gx)) for x, gx in found.items()]


def _pulled(to: Any, g: Tensor) -> Iterable[Pair]:
    """What a node's own rule gives, of the shape of what it stands in for if that has another."""
    pairs: Iterable[Pair] = to.pull(g)
    return [(x, fit(gx, x.meta)) for x, gx in pairs] if to.stands_in else pairs


def run_after(
    hooks: dict[int, Any], inputs: tuple[Any, ...], outputs: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Shows the gradients of inputs and outputs to hooks, which may replace those of the inputs."""
    with setting(site=None):
        for hook in list(hooks.values()):
            result = hook(inputs, outputs)
            if result is None:
                continue
            changed = tuple(result) if isinstance(result, tuple | list) else (result,)
            if len(changed) != len(inputs):
                raise RuntimeError(
                    f"hook '{getattr(hook, '__name__', 'hook')}' has returned an incorrect number "
                    f"of values (got {len(changed)}, but expected {len(inputs)})"
                )
            inputs = changed
        return inputs


def through_rules(
    node: Node,
    g: Tensor,
    need: set[Node] | None,
    grads: dict[Node, Tensor],
    operands: list[Any] | None = None,
    y: Any = None,
) -> None:
    """Adds the gradients of a node's inputs by the rules of its op.

    The rules read its operands and its result, or those that are given.
    """
    spec = node.spec
    rules = spec.op.grads
    assert rules is not None
    inputs = node.inputs
    if operands is None:
        operands, y = [*map(wrap, inputs)], wrap(node)
    if spec.op.kind == "elementwise":
        operands = as_computed(spec, operands)
        if node.args:
            rules, operands = with_numbers(spec, operands, node.args)
    if g.is_sparse:  # rules are for dense ones
        g = Above.sparse().gradients.dense(g)
    for x, rule in zip(inputs, rules):  # noqa: B905  there may be rules for inputs left out
        if x.grad_to is None or rule is None or (need is not None and x not in need):
            continue
        gx = rule(g, y, *operands)
        if gx._node.meta is not x.meta:
            gx = fit(gx, x.meta)
        if spec.op.linked and LOCAL.state.grad:
            gx = _linked(gx, node)
        before = grads.get(x)
        grads[x] = gx if before is None else added(before, gx)


def _linked(gx: Tensor, node: Node) -> Tensor:
    """The gradient of an input as a function of all that PyTorch computes it from."""
    for x in node.inputs[: node.spec.op.linked]:
        if x.grad_to is not None and gx._node.grad_to is None:
            gx = record(LINKED, (wrap(x), gx))
    return gx


def through_expansion(
    node: Node, g: Tensor, need: set[Node] | None, create_graph: bool
) -> list[Pair]:
    """Gradients of the inputs of a composite without rules: those of what it expands to."""
    if g.is_sparse:
        g = Above.sparse().gradients.dense(g)
    inner = {x for x in node.inputs if x.grad_to is not None}
    wanted = {id(x) for x in inner if need is None or x in need}
    state = LOCAL.state
    state.grad = True
    try:
        assert node.spec.op.expand is not None
        y = node_of(node.spec.op.expand(node, *[wrap(x) for x in node.inputs]))
    finally:
        state.grad = create_graph
    if y.grad_to is None:
        return []
    seeds = [(y, fit(g, y.meta))]
    if create_graph and y not in inner and y.meta is node.meta and y.spec.op.grads is not None:
        found: dict[Node, Tensor] = {}
        through_rules(y, seeds[0][1], None, found)
        seeds = list(found.items())
        y.grad_to = _to(node)  # what the rule has read is the node's own result
    _, arrived = reverse(seeds, create_graph, wanted, inner)
    pairs = [(x, fit(gx, x.meta)) for x, gx in arrived]
    if node.spec.op.linked and create_graph:
        return [(x, _linked(gx, node)) for x, gx in pairs]
    return pairs


def _to(node: Node) -> Interior:
    """Of a node with the same value, whose gradient goes to this one."""
    to = Interior((node,))
    to.pull = lambda g: ((node, g),)  # nothing that could refer to itself: see CYCLES
    return to


def ordered(
    roots: Sequence[Node], stop: Stop = _NOWHERE, wanted: set[int] | None = None
) -> list[Node]:
    """Nodes that gradients from `roots` reach, every node after all nodes that use it.

    A gradient may end at a `wanted` node although the graph behind that is gone, or is not asked
    for.
    """
    uses = dict.fromkeys(roots, 0)
    found = list(uses)
    for node in found:  # grows while it is walked
        if (stop and node in stop) or _is_end(node, wanted):
            continue
        for x in edges(node):
            if x.grad_to is not None:
                if x in uses:
                    uses[x] += 1
                else:
                    uses[x] = 1
                    found.append(x)
    order = [node for node in dict.fromkeys(roots) if not uses[node]]
    for node in order:
        if (stop and node in stop) or _is_end(node, wanted):
            continue
        for x in node.inputs if node.grad_to is True else edges(node):
            if x.grad_to is not None:
                if uses[x] == 1:
                    order.append(x)
                else:
                    uses[x] -= 1
    return order


def _is_end(node: Node, wanted: set[int] | None) -> bool:
    if wanted is None or id(node) not in wanted:
        return False
    return node.cut is not None or len(wanted) == 1


def _check_found(order: list[Node], wanted: set[int]) -> None:
    """The error of a graph that is gone, if it may have led to what is `wanted` and not found."""
    for node in order:
        if node.cut is not None:
            found = {id(x) for x in order} | {id(x.grad_to) for x in order}
            if not wanted <= found:
                raise spent_error(*node.cut)


def edges(node: Node) -> tuple[Node, ...]:
    """The nodes to which gradients flow on from `node`; none from a leaf."""
    to: Any = node.grad_to
    if type(to) is LeafRef:
        return ()
    if node.cut is not None:
        raise spent_error(*node.cut)
    return node.inputs if to is True or to.edges is None else to.edges


def reaching(order: list[Node], wanted: set[int], stop: Stop) -> set[Node]:
    """Those nodes of `order` from which a gradient flows on to something `wanted`."""
    need: set[Node] = set()
    for node in reversed(order):
        asked = id(node) in wanted or id(node.grad_to) in wanted
        if asked or (node not in stop and not need.isdisjoint(edges(node))):
            need.add(node)
    return need


def collect(grads: dict[Node, Any], pairs: Iterable[tuple[Node, Any]]) -> None:
    """Adds contributions to the gradients of nodes."""
    for node, g in pairs:
        before = grads.get(node)
        if before is None:
            grads[node] = g
        else:  # what outputs of a Function send to their call is a dict, one entry per output
            grads[node] = before | g if type(g) is dict else added(before, g)


def added(a: Tensor, b: Tensor) -> Tensor:
    """The sum of two gradients, either of which may be sparse."""
    if a.is_sparse or b.is_sparse:
        total: Tensor = Above.sparse().gradients.add(a, b)
        return total
    return ew.add(a, b)


def as_computed(spec: Spec, operands: list[Tensor]) -> list[Tensor]:
    """Integer and bool operands of a floating computation as it saw them: as floats."""
    compute = spec.attrs[0]
    if compute.category < FLOAT:
        return operands
    for i in range(len(operands)):
        if operands[i]._node.meta.dtype.category < FLOAT and spec.op.converts(i):
            operands[i] = ew.cast(operands[i], compute)
    return operands


def with_numbers(
    spec: Spec, tensors: list[Tensor], numbers: tuple[Any, ...]
) -> tuple[tuple[GradRule | None, ...], list[Any]]:
    """The rules for the tensors of an elementwise node, and its operands, numbers included."""
    pattern = spec.attrs[1]
    grads = spec.op.grads
    assert grads is not None
    if pattern == "ts":
        return grads, [tensors[0], numbers[0]]
    left, right = iter(tensors), iter(numbers)
    operands = [next(left) if letter == "t" else next(right) for letter in pattern]
    return tuple([g for g, letter in zip(grads, pattern, strict=True) if letter == "t"]), operands


def fit(g: Tensor, meta: Meta) -> Tensor:
    """`g` summed over the dims along which a value of `meta` was broadcast, as its dtype."""
    have = g._node.meta
    if g.is_sparse and have.shape == meta.shape and have.dtype is meta.dtype:
        return g
    if have.shape != meta.shape:
        g = _sum_to(g, have.shape, meta.shape)
    return g if have.dtype is meta.dtype else ew.cast(g, meta.dtype)


def _sum_to(g: Tensor, have: Shape, want: Shape) -> Tensor:
    lead = len(have) - len(want)
    if lead >= 0:
        inner = [lead + i for i, size in enumerate(want) if size == 1 != have[lead + i]]
        if lead or inner:
            g = record(SUM, (g,), ((*range(lead), *inner), not lead))
        if lead and inner:
            kept = [1 if lead + i in inner else have[lead + i] for i in range(len(want))]
            g = reshape_to(g, tuple(kept))
    # A rule may leave the expansion to us.
    return g if g._node.meta.shape == want else record(EXPAND, (g,), (), (), want)


class OfStep:
    """A hook on the gradients that a step is given, as one on the only gradient that there is."""

    are_there = False

    def __init__(self, fn: Callable[[tuple[Any, ...]], Any]) -> None:
        self.fn = fn
        OfStep.are_there = True

    def __call__(self, g: Any) -> Any:
        result = self.fn((g,))
        return result[0] if isinstance(result, tuple) else result


def run_hooks(hooks: dict[int, Any], g: Tensor, of_step: bool = False) -> Tensor:
    """Shows `g` to each hook, which may replace it; what hooks record is blamed on their lines.

    Whoever was shown a tensor may keep it: the gradient goes on as a copy. Hooks on a tensor come
    before it is known as the gradient of that, those `of_step`, on what is done with it, after.
    """
    if not hooks:
        return g
    with setting(site=None):
        for hook in list(hooks.values()):
            if isinstance(hook, OfStep) is not of_step:
                continue
            result = hook(g)
            if result is None:
                continue
            was, now = node_of(g).meta, node_of(result).meta
            if now.shape != was.shape or now.dtype is not was.dtype:
                name = getattr(hook, "__name__", "hook")
                kinds = [f"torch.{TYPE_NAMES[meta.dtype.name]}Tensor" for meta in (was, now)]
                changed = (
                    "size of value"
                    if now.dtype is was.dtype
                    else f"type of value (was {kinds[0]} got {kinds[1]})"
                )
                raise RuntimeError(f"hook '{name}' has changed the {changed}")
            g = result
        return g.clone() if g.is_sparse else ew.clone(g)


def spent_error(backward: Site | None, update: Site | None) -> RuntimeError:
    """PyTorch's error for a graph that is gone, with the lines that made it so."""
    cause = (
        "its values were given up, because too many spent graphs were kept"
        if update is None
        else f"a value it needs was overwritten by {quote_site(update)}"
    )
    return RuntimeError(
        "Trying to backward through the graph a second time: the graph was spent by backward at "
        f"{quote_site(backward)} and {cause}. Call backward(retain_graph=True) the first time, or "
        "run the forward pass again."
    )
