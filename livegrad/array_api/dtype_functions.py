"""Data types of the array API standard, and what can be asked of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import livegrad as lg
from livegrad.dtypes import BOOL, COMPLEX, FLOAT, INT, DType, as_dtype

Array = Any

NAMES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float32", "float64", "complex64", "complex128",
)  # fmt: skip
DTYPES: dict[str, DType] = {name: getattr(lg, name) for name in NAMES if hasattr(lg, name)}
_KINDS: dict[str, Callable[[DType], bool]] = {
    "bool": lambda d: d.category == BOOL,
    "signed integer": lambda d: d.category == INT and d.signed,
    "unsigned integer": lambda d: d.category == INT and not d.signed,
    "integral": lambda d: d.category == INT,
    "real floating": lambda d: d.category == FLOAT,
    "complex floating": lambda d: d.category == COMPLEX,
    "numeric": lambda d: d.category != BOOL,
}


class FInfo(NamedTuple):
    """Limits of a floating-point type."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IInfo(NamedTuple):
    """Limits of an integer type."""

    bits: int
    max: int
    min: int
    dtype: DType


def isdtype(dtype: DType, kind: DType | str | tuple[DType | str, ...]) -> bool:
    """Whether `dtype` is `kind`, of that kind, or one of several."""
    dtype = as_dtype(dtype)  # scikit-learn asks about NumPy's
    if isinstance(kind, tuple):
        return any([isdtype(dtype, k) for k in kind])
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"isdtype: unrecognized kind {kind!r}; expected one of {list(_KINDS)}")
        return _KINDS[kind](dtype)
    return dtype is as_dtype(kind)


def _dtype_of(type: Array | DType) -> DType:
    found: DType = type.dtype if isinstance(type, lg.Tensor) else as_dtype(type)
    return found


def finfo(type: Array | DType, /) -> FInfo:
    """Limits of a floating-point type, or of the parts of a complex one."""
    dtype = _dtype_of(type)
    real = dtype.to_real() if dtype.category == COMPLEX else dtype
    info = lg.finfo(real)
    return FInfo(
        info.bits, float(info.eps), float(info.max), float(info.min), float(info.tiny), real
    )


def iinfo(type: Array | DType, /) -> IInfo:
    """Limits of an integer type."""
    dtype = _dtype_of(type)
    info = lg.iinfo(dtype)
    return IInfo(info.bits, int(info.max), int(info.min), dtype)


def promote(a: DType, b: DType) -> DType:
    """The standard's promotion, and between kinds where it leaves that open PyTorch's."""
    return lg.promote_types(a, b)


def can_cast(from_: Array | DType, to: DType, /) -> bool:
    """Whether values keep their meaning by promotion from one type to the other."""
    have = _dtype_of(from_)
    if (have.category == BOOL) != (to.category == BOOL):
        return False
    return promote(have, to) is to


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The type that several arrays, types and numbers are promoted to."""
    known = [_dtype_of(x) for x in arrays_and_dtypes if not _is_number(x)]
    if not known:
        raise ValueError("result_type: at least one array or dtype is required")
    found = known[0]
    for dtype in known[1:]:
        found = promote(found, dtype)
    for x in arrays_and_dtypes:
        if _is_number(x):
            found = with_number(found, x)
    return found


def _is_number(x: Any) -> bool:
    return isinstance(x, bool | int | float | complex)


def with_number(dtype: DType, number: complex) -> DType:
    """The type of an array of `dtype` after arithmetic with a Python number."""
    if isinstance(number, bool):
        wrong = dtype.category != BOOL
    elif isinstance(number, int):
        wrong = dtype.category == BOOL
    elif isinstance(number, float):
        wrong = dtype.category < FLOAT
    else:
        wrong = dtype.category < FLOAT
        if dtype.category == FLOAT:
            return dtype.to_complex()
    if wrong:
        raise TypeError(f"a {type(number).__name__} does not go with an array of {dtype}")
    return dtype


def astype(x: Array, dtype: DType, /, *, copy: bool = True, device: Any = None) -> Array:
    """The values converted to `dtype`."""
    dtype = as_dtype(dtype)
    if x.dtype.category == COMPLEX and dtype.category not in (COMPLEX, BOOL):
        raise TypeError(f"astype: complex values cannot become {dtype}; take real() or imag()")
    return x.to(dtype, copy=copy)


def broadcast_to(x: Array, /, shape: tuple[int, ...]) -> Array:
    """The array with dims of size 1 repeated."""
    return lg.broadcast_to(x, shape)


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape of arrays of these shapes."""
    return tuple(lg.broadcast_shapes(*shapes))


def broadcast_arrays(*arrays: Array) -> list[Array]:
    """All arrays with their common shape."""
    return list(lg.broadcast_tensors(*arrays))
