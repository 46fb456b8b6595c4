"""Elementwise functions of sparse tensors: of those elements that are there.

Only functions that leave zeros zero exist. What is not linear adds up first what is at one place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.handle import Handle, node_of
from livegrad.methods import Methods
from livegrad.ops.elementwise import arithmetic as ew
from livegrad.ops.elementwise.division import divide
from livegrad.ops.elementwise.power import pow as power
from livegrad.ops.making.generate import filled
from livegrad.ops.picking.gathering import embedding_lookup
from livegrad.ops.shaping.joining import cat
from livegrad.ops.shaping.movement import expand
from livegrad.sparse.converting import (
    added_to,
    by_coordinates,
    coalesce,
    coordinates,
    elements_at,
    elements_in_a_row,
    from_rows,
    rows_of,
)
from livegrad.sparse.core import SparseTensor, layout_name, like, make
from livegrad.sparse.pattern import Compressed, Coo, tensor_of

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Operand = Any  # a tensor, sparse or not, or a number

# Functions of one tensor that leave zeros zero, by the names of the methods of dense tensors.
LINEAR = "neg negative positive conj_physical resolve_conj resolve_neg".split()
CURVED = """
    abs absolute arcsin arcsinh arctan arctanh asin asinh atan atanh ceil deg2rad erf erfinv expm1
    fix floor frac isinf isnan isneginf isposinf log1p nan_to_num rad2deg relu round sgn sign
    signbit sin sinh sqrt square tan tanh trunc angle
    """.split()


def of_one(name: str) -> Callable[..., Any]:
    """The function `name` of a sparse tensor."""
    of_elements = getattr(Methods, name, None) or getattr(ew, name)
    is_linear = name in LINEAR

    def method(self: SparseTensor, *args: Any, **options: Any) -> Any:
        x = self if is_linear or not isinstance(self._pattern, Coo) else coalesce(self)
        return like(x, of_elements(x._elements, *args, **options))

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"`{name}` of the elements that are there."
    return method


def in_place(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The in-place form of a function: the tensor takes the elements of the result."""

    def method(self: SparseTensor, *args: Any, **options: Any) -> SparseTensor:
        return take(self, function(self, *args, **options))

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"In-place form of `{function.__name__}`."
    return method


def take(self: SparseTensor, result: Any) -> SparseTensor:
    """Makes a sparse tensor what was computed for it in place."""
    if not isinstance(result, SparseTensor):
        raise RuntimeError("the result of an in-place operation on a sparse tensor is dense")
    if node_of(result).meta.dtype is not node_of(self).meta.dtype:
        wanted, have = [node_of(x).meta.dtype.name for x in (self, result)]
        raise RuntimeError(f"result type {have} can't be cast to the desired output type {wanted}")
    elements = self._elements
    if result._pattern is self._pattern:  # whoever shares the elements sees it
        elements.copy_(result._elements)
        return self
    if elements.is_leaf and elements.requires_grad:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation."
        )
    return self._set(result._pattern, result._elements, result._node.meta.shape)


# ------------------------------------------------------------------------------------- sums


def add(input: Operand, other: Operand, *, alpha: Any = 1) -> Any:
    """`input + alpha * other`: of two sparse tensors, or of a dense and a sparse one."""
    if not isinstance(input, SparseTensor):
        return _dense_plus_sparse(input, other, alpha)
    if not isinstance(other, SparseTensor):
        if isinstance(input._pattern, Compressed) and isinstance(other, Handle) and other.ndim:
            return _dense_plus_sparse(other if alpha == 1 else ew.mul(other, alpha), input, 1)
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    _check_sizes(input, other)
    right = other if _is_one(alpha) else like(other, ew.mul(other._elements, alpha))
    if isinstance(input._pattern, Coo) and isinstance(right._pattern, Coo):
        return _sum(input, right)
    if input.layout is not right.layout:
        raise RuntimeError(
            f"add: expected both tensors to have one layout; got {layout_name(input.layout)} and "
            f"{layout_name(other.layout)}"
        )
    if input._pattern is right._pattern:
        return like(input, ew.add(input._elements, right._elements))
    total = _sum(by_coordinates(input), by_coordinates(right))
    pattern: Any = input._pattern
    return total.to_sparse(
        layout=input.layout, blocksize=pattern.block if pattern.blocked else None
    )


def _is_one(alpha: Any) -> bool:
    return not isinstance(alpha, Handle) and alpha == 1


def _check_sizes(a: SparseTensor, b: SparseTensor) -> None:
    if a.shape != b.shape:
        raise RuntimeError(
            "add: expected sizes of 'self' and 'other' to match, but "
            f"{list(a.shape)} != {list(b.shape)}"
        )
    if a.is_sparse and b.is_sparse and a.sparse_dim() != b.sparse_dim():
        raise RuntimeError(
            "add: expected 'self' and 'other' to have same number of sparse dims, but "
            f"{a.sparse_dim()} != {b.sparse_dim()}"
        )


def _sum(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    left, right = a._pattern, b._pattern
    assert isinstance(left, Coo)
    assert isinstance(right, Coo)
    shape = a._node.meta.shape
    if left is right and left.coalesced:
        return like(a, ew.add(a._elements, b._elements))
    elements = cat([a._elements, b._elements], 0)
    if not (left.coalesced and right.coalesced):
        return make(Coo(cat([left.indices, right.indices], 1), left.sizes), elements, shape)
    keys = np.concatenate([left.keys(), right.keys()])
    if len(left.keys()) == len(right.keys()) and (left.keys() == right.keys()).all():
        return like(a, ew.add(a._elements, b._elements))
    kept, first, place = np.unique(keys, return_index=True, return_inverse=True)
    both = np.concatenate([left.array(), right.array()], axis=1)
    meta = node_of(elements).meta
    zeros = filled((len(kept), *meta.shape[1:]), 0, meta.dtype)
    total = added_to(zeros, tensor_of(place.reshape(-1)), elements)
    return make(Coo(tensor_of(both[:, first]), left.sizes, True), total, shape)


def _dense_plus_sparse(input: Operand, other: SparseTensor, alpha: Any) -> Tensor:
    shape = tuple(getattr(input, "shape", ()))
    if shape != tuple(other.shape):
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but self has size {list(shape)} "
            f"while other has size {list(other.shape)} (FYI: dense-sparse addition does not "
            "currently support broadcasting)"
        )
    pattern, elements = other._pattern, elements_in_a_row(other)
    if not _is_one(alpha):
        elements = ew.mul(elements, alpha)
    kinds = [node_of(x).meta.dtype for x in (input, elements)]
    dtype = dtypes.promote_types(*kinds)
    rows = rows_of(ew.cast(input, dtype), pattern)
    total = added_to(rows, coordinates(pattern).flat(), ew.cast(elements, dtype))
    return from_rows(total, pattern, shape)


def sub(input: Operand, other: Operand, *, alpha: Any = 1) -> Any:
    """`input - alpha * other`: of two sparse tensors, or of a dense and a sparse one."""
    return add(input, other, alpha=-alpha)


def rsub(input: Operand, other: Operand, *, alpha: Any = 1) -> Any:
    """`other - alpha * input`."""
    return add(other, input, alpha=-alpha)


# ---------------------------------------------------------------------------------- products


def mul(input: Operand, other: Operand) -> Any:
    """The product of two sparse tensors, or of a sparse one and a dense one or a number."""
    if not isinstance(input, SparseTensor):
        input, other = other, input
    if not isinstance(other, Handle) or (not isinstance(other, SparseTensor) and not other.ndim):
        return like(input, ew.mul(input._elements, other))
    if not isinstance(other, SparseTensor):
        return _times_dense(input, other)
    if input._pattern is other._pattern and (
        not isinstance(input._pattern, Coo) or input._pattern.coalesced
    ):
        return like(input, ew.mul(input._elements, other._elements))
    if isinstance(input._pattern, Compressed) or isinstance(other._pattern, Compressed):
        pattern: Any = input._pattern
        first, second = [x if x.is_sparse else by_coordinates(x) for x in (input, other)]
        layout = {"layout": input.layout} if isinstance(pattern, Compressed) else {}
        block = {"blocksize": pattern.block} if getattr(pattern, "blocked", False) else {}
        return _common(first, second).to_sparse(**layout, **block)
    return _common(input, other)


def _times_dense(x: SparseTensor, other: Tensor) -> SparseTensor:
    shape = x._node.meta.shape
    if len(other.shape) > len(shape):
        raise RuntimeError(
            "mul: a dense factor of more dimensions than the sparse one is not supported; got "
            f"{list(other.shape)} and {list(shape)}"
        )
    return like(x, ew.mul(x._elements, elements_at(expand(other, shape), x)))


def _common(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """The products of what is there in both."""
    a, b = coalesce(a), coalesce(b)
    left, right = a._pattern, b._pattern
    assert isinstance(left, Coo)
    assert isinstance(right, Coo)
    if left.sizes != right.sizes or a.ndim != b.ndim:
        raise RuntimeError(
            "sparse_binary_op_intersection_cpu(): expects sparse inputs with equal dimensionality, "
            "number of sparse dimensions, and shape of sparse dimensions"
        )
    _, first, second = np.intersect1d(
        left.keys(), right.keys(), assume_unique=True, return_indices=True
    )
    pattern = Coo(tensor_of(left.array()[:, first]), left.sizes, True)
    product = ew.mul(
        embedding_lookup(a._elements, tensor_of(first)),
        embedding_lookup(b._elements, tensor_of(second)),
    )
    return make(pattern, product, (*left.sizes, *node_of(product).meta.shape[1:]))


def div(input: Operand, other: Operand, *, rounding_mode: str | None = None) -> Any:
    """The quotient of a sparse tensor and a number."""
    if isinstance(other, SparseTensor) and not isinstance(input, SparseTensor):
        raise RuntimeError(
            "Sparse division requires a dense divisor; got a sparse one of shape "
            f"{list(other.shape)}"
        )
    if isinstance(other, Handle) and other.ndim:
        raise RuntimeError(
            "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{list(other.shape)} for divisor)"
        )
    x = coalesce(input) if rounding_mode is not None and input.is_sparse else input
    return like(x, divide(x._elements, other, rounding_mode=rounding_mode))


def floor_divide(input: Operand, other: Operand) -> Any:
    """The quotient of a sparse tensor and a number, rounded down."""
    return div(input, other, rounding_mode="floor")


def pow(input: Operand, exponent: Any) -> Any:
    """A power of the elements, by a number other than 0."""
    if isinstance(exponent, Handle) and exponent.ndim:
        raise RuntimeError("pow: a sparse tensor can be raised to the power of a number only")
    if not isinstance(exponent, Handle) and exponent == 0:
        raise RuntimeError(
            "pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor "
            "dense"
        )
    x = coalesce(input) if input.is_sparse else input
    return like(x, power(x._elements, exponent))


def any_of(input: SparseTensor) -> Tensor:
    """Whether an element is not zero."""
    return Methods.any(input._elements)
