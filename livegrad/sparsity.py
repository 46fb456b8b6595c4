"""What every tensor says about sparse layouts, and how a dense one becomes sparse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from livegrad.graph.above import Above
from livegrad.graph.elsewhere import not_for_sparse
from livegrad.graph.handle import node_of
from livegrad.introspection import Introspection
from livegrad.ops.support.public import publish_methods

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def _expecting(name: str, kind: str) -> Any:
    def method(self: Any) -> NoReturn:
        raise RuntimeError(f"{name} expected sparse {kind}tensor layout but got Strided")

    method.__name__ = method.__qualname__ = name
    method.__doc__ = "RuntimeError: this is no sparse tensor."
    return method


def _to(name: str) -> Any:
    def method(self: Any, *args: Any, **options: Any) -> Tensor:
        out: Tensor = getattr(Above.sparse().converting, name)(self, *args, **options)
        return out

    method.__name__ = method.__qualname__ = name
    method.__doc__ = "The elements that are not zero, as a sparse tensor; see `livegrad.sparse`."
    return method


def _product(name: str) -> Any:
    def method(self: Any, *args: Any, **options: Any) -> Tensor:
        out: Tensor = getattr(Above.sparse().products, name)(self, *args, **options)
        return out

    method.__name__ = method.__qualname__ = name
    method.__doc__ = "A product of a sparse matrix; see `livegrad.sparse`."
    return method


class Sparsity(Introspection):
    """The part of Tensor that concerns sparse layouts."""

    __slots__ = ()

    def sparse_dim(self) -> int:
        """How many dims are given by indices."""
        return 0

    def dense_dim(self) -> int:
        """How many dims each element has."""
        return node_of(self).meta.ndim

    def _nnz(self) -> int:
        raise not_for_sparse("_nnz", "CPU")

    def _indices(self) -> Tensor:
        raise not_for_sparse("_indices", "CPU")

    indices = _expecting("indices", "coordinate ")
    values = _expecting("values", "")
    coalesce = _expecting("coalesce", "coordinate ")
    is_coalesced = _expecting("is_coalesced", "coordinate ")
    crow_indices = _expecting("crow_indices", "row compressed ")
    col_indices = _expecting("col_indices", "row compressed ")
    ccol_indices = _expecting("ccol_indices", "column compressed ")
    row_indices = _expecting("row_indices", "column compressed ")
    to_sparse = _to("to_sparse")
    to_sparse_coo = _to("to_sparse_coo")
    to_sparse_csr = _to("to_sparse_csr")
    to_sparse_csc = _to("to_sparse_csc")
    to_sparse_bsr = _to("to_sparse_bsr")
    to_sparse_bsc = _to("to_sparse_bsc")
    sparse_mask = _to("sparse_mask")
    smm = _product("smm")
    sspaddmm = _product("sspaddmm")


publish_methods(Sparsity, "Tensor", "livegrad.tensor")
