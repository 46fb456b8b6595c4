"""Making arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import livegrad as lg
from livegrad.dtypes import COMPLEX, DType, as_dtype

Array = Any


def asarray(
    obj: Any,
    /,
    *,
    dtype: DType | None = None,
    device: Any = None,
    copy: bool | None = None,
) -> Array:
    """An array of what is given: numbers, nested sequences, arrays, buffers."""
    if isinstance(obj, lg.Tensor):
        dtype = obj.dtype if dtype is None else as_dtype(dtype)
        if dtype is not obj.dtype:
            if copy is False:
                raise ValueError("asarray: a conversion needs a copy, and copy=False")
            return obj.to(dtype)
        return obj.clone() if copy else obj
    if copy is False and not isinstance(obj, bool | int | float | complex):
        raise ValueError("asarray: data from outside is always copied, and copy=False")
    if isinstance(obj, int) and not isinstance(obj, bool) and dtype is None and abs(obj) >> 63:
        raise OverflowError(f"asarray: {obj} does not fit int64")
    if dtype is None and not hasattr(obj, "dtype"):
        dtype = _default_of(obj)
    return lg.tensor(obj, dtype=dtype)


def _default_of(obj: Any) -> DType | None:
    kind = np.asarray(obj).dtype.kind
    return lg.int64 if kind == "u" else None


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: DType | None = None,
    device: Any = None,
) -> Array:
    """Evenly spaced numbers from `start` up to but without `stop`."""
    begin, end = (0, start) if stop is None else (start, stop)
    if (end - begin) * step <= 0:
        floats = any(isinstance(v, float) for v in (begin, end, step))
        default = lg.get_default_dtype() if floats else lg.int64
        return lg.empty(0, dtype=dtype or default)
    return lg.arange(begin, end, step, dtype=dtype)


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: DType | None = None,
    device: Any = None,
    endpoint: bool = True,
) -> Array:
    """`num` evenly spaced numbers, with or without the last."""
    if not endpoint and num >= 0:
        return linspace(start, stop, num + 1, dtype=dtype)[:num]
    if dtype is not None and as_dtype(dtype).category == COMPLEX:
        start = complex(start)
    return lg.linspace(start, stop, num, dtype=dtype)


def empty(shape: Any, *, dtype: DType | None = None, device: Any = None) -> Array:
    """An array whose values do not matter."""
    return lg.empty(_shape(shape), dtype=dtype)


def zeros(shape: Any, *, dtype: DType | None = None, device: Any = None) -> Array:
    """An array of zeros."""
    return lg.zeros(_shape(shape), dtype=dtype)


def ones(shape: Any, *, dtype: DType | None = None, device: Any = None) -> Array:
    """An array of ones."""
    return lg.ones(_shape(shape), dtype=dtype)


def full(
    shape: Any, fill_value: complex, *, dtype: DType | None = None, device: Any = None
) -> Array:
    """An array with one value everywhere."""
    return lg.full(_shape(shape), fill_value, dtype=dtype)


def _shape(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def empty_like(x: Array, /, *, dtype: DType | None = None, device: Any = None) -> Array:
    """Like `empty`, with the shape of `x`."""
    return lg.empty_like(x, dtype=dtype)


def zeros_like(x: Array, /, *, dtype: DType | None = None, device: Any = None) -> Array:
    """Like `zeros`, with the shape of `x`."""
    return lg.zeros_like(x, dtype=dtype)


def ones_like(x: Array, /, *, dtype: DType | None = None, device: Any = None) -> Array:
    """Like `ones`, with the shape of `x`."""
    return lg.ones_like(x, dtype=dtype)


def full_like(
    x: Array, /, fill_value: complex, *, dtype: DType | None = None, device: Any = None
) -> Array:
    """Like `full`, with the shape of `x`."""
    return lg.full_like(x, fill_value, dtype=dtype)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DType | None = None,
    device: Any = None,
) -> Array:
    """Ones on the diagonal number `k`, zeros elsewhere."""
    columns = n_rows if n_cols is None else n_cols
    rows = lg.arange(n_rows).reshape(-1, 1)
    where = lg.arange(columns).reshape(1, -1) == rows + k
    return where.to(dtype or lg.get_default_dtype())


def tril(x: Array, /, *, k: int = 0) -> Array:
    """The lower triangles of matrices."""
    return lg.tril(x, k)


def triu(x: Array, /, *, k: int = 0) -> Array:
    """The upper triangles of matrices."""
    return lg.triu(x, k)


def meshgrid(*arrays: Array, indexing: str = "xy") -> list[Array]:
    """The coordinates of a grid."""
    return list(lg.meshgrid(*arrays, indexing=indexing)) if arrays else []


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """The values of an array of another library; those of a tensor itself are not copied."""
    if device is not None:
        lg.device(device)
    if isinstance(x, lg.Tensor):
        return x.clone() if copy else x
    if copy is False:
        raise BufferError("from_dlpack: data from outside is always copied, and copy=False")
    return lg.from_dlpack(x)


e, inf, nan, pi, newaxis = math.e, math.inf, math.nan, math.pi, None
