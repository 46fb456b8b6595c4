"""Optimiser updates: one rule applied to every parameter of a group, recorded as one node.

A rule is written once, for one parameter, with elementwise ops. `update` records it over all of
them; the planner compiles it as one elementwise kernel which the native driver runs over a table of
parameters, writing each in place when nobody else can see the old value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from livegrad.graph.meta import Meta
from livegrad.graph.node import Node
from livegrad.graph.op import Op
from livegrad.graph.record import _new, node_of, record, wrap
from livegrad.graph.state import LOCAL

Tensor = Any
# rule(args, p, g, ...) -> the new values of the written streams, in order
Rule = Callable[..., tuple[Tensor, ...]]


def _no_reference(n: Any, *arrays: Any) -> Any:
    raise AssertionError("an update is evaluated by its rule, see run_reference")


def define(name: str, rule: Rule, streams: int, written: tuple[int, ...], **rules: Any) -> Op:
    """Registers an update rule over `streams` tensors, of which those numbered `written` change.

    `rule(args, *tensors)` takes the run-time numbers and one tensor per stream, and returns the new
    values of the written streams.
    """
    op = Op(
        name,
        "update",
        # The node stands for all results; each is picked from it. See PICK.
        infer=lambda metas, attrs, shape: metas[0],
        ref=_no_reference,
        expand=rule,
        **rules,
    )
    LAYOUT[op] = (streams, written)
    return op


# Streams and written streams of each update op.
LAYOUT: dict[Op, tuple[int, tuple[int, ...]]] = {}

PICK = Op(
    "pick",
    "pick",
    # One result of an update; attrs (number of the input it replaces,).
    infer=lambda metas, attrs, shape: metas[0],
    ref=_no_reference,
)


def update(op: Op, streams: Sequence[Sequence[Tensor]], args: tuple[float, ...]) -> None:
    """Records `op` over parameters 0…k-1 and rebinds the written tensors to their new values.

    Each stream has k tensors, one per parameter (parameters, gradients, first moments, …), all of
    the parameter's shape; tensor i of every stream belongs to parameter i.
    """
    count = len(streams[0])
    if not count:
        return
    flat = [x for stream in streams for x in stream]
    state = LOCAL.state
    grad, state.grad = state.grad, False
    try:
        whole = record(op, flat, (count,), args)
        _, written = LAYOUT[op]
        if state.reference:
            _rebind_all(flat, count, written, _run_reference(op, whole._node, count, written))
        else:
            picks = [_pick(whole._node, flat[s * count + i], s * count + i)
                     for s in written for i in range(count)]  # fmt: skip
            _rebind_all(flat, count, written, picks)
    finally:
        state.grad = grad


def _pick(whole: Node, old: Tensor, number: int) -> Node:
    """The node of one result: what takes the place of tensor `old`, input `number`."""
    meta: Meta = node_of(old).meta
    key = (meta, number)
    spec = PICK.cache.get(key)
    if spec is None:
        spec = PICK.remember(key, (number,), (meta,), meta)
    node = _new(Node)
    node.spec = spec
    node.meta = meta
    node.inputs = (whole,)
    node.args = ()
    node.grad_to = None
    node.buffer = None
    node.cut = None
    node.spent = False
    node.index = -1
    node.site = whole.site
    state = LOCAL.state
    state.nodes.append(node)
    state.handles.append(old)
    return node


def _rebind_all(
    flat: list[Tensor], count: int, written: tuple[int, ...], nodes: list[Node]
) -> None:
    targets = [flat[s * count + i] for s in written for i in range(count)]
    for x, node in zip(targets, nodes, strict=True):
        node.grad_to = x._node.grad_to  # a leaf stays the same leaf
        x._node = node
        cell = x._cell
        if cell is not None:
            cell._node = node
            cell.version += 1
            x._seen = cell.version


def _run_reference(op: Op, whole: Node, count: int, written: tuple[int, ...]) -> list[Node]:
    """New nodes, in the order of the written streams, each computed at once."""

    inputs = whole.inputs
    streams = len(inputs) // count
    columns: list[list[Node]] = [[] for _ in written]
    assert op.expand is not None
    for i in range(count):
        results = op.expand(whole.args, *[wrap(inputs[s * count + i]) for s in range(streams)])
        for column, result in zip(columns, results, strict=True):
            column.append(result._node)
    return [node for column in columns for node in column]
