"""Reference execution: one node at a time with NumPy. The oracle of all tests."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from livegrad import dtypes
from livegrad.device import CPU, backend_of
from livegrad.dtypes import DType
from livegrad.graph.node import Node
from livegrad.graph.record import wrap
from livegrad.graph.state import LOCAL
from livegrad.runtime.cpu import blas
from livegrad.runtime.memory import Buffer

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


def number_of(node: Node) -> Any:
    """The value of a computed node of one element as a Python number; quicker than an array."""
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
    if array.dtype.kind == "c" and dtypes.BOOL < dtype.category < dtypes.COMPLEX:
        array = array.real
    with np.errstate(all="ignore"):
        if dtype is dtypes.bfloat16:
            return dtypes.float32_to_bfloat16(array.astype(np.float32))
        return np.ascontiguousarray(array.astype(dtype.storage, copy=False))


def cast(array: Array, source: DType, target: DType) -> Array:
    """`array` of dtype `source` as values to compute with in dtype `target`."""
    values = to_compute(array, source)
    if target is not target.compute and target is not source:  # rounded, then computed with
        return to_compute(from_compute(values, target).reshape(values.shape), target)
    with np.errstate(all="ignore"):
        return values.astype(target.compute.storage, copy=False)


def evaluate(node: Node) -> None:
    """Computes one node, whose inputs are computed, with its reference."""
    if node.op.kind == "update":
        return  # it has no value of its own; ops/update.py runs the rule
    values = reference_value(node)
    array = np.asarray(values)
    if array.shape != node.meta.shape:
        raise AssertionError(
            f"reference of {node.op.name} gave shape {array.shape}, inferred {node.meta.shape}"
        )
    node.buffer = Buffer.from_array(from_compute(array, node.meta.dtype))
    if node.grad_to is None:
        node.inputs = ()


def reference_value(node: Node) -> Any:
    """The value of one node by its op's reference, in the compute dtype of its result."""
    op = node.op
    if op.ref is None:
        return _through_expansion(node)
    with np.errstate(all="ignore"):
        if op.kind == "elementwise":
            return op.ref(*elementwise_operands(node))
        arrays = [to_compute(array_of(x), x.meta.dtype) for x in node.inputs]
        return blas.on_one_thread(op.ref, node, *arrays)


def elementwise_operands(node: Node) -> list[Any]:
    """Inputs cast to the compute dtype, with the numbers in their places."""
    compute, pattern = node.attrs[0], node.attrs[1]
    tensors, numbers = iter(node.inputs), iter(node.args)
    operands: list[Any] = []
    for position, letter in enumerate(pattern):
        if letter == "s":
            # Out-of-range integers wrap, as in a C cast.
            operands.append(np.asarray(next(numbers)).astype(compute.compute.storage)[()])
            continue
        x = next(tensors)
        keep = node.op.result == "select" and position == 0
        source = x.meta.dtype
        operands.append(array_of(x) if keep else cast(array_of(x), source, compute))
    return operands


def _through_expansion(node: Node) -> Array:
    state = LOCAL.state
    grad, state.grad = state.grad, False
    reference, state.reference = state.reference, True
    caster, state.caster = state.caster, None
    try:
        assert node.op.expand is not None
        out = node.op.expand(node, *[wrap(x) for x in node.inputs])
    finally:
        state.grad, state.reference, state.caster = grad, reference, caster
    return to_compute(array_of(out._node), out._node.meta.dtype)
