"""Generate: values made of numbers and the position of the element, never read from memory.

Numbers arrive at `emit` as i64 or double registers, positions as sixteen i64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.device import META
from livegrad.dtypes import DType
from livegrad.graph import elsewhere
from livegrad.graph.handle import node_of
from livegrad.graph.lowering import lowered_by
from livegrad.graph.meta import Meta, Shape, meta_of
from livegrad.graph.numbers import FloatArg, IntArg
from livegrad.graph.op import Op
from livegrad.graph.record import record
from livegrad.graph.state import LOCAL
from livegrad.ops.support import samples as s
from livegrad.ops.support.numbers import number_for

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]

_REGISTERS = {
    "i1": dtypes.bool_,
    "i64": dtypes.int64,
    "float": dtypes.float32,
    "double": dtypes.float64,
}


def to_register(e: Any, x: Any) -> Any:
    """A number (bool, i64, float or double) as a register of the emitter's dtype."""
    source = _REGISTERS.get(x.element)
    return x if source is None else e.convert(x, source, e.dtype)


def as_double(e: Any, x: Any) -> Any:
    """An i64, float or double register as double."""
    return e.convert(x, _REGISTERS[x.element], dtypes.float64)


def positions_of(n: Any) -> Array:
    """The position of every element of a node's result, for references."""
    return np.arange(n.meta.numel).reshape(n.meta.shape)


FULL = Op(
    "full",
    "generate",
    # The same number everywhere: args (value,), or the two parts of a complex one; attrs (dtype,).
    infer=lambda metas, attrs, shape: meta_of(shape, attrs[0]),
    ref=lambda n: np.full(
        n.meta.shape,
        complex(*n.args) if n.meta.dtype.is_complex else n.args[0],
        n.meta.dtype.compute.storage,
    ),
    emit=lambda e, position, value: to_register(e, value),
    lower=lowered_by("generate.Generate", positioned=False),
    cheap=True,
    saves="",
    samples=s.calls(
        lambda: s.Sample((s.uniform(3),), lambda x: zeros_like(x), smooth=False),
        lambda: s.Sample((), lambda: filled((2, 3), 2.5, dtypes.float32), smooth=False),
        lambda: s.Sample((), lambda: filled((), 7, dtypes.int64), smooth=False),
        lambda: s.Sample((), lambda: filled((0, 3), True, dtypes.bool_), smooth=False),
    ),
)


# The numbers that tensors are mostly filled with, and that every dtype holds.
_ZERO, _ONE = 0, 1


def filled(shape: Shape, value: Any, dtype: DType) -> Tensor:
    """`shape` filled with one number, which is passed as the kind of number `dtype` holds."""
    if value is not _ZERO and value is not _ONE:
        value = number_for("full", value, dtype)
    if dtype.category == dtypes.COMPLEX:
        fixed = type(value) not in (FloatArg, IntArg)
        parts = (complex(value).real, complex(value).imag) if fixed else (value, 0.0)
        return record(FULL, (), (dtype,), parts, shape)
    if type(value) not in (FloatArg, IntArg):
        value = float(value) if dtype.category == dtypes.FLOAT else int(value)
        if value >= 1 << 63 and dtype is dtypes.uint64:
            value -= 1 << 64  # run-time integers are int64: the same bits
    return record(FULL, (), (dtype,), (value,), shape)


def zeros_like(x: Tensor) -> Tensor:
    """Zeros of the shape and dtype of `x`."""
    return made_like(filled_as(node_of(x).meta, 0), x)


def made_like(out: Tensor, x: Tensor) -> Tensor:
    """`out`, a constant that was made by what `x` is: of examples, there is one for each."""
    trace = LOCAL.state.flusher
    if trace is not None:
        trace.made_like[node_of(out)] = node_of(x)
    return out


def number_everywhere(node: Any) -> Any:
    """The number that a node of a real dtype is filled with; None if it is made otherwise."""
    return node.args[0] if node.op is FULL and len(node.args) == 1 else None


def filled_as(meta: Meta, value: Any) -> Tensor:
    """One number everywhere, in a tensor of this shape and dtype, on this device."""
    if meta.device is META:
        return elsewhere.empty(meta.shape, meta.dtype)
    return elsewhere.placed(filled(meta.shape, value, meta.dtype), meta.device)


def _emit_steps(e: Any, position: Any, start: Any, step: Any) -> Any:
    if start.element == "i64":
        whole = e.of(dtypes.int64)
        return to_register(e, whole.add(start, whole.mul(position, step)))
    real = e.of(dtypes.float64)
    product = real.mul(as_double(e, position), as_double(e, step))
    return to_register(e, real.add(as_double(e, start), product))


STEPS = Op(
    "arange",
    "generate",
    # start + position * step, in int64 or in float64 as the args are: args (start, step).
    infer=lambda metas, attrs, shape: meta_of(shape, attrs[0]),
    ref=lambda n: n.args[0] + positions_of(n) * n.args[1],
    emit=_emit_steps,
    cheap=True,
    saves="",
    samples=s.calls(
        lambda: s.Sample((), lambda: steps(5, 0, 1, dtypes.int64), smooth=False),
        lambda: s.Sample((), lambda: steps(4, 1.0, 0.25, dtypes.float32), smooth=False),
        lambda: s.Sample((), lambda: steps(3, 5, -2, dtypes.int32), smooth=False),
        lambda: s.Sample((), lambda: steps(0, 0, 1, dtypes.int64), smooth=False),
    ),
)


def steps(count: int, start: float, step: float, dtype: DType) -> Tensor:
    """`count` numbers: start, start + step, …"""
    return record(STEPS, (), (dtype,), (start, step), (count,))


def counting(count: int) -> Tensor:
    """0, 1, … count - 1 as int64."""
    return record(STEPS, (), (dtypes.int64,), (0, 1), (count,))


def _linspace_ref(n: Any) -> Array:
    start, end, step, half, last = n.args
    position = positions_of(n)
    early, late = start + position * step, end + (position - last) * step
    return np.asarray(np.where(position < half, early, late))


def _emit_linspace(e: Any, position: Any, *numbers: Any) -> Any:
    start, end, step, half, last = numbers
    whole = e.of(dtypes.int64)
    first = _emit_steps(e, position, start, step)
    second = _emit_steps(e, whole.sub(position, last), end, step)
    return e.select(whole.lt(position, half), first, second)


LINSPACE = Op(
    "linspace",
    "generate",
    # From both ends, so that both are exact: args (start, end, step, half the steps, last step).
    infer=lambda metas, attrs, shape: meta_of(shape, attrs[0]),
    ref=_linspace_ref,
    emit=_emit_linspace,
    saves="",
    samples=s.calls(
        lambda: s.Sample((), lambda: evenly(0.0, 1.0, 5, dtypes.float32), smooth=False),
        lambda: s.Sample((), lambda: evenly(3.0, -3.0, 4, dtypes.float64), smooth=False),
        lambda: s.Sample((), lambda: evenly(2.0, 3.0, 1, dtypes.float32), smooth=False),
    ),
)


def evenly(start: float, end: float, count: int, dtype: DType) -> Tensor:
    """`count` numbers from `start` to `end`, both included, evenly spaced."""
    step = (end - start) / (count - 1) if count > 1 else 0.0
    args = (start, end, step, max(count // 2, 1), count - 1)
    return record(LINSPACE, (), (dtype,), args, (count,))
