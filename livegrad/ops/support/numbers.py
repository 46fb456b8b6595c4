"""Numbers that are to be held by a dtype: as they are, converted, or refused as in PyTorch."""

from __future__ import annotations

from math import inf, isinf
from typing import Any

import numpy as np

from livegrad import dtypes
from livegrad.dtypes import DType
from livegrad.graph.blame import check_number
from livegrad.graph.handle import Handle

# What is asked for often, as tuples: `A | B` makes an object whenever it is evaluated.
NUMBERS = (bool, int, float, complex)
OPERANDS = (Handle, *NUMBERS, np.generic)
ARRAYS = (np.generic, np.ndarray)
TENSORS = (Handle, np.ndarray)

# PyTorch's names of the types that numbers are converted to.
_C_NAMES = {
    "int32": "int", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "float32": "float",
    "float64": "double", "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip
_LARGEST = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "complex64": 3.4028234663852886e38,
}


def number_for(name: str, value: Any, dtype: DType) -> Any:
    """A number as one that `dtype` can hold, or PyTorch's error; `name` is the operation's."""
    kind = type(value)
    if kind is not float and kind is not int and kind is not bool and kind is not complex:
        if not isinstance(value, ARRAYS):
            check_number(value)
            if not isinstance(value, complex):
                return value  # a number of a plan is as it was when it was recorded
        value = value.item() if isinstance(value, ARRAYS) else value
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise OverflowError(f"int too big to convert; got {value}; expected 64 bits")
    if dtype.is_complex or isinstance(value, complex):
        return _complex_or_real(name, value, dtype)
    if dtype is dtypes.bool_:
        return bool(value)
    if dtype.category == dtypes.INT:
        return _integer(name, value, dtype)
    largest = _LARGEST.get(dtype.name, inf)
    if not -largest <= value <= largest and value == value and not isinf(value):
        raise cannot_convert(name, value, dtype)
    return value


def narrowed(value: Any, half: DType) -> float:
    """A real number rounded to a half precision."""
    single = np.asarray(value, np.float32)
    if half is dtypes.bfloat16:
        return float(dtypes.bfloat16_to_float32(dtypes.float32_to_bfloat16(single)))
    return float(single.astype(half.storage))


def _complex_or_real(name: str, value: Any, dtype: DType) -> Any:
    if not dtype.is_complex:
        if value.imag:
            raise cannot_convert(name, value, dtype)
        return number_for(name, value.real, dtype)
    number = complex(value)
    for part in (number.real, number.imag):
        number_for(name, part, dtype.to_real())
    return value


def _integer(name: str, value: Any, dtype: DType) -> int:
    lowest, highest = limits(dtype)
    # Negative integers wrap in unsigned types; negative floats do not.
    low = -highest if isinstance(value, int) and not dtype.signed else lowest
    if not low <= value <= highest:  # nor NaN
        raise cannot_convert(name, value, dtype)
    return int(value) if dtype.signed else int(value) % (highest + 1)


def limits(dtype: DType) -> tuple[int, int]:
    """The least and the greatest number of an integer dtype."""
    bits = 8 * dtype.itemsize
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype.signed else (0, (1 << bits) - 1)


def cannot_convert(name: str, value: Any, dtype: DType) -> RuntimeError:
    """The error for a number that a dtype has no value for."""
    kind = _C_NAMES.get(dtype.name, f"{dtype.name}_t")
    return RuntimeError(
        f"{name}: value cannot be converted to type {kind} without overflow; got {value}"
    )


def check_array(array: np.ndarray[Any, Any], dtype: DType) -> None:
    """RuntimeError if a number of `array`, made of Python's, is none of an integer `dtype`."""
    if array.dtype.kind == "c" and not dtype.is_complex and dtype is not dtypes.bool_:
        raise TypeError(f"must be real number, not complex; got numbers for {dtype.name}")
    if dtype.category != dtypes.INT or not array.size:
        return
    if dtype is dtypes.int64 and array.dtype == np.int64:
        return  # by far the commonest
    if array.dtype == np.uint64 and dtype is not dtypes.uint64:
        raise ValueError("Overflow when unpacking long long; got an integer beyond int64")
    lowest, highest = limits(dtype)
    if array.dtype.kind != "f" and not dtype.signed:
        lowest = -highest
    low, high = array.min(), array.max()
    if not (lowest <= low and high <= highest):
        wrong = high if lowest <= low else low
        raise RuntimeError(
            f"value cannot be converted to type {dtype.name} without overflow; got {wrong}"
        )
