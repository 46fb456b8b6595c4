"""Steps of a plan that run NumPy code: what has no template, and all that computes with complex
numbers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad.dtypes import DType
from livegrad.graph.meta import Shape, meta_of
from livegrad.graph.op import REGISTRY, Op
from livegrad.runtime.counters import counters
from livegrad.runtime.cpu import blas
from livegrad.runtime.fault import Fault
from livegrad.runtime.values import from_compute, number_as, to_compute

if TYPE_CHECKING:
    from livegrad.compiler.plan import HostCall, Where

Array = np.ndarray[Any, Any]


class HostStep:
    """A step that runs NumPy code on views of the plan's memory."""

    def __init__(self, number: int, call: HostCall, first_int: int) -> None:
        self.number = number
        self.call = call
        self.reference = host_reference(REGISTRY[call.op])
        metas = [meta_of(*each) for each in zip(call.shapes, call.dtypes, strict=True)]
        self.meta = metas[0]
        self.inputs = [SimpleNamespace(meta=meta) for meta in metas[1:]]
        self.first_int = first_int
        memory = zip(call.wheres, call.shapes, call.dtypes, strict=True)
        self._target, *self._arrays = [_Memory(*each) for each in memory]

    def run(self, inputs: Sequence[int], scalars: Sequence[float]) -> None:
        """Computes the step's value by its reference."""
        call = self.call
        values = [to_compute(x.view(inputs), x.dtype) for x in self._arrays]
        args = tuple([_number(a, inputs, self.first_int, scalars) for a in call.args])
        n = SimpleNamespace(attrs=call.attrs, args=args, inputs=self.inputs, meta=self.meta)
        try:
            with np.errstate(all="ignore"):
                result = blas.on_one_thread(self.reference, n, *values)
        except (IndexError, ValueError, RuntimeError) as error:
            raise Fault(self.number, type(error), str(error)) from None
        except MemoryError as error:
            raise Fault(self.number, RuntimeError, f"can't allocate memory: {error}") from None
        self._target.view(inputs)[...] = from_compute(result, self.meta.dtype)
        counters.host_steps += 1

    def stamps(self) -> tuple[int, Any]:
        """One step, which is not timed."""
        return 1, None


class _Memory:
    """Where a stored value lies, run after run."""

    __slots__ = ("_bytes", "_offset", "_shape", "_slot", "_storage", "dtype")

    def __init__(self, where: Where, shape: Shape, dtype: DType) -> None:
        self._slot, self._offset = where.slot, where.offset
        self._shape, self.dtype, self._storage = shape, dtype, dtype.storage
        self._bytes: Any = ctypes.c_char * max(prod(shape) * dtype.itemsize, 1)

    def view(self, inputs: Sequence[int]) -> Array:
        """The memory as an array."""
        address = inputs[self._slot] + self._offset
        return np.ndarray(self._shape, self._storage, self._bytes.from_address(address or 1))


def _number(arg: Any, inputs: Sequence[int], first_int: int, scalars: Sequence[float]) -> Any:
    if not hasattr(arg, "is_float"):
        return arg
    return scalars[arg.number] if arg.is_float else inputs[first_int + arg.number]


def host_reference(op: Op) -> Callable[..., Any]:
    """The NumPy meaning of an op, called with what has attrs, args and meta, and with arrays."""
    assert op.ref is not None
    return partial(_elementwise, op) if op.kind == "elementwise" else op.ref


def _elementwise(op: Op, n: Any, *arrays: Any) -> Any:
    """The reference of an elementwise op, on operands converted to its compute dtype."""
    dtype, pattern = n.attrs[:2]
    compute = dtype.compute.storage
    tensors, numbers = iter(arrays), iter(n.args)
    operands = []
    for position, letter in enumerate(pattern):
        if letter == "s":
            operands.append(number_as(next(numbers), dtype, op.narrows))
            continue
        x = next(tensors)
        operands.append(x.astype(compute, copy=False) if op.converts(position) else x)
    assert op.ref is not None
    return op.ref(*operands)
