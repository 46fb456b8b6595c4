"""Nodes that touch complex values: their NumPy references, run as host steps inside the plan.

Templates compute with real numbers only. So legalisation turns every node that reads or gives
complex values into a host node of the same name, except for movement: that is done on the reals in
the same memory, pairs in a last dim of size 2, and so costs no more than for other dtypes.
"""

from __future__ import annotations

from functools import cache, partial
from types import SimpleNamespace
from typing import Any

from livegrad.dtypes import COMPLEX
from livegrad.graph.index import Index
from livegrad.graph.meta import Meta, meta_of
from livegrad.graph.node import Node, Spec
from livegrad.graph.op import Op


def touches_complex(node: Node) -> bool:
    """Whether a node reads or gives complex values."""
    if node.meta.dtype.category == COMPLEX:
        return True
    return any([x.meta.dtype.category == COMPLEX for x in node.inputs])


def _twin(op: Op, kind: str) -> Op:
    """An op of another kind with the name and the rules of `op`; it is in no registry."""
    twin: Op = object.__new__(Op)
    for rule in set(Op.__slots__) - {"lower"}:
        setattr(twin, rule, getattr(op, rule))
    twin.kind, twin.lowered, twin.cache = kind, None, {}
    return twin


# ------------------------------------------------------------------------------- computing


def host_spec(node: Node) -> Spec:
    """The spec of `node` as a host node."""
    return node.spec if node.op.kind == "host" else Spec(_on_host(node.op), node.attrs, node.meta)


@cache
def _on_host(op: Op) -> Op:
    return _twin(op, "host")


# -------------------------------------------------------------------------------- movement


def pairs_meta(meta: Meta) -> Meta:
    """The meta of complex values as pairs of reals."""
    return meta_of((*meta.shape, 2), meta.dtype.to_real())


def whole_meta(meta: Meta) -> Meta:
    """The meta of pairs of reals as complex values."""
    return meta_of(meta.shape[:-1], meta.dtype.to_complex())


def pairs_spec(node: Node) -> Spec:
    """The spec of the movement `node` of complex values as a movement of pairs."""
    return Spec(_on_pairs(node.op), node.attrs, pairs_meta(node.meta))


@cache
def _on_pairs(op: Op) -> Op:
    twin = _twin(op, "movement")
    twin.view = partial(_view_pairs, op)
    return twin


def _view_pairs(op: Op, n: Any, index: Index) -> Index:
    """Where the pairs are read: where the whole value is, and at the same part."""
    inputs = tuple([SimpleNamespace(meta=whole_meta(x.meta)) for x in n.inputs])
    whole = SimpleNamespace(attrs=n.attrs, args=n.args, meta=whole_meta(n.meta), inputs=inputs)
    assert op.view is not None
    return (*op.view(whole, index[:-1]), index[-1])
