"""Functions of single elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import livegrad as lg
from livegrad.array_api.dtype_functions import promote, with_number
from livegrad.dtypes import BOOL, COMPLEX, FLOAT, INT

Array = Any
Unary = Callable[[Array], Array]
Binary = Callable[[Any, Any], Array]

NUMERIC, ANY = (INT, FLOAT, COMPLEX), (BOOL, INT, FLOAT, COMPLEX)
REAL, FLOATING, REAL_FLOATING = (INT, FLOAT), (FLOAT, COMPLEX), (FLOAT,)
BITS = (BOOL, INT)


def _check(name: str, x: Array, kinds: tuple[int, ...]) -> None:
    if x.dtype.category not in kinds:
        raise TypeError(f"{name}: an array of {x.dtype} is not allowed; convert it with astype")


def _unary(name: str, doc: str, function: Unary, kinds: tuple[int, ...] = NUMERIC) -> Unary:
    def call(x: Array, /) -> Array:
        _check(name, x, kinds)
        return function(x)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    return call


def pair(name: str, x1: Any, x2: Any, kinds: tuple[int, ...]) -> tuple[Array, Array]:
    """Both operands as arrays of their common type; one may be a Python number."""
    if not isinstance(x1, lg.Tensor) and not isinstance(x2, lg.Tensor):
        raise TypeError(f"{name}: at least one operand must be an array")
    if not isinstance(x2, lg.Tensor):
        dtype = with_number(x1.dtype, x2)
        x1, x2 = x1.to(dtype), lg.tensor(x2, dtype=dtype)
    elif not isinstance(x1, lg.Tensor):
        dtype = with_number(x2.dtype, x1)
        x1, x2 = lg.tensor(x1, dtype=dtype), x2.to(dtype)
    elif x1.dtype is not x2.dtype:
        dtype = promote(x1.dtype, x2.dtype)
        x1, x2 = x1.to(dtype), x2.to(dtype)
    _check(name, x1, kinds)
    return x1, x2


def _binary(name: str, doc: str, function: Binary, kinds: tuple[int, ...] = NUMERIC) -> Binary:
    def call(x1: Any, x2: Any, /) -> Array:
        return function(*pair(name, x1, x2, kinds))

    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    return call


def _same_for_integers(function: Unary) -> Unary:
    """Rounding: integers are as they should be."""
    return lambda x: x.clone() if x.dtype.category == INT else function(x)


def _remainder(x1: Array, x2: Array) -> Array:
    """A zero has the sign of x2 as well."""
    rest = lg.remainder(x1, x2)
    if rest.dtype.category != FLOAT:
        return rest
    return lg.where(rest == 0, lg.copysign(rest, x2), rest)


def _sign(x: Array) -> Array:
    return lg.sgn(x) if x.dtype.category == COMPLEX else _nan_kept(lg.sign(x), x)


def _nan_kept(y: Array, x: Array) -> Array:
    return lg.where(lg.isnan(x), x, y) if x.dtype.category == FLOAT else y


def _round(x: Array) -> Array:
    if x.dtype.category == COMPLEX:
        return lg.complex(lg.round(lg.real(x)), lg.round(lg.imag(x)))
    return lg.round(x)


def _conj(x: Array) -> Array:
    return lg.conj(x) if x.dtype.category == COMPLEX else x.clone()


def _real(x: Array) -> Array:
    return lg.real(x).clone() if x.dtype.category == COMPLEX else x.clone()


def _expm1(x: Array) -> Array:
    y = lg.expm1(x)
    if x.dtype.category != COMPLEX:
        return y
    # At infinities only exp has the standard's values; at -0 the result is to be +0.
    usual = lg.isfinite(x) & (x != 0)
    return lg.where(usual, y, lg.exp(x) - 1)


def _tanh(x: Array) -> Array:
    y = lg.tanh(x)
    if x.dtype.category != COMPLEX:
        return y
    # At infinities the standard's zero has the sign of imag(x), C's that of sin(2 imag(x)).
    limit = lg.complex(lg.real(y), lg.copysign(lg.zeros_like(lg.imag(x)), lg.imag(x)))
    return lg.where(lg.isinf(lg.real(x)), limit, y)


def _floor_divide(x1: Array, x2: Array) -> Array:
    y = lg.floor_divide(x1, x2)
    if x1.dtype.category != FLOAT:
        return y
    # With infinities the standard has the plain quotient; PyTorch NaN, or -1 for 1 // -inf.
    return lg.where(lg.isinf(x1) | lg.isinf(x2), lg.div(x1, x2, rounding_mode="trunc"), y)


def _always(value: bool, function: Unary) -> Unary:
    """Questions about infinities and NaN, which integers have none of."""
    return lambda x: (
        lg.full_like(x, value, dtype=lg.bool) if x.dtype.category < FLOAT else function(x)
    )


abs = _unary("abs", "The absolute value.", lg.abs)
acos = _unary("acos", "The angle with this cosine.", lg.acos, FLOATING)
acosh = _unary("acosh", "The inverse of cosh.", lg.acosh, FLOATING)
asin = _unary("asin", "The angle with this sine.", lg.asin, FLOATING)
asinh = _unary("asinh", "The inverse of sinh.", lg.asinh, FLOATING)
atan = _unary("atan", "The angle with this tangent.", lg.atan, FLOATING)
atanh = _unary("atanh", "The inverse of tanh.", lg.atanh, FLOATING)
bitwise_invert = _unary("bitwise_invert", "All bits turned.", lg.bitwise_not, BITS)
ceil = _unary("ceil", "Rounded up.", _same_for_integers(lg.ceil), REAL)
conj = _unary("conj", "The complex conjugate.", _conj)
cos = _unary("cos", "The cosine.", lg.cos, FLOATING)
cosh = _unary("cosh", "The hyperbolic cosine.", lg.cosh, FLOATING)
exp = _unary("exp", "The exponential.", lg.exp, FLOATING)
expm1 = _unary("expm1", "exp(x) - 1, exact for small x.", _expm1, FLOATING)
floor = _unary("floor", "Rounded down.", _same_for_integers(lg.floor), REAL)
imag = _unary("imag", "The imaginary part.", lambda x: lg.imag(x).clone(), (COMPLEX,))
isfinite = _unary("isfinite", "Neither infinite nor NaN.", _always(True, lg.isfinite))
isinf = _unary("isinf", "Whether infinite.", _always(False, lg.isinf))
isnan = _unary("isnan", "Whether NaN.", _always(False, lg.isnan))
log = _unary("log", "The natural logarithm.", lg.log, FLOATING)
log1p = _unary("log1p", "log(1 + x), exact for small x.", lg.log1p, FLOATING)
log2 = _unary("log2", "The logarithm of base 2.", lg.log2, FLOATING)
log10 = _unary("log10", "The logarithm of base 10.", lg.log10, FLOATING)
logical_not = _unary("logical_not", "Whether false.", lg.logical_not, ANY)
negative = _unary("negative", "The value with its sign turned.", lg.neg)
positive = _unary("positive", "The value itself.", lambda x: x.clone())
real = _unary("real", "The real part.", _real)
reciprocal = _unary("reciprocal", "One over the value.", lg.reciprocal, FLOATING)
round = _unary("round", "Rounded to the nearest integer, ties to even.", _same_for_integers(_round))
sign = _unary("sign", "-1, 0 or 1; for complex numbers, the direction.", _sign)
signbit = _unary("signbit", "Whether the sign bit is set.", lg.signbit, REAL_FLOATING)
sin = _unary("sin", "The sine.", lg.sin, FLOATING)
sinh = _unary("sinh", "The hyperbolic sine.", lg.sinh, FLOATING)
sqrt = _unary("sqrt", "The square root.", lg.sqrt, FLOATING)
square = _unary("square", "The value times itself.", lambda x: x * x)
tan = _unary("tan", "The tangent.", lg.tan, FLOATING)
tanh = _unary("tanh", "The hyperbolic tangent.", _tanh, FLOATING)
trunc = _unary("trunc", "Rounded towards zero.", _same_for_integers(lg.trunc), REAL)

add = _binary("add", "The sum.", lg.add)
atan2 = _binary("atan2", "The angle of the point (x2, x1).", lg.atan2, REAL_FLOATING)
bitwise_and = _binary("bitwise_and", "Bits set in both.", lg.bitwise_and, BITS)
bitwise_left_shift = _binary("bitwise_left_shift", "Bits moved up.", lg.bitwise_left_shift, (INT,))
bitwise_or = _binary("bitwise_or", "Bits set in either.", lg.bitwise_or, BITS)
bitwise_right_shift = _binary(
    "bitwise_right_shift", "Bits moved down.", lg.bitwise_right_shift, (INT,)
)
bitwise_xor = _binary("bitwise_xor", "Bits set in one of the two.", lg.bitwise_xor, BITS)
copysign = _binary("copysign", "x1 with the sign of x2.", lg.copysign, REAL_FLOATING)
divide = _binary("divide", "The quotient.", lg.div, FLOATING)
equal = _binary("equal", "Whether equal.", lg.eq, ANY)
floor_divide = _binary("floor_divide", "The quotient rounded down.", _floor_divide, REAL)
greater = _binary("greater", "Whether greater.", lg.gt, REAL)
greater_equal = _binary("greater_equal", "Whether greater or equal.", lg.ge, REAL)
hypot = _binary("hypot", "The length of the point (x1, x2).", lg.hypot, REAL_FLOATING)
less = _binary("less", "Whether less.", lg.lt, REAL)
less_equal = _binary("less_equal", "Whether less or equal.", lg.le, REAL)
logaddexp = _binary("logaddexp", "log(exp(x1) + exp(x2)).", lg.logaddexp, REAL_FLOATING)
logical_and = _binary("logical_and", "Whether both.", lg.logical_and, ANY)
logical_or = _binary("logical_or", "Whether either.", lg.logical_or, ANY)
logical_xor = _binary("logical_xor", "Whether one of the two.", lg.logical_xor, ANY)
maximum = _binary("maximum", "The larger of the two.", lg.maximum, REAL)
minimum = _binary("minimum", "The smaller of the two.", lg.minimum, REAL)
multiply = _binary("multiply", "The product.", lg.mul)
nextafter = _binary("nextafter", "The next number towards x2.", lg.nextafter, REAL_FLOATING)
not_equal = _binary("not_equal", "Whether not equal.", lg.ne, ANY)
pow = _binary("pow", "x1 to the power of x2.", lg.pow)
remainder = _binary("remainder", "What division leaves, with x2's sign.", _remainder, REAL)
subtract = _binary("subtract", "The difference.", lg.sub)


def clip(x: Array, /, min: Any = None, max: Any = None) -> Array:
    """The values brought into a range."""
    _check("clip", x, REAL)
    dtype = x.dtype
    for bound in (min, max):
        if isinstance(bound, lg.Tensor):
            dtype = promote(dtype, bound.dtype)
    x = x.to(dtype)
    low, high = [_bound(b, x) for b in (min, max)]
    if low is not None:
        x = lg.maximum(x, low)
    if high is not None:
        x = lg.minimum(x, high)
    return x.clone() if min is None and max is None else x


def _bound(bound: Any, x: Array) -> Array | None:
    if bound is None:
        return None
    return bound.to(x.dtype) if isinstance(bound, lg.Tensor) else lg.tensor(bound, dtype=x.dtype)
