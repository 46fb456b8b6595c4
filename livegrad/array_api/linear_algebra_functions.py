"""Products of matrices and vectors that are in the main namespace."""

from __future__ import annotations

from typing import Any

import livegrad as lg
from livegrad.array_api.elementwise_functions import NUMERIC, pair

Array = Any


def matmul(x1: Array, x2: Array, /) -> Array:
    """The matrix product."""
    return lg.matmul(*pair("matmul", x1, x2, NUMERIC))


def matrix_transpose(x: Array, /) -> Array:
    """Matrices with rows and columns exchanged."""
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: expected at least 2 dims, got {x.ndim}")
    return x.mT


def tensordot(x1: Array, x2: Array, /, *, axes: Any = 2) -> Array:
    """Products of elements summed over axes of both."""
    return lg.tensordot(*pair("tensordot", x1, x2, NUMERIC), axes)


def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """The scalar product along an axis; x1 is conjugated."""
    a, b = pair("vecdot", x1, x2, NUMERIC)
    if not -min(a.ndim, b.ndim) <= axis <= -1:
        raise ValueError(f"vecdot: axis must be negative and in both arrays; got {axis}")
    if a.shape[axis] != b.shape[axis]:
        raise ValueError(f"vecdot: sizes differ: {a.shape[axis]} and {b.shape[axis]}")
    return lg.sum(lg.conj(a) * b, axis).to(a.dtype)
