"""Values that helpers are given: kept as they are now, read when they have been computed."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np

from livegrad import dtypes
from livegrad.autograd import no_grad
from livegrad.graph.handle import Handle, node_of
from livegrad.ops.elementwise.arithmetic import clone

Array = np.ndarray[Any, Any]


def is_pending(x: Any) -> TypeGuard[Handle]:
    """Whether `x` is a tensor without a value yet."""
    return isinstance(x, Handle) and node_of(x).buffer is None


def kept(x: Any) -> Any:
    """`x` as it is now, to be read later.

    A tensor that is pending is not read: that would cut a training step in two, and make its
    backward pass the slower kind. A copy without history is recorded, and computed with the rest
    of the step. Tensors with values become arrays; other things stay what they are.
    """
    if is_pending(x):
        with no_grad():
            return clone(x)
    return array_of(x) if isinstance(x, Handle) else x


def settled(x: Any) -> Any:
    """What `kept` gave, with tensors as arrays."""
    return array_of(x) if isinstance(x, Handle) else x


def array_of(x: Any) -> Array:
    """A tensor, array or nested list as an array; bfloat16, which NumPy lacks, as float32."""
    if isinstance(x, Handle):
        tensor: Any = x
        # Not detach().numpy(): that would record an operation, and compute it.
        values: Array = tensor._values("a value was read")
        wide = tensor.dtype is dtypes.bfloat16
        return dtypes.bfloat16_to_float32(values) if wide else values
    if isinstance(x, list | tuple) and any(isinstance(item, Handle) for item in x):
        return np.stack([array_of(item) for item in x])
    return np.asarray(x)


def number_of(x: Any) -> float:
    """A tensor, array or number with one element as a Python float."""
    if isinstance(x, float | int):
        return float(x)
    array = array_of(x)
    if array.size != 1:
        raise ValueError(f"expected one number; got shape {tuple(array.shape)}")
    return float(array.reshape(()))


def shape_of(x: Any) -> tuple[int, ...]:
    """The shape of a tensor or of what NumPy takes; nothing is read."""
    shape = getattr(x, "shape", None)
    return tuple(np.shape(x) if shape is None else shape)
