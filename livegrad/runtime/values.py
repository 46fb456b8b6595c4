"""The values of computed nodes, as arrays and numbers; and what NumPy computes with, as values."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from livegrad import dtypes
from livegrad.device import CPU, backend_of
from livegrad.dtypes import DType
from livegrad.graph.node import Node
from livegrad.graph.numbers import FIRST_INT, INTS_END
from livegrad.native.calls import (
    double_at,
    half_at,
    put_single,
    put_word,
    quotient,
    remainder,
    single_at,
    word_at,
)
from livegrad.native.hot import hot
from livegrad.runtime.memory import Buffer, allocate, copied

Array = np.ndarray[Any, Any]


def array_of(node: Node) -> Array:
    """A computed node's values: a read-only NumPy view (uint16 bits for bfloat16)."""
    if node.meta.device is not CPU:
        return backend_of(node.meta.device).copy_out(node.buffer, node.meta)
    view: Array = node.buffer.view(node.meta.dtype.storage, node.meta.shape, writeable=False)
    return view


_NUMBERS: dict[DType, Any] = {
    dtypes.bool_: ctypes.c_bool,
    dtypes.uint8: ctypes.c_uint8,
    dtypes.uint16: ctypes.c_uint16,
    dtypes.uint32: ctypes.c_uint32,
    dtypes.uint64: ctypes.c_uint64,
    dtypes.int8: ctypes.c_int8,
    dtypes.int16: ctypes.c_int16,
    dtypes.int32: ctypes.c_int32,
    dtypes.int64: ctypes.c_int64,
    dtypes.float32: ctypes.c_float,
    dtypes.float64: ctypes.c_double,
}


@hot
def number_of(node: Node) -> Any:
    """The value of a computed node of one element as a Python number; quicker than an array."""
    meta = node.meta
    if meta.device is CPU:
        dtype, address = meta.dtype, node.buffer.ptr
        if dtype is dtypes.float32:
            return single_at(address)
        if dtype is dtypes.int64:
            return word_at(address)
        if dtype is dtypes.bool_:
            return bits_at(address, 1) != 0
        if dtype is dtypes.float64:
            return double_at(address)
    return _number_of_any(node)


@hot
def bits_at(address: int, itemsize: int) -> int:
    """The bits of an element, of which no byte outside of the memory that it is in is read."""
    if itemsize == 8:
        return word_at(address)
    if itemsize == 4:
        return half_at(address)
    beside = remainder(address, 4)
    bits = half_at(address - beside)
    for _ in range(beside):
        bits = quotient(bits, 256)
    return remainder(bits, 256)


def _number_of_any(node: Node) -> Any:
    kind = _NUMBERS.get(node.meta.dtype)
    if kind is None or node.meta.device is not CPU:
        return to_compute(array_of(node), node.meta.dtype).item()
    return kind.from_address(node.buffer.ptr).value


def number_at(node: Node, place: int) -> int:
    """One of the integers of a computed node, counted in row-major order."""
    dtype = node.meta.dtype
    number: int = _NUMBERS[dtype].from_address(node.buffer.ptr + place * dtype.itemsize).value
    return number


def to_compute(array: Array, dtype: DType) -> Array:
    """Values as NumPy can compute with them: bfloat16 bits become float32, float16 too."""
    if dtype is dtypes.bfloat16:
        return dtypes.bfloat16_to_float32(array)
    return array.astype(np.float32) if dtype is dtypes.float16 else array


def from_compute(values: Any, dtype: DType) -> Array:
    """Storage array of `dtype` holding `values`."""
    array = np.asarray(values)
    if array.dtype == dtype.storage and array.flags.c_contiguous and dtype is not dtypes.bfloat16:
        return array  # most often
    if array.dtype.kind == "c" and dtypes.BOOL < dtype.category < dtypes.COMPLEX:
        array = array.real
    with np.errstate(all="ignore"):
        if dtype is dtypes.bfloat16:
            return dtypes.float32_to_bfloat16(array.astype(np.float32))
        return np.ascontiguousarray(array.astype(dtype.storage, copy=False))


def number_as(number: Any, dtype: DType, narrows: bool) -> Any:
    """A run-time number as an operand computed in `dtype`; of half precisions, narrowed or not."""
    wide = np.asarray(number).astype(dtype.compute.storage)  # integers wrap, as in a C cast
    if narrows and dtype is not dtype.compute:
        wide = to_compute(from_compute(wide, dtype), dtype).reshape(())
    return wide[()]


def buffer_of(values: Any, dtype: DType) -> Buffer:
    """A buffer of our own holding `values` as `dtype`."""
    return copied(from_compute(values, dtype))


@hot
def buffer_of_ints(numbers: Sequence[Any]) -> Buffer | None:
    """A buffer of int64 with plain integers; None if one is none, or does not fit."""
    for x in numbers:
        if type(x) is not int or not FIRST_INT <= x < INTS_END:
            return None
    buffer = allocate(8 * len(numbers))
    address = buffer.ptr
    for x in numbers:
        put_word(address, x)
        address += 8
    return buffer


@hot
def buffer_of_floats(numbers: Sequence[Any]) -> Buffer | None:
    """A buffer of float32 with plain floats; None if one is none, or not finite there."""
    for x in numbers:
        if type(x) is not float or not -LARGEST <= x <= LARGEST:
            return None
    buffer = allocate(4 * len(numbers))
    address = buffer.ptr
    for x in numbers:
        put_single(address, x)
        address += 4
    return buffer


# No float up to this is rounded to an infinite one of 32 bits.
LARGEST = 3.4e38


def cast(array: Array, source: DType, target: DType) -> Array:
    """`array` of dtype `source` as values to compute with in dtype `target`."""
    values = to_compute(array, source)
    if target is not target.compute and target is not source:  # rounded, then computed with
        return to_compute(from_compute(values, target).reshape(values.shape), target)
    with np.errstate(all="ignore"):
        return values.astype(target.compute.storage, copy=False)
