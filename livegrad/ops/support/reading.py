"""Reading: questions whose answer is a Python value, so that asking computes what is pending."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.handle import Handle, node_of
from livegrad.ops.elementwise.comparison import eq, isclose
from livegrad.ops.reductions.reduce import all as all_of

if TYPE_CHECKING:
    from livegrad.tensor import Tensor


def is_tensor(obj: Any) -> TypeGuard[Tensor]:
    """Whether `obj` is a tensor.

    Example:
        >>> lg.is_tensor(lg.zeros(2)), lg.is_tensor([0, 0])
        (True, False)
    """
    return isinstance(obj, Handle)


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype of `input` is a floating type."""
    return node_of(input).meta.dtype.is_floating_point


def result_type(tensor1: Any, tensor2: Any) -> DType:
    """The dtype of an arithmetic operation of two tensors or numbers."""
    ranked = []
    for x in (tensor1, tensor2):
        if isinstance(x, Handle):
            meta = node_of(x).meta
            ranked.append((meta.dtype, 2 if meta.ndim else 1))
        elif isinstance(x, bool | int | float | complex):
            ranked.append((dtypes.scalar_dtype(type(x)), 0))
        else:
            raise TypeError(
                f"result_type(): arguments must be Tensors or numbers, not {type(x).__name__}"
            )
    return dtypes.result_dtype(tuple(ranked))


def numel(input: Tensor) -> int:
    """Number of elements.

    Example:
        >>> lg.numel(lg.zeros(2, 3))
        6
    """
    return node_of(input).meta.numel


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape and values.

    Args:
        input: a tensor.
        other: another one.

    Example:
        >>> lg.equal(lg.tensor([1, 2]), lg.tensor([1, 2]))
        True
    """
    if node_of(input).meta.shape != node_of(other).meta.shape:
        return False
    return bool(all_of(eq(input, other)))


def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether all elements satisfy |input - other| <= atol + rtol * |other|.

    Args:
        input: a tensor.
        other: another one.
        rtol: what may differ, relative to `other`.
        atol: what may differ besides.
        equal_nan: whether NaN equals NaN.

    Example:
        >>> lg.allclose(lg.tensor([1.0]), lg.tensor([1.0 + 1e-7]))
        True
    """
    return bool(all_of(isclose(input, other, rtol, atol, equal_nan)))
