"""Division that rounds: quotients, and what they leave.

An integer divided by 0 raises RuntimeError, as in PyTorch: at its line if the divisor is known
there, else in the flush that computes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from livegrad import dtypes
from livegrad.graph.handle import Handle, node_of
from livegrad.graph.op import GradRule, Op, may_refuse, not_implemented_in_torch, with_numbers
from livegrad.graph.record import binary
from livegrad.ops.elementwise.arithmetic import DIV, define, mul, needs_tensor, neg, zero_gradient
from livegrad.ops.making.generate import filled
from livegrad.ops.picking.checking import known_outside
from livegrad.ops.support import parts, samples as s
from livegrad.ops.support.out import casting

if TYPE_CHECKING:
    from livegrad.tensor import Tensor
    from livegrad.typing import Operand

Array = Any


def _zero_division() -> RuntimeError:
    return RuntimeError("ZeroDivisionError: an integer is divided by 0")


def _define(
    name: str,
    ref: Callable[..., Any],
    divide: str,
    grads: tuple[GradRule, ...],
    saves: str = "",
    smooth: bool = False,
    narrows: bool = False,
) -> Op:
    """An op of a dividend and a divisor; `divide` is the emitter's method for it."""

    def checked_ref(a: Array, b: Array) -> Array:
        if a.dtype.kind != "f" and np.any(np.broadcast_arrays(a, b)[1] == 0):
            raise _zero_division()
        return ref(a, b)

    def emit(e: Any, a: Any, b: Any) -> Any:
        if not e.dtype.is_floating_point:
            e.on_fault(e.eq(b, 0))
        return getattr(e, divide)(a, b)

    return define(
        name,
        ref=checked_ref,
        narrows=narrows,
        emit=emit,
        grads=grads,
        layout=with_numbers,
        complaint=lambda node, value: (RuntimeError, str(_zero_division())),
        refuses=lambda node: not node.attrs[0].is_floating_point,  # floats may be divided by 0
        result="number",
        saves=saves,
        grad_fn=parts.division if smooth else parts.saving_nothing,
        samples=s.binary(low2=0.5, high2=3.0, smooth=smooth),
    )


def _trunc_divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.trunc(a / b)
    quotient = np.floor_divide(a, b)
    up = (np.remainder(a, b) != 0) & ((a < 0) != (b < 0))
    return (quotient + up).astype(a.dtype)


def _remainder(a: Array, b: Array) -> Array:
    """The remainder with the sign of `b`; but a zero has that of `a`, as in PyTorch."""
    if a.dtype.kind != "f":
        return np.remainder(a, b)
    rest = np.fmod(a, b)
    return np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


_REFUSED = not_implemented_in_torch("floor_divide")


@may_refuse
def _by_divisor(g: Tensor, y: Tensor, a: Any, b: Tensor) -> Tensor:
    """The gradient of a % b for b, which PyTorch does not have for a number modulo a tensor."""
    if not isinstance(a, Handle):
        return not_implemented_in_torch("remainder")(g, y, a, b)
    return neg(mul(g, divide(a, b, rounding_mode="floor")))


# x // y, without a derivative in PyTorch, while that of div(x, y, rounding_mode="floor") is 0.
FLOOR_DIVIDE = _define("floor_divide", np.floor_divide, "floordiv", (_REFUSED, _REFUSED))
FLOORED_DIVIDE = _define(
    "floored_divide", np.floor_divide, "floordiv", (zero_gradient, zero_gradient)
)
TRUNC_DIVIDE = _define("trunc_divide", _trunc_divide, "truncdiv", (zero_gradient, zero_gradient))
REMAINDER = _define(
    "remainder",
    _remainder,
    "remainder",
    (lambda g, y, a, b: g, _by_divisor),
    saves="x",
    smooth=True,
    narrows=True,
)
FMOD = _define(
    "fmod",
    np.fmod,
    "fmod",
    (
        lambda g, y, a, b: g,
        lambda g, y, a, b: neg(mul(g, div(a, b, rounding_mode="trunc"))),
    ),
    saves="x",
    smooth=True,
    narrows=True,
)


def _divided(op: Op, input: Operand, other: Operand) -> Tensor:
    """Records a division whose divisor, if it is known, is no integer 0."""
    if _has_zero(other) and _is_whole(input) and not _is_empty(input):
        raise _zero_division()
    return binary(op, input, other)


def _has_zero(x: Any) -> bool:
    """Whether `x` is known to hold an integer 0."""
    if isinstance(x, Handle):
        return known_outside(x, 1, -1, 1) is not None  # all but 0 are in a range of 2**64 - 1
    # Not of a subclass: while planning, numbers must not be looked at.
    return type(x) is int and x == 0


def _is_whole(x: Any) -> bool:
    if isinstance(x, Handle):
        return node_of(x).meta.dtype.category < dtypes.FLOAT
    return isinstance(x, int)


def _is_empty(x: Any) -> bool:
    return isinstance(x, Handle) and not node_of(x).meta.numel


_NUMBERS = (int, float, bool)


def _of_numbers(input: Operand, other: Operand) -> Operand:
    """The first of two numbers as a tensor, as PyTorch takes them; else what it is."""
    if type(input) not in _NUMBERS or type(other) not in _NUMBERS:
        return input
    kind = {int: dtypes.int64, bool: dtypes.bool_}.get(type(input))
    return filled((), input, kind or dtypes.get_default_dtype())


@casting
def div(input: Operand, other: Operand, *, rounding_mode: str | None = None) -> Tensor:
    """Elementwise quotient; integers give the default float unless `rounding_mode` is given.

    Args:
        input: what is divided.
        other: a tensor that broadcasts with it, or a number.
        rounding_mode: "trunc" rounds toward zero, "floor" down, None does not round.

    Example:
        >>> lg.div(lg.tensor([7, -7]), 2)
        tensor([ 3.5000, -3.5000])
        >>> lg.div(lg.tensor([7, -7]), 2, rounding_mode="floor")
        tensor([ 3, -4])
    """
    input = _of_numbers(input, other)
    if rounding_mode is None:
        return binary(DIV, input, other)
    if rounding_mode == "floor":
        return _divided(FLOORED_DIVIDE, input, other)
    if rounding_mode == "trunc":
        return _divided(TRUNC_DIVIDE, input, other)
    raise RuntimeError(
        f"div: expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
        f"{rounding_mode!r}"
    )


@casting
def floor_divide(input: Operand, other: Operand) -> Tensor:
    """Elementwise quotient rounded down; an integer divided by 0 raises."""
    return _divided(FLOOR_DIVIDE, _of_numbers(input, other), other)


@casting
def remainder(input: Operand, other: Operand) -> Tensor:
    """Elementwise `input % other` with the sign of `other`; an integer modulo 0 raises."""
    return _divided(REMAINDER, input, other)


@casting
def fmod(input: Operand, other: Operand) -> Tensor:
    """Elementwise remainder with the sign of `input`; an integer modulo 0 raises."""
    if not isinstance(input, Handle):
        raise needs_tensor("fmod", input)
    return _divided(FMOD, input, other)


# The `div` of arithmetic.py, for rules, does not round.
divide = div
