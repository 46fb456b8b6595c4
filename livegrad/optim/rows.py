"""Updates by sparse gradients: of those rows of a parameter and its state that have one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from livegrad.graph import spent
from livegrad.graph.handle import node_of
from livegrad.graph.record import record
from livegrad.graph.state import LOCAL, flush
from livegrad.graph.watch import BLAMING
from livegrad.graph.writes import rebind
from livegrad.ops.bookkeeping.finite import ask_apart, may_ask
from livegrad.ops.picking.gathering import embedding_lookup
from livegrad.ops.picking.index_writing import INDEX_ADD, INDEX_PUT
from livegrad.ops.shaping.movement import reshape_to

Pairs = list[tuple[Any, Any]]


def apart(params: list[Any], grads: list[Any]) -> tuple[list[Any], list[Any], Pairs]:
    """Parameters with a dense gradient, these, and (parameter, gradient) of sparse ones.

    If there are any, what reads the parameters is computed, and spent graphs are cut, as by any
    update: nobody else sees the tables then, and their rows are written where they are.
    """
    sparse = [(p, g) for p, g in zip(params, grads, strict=True) if g.is_sparse]
    if sparse:
        _ask()
        flush("optimizer.step()")
        spent.cut(LOCAL.state.site)
    dense = [(p, g) for p, g in zip(params, grads, strict=True) if not g.is_sparse]
    return [p for p, _ in dense], [g for _, g in dense], sparse


def _ask() -> None:
    """Has the gradients of this step asked about, elements of sparse ones too: see `finite.py`."""
    if BLAMING.state is LOCAL.state and may_ask(LOCAL.state):
        BLAMING.state = None
        groups = BLAMING.optimizer.param_groups
        found = [p._grad for group in groups for p in group["params"] if p._grad is not None]
        ask_apart(groups, *[g._values() for g in found if g.is_sparse])


def _as_rows(x: Any, values: Any) -> Any:
    """A dense tensor with the places of a sparse one's elements along the first dim."""
    inner = node_of(values).meta.shape[1:]
    meta = node_of(x).meta
    count = meta.numel
    for n in inner:
        count //= max(1, n)
    return reshape_to(x, (count, *inner))


def add_rows(p: Any, g: Any, factor: float) -> None:
    """`p += factor * g`, where `g` is sparse."""
    values = g._values()
    total = record(INDEX_ADD, (_as_rows(p, values), g._pattern.flat(), values * factor), (0,))
    rebind(p, reshape_to(total, node_of(p).meta.shape))


def update_rows(rule: Callable[..., tuple[Any, ...]], p: Any, g: Any, state: Sequence[Any]) -> None:
    """Applies an elementwise `rule(p, g, *state)` to the rows that `g` has."""
    g = g.coalesce()
    values, places = g._values(), g._pattern.flat()
    tensors = [p, *state]
    rows = [embedding_lookup(_as_rows(x, values), places) for x in tensors]
    results = rule(rows[0], values, *rows[1:])
    del rows
    flush("optimizer.step()")
    for x, new in zip(tensors, results, strict=True):
        whole = record(INDEX_PUT, (_as_rows(x, values), places, new), (0,))
        rebind(x, reshape_to(whole, node_of(x).meta.shape))
        flush("optimizer.step()")  # of several such writes in one plan, only one is made in place
