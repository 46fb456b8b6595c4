"""Parameters of sparse layouts."""

from __future__ import annotations

from typing import Any

from livegrad.nn.parameter import Parameter
from livegrad.sparse.core import KINDS, SparseTensor


class SparseParameter(SparseTensor, Parameter):
    """A sparse tensor that is learned."""

    __slots__ = ()

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        return data.detach()._become(cls).requires_grad_(requires_grad)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return "Parameter containing:\n" + SparseTensor.__repr__(self)


KINDS.add(SparseParameter)
