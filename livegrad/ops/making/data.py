"""Nested sequences of numbers, arrays and tensors as one array, by PyTorch's rules.

    [[1, 2.5], [t, 4]]  ──►  the array, and its dtype: that of all kinds of numbers together

A tensor in a sequence is the number that it holds; one that is a row is read as a row.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.handle import Handle, node_of
from livegrad.ops.support.numbers import NUMBERS

Array = np.ndarray[Any, Any]

_IN_ORDER = (bool, int, float, complex)
_PYTHON = frozenset(_IN_ORDER)


def array_of(data: Any, dtype: Any = None) -> tuple[Array, DType | None]:
    """`data` as an array, of a NumPy dtype if given, and the dtype that PyTorch infers for it.

    None: that of the array.
    """
    kinds: set[Any] = set()
    sizes = _sizes_by_first(data)
    data = _without_tensors(data, len(sizes), kinds)
    try:
        array = np.array(data, dtype)
    except (ValueError, OverflowError):
        _check_rectangular(data, sizes, 0)
        raise
    if array.dtype == object or array.dtype.kind not in "biufc":
        raise _bad_data(data, array)
    if array.size == 0 and not kinds:
        return array.astype(np.float64), dtypes.get_default_dtype()
    return array, _inferred(array, kinds)


def _inferred(array: Array, kinds: set[Any]) -> DType | None:
    """The dtype of numbers of these kinds: dtypes, and classes of Python's numbers."""
    if kinds <= _PYTHON:
        kind = {np.float64: float, np.complex128: complex}.get(array.dtype.type)
        return None if kind is None else dtypes.scalar_dtype(kind)
    known = [x for x in kinds if isinstance(x, DType)]
    known += [dtypes.scalar_dtype(x) for x in kinds if x in _PYTHON]
    return reduce(dtypes.promote_types, known) if known else None


def _without_tensors(data: Any, depth: int, kinds: set[Any]) -> Any:
    """`data`, of so many dims, with tensors replaced by what they hold; adds to `kinds`."""
    if isinstance(data, list | tuple):
        found = set(map(type, data))
        if found <= _PYTHON:  # by far the commonest, and the longest
            kinds |= found
            return data
        return [_without_tensors(x, depth - 1, kinds) for x in data]
    if isinstance(data, Handle):
        meta = node_of(data).meta
        kinds.add(meta.dtype)
        if depth > 0:
            return data.tolist()
        if meta.numel != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        return data.item()
    if isinstance(data, np.ndarray | np.generic):
        if data.dtype.kind in "biufc":
            kinds.add(dtypes.from_numpy_dtype(data.dtype))
    else:
        kinds.add(next((kind for kind in _IN_ORDER if isinstance(data, kind)), type(data)))
    return data


def _sizes_by_first(data: Any) -> list[int]:
    """The shape, as the first of each sequence tells it."""
    sizes = []
    while isinstance(data, list | tuple) or (isinstance(data, np.ndarray) and data.ndim):
        sizes.append(len(data))
        if not len(data):
            break
        data = data[0]
    return sizes


def _check_rectangular(data: Any, sizes: list[int], dim: int) -> None:
    """Raises torch's errors where nested sequences differ in length, or in depth."""
    nested = isinstance(data, list | tuple | np.ndarray)
    if dim == len(sizes):
        if nested:
            raise TypeError(
                f"tensor: expected a number at dim {dim}; got a sequence of length {len(data)}. "
                "All rows must have the same length"
            )
        return
    if not nested:
        raise TypeError(f"tensor: expected a sequence at dim {dim}; got {type(data).__name__}")
    if len(data) != sizes[dim]:
        raise ValueError(f"expected sequence of length {sizes[dim]} at dim {dim} (got {len(data)})")
    for x in data:
        _check_rectangular(x, sizes, dim + 1)


def _bad_data(data: Any, array: Array) -> Exception:
    if array.dtype == object:
        _check_rectangular(data, _sizes_by_first(data), 0)
    wrong = [x for x in array.ravel().tolist() if not isinstance(x, NUMBERS)]
    if not wrong and array.size:
        return ValueError("tensor: Overflow when unpacking long long; got an integer beyond int64")
    kind = type(wrong[0] if wrong else data).__name__
    if kind in ("str", "bytes"):
        scalar = TypeError(f"new(): invalid data type '{kind}'")
        deep = array.ndim and isinstance(_first_leaf(data), str | bytes)
        return ValueError(f"too many dimensions '{kind}'") if deep else scalar
    return RuntimeError(f"tensor: could not infer dtype of {kind}")


def _first_leaf(data: Any) -> Any:
    """The first element of nested sequences."""
    while isinstance(data, list | tuple) and data:
        data = data[0]
    return data
