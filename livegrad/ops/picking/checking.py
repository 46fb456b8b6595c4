"""Checking: ops that pass integers on and, when run, refuse those out of range.

A kernel cannot raise: it notes a value it refuses. The op's `complaint` has the words for it, which
name the line that recorded the operation when they reach the user.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad.device import CPU
from livegrad.dtypes import DType
from livegrad.graph.handle import node_of
from livegrad.graph.op import Complaint, Op
from livegrad.graph.record import elementwise
from livegrad.graph.state import LOCAL, Runtime
from livegrad.native.calls import call_native
from livegrad.native.hot import hot
from livegrad.ops.support import samples as s

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = np.ndarray[Any, Any]

# Native code that looks at integers, by dtype; 0 for what are none.
_finders: dict[DType, int] = {}


@hot
def place_outside(index: Tensor, low: int, size: int, ignore: int) -> int:
    """1 + the place of an integer that is neither in [low, low + size) nor `ignore`; 0 if there is
    none, or if the values are not there yet, or many: looking at them would be no line's business.
    """
    node = node_of(index)
    meta = node.meta
    if node.buffer is None or meta.device is not CPU:
        return 0
    address = _finders.get(meta.dtype)
    if address is None:
        address = _finders[meta.dtype] = Runtime.finder(meta.dtype)
    if not address:
        return 0
    return call_native(address, node.buffer.ptr, meta.numel, low, size, ignore)


def known_outside(index: Tensor, low: int, size: int, ignore: int) -> int | None:
    """An integer of `index` that is neither in [low, low + size) nor `ignore`, if that is known."""
    place = place_outside(index, low, size, ignore)
    return Runtime.number_at(node_of(index), place - 1) if place else None


def out_of_range(error: type[Exception]) -> Complaint:
    """What ops whose attrs begin with the indexed dim say of an index that is not in it."""

    def complaint(node: Any, value: int) -> tuple[type[Exception], str]:
        dim = node.attrs[0]
        size = node.inputs[0].meta.shape[dim]
        return error, f"{node.op.name}: {_out_of_bounds(value, dim, size)}"

    return complaint


def _in_range(size: int) -> int:
    """An index that need not be looked at; one that nobody has, if none is in range."""
    return 0 if size else -(1 << 62)


def check_known(
    name: str, index: Tensor, size: int, dim: int, error: type[Exception] = IndexError
) -> None:
    """Raises at the line of an operation if an index is known to be outside [0, size)."""
    if not size:
        _compute_wrong(index)
    wrong = known_outside(index, 0, size, _in_range(size))
    if wrong is not None:
        raise error(f"{name}: {_out_of_bounds(wrong, dim, size)}")


def _compute_wrong(index: Tensor) -> None:
    """Has indices computed of which none can be right, so that they are known."""
    meta = node_of(index).meta
    if meta.numel and meta.device is CPU and LOCAL.state.flusher is None:
        index._values("an index")


def check_wrapping(index: Tensor, size: int, dim: int) -> None:
    """The same where negative indices count from the end."""
    if node_of(index).buffer is None:
        return  # while planning, numbers must not be computed with
    wrong = known_outside(index, -size, 2 * size, _in_range(size))
    if wrong is not None:
        raise IndexError(_out_of_bounds(wrong, dim, size))


def numbers_of(node: Any) -> list[int]:
    """The run-time integers of a planned node: sizes, which are the same in every run."""
    return [int.__int__(x) for x in node.args]


def within(name: str, low: int, message: str) -> Op:
    """An op of integers and a `count`: those in [low, count) are passed on, negative ones as 0.

    Others raise RuntimeError with `message`, in which {value} and {count} are filled in.
    """

    def ref(x: Array, count: Any) -> Array:
        wrong = x[(x < low) | (x >= count)]
        if wrong.size:
            raise RuntimeError(message.format(value=wrong.flat[0], count=count))
        return np.maximum(x, 0)

    def emit(e: Any, x: Any, count: Any) -> Any:
        outside = e.or_(e.lt(x, low), e.ge(x, count))
        e.on_fault(outside, x)
        return e.select(e.or_(outside, e.lt(x, 0)), 0, x)

    def complaint(node: Any, value: int) -> tuple[type[Exception], str]:
        (count,) = numbers_of(node)
        return RuntimeError, message.format(value=value, count=count)

    return Op(
        name,
        "elementwise",
        ref=ref,
        emit=emit,
        complaint=complaint,
        result="integer",
        cheap=True,
        saves="",
        samples=s.calls(lambda: s.Sample((s.integers(3, 4, low=low, high=5), 5), smooth=False)),
    )


def wrap_ref(index: Array, size: Any, dim: Any) -> Array:
    """What WRAP_INDEX means."""
    at = np.where(index < 0, index + size, index)
    wrong = index[(at < 0) | (at >= size)]
    if wrong.size:
        raise IndexError(_out_of_bounds(wrong.flat[0], dim, size))
    return at


def _out_of_bounds(value: int, dim: int, size: int) -> str:
    return f"index {value} is out of bounds for dimension {dim} with size {size}"


def _emit_wrap(e: Any, index: Any, size: Any, dim: Any) -> Any:
    at = e.select(e.lt(index, 0), e.add(index, size), index)
    outside = e.or_(e.lt(at, 0), e.ge(at, size))
    e.on_fault(outside, index)
    return e.select(outside, 0, at)


def _wrap_complaint(node: Any, value: int) -> tuple[type[Exception], str]:
    size, dim = numbers_of(node)
    return IndexError, _out_of_bounds(value, dim, size)


WRAP_INDEX = Op(
    "wrap_index",
    "elementwise",
    # Indices of the dim `dim` of `size`, negative ones counted from the end; one outside of
    # [-size, size) is refused.
    ref=wrap_ref,
    emit=_emit_wrap,
    complaint=_wrap_complaint,
    result="integer",
    cheap=True,
    saves="",
    samples=s.calls(lambda: s.Sample((s.integers(3, 4, low=-5, high=5), 5, 0), smooth=False)),
)


def wrapped(index: Tensor, size: int, dim: int = 0) -> Tensor:
    """Indices (int64) along a dim of `size` with negative ones counted from the end."""
    check_wrapping(index, size, dim)
    return elementwise(WRAP_INDEX, (index, size, dim))


# ------------------------------------------------------------------------------------- floats


def _between(name: str, low: float, high: float, error: type[Exception], message: str) -> Op:
    """An op that passes on floats in [low, high]; others, and NaN, raise `error`."""

    def ref(x: Array) -> Array:
        if not ((x >= low) & (x <= high)).all():
            raise error(message)
        return x

    def emit(e: Any, x: Any) -> Any:
        e.on_fault(e.not_(e.and_(e.ge(x, low), e.le(x, high))))
        return x

    return Op(
        name,
        "elementwise",
        ref=ref,
        emit=emit,
        grads=(lambda g, y, x: g,),
        complaint=lambda node, value: (error, message),
        result="floating",
        cheap=True,
        saves="",
        samples=s.calls(lambda: s.Sample((s.uniform(3, 4, low=0.1, high=0.9),))),
    )


CHECK_PROBABILITY = _between(
    "check_probability",
    0.0,
    1.0,
    RuntimeError,
    "bernoulli: expected probabilities p_in >= 0 && p_in <= 1",
)
CHECK_PREDICTION = _between(
    "check_prediction",
    0.0,
    1.0,
    RuntimeError,
    "binary_cross_entropy: all elements of input should be between 0 and 1",
)
CHECK_LABEL = _between(
    "check_label",
    0.0,
    1.0,
    RuntimeError,
    "binary_cross_entropy: all elements of target should be between 0 and 1",
)
CHECK_DEVIATION = _between(
    "check_deviation",
    0.0,
    math.inf,
    RuntimeError,
    "normal expects all elements of std >= 0.0",
)
CHECK_VARIANCE = _between(
    "check_variance", 0.0, math.inf, ValueError, "var has negative entry/entries"
)
WRONG_WEIGHTS = (
    "multinomial: probability tensor contains either `inf`, `nan` or element < 0, or a row that "
    "sums to 0"
)
_SMALLEST, _LARGEST = sys.float_info.min, sys.float_info.max
CHECK_WEIGHT = _between("check_weight", 0.0, _LARGEST, RuntimeError, WRONG_WEIGHTS)
CHECK_WEIGHTS = _between("check_weights", _SMALLEST, _LARGEST, RuntimeError, WRONG_WEIGHTS)
