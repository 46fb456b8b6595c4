"""Optimiser updates: one rule applied to every parameter of a group, recorded as one node.

A rule is written once, for one parameter, with elementwise ops. `update` records it over all of
them; the planner compiles it as one elementwise kernel which the native driver runs over a table of
parameters. It writes each parameter in place when nobody else can see the old value, and into a
new buffer when somebody can.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import reduce, wraps
from typing import TYPE_CHECKING, Any, TypeVar

from livegrad.device import CPU
from livegrad.dtypes import promote_types
from livegrad.graph import spent
from livegrad.graph.handle import node_of, wrap
from livegrad.graph.meta import Meta
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.graph.state import LOCAL, flush, setting
from livegrad.graph.watch import BLAMING
from livegrad.graph.writes import rebind
from livegrad.native.hot import hot
from livegrad.ops.bookkeeping.finite import ask_apart, complaint, latest_loss, may_ask
from livegrad.ops.bookkeeping.pending import Pending
from livegrad.ops.elementwise.arithmetic import cast, fitted
from livegrad.ops.elementwise.conjugate import VIEW_AS_COMPLEX, VIEW_AS_REAL
from livegrad.ops.shaping.movement import broadcast_to

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

# rule(args, p, g, ...) -> the new values of the written streams, in order
Rule = Callable[..., tuple["Tensor", ...]]


def define(name: str, rule: Rule, written: tuple[int, ...], **rules: Any) -> Op:
    """Registers an update rule over streams of tensors, of which those numbered `written` change.

    `rule(args, *tensors)` takes the run-time numbers and one tensor per stream, and returns the new
    values of the written streams.
    """
    return Op(
        name,
        "update",
        # The node has no value of its own: what it does is to write.
        infer=lambda metas, attrs, shape: _check_shapes(name, metas, attrs[0], attrs[1]),
        expand=rule,
        written=written,
        complaint=complaint,
        **rules,
    )


F = TypeVar("F", bound=Callable[..., Op])


def registered_once(make: F) -> F:
    """A function that defines an op, once for its arguments: threads get the same one."""
    known: dict[tuple[Any, ...], Op] = {}
    lock = threading.Lock()

    @wraps(make)
    def made(*args: Any) -> Op:
        op = known.get(args)
        if op is None:
            with lock:  # another thread may have made it meanwhile
                op = known.get(args) or known.setdefault(args, make(*args))
        return op

    return made  # type: ignore[return-value]


def _check_shapes(name: str, metas: Sequence[Meta], count: int, streams: int) -> Meta:
    """RuntimeError unless gradients and state have the shapes of their parameters, and are complex
    where those are."""
    for i, meta in enumerate(metas[: count * streams]):
        parameter = metas[i % count]
        if meta.dtype.is_complex != parameter.dtype.is_complex:
            raise RuntimeError(
                f"{name}: the gradient and state of a parameter must be complex if it is; got "
                f"{meta.dtype.name}, of a parameter of {parameter.dtype.name}"
            )
        if meta.shape != parameter.shape:
            raise RuntimeError(
                f"{name}: the gradient and state of a parameter must have its shape; got "
                f"{list(meta.shape)}; expected {list(parameter.shape)}. Was .grad assigned by hand?"
            )
    return metas[0]


@hot
def update(op: Op, streams: Sequence[Sequence[Tensor]], args: tuple[float, ...]) -> None:
    """Records `op` over parameters 0…k-1; the caller flushes when all updates are recorded.

    Each stream has k tensors, one per parameter (parameters, gradients, first moments, …), all of
    the parameter's shape; tensor i of every stream belongs to parameter i.
    """
    count = len(streams[0])
    if not count:
        return
    state = LOCAL.state
    written = op.written
    if state.reference or streams[0][0]._node.meta.device is not CPU:
        _write_each(op, streams, range(count), args)
        if not state.reference:  # the graph is about to be cut: what needs it is computed before
            _compute([x for s in written for x in streams[s]])
        spent.cut(None)
        return
    asks = BLAMING.state is state and may_ask(state)
    seen_by_others = False
    missing = False
    for s in written:
        for x in streams[s]:
            if x._share is not None:
                node_of(x)
                seen_by_others = True
            if x._node.buffer is None:
                missing = True
    if missing:  # new this step: what is written in place must be there
        asks = _asked_apart(asks)
        _compute([x for s in written for x in streams[s]])
    if seen_by_others:
        for s in written:
            for x in streams[s]:
                if _is_part(x):
                    _asked_apart(asks)
                    _update_apart(op, streams, args)
                    return
    flat: list[Tensor] = []
    for stream in streams:
        flat += stream
    if asks and not BLAMING.knows_loss:  # the first update of a step asks about it for all
        BLAMING.knows_loss = True
        loss = latest_loss(state)
        if loss is not None:
            flat.append(loss)
    grad, state.grad, state.held = state.grad, False, True
    try:
        whole = record(op, flat, (count, len(streams), asks), args)
        state.handles[-1] = Pending(whole._node, flat)
    except BaseException:
        state.grad, state.held = grad, False
        _take_back(op)
        raise
    state.grad, state.held = grad, False
    for x in streams[0]:
        if x._share is None:
            x._writes += 1
    if seen_by_others:
        # Views look again from now on; one of them may be a gradient, which was read before.
        for s in written:
            for x in streams[s]:
                share = x._share
                if share is not None:
                    cell = share.cell
                    cell.version += 1
                    share.seen = cell.version
                    share.wrote()


def _asked_apart(asks: bool) -> bool:
    """If updates ask, has all of this step be asked about before something else is computed."""
    if asks:
        BLAMING.state = None
        ask_apart(BLAMING.optimizer.param_groups)
    return False


def updated(op: Op, args: Any, tensors: Sequence[Tensor]) -> list[Tensor]:
    """What an update makes of one parameter and what belongs to it: the new values of its written
    streams, in their dtypes.

    A parameter may have been given another dtype since its state was made. Then all is computed in
    the dtype that they have in common.
    """
    assert op.expand is not None
    kinds = [x._node.meta.dtype for x in tensors]
    if any([kind is not kinds[0] for kind in kinds]):
        common = reduce(promote_types, kinds)
        tensors = [cast(x, common) for x in tensors]
    results = op.expand(args, *tensors)
    return [cast(x, kinds[s]) for s, x in zip(op.written, results, strict=True)]


def apply_rule(op: Op, streams: Sequence[Sequence[Tensor]], args: tuple[Any, ...]) -> None:
    """`update` as ordinary operations and in-place writes: gradients flow through it.

    Numbers among `args` may be 0-d tensors.
    """
    for mine in zip(*streams, strict=True):
        results = updated(op, args, [_reals(x) for x in mine])
        for s, result in zip(op.written, results, strict=True):
            whole = mine[s].dtype.is_complex
            mine[s].copy_(record(VIEW_AS_COMPLEX, (result,)) if whole else result)


def _take_back(op: Op) -> None:
    """After Ctrl-C: an update without its handle is no update."""
    state = LOCAL.state
    if state.nodes and state.nodes[-1].op is op and type(state.handles[-1]) is not Pending:
        del state.nodes[-1], state.handles[-1]


def _compute(targets: list[Tensor]) -> None:
    flush("what is to be updated", *[node_of(t) for t in targets])


def replace_node(x: Tensor, node: Any) -> None:
    """Makes `node` the value of a written tensor; a leaf stays the same leaf."""
    node.grad_to = x._node.grad_to
    x._node = node
    if x._share is not None:
        x._share.cell._node = node


def _reals(x: Tensor) -> Tensor:
    """Complex values as pairs of reals: an update treats the parts alike."""
    return record(VIEW_AS_REAL, (x,)) if x._node.meta.dtype.is_complex else x


def _update_apart(op: Op, streams: Sequence[Sequence[Tensor]], args: tuple[float, ...]) -> None:
    """Parameters that are a part of something else, or lie in memory that others see, are written
    as by any in-place operation; the others are updated as ever."""
    written = op.written
    apart = {i for s in written for i, x in enumerate(streams[s]) if _is_part(x)}
    rest = [i for i in range(len(streams[0])) if i not in apart]
    _write_each(op, streams, sorted(apart), args)
    update(op, [[stream[i] for i in rest] for stream in streams], args)


def _is_part(x: Tensor) -> bool:
    """Whether somebody else may see the memory of a tensor with a cell."""
    if x._share is not None:
        node_of(x)  # if nobody is left, it has none any more
    share = x._share
    return share is not None and (bool(share.path) or share.cell.memory is not None)


def _write_each(
    op: Op, streams: Sequence[Sequence[Tensor]], which: Sequence[int], args: tuple[float, ...]
) -> None:
    """Runs the rule parameter by parameter, and writes the results in place.

    What a parameter, perhaps reshaped since, has as gradient or state may be broadcast to it.
    """
    with setting(grad=False):
        for i in which:
            mine = [stream[i] for stream in streams]
            results = updated(op, args, [_reals(wrap(node_of(x))) for x in mine])
            for s, result in zip(op.written, results, strict=True):
                meta = node_of(mine[s]).meta
                value = record(VIEW_AS_COMPLEX, (result,)) if meta.dtype.is_complex else result
                rebind(mine[s], fitted(broadcast_to(value, meta.shape) if s else value, meta))


# ------------------------------------------------------------------------ parameters, their state
#
# The hot functions of optimisers: here, so that all programs have the same, whether they import
# those or not, and native code is found when they begin.


@hot
def with_gradient(params: list[Any]) -> tuple[list[Any], list[Any]]:
    """Those that have a gradient, and the gradients.

    Each is read once: another thread may take it away at any time.
    """
    found = []
    grads = []
    for p in params:
        g = p._grad  # without the call that the property is
        if g is not None:
            found.append(p)
            grads.append(g)
    return found, grads


@hot
def streams_of(
    streams: list[list[Any]], states: list[dict[str, Any]], names: list[str]
) -> list[list[Any]]:
    """What an update reads, stream by stream."""
    for name in names:
        streams.append([state[name] for state in states])  # noqa: PERF401 - the subset
    return streams


@hot
def buffers_of(states: list[dict[str, Any]]) -> list[Any]:
    """The momentum buffers of parameters up to the first that has none: most often of all."""
    found: list[Any] = []
    for state in states:
        buffer = state.get("momentum_buffer")
        if buffer is None:
            return found
        found.append(buffer)
    return found
