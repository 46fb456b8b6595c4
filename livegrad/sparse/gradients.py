"""Gradients that are sparse although their tensors are dense: those of tables of which few rows
were looked up, or few elements gathered.

They arise in the rule of a look-up, travel as COO tensors, and add up by being put one behind the
other. Whatever is not a sum on their way makes them dense.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.handle import node_of
from livegrad.graph.node import Interior, Node
from livegrad.ops.elementwise import arithmetic as ew
from livegrad.ops.picking.gathering import embedding_lookup
from livegrad.ops.shaping.movement import detach, reshape_to
from livegrad.sparse.converting import dense as dense_of
from livegrad.sparse.core import SparseTensor, make
from livegrad.sparse.pattern import Coo, tensor_of
from livegrad.sparse.pointwise import add as add_sparse

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def add(a: Any, b: Any) -> Any:
    """The sum of two gradients, at least one of them sparse."""
    if not isinstance(a, SparseTensor):
        a, b = b, a
    return add_sparse(a, b) if isinstance(b, SparseTensor) else add_sparse(b, a)


def dense(g: Any) -> Tensor:
    """A gradient as a dense tensor."""
    return dense_of(g) if isinstance(g, SparseTensor) else g


class _Rows:
    """The gradient of a table: what came for the rows that were looked up, at their indices.

    It does not refer to the table: an update is to overwrite what nobody else sees.
    """

    def __init__(self, out: Node, index: Tensor, padding: int | None, scaled: bool) -> None:
        self.out = weakref.ref(out)
        self.index = index
        self.padding = padding
        self.scaled = scaled

    def __call__(self, g: Tensor) -> list[Any]:
        out = self.out()
        assert out is not None, "a node that is walked is alive"
        table = out.inputs[0]
        shape = table.meta.shape
        count = node_of(self.index).meta.numel
        rows = reshape_to(dense(g), (count, *shape[1:]))
        index = reshape_to(self.index, (count,))
        if self.scaled:
            array = index._values("sparse gradient")
            often = np.bincount(array, minlength=shape[0])[array]
            rows = ew.div(rows, ew.cast(tensor_of(often.reshape(-1, 1)), node_of(rows).meta.dtype))
        if self.padding is not None:
            keep = np.flatnonzero(index._values("sparse gradient") != self.padding)
            if len(keep) < count:
                places = tensor_of(keep)
                rows, index = embedding_lookup(rows, places), embedding_lookup(index, places)
                count = len(keep)
        pattern = Coo(reshape_to(index, (1, count)), shape[:1])
        return [(table, make(pattern, rows, shape))]


def looked_up(out: Tensor, index: Any, padding: int | None = None, scaled: bool = False) -> Tensor:
    """`out`, the rows of a table at `index`, with a sparse gradient for the table."""
    node = node_of(out)
    if node.grad_to is not None:
        places = ew.cast(detach(index), dtypes.int64)
        node.grad_to = Interior(None, _Rows(node, places, padding, scaled))
    return out


class _Elements:
    """The gradient of a tensor of which elements were gathered along `dim`, as _Rows of a table."""

    def __init__(self, out: Node, index: Tensor, dim: int) -> None:
        self.out = weakref.ref(out)
        self.index = index
        self.dim = dim

    def __call__(self, g: Tensor) -> list[Any]:
        out = self.out()
        assert out is not None, "a node that is walked is alive"
        source = out.inputs[0]
        array = self.index._values("sparse gradient")
        places = np.indices(array.shape)
        places[self.dim] = array
        pattern = Coo(tensor_of(places.reshape(array.ndim, array.size)), source.meta.shape)
        return [(source, make(pattern, reshape_to(dense(g), (array.size,)), source.meta.shape))]


def gathered(out: Tensor, index: Any, dim: int) -> Tensor:
    """`out`, elements of a tensor gathered at `index`, with a sparse gradient for the tensor."""
    node = node_of(out)
    if node.grad_to is not None:
        node.grad_to = Interior(None, _Elements(node, ew.cast(detach(index), dtypes.int64), dim))
    return out
