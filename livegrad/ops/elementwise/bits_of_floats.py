"""Elementwise functions of how a float is written: sign, exponent, neighbours, infinities."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from livegrad import dtypes
from livegrad.graph.blame import as_float
from livegrad.graph.handle import node_of
from livegrad.graph.infer import not_implemented
from livegrad.graph.layout import elementwise_strides, like_strides
from livegrad.graph.op import REGISTRY, Op, as_first, with_numbers
from livegrad.graph.record import binary, elementwise, record, unary
from livegrad.ops.bookkeeping.in_place import laid_out_as
from livegrad.ops.elementwise.arithmetic import (
    cast,
    clone,
    define,
    div,
    mul,
    sub,
    where,
    zero_gradient,
)
from livegrad.ops.elementwise.comparison import clamp, eq, isfinite, ne
from livegrad.ops.elementwise.conjugate import VIEW_AS_COMPLEX, VIEW_AS_REAL
from livegrad.ops.elementwise.host_functions import apply, define_on_host, need_tensors
from livegrad.ops.elementwise.pointwise_math import exp2, trunc
from livegrad.ops.support import samples as s
from livegrad.ops.support.out import casting, exact, plain
from livegrad.ops.support.returned import returned

if TYPE_CHECKING:
    from livegrad.tensor import Tensor

Array = Any


def _specials() -> s.Sample:
    values = np.array([0.0, -0.0, 1.5, -2.5, np.nan, np.inf, -np.inf, 1e300, -1e-40])
    return s.Sample((values,), smooth=False)


# ------------------------------------------------------------------------------------------ signs

COPYSIGN = define(
    "copysign",
    ref=np.copysign,
    emit=lambda e, a, b: e.copysign(a, b),
    grads=(lambda g, y, a, b: where(eq(a, 0), 0, mul(g, div(y, a))), zero_gradient),
    result="float",
    cheap=True,
    layout=with_numbers,
    samples=s.binary(),
)


@casting
def copysign(input: Tensor, other: Tensor) -> Tensor:
    """Elementwise magnitude of `input` with the sign of `other`, which may be that of -0."""
    need_tensors("copysign", input=input)
    return binary(COPYSIGN, input, other)


SIGNBIT = define(
    "signbit",
    ref=lambda x: np.signbit(x) if x.dtype.kind == "f" else x < 0,
    emit=lambda e, x: e.signbit(x),
    result="bool",
    cheap=True,
    saves="",
    samples=s.calls(_specials, lambda: s.Sample((s.integers(4, low=-5, high=5),), smooth=False)),
)


@exact
@plain
def signbit(input: Tensor) -> Tensor:
    """Whether each element has a minus sign, as -0 has."""
    return unary(SIGNBIT, input)


# ----------------------------------------------------------------------------- infinities and NaN


def _is_infinity(value: float) -> Any:
    def emit(e: Any, x: Any) -> Any:
        return e.eq(x, value) if e.dtype.is_floating_point else e.ne(x, x)

    return emit


ISPOSINF = define(
    "isposinf", lambda x: x == np.inf, _is_infinity(math.inf), result="bool", cheap=True,
    saves="", samples=s.calls(_specials),
)  # fmt: skip
ISNEGINF = define(
    "isneginf", lambda x: x == -np.inf, _is_infinity(-math.inf), result="bool", cheap=True,
    saves="", samples=s.calls(_specials),
)  # fmt: skip


@exact
@plain
def isposinf(input: Tensor) -> Tensor:
    """Whether each element is positive infinity."""
    return unary(ISPOSINF, input)


@exact
@plain
def isneginf(input: Tensor) -> Tensor:
    """Whether each element is negative infinity."""
    return unary(ISNEGINF, input)


def _nan_to_num(x: Array, nan: Array, high: Array, low: Array) -> Array:
    return np.where(x == np.inf, high, np.where(x == -np.inf, low, np.where(np.isnan(x), nan, x)))


def _emit_nan_to_num(e: Any, x: Any, nan: Any, high: Any, low: Any) -> Any:
    number = e.select(e.isnan(x), nan, x)
    return e.select(e.eq(x, math.inf), high, e.select(e.eq(x, -math.inf), low, number))


NAN_TO_NUM = define(
    "nan_to_num",
    ref=_nan_to_num,
    emit=_emit_nan_to_num,
    grads=(lambda g, y, x, *numbers: mul(g, isfinite(x)), None, None, None),
    layout=as_first,
    result="floating",
    cheap=True,
    saves="x",
    samples=s.calls(
        lambda: s.Sample((_specials().inputs[0], 0.0, 2.5, -2.5), smooth=False),
        lambda: s.Sample((s.uniform(3, 4), 0.0, 9.0, -9.0)),
        lambda: s.Sample((s.uniform(), 0.0, 9.0, -9.0)),
    ),
)


@exact
def nan_to_num(
    input: Tensor,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Tensor:
    """`input` with NaN and the infinities replaced, by 0 and the greatest numbers by default.

    Args:
        input: a tensor.
        nan: what stands for NaN.
        posinf: None: the greatest number.
        neginf: None: the least number.

    Example:
        >>> lg.nan_to_num(lg.tensor([1.0, float("nan")]), nan=-1.0)
        tensor([ 1., -1.])
    """
    dtype = node_of(input).meta.dtype
    if dtype.category < dtypes.FLOAT:
        return clone(input)
    if dtype.is_complex:
        parts = nan_to_num(record(VIEW_AS_REAL, (input,)), nan, posinf, neginf)
        return record(VIEW_AS_COMPLEX, (parts,))
    limits = dtypes.finfo(dtype)
    high = limits.max if posinf is None else posinf
    low = limits.min if neginf is None else neginf
    numbers = (as_float(0.0 if nan is None else nan), as_float(high), as_float(low))
    return elementwise(NAN_TO_NUM, (input, *numbers))


# ------------------------------------------------------------------------------------- neighbours


def _bfloat16_neighbours(x: Array, y: Array) -> Array:
    """nextafter of bfloat16 numbers, given as float32: the upper half of the bits counts."""
    x, y = np.broadcast_arrays(x, y)
    step = np.uint32(1 << 16)
    bits = np.ascontiguousarray(x).view(np.uint32)
    grows = np.where(x < y, x > 0, x < 0)
    moved = np.where(grows, bits + step, bits - step).astype(np.uint32).view(np.float32)
    smallest = np.asarray(step).view(np.float32)
    moved = np.where(x == 0, np.copysign(smallest, y), moved)
    return np.where(np.isnan(x) | np.isnan(y), np.nan, np.where(x == y, y, moved))


def _neighbours() -> s.Sample:
    x = np.array([0.0, -0.0, 1.0, -1.0, 1.0, -1.0, 3.0, np.nan, np.inf, -np.inf, 2.0])
    y = np.array([1.0, -1.0, 2.0, 2.0, -2.0, -2.0, 3.0, 1.0, 0.0, 0.0, np.inf])
    return s.Sample((x, y), smooth=False)


NEXTAFTER = define(
    "nextafter",
    ref=np.nextafter,
    emit=lambda e, x, y: e.nextafter(x, y),
    # PyTorch's: the step moves along with `x`, unless there is none.
    grads=(lambda g, z, x, y: where(ne(x, y), g, 0), zero_gradient),
    result="floating",
    saves="x",
    samples=s.calls(
        # As float32 and float64 only; see `nextafter`.
        lambda: s.Sample(_neighbours().inputs, lambda x, y: nextafter(x, y), smooth=False),
        lambda: s.Sample(
            (s.uniform(3, 1), s.uniform(4)), lambda x, y: nextafter(x, y), smooth=False
        ),
    ),
)
NEXTAFTER_BFLOAT16: Op = define_on_host(
    "nextafter_bfloat16",
    _bfloat16_neighbours,
    (lambda g, z, x, y: where(ne(x, y), g, 0), zero_gradient),
    result="floating",
    samples=s.calls(
        lambda: s.Sample(
            _neighbours().inputs, lambda x, y: nextafter(x.bfloat16(), y.bfloat16()), smooth=False
        )
    ),
)
NEXTAFTER_FLOAT16: Op = define_on_host(
    "nextafter_float16",
    lambda x, y: np.nextafter(x.astype(np.float16), y.astype(np.float16)),
    (lambda g, z, x, y: where(ne(x, y), g, 0), zero_gradient),
    result="floating",
    samples=s.calls(
        lambda: s.Sample(
            _neighbours().inputs, lambda x, y: nextafter(x.half(), y.half()), smooth=False
        )
    ),
)


@casting
def nextafter(input: Tensor, other: Tensor) -> Tensor:
    """Elementwise next number after `input` towards `other`."""
    need_tensors("nextafter", input=input, other=other)
    dtype = dtypes.promote_types(node_of(input).meta.dtype, node_of(other).meta.dtype)
    if dtype is dtypes.float16:
        return apply(NEXTAFTER_FLOAT16, input, other)
    if dtype is dtypes.bfloat16:
        return apply(NEXTAFTER_BFLOAT16, input, other)
    return binary(NEXTAFTER, input, other)


# -------------------------------------------------------------------------------------- exponents


@returned("frexp")
class Parts(NamedTuple):
    """A number as `mantissa * 2**exponent`."""

    mantissa: Tensor
    exponent: Tensor


def _exponents(x: Array) -> Array:
    return np.where(np.isfinite(x), np.frexp(x)[1], 0).astype(x.dtype)


FREXP_EXPONENT = define(
    "frexp_exponent",
    ref=_exponents,
    emit=lambda e, x: e.frexp(x)[1],
    grads=(zero_gradient,),
    layout=as_first,
    result="floating",
    saves="",
    samples=s.calls(_specials, lambda: s.Sample((9 * s.uniform(3, 4),), smooth=False)),
)


def _mantissa_gradient(g: Tensor, y: Tensor, x: Tensor) -> Tensor:
    """No function of `x`: exponents are constant between powers of 2."""
    return div(g, exp2(unary(FREXP_EXPONENT, record(REGISTRY["detach"], (x,)))))


FREXP_MANTISSA = define(
    "frexp_mantissa",
    ref=lambda x: np.frexp(x)[0],
    emit=lambda e, x: e.frexp(x)[0],
    grads=(_mantissa_gradient,),
    layout=as_first,
    result="floating",
    saves="x",
    samples=s.calls(
        _specials,
        lambda: s.Sample((np.array([0.3, 0.8, -1.5, 5.0, -0.1]),)),
        lambda: s.Sample((s.uniform(0, 3),)),
    ),
)


@exact
def frexp(input: Tensor) -> Parts:
    """Elementwise mantissa, of magnitude in [0.5, 1), and int32 exponent to base 2."""
    mantissa = unary(FREXP_MANTISSA, input)
    return Parts(mantissa, cast(unary(FREXP_EXPONENT, input), dtypes.int32))


@casting
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """Elementwise `input * 2**other`; of whole numbers `other`, also where `2**other` is too large
    or too small."""
    need_tensors("ldexp", input=input, other=other)
    x, power = node_of(input).meta, node_of(other).meta
    floating = x.dtype.is_floating_point
    if floating and power.dtype is dtypes.bool_:
        raise not_implemented("pow", power.dtype)
    if floating and power.dtype.category < dtypes.FLOAT:
        out = cast(_scaled(cast(input, dtypes.float64), cast(other, dtypes.float64)), x.dtype)
        shape = node_of(out).meta.shape
        return out if shape != x.shape else laid_out_as(out, like_strides(shape, x.stride()))
    # 2 ** other is of the dtype that a 2 without dims of the input's gives it, or the number 2.0.
    two = (x.dtype, 1) if floating else (dtypes.get_default_dtype(), 0)
    dtype = dtypes.result_dtype((two, (power.dtype, 2 if power.ndim else 1)))
    # To PyTorch, that 2 is one more operand.
    strides = elementwise_strides(power.shape, [((), ()), (power.shape, power.stride())])
    return mul(input, laid_out_as(exp2(cast(other, dtype)), strides))


def _scaled(x: Tensor, power: Tensor) -> Tensor:
    """`x * 2**power` of float64, in steps that are exact unless the result is not."""
    power = clamp(power, -2100, 2100)
    third = trunc(div(power, 3))
    step = exp2(third)
    return mul(mul(mul(x, step), step), exp2(sub(power, mul(third, 2))))
